"""Pushing: a producer's tail, and its links to one or more sidecars. Pure: time comes in as `now`.

    push --> tail | f3 | f4 | f5 |          trimmed by what all its sidecars have made durable
                       ^      ^
                     one    other           each link is somewhere else in it

It is the part of a replica that mergers see (failover/replica/output_sender.py), without a query
in front. Each
sidecar that is reached is told all that it may lack; then frames follow within its credits. One
that cannot be reached keeps the tail from being trimmed, so after a while it is let go, unless it
is the only one; when it is back it is told the tail like one that is new.

Of the tail goes what both the durable stable and the producer's own have passed: what the own one
has not may still be adjusted, however far the output is. What lives stays, and is not bounded; what
is on its way is.
"""

from __future__ import annotations

from dataclasses import dataclass

from gapless.failover.effects import Send
from gapless.failover.messages import Ack, Life, Refused
from gapless.failover.replica import link as links
from gapless.failover.replica import output_sender as sending
from gapless.failover.replica.link import CLOSED, OPEN, Link
from gapless.failover.replica.output_sender import Sending
from gapless.failover.replica.tail import Tail
from gapless.failover.timing import Timing
from gapless.protocol.elements import BEGIN
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.sidecar.lives import life_after

UNACKED_ROWS_MAX = 1_000_000
"""Rows that some sidecar has not taken in; beyond it a push waits. Seconds of a fast program, while
a sidecar starts again.
"""
RUN_BYTES_MAX = 8 << 20
"""Of frames that go as one over a link that lags: half of what a sidecar takes in one message."""
TRANSPORT_MS = 3_600_000
"""Before anything is resent within a call: never, as gRPC loses nothing while a call lives."""
TIMING = Timing(resend_ms=TRANSPORT_MS, heartbeat_ms=TRANSPORT_MS // 4, reattach_ms=50)
"""Of a producer: calls that break are noticed by the transport."""


@dataclass(frozen=True, slots=True)
class Settled:
    """How far all sidecars that take part are, at least."""

    durable: int
    feedback: int


class Pushing(Sending):
    """What a producer has said, and who has it."""

    def __init__(
        self,
        life: Life,
        sidecars: tuple[str, ...],
        schema: StreamSchema,
        join_at: int = BEGIN,
        timing: Timing = TIMING,
        rows_max: int = UNACKED_ROWS_MAX,
    ) -> None:
        """`sidecars`: their names, any that tell them apart. `join_at`: what is pushed has every
        event with `ve` from then on.
        """
        super().__init__(life, sidecars, schema, timing)
        self._begin_tail(Tail(schema, join_at))
        self._all = sidecars
        self._rows_max = rows_max
        self._credits: dict[str, int] = {}
        self._reached: set[str] = set()
        self._unreached_at = dict.fromkeys(sidecars, 0)

    # -- what the program does ----------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Whether more may be pushed."""
        return self.pending_rows < self._rows_max and self._has_room

    @property
    def settled(self) -> Settled:
        """How far all sidecars that take part are."""
        return Settled(self._trim_to(), self._forward_to())

    @property
    def resume_at(self) -> int:
        """A program that restarts tells what it has from here on."""
        return min(self._trim_to(), self.tail.stable)

    @property
    def all_acked(self) -> bool:
        """Whether every sidecar that takes part and can be reached has all that was pushed."""
        return self._all_acked

    def push(self, frame: Frame, now: int) -> list[Send]:
        """Takes the next frame. What it breaks of the stream's promises the sidecar says."""
        if frame:
            self._keep(frame)
        return self._go_on(now)

    def give_credit(self, sidecar: str, frames: int) -> None:
        """A sidecar says how many frames may be under way to it: no more than a link has."""
        self._credits[sidecar] = min(frames, links.CREDITS)

    def _may_send(self, link: Link) -> bool:
        """As of a replica, and as the sidecar has said."""
        credit = self._credits.get(link.merger, links.CREDITS)
        return super()._may_send(link) and len(link.window) < credit

    # -- what happens to a call ---------------------------------------------------------------

    def reached(self, sidecar: str, now: int) -> list[Send]:
        """A sidecar answers: it is attached to as soon as may be."""
        self._reached.add(sidecar)
        if sidecar not in self.links:
            self._assign((*self.mergers, sidecar))
        return self._go_on(now)

    def lost(self, sidecar: str, now: int) -> None:
        """The call to a sidecar has ended, however it did."""
        self._reached.discard(sidecar)
        self._unreached_at[sidecar] = now
        link = self.links.get(sidecar)
        if link is not None and link.state != CLOSED:
            link.close("lost")

    def heard(self, message: Ack | Refused, now: int) -> list[Send]:
        """A sidecar has said something."""
        if isinstance(message, Ack):
            if not self._hear_ack(message, now):
                return []
            return self._go_on(now)
        self._hear_refused(message)
        return []

    def tick(self, now: int) -> list[Send]:
        """Some time has passed."""
        absent = [
            sidecar
            for sidecar in self.mergers
            if sidecar not in self._reached
            and now - self._unreached_at[sidecar] >= self._timing.absent_ms
        ]
        kept = tuple(sidecar for sidecar in self.mergers if sidecar not in absent)
        if absent and kept:
            self._assign(kept)
            self.tail.trim(self._trim_to())
        return self._go_on(now)

    def be_born_again(self) -> None:
        """Goes on as a later incarnation: the one before was let go. All is told again."""
        self.life = life_after(self.life)
        durable = {name: link.durable for name, link in self.links.items()}
        self.links = {}
        self._assign(tuple(durable))
        for name, link in self.links.items():
            link.durable = durable[name]

    def _go_on(self, now: int) -> list[Send]:
        self._offer()
        effects: list[Send] = []
        for link in self.links.values():
            if link.merger in self._reached and self._has_news(link):
                effects += self._send_over(link, now)
        return effects

    def _next(self, link: Link) -> Frame:
        """As of a replica, and no more than goes into one message."""
        tail, at = self.tail, link.cursor
        if tail.end - at < sending.BACKLOG_FRAMES_MAX:
            link.cursor += 1
            return tail[at].frame
        rows = size = 0
        for number in range(at, min(tail.end, at + sending.KEPT_FRAMES_MAX)):
            frame = tail[number].frame
            size += frame.nbytes
            if number > at and (size > RUN_BYTES_MAX or rows + len(frame) > sending.RUN_ROWS_MAX):
                break
            rows += len(frame)
        run, link.cursor = tail.run(at, rows, link.skipped)
        return run

    def _has_news(self, link: Link) -> bool:
        is_told = link.cursor == self.tail.end and link.told >= self.tail.stable
        return link.state != OPEN or bool(link.parts) or not is_told
