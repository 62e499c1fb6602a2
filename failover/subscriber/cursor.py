"""A cursor: one merger's output, read in its order, whatever the network does.

    idle -- open --> opening -- opened --> opened -- fetch --> reading      each: -- end --> ended
                        ^ ^                                       |
                        | '--------- open -- declined <-----------'  (declined)
                        '-- open: it begins anew where the program stands

Opening asks for a reset, the table of all events with `ve >= since`; reading fetches what follows
an offset of the merger's journal. There is one question at a time. It is repeated after silence,
as it was: an answer that was on its way then counts, and a merger that is not there yet will be.
A reset may come in parts, each asked for behind the one before; nobody hears of it before the last
one is there, and where a part of another table comes it is asked for anew.
A delivery counts only if it begins exactly where the cursor stands, so what is lost is fetched
again, and what is repeated or late begins elsewhere. A new life of the merger has the same journal:
offsets stay what they were. Another merger's mean nothing here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from gapless.failover.effects import Send
from gapless.failover.lifecycles import Lifecycle
from gapless.failover.messages import Declined, Delivery, Fetch, Open, Opened, Token
from gapless.failover.timing import Timing
from gapless.protocol.elements import BEGIN, INF, format_time
from gapless.protocol.errors import Bug, SchemaError, StreamViolation
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

SLOWER_MAX = 4
"""A silent merger's retry interval grows up to this many times, no further: its new life has
forgotten the question, and the output goes on only once it is asked again.
"""

CursorState = Literal["idle", "opening", "opened", "reading", "declined", "ended"]
CURSOR: Lifecycle[CursorState] = Lifecycle(
    "a subscriber's cursor on a merger",
    {
        "idle": {"open": "opening", "fetch": "reading", "end": "ended"},
        "opening": {
            "open": "opening",
            "opened": "opened",
            "declined": "declined",
            "end": "ended",
        },
        "opened": {"fetch": "reading", "open": "opening", "end": "ended"},
        "reading": {"open": "opening", "declined": "declined", "end": "ended"},
        "declined": {"open": "opening", "end": "ended"},
        "ended": {},
    },
)


class Cursor:
    """Where a subscriber stands in one merger's output. Asks, and judges what comes."""

    def __init__(
        self, subscriber: str, merger: str, shard: str, schema: StreamSchema, timing: Timing
    ) -> None:
        self.merger = merger
        self.shard = shard
        self.state = CURSOR.first
        self.token = Token(merger, 0, 0, BEGIN)
        """Behind what was read."""
        self.since: int | None = None
        """From where a reset was asked for; None: from the merger's own stable."""
        self._subscriber = subscriber
        self._schema = schema
        self._attempt = 0
        self._parts: list[Opened] = []  # of the reset that is coming
        self._shortest_ms = timing.fetch_ms
        self._wait_ms = timing.fetch_ms
        self._asked_at = 0

    # -- asking -------------------------------------------------------------------------------

    def open(self, since: int | None, attempt: int, now: int) -> Send:
        """Asks for a reset."""
        self._ask_to_open(since, attempt)
        return self._ask(now)

    def open_later(self, since: int | None, attempt: int, now: int) -> None:
        """Asks for a reset after the longest wait: an answer now would be of no use."""
        self._ask_to_open(since, attempt)
        self._wait_ms = SLOWER_MAX * self._shortest_ms
        self._asked_at = now

    def _ask_to_open(self, since: int | None, attempt: int) -> None:
        self.state = CURSOR.after(self.state, "open")
        self.since, self._attempt = since, attempt
        self._parts.clear()

    def ask_on(self, now: int) -> Send:
        """Asks for the next part of the reset."""
        self._wait_ms = self._shortest_ms
        return self._ask(now)

    def fetch(self, now: int) -> Send:
        """Asks for what follows, for the first time behind a reset or a token."""
        self.state = CURSOR.after(self.state, "fetch")
        return self._ask(now)

    def fetch_on(self, now: int) -> Send:
        """Asks for what follows what was just read."""
        self._asked_at = now
        return Send(self.merger, Fetch(self._subscriber, self.token))

    def tick(self, now: int) -> Send | None:
        """Repeats the question after silence, each time after a longer one."""
        if not self.is_due(now) or not self.is_asking:
            return None
        self._wait_ms = min(2 * self._wait_ms, SLOWER_MAX * self._shortest_ms)
        return self._ask(now)

    def _ask(self, now: int) -> Send:
        if self.state == "reading":
            return self.fetch_on(now)
        self._asked_at = now
        part = len(self._parts)
        return Send(self.merger, Open(self._subscriber, self._attempt, self.since, part))

    def end(self) -> None:
        """Nothing more is asked."""
        self._parts.clear()
        if self.state != "ended":
            self.state = CURSOR.after(self.state, "end")

    def is_due(self, now: int) -> bool:
        """Whether it has been silent for as long as is waited."""
        return now - self._asked_at >= self._wait_ms

    @property
    def is_asking(self) -> bool:
        """Whether it waits for an answer."""
        return self.state in ("reading", "opening")

    # -- judging ------------------------------------------------------------------------------

    def accepts(self, event: Delivery) -> bool:
        """Whether a delivery is the next one and has anything new."""
        token = self.token
        if self.state != "reading" or event.after != token.offset:
            return False
        if event.token.merger != token.merger:
            return False
        stable = event.frame.stable
        return len(event.frame) > 0 or (stable is not None and stable > token.stable)

    def opens(self, event: Opened) -> bool:
        """Whether this answers the question for a reset, of this life of the subscriber."""
        return (
            self.state == "opening"
            and event.attempt == self._attempt
            and (self.since is None or event.since == self.since)
        )

    def gather(self, event: Opened) -> bool:
        """Takes a part of a reset that it opens; whether it was news. A part of another table than
        the first is: that table is gone, or this one was sent before it, and all is asked for anew.
        """
        held = self._parts
        if held and not _same_table(held[0], event):
            held.clear()
        elif len(held) != event.part:
            return False  # it has come twice, or too early
        if len(held) == event.part:
            held.append(event)
        return True

    def whole(self) -> Opened | None:
        """The reset, once all parts are there."""
        held = self._parts
        if not held or len(held) < held[0].parts:
            return None
        frames = [part.frame.with_stable(None) for part in held]
        rows = frames[0] if len(frames) == 1 else Frame.concat(frames)
        whole = replace(held[0], frame=rows.with_stable(held[-1].frame.stable), part=0, parts=1)
        held.clear()
        return whole

    def declines(self, event: Declined) -> bool:
        """Whether this is about the present question."""
        if self.state == "reading":
            return event.asked == self.token
        return self.state == "opening" and event.asked == self._attempt

    # -- taking in ----------------------------------------------------------------------------

    def take(self, event: Delivery) -> Frame:
        """Goes on behind an accepted delivery; its rows, and its stable where that is new."""
        frame, token = event.frame, self.token
        stable = frame.stable
        if stable is None or stable <= token.stable:
            if stable is not None:
                frame = frame.with_stable(None)
            stable = token.stable
        self.token = Token(token.merger, event.token.epoch, event.token.offset, stable)
        self._wait_ms = self._shortest_ms
        return frame

    def begin(self, event: Opened) -> None:
        """Goes on behind a reset. Raises where that is malformed: inserts with `ve >= since`."""
        frame, since = event.frame, event.since
        self.check(frame)
        stable = BEGIN if frame.stable is None else frame.stable
        if not frame.insert_only or (len(frame) and int(frame.ve.min()) < since) or stable < since:
            raise StreamViolation(
                f"the reset of {self.merger}",
                f"it has inserts that end at {format_time(since)} or later, and such a stable",
            )
        self.state = CURSOR.after(self.state, "opened")
        self.token = Token(self.merger, event.token.epoch, event.token.offset, stable)

    def decline(self) -> None:
        """The present question cannot be answered."""
        self.state = CURSOR.after(self.state, "declined")
        self._parts.clear()

    def check(self, frame: Frame) -> None:
        """Raises `SchemaError` where a frame is of another output."""
        schema = frame.schema
        if schema is not self._schema and schema != self._schema:
            raise SchemaError(
                f"{self.merger} delivers {schema}, this subscription is of {self._schema}: "
                "subscribe anew"
            )

    def validate(self) -> None:
        """Raises `Bug` where its token is of another merger, or of no place."""
        token = self.token
        if token.merger != self.merger or token.offset < 0 or not BEGIN <= token.stable <= INF:
            raise Bug(f"the token {token} is not of {self.merger}")


def _same_table(a: Opened, b: Opened) -> bool:
    return (a.since, a.token, a.parts) == (b.since, b.token, b.parts)
