"""A link: a replica's way to one merger. It is a cursor on the tail, with go-back-n behind it.

    tail      | f3 | f4 | f5 | f6 | f7 |          f7: the next to be sent over this link
                              ^ cursor
    window    Data 2 (f4)   Data 3 (f5)           sent and not acked, CREDITS at most
    acked     0 = Attach, 1 = f3

Sequence numbers count what was sent in this session; 0 is the attach, with the tail, or with the
first part of one that is too large for a message: the other parts follow as 1, 2, ... under the
same credits. What is not acked is resent after silence, all of it and ever less often; in
between an empty frame asks whether the session is still there, so that a merger which comes back
late is found as soon as one that comes back early. Window and parts hold their own references: what
the tail drops or folds stays here until the merger has it.

A session ends when the merger does not know it (it restarted, or it detached this input), when an
ack comes from another life of the merger, or when frames that went unsent are not in the tail any
more. Then the link attaches anew, with all that the merger may lack as its first message.

A link on which nothing happens asks now and then whether its session is still there, with an empty
frame: a merger that restarted would else hear nothing of a replica that has nothing to say.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Literal

from gapless.failover.effects import Send
from gapless.failover.lifecycles import Lifecycle
from gapless.failover.messages import Ack, Attach, Data, Life, Session
from gapless.failover.parts import grouped, joined
from gapless.failover.timing import Timing
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame

LinkState = Literal["closed", "opening", "open"]
LINK: Lifecycle[LinkState] = Lifecycle(
    "a replica's link to a merger",
    {
        "closed": {"attach": "opening"},
        "opening": {"ack": "open", "refused": "closed", "lost": "closed"},
        "open": {"refused": "closed", "lost": "closed"},
    },
)
"""`lost`: the link has lost its place, in the tail or, with a new life of the merger, there."""

CREDITS = 8
"""Frames sent and not acked: some round trips' worth, so that the path stays busy."""
DOUBLINGS_MAX = 3
"""Of the time until all is resent, and until a refused link attaches again: up to 8 times."""
SMALL_ROWS_MAX = 16_384
"""An attach of so few rows costs little: until it is acked it is resent without such patience,
as the merger may just have started, and nothing else asks for its session."""
PROBE_HEARTBEATS = 2
"""An idle link asks after so many heartbeats: a merger that restarted gets its inputs back about as
soon as the supervisor sees it.
"""

CLOSED, OPENING, OPEN = LINK.table


