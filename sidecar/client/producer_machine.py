"""A producer's machine: what it has pushed, and what each sidecar is sent. It is pure.

    Push --> tail | f3 | f4 | f5 |          trimmed by what all its sidecars have made durable
                       ^      ^
                     one    other           each link is somewhere else in it

    event      Push(frame)   Reached(one)     Ack(one, ...)   Lost(one)   Tick
    effects    Send(Data)    Send(Attach)     Send(Data) ...  -           -

It holds the output sender of a replica (failover/replica/output_sender.py), without a query in
front. A sidecar that is reached is sent all that it may lack; then frames follow within its
credits. One that cannot be reached keeps the tail from being trimmed, so after a while it is let
go, unless it is the only one; when it is back it is sent the tail as a new one would be.

The tail is trimmed of events that end before both the durable stable and the producer's own: those
behind its own stable may still be adjusted, however far the output is. Live events stay, and are
not bounded; frames in flight are.
"""

from __future__ import annotations

from dataclasses import dataclass

from gapless.failover.effects import Send, Tick
from gapless.failover.machines import unhandled
from gapless.failover.messages import Ack, Life
from gapless.failover.replica import link as ways
from gapless.failover.replica.link import CLOSED
from gapless.failover.replica.output_sender import OutputSender
from gapless.failover.replica.tail import Tail
from gapless.failover.timing import Timing
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Bug
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
"""Before anything is resent within a call: never, as gRPC loses nothing while a call is open."""
TIMING = Timing(resend_ms=TRANSPORT_MS, heartbeat_ms=TRANSPORT_MS // 4, reattach_ms=50)
"""Of a producer: calls that break are noticed by the transport."""

# -- events -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Push:
    """The program pushes a frame. Whether it breaks a promise of the stream the sidecar decides."""

    frame: Frame


@dataclass(frozen=True, slots=True)
class Reached:
    """A call to a sidecar has begun: the producer attaches as soon as it may."""

    sidecar: str


@dataclass(frozen=True, slots=True)
class Credit:
    """How many frames may be in flight to a sidecar. Comes before the `Ack` of the same message."""

    sidecar: str
    frames: int


@dataclass(frozen=True, slots=True)
class Lost:
    """The call to a sidecar has ended, however it did."""

    sidecar: str


@dataclass(frozen=True, slots=True)
class LetGo:
    """A sidecar has let this incarnation go, as it was away for too long."""


ProducerEvent = Push | Ack | Credit | Tick | Reached | Lost | LetGo
ProducerEffect = Send
"""To a sidecar by its name: an `Attach` or a `Data`."""


@dataclass(frozen=True, slots=True)
class Settled:
    """How far all sidecars that take part are, at least."""

    durable: int
    feedback: int


class ProducerMachine:
    """One producer."""

    def __init__(
        self,
        life: Life,
        sidecars: tuple[str, ...],
        schema: StreamSchema,
        join_at: int = BEGIN,
        timing: Timing = TIMING,
        rows_max: int = UNACKED_ROWS_MAX,
    ) -> None:
        """`sidecars`: any names that tell them apart. `join_at`: every event with `ve` from then on
        will be pushed.
        """
        self._sender = OutputSender(life, sidecars, schema, timing, run_bytes_max=RUN_BYTES_MAX)
        self._sender.begin(Tail(schema, join_at))
        self._timing = timing
        self._rows_max = rows_max
        self._reached: set[str] = set()
        self._unreached_at = dict.fromkeys(sidecars, 0)

    # -- what its program asks ----------------------------------------------------------------

    @property
    def life(self) -> Life:
        """The producer's name and its incarnation."""
        return self._sender.life

    @property
    def tail(self) -> Tail:
        """What some sidecar may lack."""
        return self._sender.tail

    @property
    def sidecars(self) -> tuple[str, ...]:
        """Those that take part."""
        return self._sender.links.mergers

    @property
    def pending_rows(self) -> int:
        """Rows that the slowest of them has not taken in."""
        return self._sender.pending_rows

    @property
    def has_room(self) -> bool:
        """Whether more may be pushed."""
        return self.pending_rows < self._rows_max and self._sender.has_room

    @property
    def settled(self) -> Settled:
        """How far all sidecars that take part are."""
        return Settled(self._sender.trim_to(), self._sender.forward_to())

    @property
    def resume_at(self) -> int:
        """A program that restarts pushes its events from here on."""
        return min(self._sender.trim_to(), self.tail.stable)

    @property
    def all_acked(self) -> bool:
        """Whether every sidecar that takes part and can be reached has all that was pushed."""
        return self._sender.all_acked

    # -- what happens -------------------------------------------------------------------------

    def on(self, event: ProducerEvent, now: int) -> list[ProducerEffect]:
        """What follows from an event."""
        match event:
            case Push(frame):
                return self._push(frame, now)
            case Ack():
                return self._on_ack(event, now)
            case Credit(sidecar, frames):
                return self._on_credit(sidecar, frames)
            case Tick():
                return self._on_tick(now)
            case Reached(sidecar):
                return self._on_reached(sidecar, now)
            case Lost(sidecar):
                return self._on_lost(sidecar, now)
            case LetGo():
                return self._be_born_again()
            case _:
                raise unhandled("a producer", event)

    def _push(self, frame: Frame, now: int) -> list[ProducerEffect]:
        if frame:
            self._sender.keep(frame)
        return self._send(now)

    def _on_ack(self, ack: Ack, now: int) -> list[ProducerEffect]:
        return self._send(now) if self._sender.hear_ack(ack, now) else []

    def _on_credit(self, sidecar: str, frames: int) -> list[ProducerEffect]:
        """Never more than a link has, whatever a sidecar grants."""
        link = self._sender.links.by_merger.get(sidecar)
        if link is not None:
            link.credits = min(frames, ways.CREDITS)
        return []

    def _on_tick(self, now: int) -> list[ProducerEffect]:
        absent = [
            sidecar
            for sidecar in self.sidecars
            if sidecar not in self._reached
            and now - self._unreached_at[sidecar] >= self._timing.absent_ms
        ]
        kept = tuple(sidecar for sidecar in self.sidecars if sidecar not in absent)
        if absent and kept:
            self._sender.assign(kept)
            self._sender.trim()
        return self._send(now)

    def _on_reached(self, sidecar: str, now: int) -> list[ProducerEffect]:
        self._reached.add(sidecar)
        if sidecar not in self.sidecars:
            self._sender.assign((*self.sidecars, sidecar))
        return self._send(now)

    def _on_lost(self, sidecar: str, now: int) -> list[ProducerEffect]:
        self._reached.discard(sidecar)
        self._unreached_at[sidecar] = now
        self._sender.links.lose(sidecar)
        return []

    def _be_born_again(self) -> list[ProducerEffect]:
        """Continues as a later incarnation, which sends everything again."""
        self._sender.be_born_again(life_after(self.life))
        return []

    def _send(self, now: int) -> list[ProducerEffect]:
        """Sends what the sidecars that are reached have credit for."""
        self._sender.offer()
        return self._sender.send(now, self._reached)

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._sender.validate()
        for link in self._sender.links:
            if link.state != CLOSED and link.merger not in self._reached:
                raise Bug(f"{link.merger} is attached to, and there is no call to it")
