"""A replica: reads the source, runs the plan, sends what comes out, and can say it all again.

    source --ReadSource/SourceRead--> plan --> tail and outbox --Attach, Data--> merger
                                                       <------Ack, Refused------

A life starts at a join time: the plan sees the source from `join_at - reach` on, so its output is
right for every event with `ve >= join_at`, and it attaches with that promise.

Delivery is go-back-n within a session: frames are numbered, kept in the outbox until acked, and
sent again after silence. When the merger does not know the session (it restarted, or it detached
this input) the replica opens a new one, with the folded tail as its first frame. So does an ack
from another epoch: the merger that gave the old acks is gone, and with it what it had taken in.
"""

from __future__ import annotations

from collections import deque

from gapless.failover.messages import (
    Ack,
    Attach,
    Data,
    Effect,
    Event,
    ReadSource,
    Refused,
    Send,
    Session,
    SourceRead,
    Start,
    Tick,
)
from gapless.failover.tail import Tail
from gapless.operators.operator import Operator
from gapless.protocol.elements import BEGIN
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame

OUTBOX_FRAMES_MAX = 8
"""Frames sent and not yet acked; the source is not read while the outbox is full."""
TAIL_ROWS_MAX = 1_000_000
"""Rows of output that no merger has made durable; beyond it the source is not read. Folded, they
are the first frame of the next session, so they have to fit into one."""
REATTACH_AFTER_MS = 100
"""A refused replica attaches again, but no more often than this: it may be refused for good."""
RESEND_AFTER_MS = 200
"""Without progress for that long, the outbox is sent again: a few round trips."""


class Replica:
    """One life of one replica of a query. Pure: the shell does what the effects say."""

    def __init__(
        self,
        name: str,
        incarnation: Incarnation,
        plan: Operator,
        merger: str,
        join_at: int = BEGIN,
    ) -> None:
        self.name = name
        self.tail = Tail(plan.schema, join_at)
        self._incarnation = incarnation
        self._plan = plan
        self._merger = merger
        self._attempt = 0
        self._epoch: int | None = None  # of the merger, once the session's first ack has come
        self._outbox: deque[Frame] = deque()
        self._acked = -1
        self._progress_at = 0
        self._opened_at = 0
        self._refused = False
        self._position: int | None = None
        self._reading = False

    @property
    def session(self) -> Session:
        """The present attachment."""
        return Session(self.name, self._incarnation, self._attempt)

    def on(self, event: Event, now: int) -> list[Effect]:
        """What follows from `event` at time `now`, in milliseconds."""
        match event:
            case Start():
                self._plan.fast_forward(self.tail.since)
                return [*self._open_session(now), *self._read_on()]
            case SourceRead():
                self._reading = False
                return self._on_source(event, now)
            case Ack() if event.session == self.session:
                return self._on_ack(event, now)
            case Refused() if event.session == self.session:
                self._refused = True
                return self._attach_again(now)
            case Tick():
                return [*self._attach_again(now), *self._resend(now), *self._read_on()]
        return []  # addressed to a session that is over

    # -- the plan -----------------------------------------------------------------------------

    def _read_on(self) -> list[Effect]:
        """Asks for the next source frame, where there is credit for its output."""
        if (
            self._reading
            or len(self._outbox) >= OUTBOX_FRAMES_MAX
            or len(self.tail) >= TAIL_ROWS_MAX
        ):
            return []
        self._reading = True
        since = self.tail.since
        first = since if since == BEGIN else since - self._plan.reach
        return [ReadSource(self._position, first)]

    def _on_source(self, event: SourceRead, now: int) -> list[Effect]:
        if event.frame is None:
            self._position = event.position
            return []  # the next tick asks again
        frame = self._plan.push(0, event.frame).frame
        self._position = event.position  # a frame that the plan refuses is never passed over
        if not frame:
            return self._read_on()
        self.tail.add(frame)
        if not self._outbox:
            self._progress_at = now
        self._outbox.append(frame)
        sequence = self._acked + len(self._outbox)
        return [Send(self._merger, Data(self.session, sequence, frame)), *self._read_on()]

    # -- the session --------------------------------------------------------------------------

    def _open_session(self, now: int) -> list[Effect]:
        """A new attachment: everything a merger may lack goes in its first message."""
        self._attempt += 1
        self._refused = False
        self._opened_at = now
        self._epoch = None
        self._acked = -1
        self._progress_at = now
        self._outbox = deque([self.retell()])
        return [self._message(0)]

    def _attach_again(self, now: int) -> list[Effect]:
        """A new session in place of a refused one, as soon as it is time."""
        if not self._refused or now - self._opened_at < REATTACH_AFTER_MS:
            return []
        return self._open_session(now)

    def retell(self) -> Frame:
        """All output that a merger may lack."""
        return self.tail.fold()

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._plan.validate()
        self.tail.validate()
        if len(self._outbox) > OUTBOX_FRAMES_MAX or self._acked < -1:
            raise Bug(f"{len(self._outbox)} frames in the outbox behind {self._acked}")

    def _message(self, index: int) -> Send:
        """The outbox's frame at `index`, ready to be sent (again)."""
        sequence = self._acked + 1 + index
        frame = self._outbox[index]
        if sequence == 0:
            return Send(self._merger, Attach(self.session, self.tail.since, frame))
        return Send(self._merger, Data(self.session, sequence, frame))

    def _resend(self, now: int) -> list[Effect]:
        if self._refused or not self._outbox or now - self._progress_at < RESEND_AFTER_MS:
            return []
        self._progress_at = now
        return [self._message(i) for i in range(len(self._outbox))]

    def _on_ack(self, ack: Ack, now: int) -> list[Effect]:
        if self._epoch is None:
            self._epoch = ack.epoch
        if ack.epoch < self._epoch:
            return []  # a late word of a merger that is gone
        if ack.epoch > self._epoch or ack.sequence > self._acked + len(self._outbox):
            return self._open_session(now)  # whoever acks this does not know what we have sent
        while self._acked < ack.sequence:
            self._outbox.popleft()
            self._acked += 1
            self._progress_at = now
        self.tail.trim(ack.durable_stable)
        self._plan.fast_forward(ack.feedback)
        return self._read_on()