class Link:
    """The sessions of one life of a replica with one merger, one after the other."""

    __slots__ = (
        "_asked_at",
        "_failures",
        "_heard_at",
        "_life",
        "_marks",
        "_opened_at",
        "_progress_at",
        "_silences",
        "_timing",
        "_whole",
        "acked",
        "attempts",
        "credits",
        "cursor",
        "durable",
        "epoch",
        "feedback",
        "is_throttled",
        "join_at",
        "merger",
        "parts",
        "session",
        "skipped",
        "state",
        "taken",
        "told",
        "whole_at",
        "window",
    )

    def __init__(self, life: Life, merger: str, timing: Timing, attempts: int = 0) -> None:
        """`attempts`: how often this life has attached to the merger before."""
        self.merger = merger
        self.state = LINK.first
        self.session: Session | None = None
        """The present attachment; None before the first."""
        self.epoch: int | None = None
        """The merger's life that this session belongs to, once its first ack has come."""
        self.cursor = 0
        """The number, in the tail, of the next frame."""
        self.window: deque[Attach | Data] = deque()
        """Sent and not acked."""
        self.credits = CREDITS
        """How many of them there may be by the other end's last ack: `CREDITS` at most."""
        self.parts: deque[list[Frame]] = deque()
        """Of the tail that the session has begun with, not sent; each goes as one frame."""
        self.whole_at = 0
        """The sequence number of the last part: once that is acked the merger has all of the tail.
        """
        self.taken = 0
        """Rows that the tail had put out when what the merger has taken in last was sent."""
        self.is_throttled = False
        """Whether the merger takes nothing in, for it holds too much."""
        self.acked = -1
        """The last sequence number that the merger has taken in."""
        self.told = BEGIN
        """The last stable that was sent."""
        self.join_at = BEGIN
        """What this session has promised every event from."""
        self.skipped = BEGIN
        """The largest end in settled frames that were never sent: no adjust may go back to them."""
        self.durable = BEGIN
        """The merger's output is durable up to here, whatever becomes of it."""
        self.feedback = BEGIN
        """For this merger, events that end before it need not be made."""
        self._marks: deque[int] = deque()  # what `taken` becomes with each frame of the window
        self._life = life
        self._timing = timing
        self.attempts = attempts
        """How often this life has attached to the merger: no session is ever the same again."""
        self._whole: tuple[int, int | None] = 0, None  # rows put out, stable: of the tail it told
        self._opened_at: int | None = None
        self._progress_at = 0
        self._asked_at = 0
        self._heard_at = 0
        self._silences = 0
        self._failures = 0

    @property
    def sent(self) -> int:
        """The last sequence number that was sent."""
        return self.acked + len(self.window)

    @property
    def is_whole(self) -> bool:
        """Whether the merger has all of the tail that this session has begun with."""
        return self.acked >= self.whole_at

    # -- the session --------------------------------------------------------------------------

    def may_attach(self, now: int) -> bool:
        """Whether it is closed, and has not been opened just before."""
        if self.state != CLOSED:
            return False
        if self._opened_at is None:
            return True
        doublings = min(max(0, self._failures - 1), DOUBLINGS_MAX)
        return now - self._opened_at >= self._timing.reattach_ms << doublings

    def attach(
        self, join_at: int, told: Sequence[Frame], cursor: int, now: int, put_out: int = 0
    ) -> Send:
        """Opens a session with the frames of the tail; what follows it begins at the cursor, behind
        so many rows that were put out.
        """
        self.state = LINK.after(self.state, "attach")
        self.attempts += 1
        self.session = Session(self._life, self.merger, self.attempts)
        stable = told[-1].stable
        groups = grouped(told) or [[told[-1]]]
        self.parts = deque(groups[1:])
        self.whole_at = len(self.parts)
        tail = joined(groups[0])
        message = Attach(
            self.session, join_at, tail if self.parts else tail.with_stable(stable), len(self.parts)
        )
        self.epoch = None
        self.window.append(message)
        self._marks.append(self.taken if self.parts else put_out)
        self._whole = put_out, stable
        self.acked = -1
        self.cursor = cursor
        self.join_at = join_at
        self.told = BEGIN if stable is None or self.parts else stable
        self.is_throttled = False
        self.skipped = BEGIN
        self._opened_at = self._progress_at = self._heard_at = now
        self._silences = 0  # those of the session before say nothing of this one
        return Send(self.merger, message)

    def close(self, cause: str) -> None:
        """Ends the session: `refused`, or its place is `lost`."""
        self.state = LINK.after(self.state, cause)
        self.window.clear()
        self._marks.clear()
        self.parts.clear()
        if cause == "refused":
            self._failures += 1

    # -- sending ------------------------------------------------------------------------------

    def send_part(self, now: int) -> Send:
        """Sends the next part of the tail; behind the last of them comes its stable."""
        frame = joined(self.parts.popleft())
        if self.parts:
            return self.send(frame, now, self.taken)
        put_out, stable = self._whole
        return self.send(frame.with_stable(stable), now, put_out)

    def send(self, frame: Frame, now: int, put_out: int) -> Send:
        """Sends the next frame; with it the merger has what was put out up to so many rows."""
        assert self.session is not None  # noqa: S101  # for the type checker: it is open
        message = Data(self.session, self.acked + len(self.window) + 1, frame)
        if not self.window:
            self._progress_at = now
        self.window.append(message)
        self._marks.append(put_out)
        if frame.stable is not None:
            self.told = frame.stable
        return Send(self.merger, message)

    def resend(self, now: int) -> list[Send]:
        """All that is not acked, where nothing has happened for too long."""
        if not self.window or now - self._progress_at < self._timing.resend_ms << self._silences:
            return []
        self._progress_at = self._asked_at = now
        first = self.window[0]
        is_small = isinstance(first, Attach) and len(first.tail) <= SMALL_ROWS_MAX
        self._silences = 0 if is_small else min(self._silences + 1, DOUBLINGS_MAX)
        return [Send(self.merger, message) for message in self.window]

    def ask(self, nothing: Frame, now: int) -> list[Send]:
        """Whether the session is still there, where what was sent waits to be resent: with a
        number that the merger has, which it answers and drops, or else with the first frame.
        """
        waits = self.state == OPEN and self.window and self._silences
        if not waits or now - self._asked_at < self._timing.resend_ms:
            return []
        assert self.session is not None  # noqa: S101  # for the type checker: it is open
        self._asked_at = now
        has_one = self.acked > 0
        return [
            Send(
                self.merger,
                Data(self.session, self.acked, nothing) if has_one else self.window[0],
            )
        ]

    def wants_probe(self, now: int) -> bool:
        """Whether it is time to ask if the session is still there."""
        quiet_ms = PROBE_HEARTBEATS * self._timing.heartbeat_ms
        return self.state == OPEN and not self.window and now - self._heard_at >= quiet_ms

    # -- hearing ------------------------------------------------------------------------------

    def hear(self, ack: Ack, now: int) -> None:
        """Takes an ack of this session, of something that was sent."""
        self.epoch = ack.epoch
        self._heard_at = now
        if self.state == OPENING:
            self.state = LINK.after(self.state, "ack")
        if ack.durable_stable > self.durable:
            self.durable = ack.durable_stable
        if ack.feedback > self.feedback:
            self.feedback = ack.feedback
        self.is_throttled = ack.throttled
        if ack.throttled:
            self._progress_at = now  # it is there, and asks to be left in peace
        while self.acked < ack.sequence:
            self.window.popleft()
            self.taken = max(self.taken, self._marks.popleft())
            self.acked += 1
            self._progress_at = now
            self._silences = 0
            if self.acked:
                self._failures = 0

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        if len(self.window) > CREDITS or self.acked < -1:
            raise Bug(f"{self.merger}: {len(self.window)} frames sent behind {self.acked}")
        numbers = [m.sequence if isinstance(m, Data) else 0 for m in self.window]
        if self.state != CLOSED and numbers != list(range(self.acked + 1, self.sent + 1)):
            raise Bug(f"{self.merger}: {numbers} are sent behind {self.acked}")
        if len(self._marks) != len(self.window):
            raise Bug(f"{self.merger}: {len(self._marks)} marks of {len(self.window)} frames")
        if self.state == CLOSED and (self.window or self.parts):
            raise Bug(f"{self.merger}: a closed link has frames on the way")
