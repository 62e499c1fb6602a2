"""A merger: LMerge over the replicas' streams, with an output that survives its own death.

    Attach, Data --> input_sessions.py --> LMerge --> durable_output.py --Append--> journal
                       |                                                              |
                    Ack (taken in; durable; feedback)        readers.py: Delivery <--Appended

Nothing is delivered before it is durable in the output journal, so nothing is delivered that the
journal could forget. A new life (epoch) reads the journal back and hands its live table and its
stable to LMerge; the replicas, whose sessions it does not know, attach again with their tails.
Where they have all gone on without it, it catches up from its peer's journal (backfill.py).

Every rule that a promise rests on is a method of its own, in the part it belongs to: what is fenced
and expected (input_sessions.py), what is durable (durable_output.py), and here what may be
delivered.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from gapless.failover.effects import Exit, Send, Start, Tick
from gapless.failover.life_start import MergerStart
from gapless.failover.machines import unhandled
from gapless.failover.merger.backfill import Backfill
from gapless.failover.merger.durable_output import DurableOutput
from gapless.failover.merger.effects import (
    Appended,
    AppendRefused,
    BaseMade,
    MergerEffect,
    MergerEvent,
    OutputLost,
    OutputRead,
    PeerRead,
    ReadRefused,
    Sealed,
    TableRead,
    WatchOutput,
)
from gapless.failover.merger.input_sessions import InputSessions
from gapless.failover.merger.inputs import AttachedInputs
from gapless.failover.merger.readers import Readers
from gapless.failover.merger.tallies import Tallies
from gapless.failover.messages import (
    SUPERVISOR,
    Attach,
    Data,
    Drain,
    Fence,
    Fetch,
    Life,
    Open,
    Retire,
    Session,
)
from gapless.failover.statuses import MergerStatus
from gapless.failover.timing import Timing
from gapless.merge.lmerge import LMerge
from gapless.protocol.frame import Frame

TIMING = Timing()


class Merger:
    """One life of a merger. Pure: the shell carries out the effects."""

    OUTPUT: ClassVar[type[DurableOutput]] = DurableOutput
    SESSIONS: ClassVar[type[InputSessions]] = InputSessions

    def __init__(
        self,
        life: Life,
        start: MergerStart,
        epoch: int,
        merge: LMerge,
        live: Frame,
        offset: int,
        timing: Timing = TIMING,
        *,
        acks_each: bool = False,
    ) -> None:
        """`live` is the output's live table and stable as the journal gives them up to `offset`,
        `epoch` the journal's, and `merge` a fresh LMerge. `acks_each`: a frame is acked at once,
        where an ack costs little and the sender may wait for it.
        """
        self.life = life
        self.epoch = epoch
        self._merge = merge
        merge.resume(live)
        self._timing = timing
        self._term = 0  # the highest of a supervisor so far
        self._inputs = AttachedInputs(start.fences)
        self._tallies = Tallies(merge, self._inputs)
        self._output = self.OUTPUT(merge, offset, timing)
        self._sessions = self.SESSIONS(
            life.slot,
            epoch,
            merge,
            self._inputs,
            self._tallies,
            self._output,
            acks_each=acks_each,
        )
        self._readers = Readers(life.slot, epoch)
        self._backfill: Backfill | None = None
        if start.peers:  # a second peer has nothing that the first has not
            self._backfill = Backfill(start.peers[0], merge, self._inputs, timing.backfill_ms)
        self._told_at = 0

    def on(self, event: MergerEvent, now: int) -> list[MergerEffect]:
        """What follows from `event`."""
        if self._output.state == "over":
            return []
        match event:
            case Data():
                return self._sessions.on_data(event, now)
            case Attach():
                return self._sessions.on_attach(event, now)
            case Fetch() | OutputRead() | Open() | TableRead() | ReadRefused():
                return self._readers.on(event, self._output.offset, self.durable_stable, now)
            case Appended() | AppendRefused() | OutputLost() | Sealed() | BaseMade():
                return self._on_journal(event, now)
            case Tick():
                return self._on_tick(now)
            case PeerRead():
                return self._on_peer_read(event)
            case Fence() | Drain() | Retire():
                return self._on_order(event)
            case Start():
                return self._on_start(now)
            case _:
                raise unhandled("a merger", event)

    # -- what it is ---------------------------------------------------------------------------

    @property
    def durable_stable(self) -> int:
        """The output is durable up to this time."""
        return self._output.durable_stable

    @property
    def attached(self) -> Collection[Life]:
        """The lives that feed it."""
        return self._sessions.attached

    def expects(self, session: Session, sequence: int) -> bool:
        """Whether this is the next message of its session; others are answered and dropped."""
        return self._sessions.expects(session, sequence)

    def taken_in(self, session: Session) -> int:
        """The last sequence number that was taken in of a session; -1 where it has none."""
        return self._sessions.taken_in(session)

    def is_fenced(self, life: Life) -> bool:
        """Whether a life may feed us no more, for another one has taken its slot."""
        return self._sessions.is_fenced(life)

    def forget(self, slot: str) -> None:
        """Forgets the fence of a slot none of whose lives feeds us."""
        self._inputs.forget(slot)

    def obeys(self, term: int) -> bool:
        """Whether an order of a supervisor of this term counts."""
        return term >= self._term

    # -- output -------------------------------------------------------------------------------

    def _on_journal(
        self, event: Appended | AppendRefused | OutputLost | Sealed | BaseMade, now: int
    ) -> list[MergerEffect]:
        match event:
            case Appended():
                return self._on_appended(event, now)
            case AppendRefused(reason):
                return self._output.refused(reason, now)
            case OutputLost(reason):
                return self._exit(reason)
            case Sealed():
                is_drained, effects = self._output.sealed()
                return [self._status(now)] if is_drained else effects
            case BaseMade():
                return self._output.base_made(event, now)
            case _:
                raise unhandled("a merger", event)

    def _on_appended(self, event: Appended, now: int) -> list[MergerEffect]:
        before = self._output.written_stable
        effects = self._output.appended(event, now)
        if event.stable > before:
            effects += self._readers.go_on(self.durable_stable, now)
        return effects + self._readers.wake()

    def _on_peer_read(self, event: PeerRead) -> list[MergerEffect]:
        if self._backfill is None:
            return []
        out, effects = self._backfill.read(event, is_full=self._output.is_full)
        self._tallies.look(self._output.offset)
        self._inputs.reached(self._merge.stable)
        return self._output.put_out(out) + effects if out else effects

    # -- time ---------------------------------------------------------------------------------

    def _on_start(self, now: int) -> list[MergerEffect]:
        self._output.took_in_at = now
        return [self._status(now)]

    def _on_tick(self, now: int) -> list[MergerEffect]:
        effects = self._output.tick(now) + self._readers.go_on(self.durable_stable, now)
        effects += self._sessions.tick()
        if self._backfill is not None:
            effects += self._backfill.tick(now)
        effects += self._output.close_when_silent(now)
        if now - self._told_at >= self._timing.heartbeat_ms:
            # With nothing to append it would otherwise not notice that another has its journal.
            effects += [self._status(now), WatchOutput()]
        return effects

    def _status(self, now: int) -> Send:
        merge, self._told_at = self._merge, now
        return Send(
            SUPERVISOR,
            MergerStatus(
                self.life,
                self.epoch,
                merge.stable,
                self.durable_stable,
                self._tallies.inputs(),
                merge.waiting_for,
                merge.divergences.count,
                self._output.state == "drained",
                self._sessions.detached,
                self._inputs.fences,
                self._tallies.newest,
            ),
        )

    # -- orders -------------------------------------------------------------------------------

    def _heeds(self, term: int) -> bool:
        """Whether an order counts; it makes those of lower terms void."""
        if not self.obeys(term):
            return False
        self._term = max(self._term, term)
        return True

    def _on_order(self, order: Fence | Drain | Retire) -> list[MergerEffect]:
        match order:
            case Fence():
                return self._on_fence(order)
            case Drain():
                return self._on_drain(order)
            case Retire():
                return self._on_retire(order)
            case _:
                raise unhandled("a merger", order)

    def _on_fence(self, event: Fence) -> list[MergerEffect]:
        return self._sessions.fence(event.life) if self._heeds(event.term) else []

    def _on_drain(self, event: Drain) -> list[MergerEffect]:
        if self._heeds(event.term):
            self._output.drain()
        return []

    def _on_retire(self, event: Retire) -> list[MergerEffect]:
        if self._heeds(event.term) and event.life == self.life:
            return self._exit(event.reason)
        return []

    def _exit(self, reason: str) -> list[MergerEffect]:
        self._output.exit()
        return [Exit(reason)]

    # -- looking at it ------------------------------------------------------------------------

    @property
    def state_bytes(self) -> int:
        """Of the LMerge."""
        return self._merge.nbytes

    def sizes(self) -> dict[str, int]:
        """What it keeps, in numbers: nothing, except waiting subscribers, once the output has
        ended.
        """
        return {
            "live keys": len(self._merge),
            "pending rows": self._output.pending_rows,
            "waiting questions": self._readers.waiting,
        }

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._merge.validate()
        self._output.validate()
        self._readers.validate()
        self._sessions.validate(None if self._backfill is None else self._backfill.number)
