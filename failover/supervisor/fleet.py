"""The fleet: the lives of a job, how they are started, asked to go, and forgotten.

    Spawn --> in a slot --> dismissed: Retire --- kill_ms ---> Kill --> over
                       |--> died, said its shell --------------------> over

It is what is known and what is wanted: slots and shards (slots.py), what is desired, the cutover
that is under way, how far the end of the job is. The supervisor decides, and its parts, the status
tracker and the reconciler, share this. What is to be done about a life each method returns.

A life that is over may still speak: Retire got lost, it was out of reach of the kill, or it never
died. It is told again, but only once the slot has a later one that qualifies: until then it may
be all there is.

An incarnation is never given twice: (term, counter), and a term has one supervisor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, NamedTuple

from gapless.failover.backoff import FAILURES_MAX
from gapless.failover.effects import Alarm, Send
from gapless.failover.job.desired import Desired
from gapless.failover.life_start import ReplicaStart, Start
from gapless.failover.messages import Assign, Fence, Life, Retire
from gapless.failover.supervisor.assignment import first_version
from gapless.failover.supervisor.cutover import Cutover
from gapless.failover.supervisor.effects import Kill, Spawn, SupervisorEffect
from gapless.failover.supervisor.placement import Placed, place
from gapless.failover.supervisor.replacement import qualifies
from gapless.failover.supervisor.replacement_budget import ReplacementBudget
from gapless.failover.supervisor.shutdown import ENDING
from gapless.failover.supervisor.slots import Known, Role, Shard, Slot
from gapless.failover.timing import Timing
from gapless.protocol.elements import BEGIN
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import Bug

OVER_MAX = 4096
"""Lives that are over and may still report. The oldest is forgotten: it had days to end."""


class Spawned(NamedTuple):
    """A life that is being started; the caller puts it into its slot."""

    known: Known
    effect: Spawn


class Fleet:
    """All lives of a job."""

    BUDGET: ClassVar[type[ReplacementBudget]] = ReplacementBudget

    def __init__(self, term: int, desired: Desired, nodes: Sequence[str], timing: Timing) -> None:
        self.term = term
        self.desired = desired
        self.timing = timing
        self.nodes = tuple(nodes)
        """Those that can be used now."""
        self.shards = [Shard(i, first_version(term)) for i in range(desired.shards)]
        self.slots: dict[str, Slot] = {}
        self.budget = self.BUDGET(timing, desired.shards)
        self.cutover: Cutover | None = None
        """The change of the query that is under way, if one is."""
        self.ending = ENDING.first
        """How far the end of the job is."""
        self.expects_until = 0
        """Until then slots whose lives are known to be running are not filled."""
        self._counter = 0
        self._leaving: dict[Life, int] = {}  # when each is killed
        self._over: dict[Life, int] = {}  # when each may be told again
        self._expected: dict[str, Life] = {}  # by slot, a life that runs and has not reported yet
        self._silenced: set[Life] = set()  # given up for their silence, and not seen to be dead
        for shard in self.shards:
            for i in range(desired.mergers):
                self.add_slot("m", shard, i, 0)
            for i in range(desired.replicas):
                self.add_slot("r", shard, i, 0)
            shard.assigned = shard.awaited = tuple(shard.mergers)

    # -- slots --------------------------------------------------------------------------------

    def add_slot(self, role: Role, shard: Shard, index: int, now: int) -> Slot:
        """One more place in the job."""
        slot = Slot(role, shard.number, index, now, self.timing)
        slot.fence = shard.floors.pop(slot.name, None)
        self.slots[slot.name] = slot
        if role == "m":
            shard.mergers[slot.name] = slot
        else:
            shard.replicas[slot.name] = slot
            ordered = sorted(shard.replicas.values(), key=lambda slot: slot.index)
            shard.replicas = {slot.name: slot for slot in ordered}
        return slot

    def remove_slot(self, shard: Shard, slot: Slot) -> None:
        """A replica's slot is no more, and no life that was in it is let in again."""
        del self.slots[slot.name]
        del shard.replicas[slot.name]
        shard.floors[slot.name] = Life(slot.name, self.next_incarnation())

    def find(self, life: Life) -> Known | None:
        """What is known of a life, if it is in its slot."""
        slot = self.slots.get(life.slot)
        return slot.find(life) if slot is not None else None

    # -- what holds of it ---------------------------------------------------------------------

    @property
    def is_cutting(self) -> bool:
        """Whether a cutover is under way: then each slot's successor belongs to it."""
        return self.cutover is not None and not self.cutover.is_committed

    def qualifies(self, shard: Shard, life: Life) -> bool:
        """Whether this replica can carry the output, at every awaited merger that is alive."""
        return qualifies(life, shard.awaited_mergers())

    def goes_on(self, shard: Shard, known: Known) -> bool:
        """Whether a life can be relied on, by its own recent status and by those of the mergers."""
        return known.is_live and self.qualifies(shard, known.life)

    def join_at(self, shard: Shard) -> int:
        """Where the durable output of the slowest merger ends."""
        durable = shard.durable()
        return BEGIN if durable is None else durable

    def may_give_up(self, slot: Slot) -> bool:
        """Never the last of its shard."""
        shard = self.shards[slot.shard]
        alike = shard.mergers if slot.role == "m" else shard.replicas
        return any(other is not slot and other.state != "failed" for other in alike.values())

    # -- starting -----------------------------------------------------------------------------

    def next_incarnation(self) -> Incarnation:
        """Never the same twice."""
        self._counter += 1
        return Incarnation(self.term, self._counter)

    def expect(self, lives: Iterable[Life]) -> None:
        """Lives that are known to be there: their slots are not filled before `expects_until`."""
        self._expected.update({life.slot: life for life in lives})

    def is_expected(self, slot: Slot, now: int) -> bool:
        """Whether a life of it is believed to be running, and may report soon."""
        return now < self.expects_until and slot.name in self._expected

    def has_spoken(self, life: Life) -> None:
        """It is not expected any more."""
        self._expected.pop(life.slot, None)

    def spawn(self, slot: Slot, start: Start, now: int) -> Spawned | None:
        """Starts a life, if there is a node for it."""
        node = self._place(slot)
        if node is None:
            return None
        life = Life(slot.name, self.next_incarnation())
        if isinstance(start, ReplicaStart):
            known = Known(life, start.plan, now, node, start.origins)
        else:
            known = Known(life, "", now, node)
        return Spawned(known, Spawn(life, node, start))

    def _place(self, slot: Slot) -> str | None:
        lives = [
            Placed(other.role, other.shard, known.node)
            for other in self.slots.values()
            for known in other.lives()
        ]
        return place(slot.role, slot.shard, self.nodes, lives)

    # -- orders -------------------------------------------------------------------------------

    def assign(self, shard: Shard, known: Known) -> Send:
        """Tells a replica which mergers it sends to, and waits for."""
        order = Assign(self.term, shard.version, shard.assigned, shard.awaited)
        return Send(str(known.life), order)

    def fence(self, shard: Shard, slot: Slot, life: Life) -> list[SupervisorEffect]:
        """From now on no merger lets in a life of the slot before this one."""
        slot.fence = life
        order = Fence(self.term, life)
        return [Send(str(merger.life), order) for merger in shard.live_mergers()]

    def dismiss(
        self, known: Known, reason: str, now: int, *, by_force: bool = False
    ) -> list[SupervisorEffect]:
        """Asks a life to go, and sees to it that it does."""
        known.goes("leave")
        return self.retire(known.life, reason, now, by_force=by_force)

    def retire(
        self, life: Life, reason: str, now: int, *, by_force: bool = False
    ) -> list[SupervisorEffect]:
        """The same of a life that is in no slot."""
        order = Send(str(life), Retire(self.term, life, reason))
        if not by_force:
            self._leaving[life] = now + self.timing.kill_ms
            return [order]
        self._leaving.pop(life, None)
        self._forget(life, now + self.timing.kill_ms)
        return [order, Kill(life)]

    def kill_overdue(self, now: int) -> list[SupervisorEffect]:
        """Kills the lives that were asked to exit and have not."""
        overdue = [life for life, at in self._leaving.items() if now >= at]
        for life in overdue:
            del self._leaving[life]
            self._forget(life, now + self.timing.kill_ms)
        return [Kill(life) for life in overdue]

    # -- what is over -------------------------------------------------------------------------

    @property
    def has_leaving(self) -> bool:
        """Whether some life was asked to go, and has not gone."""
        return bool(self._leaving)

    def is_over(self, life: Life) -> bool:
        """Whether it is one that has ended, or was asked to: what this term has started, and is in
        no slot, is.
        """
        return life in self._over or life in self._leaving or life.incarnation.term == self.term

    def may_be_told(self, life: Life, now: int) -> bool:
        """Whether it is time to ask a life to go, or to ask it again."""
        return life not in self._leaving and self._over.get(life, now) <= now

    def silence(self, life: Life) -> None:
        """Notes that it was given up for its silence: if it reports again, that was needless."""
        self._silenced.add(life)
        if len(self._silenced) > OVER_MAX:
            self._silenced.remove(min(self._silenced))

    def was_silenced(self, life: Life) -> bool:
        """Whether it was given up for its silence; it is asked once."""
        if life not in self._silenced:
            return False
        self._silenced.remove(life)
        return True

    def has_died(self, life: Life, now: int) -> None:
        """Its shell reports that it is over."""
        self._leaving.pop(life, None)
        self._silenced.discard(life)
        if self._expected.get(life.slot) == life:
            del self._expected[life.slot]
        self._forget(life, now)

    def lose(self, slot: Slot, known: Known, reason: str, now: int) -> list[SupervisorEffect]:
        """A life is over that was needed."""
        self.budget.lost_lives += 1
        ran_ms, stood_ms = now - known.began_at, known.stood_ms(now)
        if known is slot.successor:
            slot.successor = None
            slot.trials.failed(now, ran_ms, known.reached, stood_ms=stood_ms)
            if slot.trials.failures != FAILURES_MAX:
                return []
            what = f"{slot.name} keeps its life, as {FAILURES_MAX} others beside it failed"
            return [Alarm(f"{what}: {reason}")]
        slot.empty(reason, now)
        slot.backoff.failed(now, ran_ms, known.reached, stood_ms=stood_ms)
        if slot.successor is not None and not self.is_cutting:
            slot.take_over()
        elif slot.backoff.is_spent and self.may_give_up(slot):
            slot.give_up(reason)
            what = f"{slot.name} failed {slot.backoff.failures} consecutive times: {reason}"
            return [Alarm(f"{what}. Scale or switch the job to have it tried again")]
        return []

    def _forget(self, life: Life, again_at: int) -> None:
        """Notes that it is over; if it still reports, it is ordered to go from `again_at` on."""
        self._over.pop(life, None)
        self._over[life] = again_at
        if len(self._over) > OVER_MAX:
            del self._over[next(iter(self._over))]

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self.budget.validate()
        for slot in self.slots.values():
            slot.validate()
            if any(known.life in self._leaving for known in slot.lives()):
                raise Bug(f"{slot.name} holds a life that was asked to go")
        for shard in self.shards:
            if not shard.assigned or not set(shard.assigned) <= set(shard.mergers):
                raise Bug(f"shard {shard.number}: assigned mergers {shard.assigned}")
            if not shard.awaited or not set(shard.awaited) <= set(shard.assigned):
                raise Bug(f"shard {shard.number}: awaited mergers {shard.awaited}")
