"""The fleet: the lives of a job, how they are started, asked to go, and forgotten.

    Spawn --> in a slot --> dismissed: Retire --- kill_ms ---> Kill --> over
                       |--> died, said its shell --------------------> over

A life that is over may still speak: Retire got lost, it was out of reach of the kill, or it never
died. It is told again, but only once the slot has a later one that qualifies: until then it may
be all there is.

An incarnation is never given twice: (term, counter), and a term has one supervisor.
"""

from __future__ import annotations

from collections.abc import Sequence

from gapless.failover.effects import Alarm, Kill, Send, Spawn, SupervisorEffect
from gapless.failover.job.desired import Desired
from gapless.failover.life_start import ReplicaStart, Start
from gapless.failover.messages import Life, Retire
from gapless.failover.supervisor.assignment import first_version
from gapless.failover.supervisor.overload import Strain
from gapless.failover.supervisor.placement import Placed, place
from gapless.failover.supervisor.replacement_budget import Ration
from gapless.failover.supervisor.slots import Known, Role, Shard, Slot
from gapless.failover.timing import Timing
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import Bug

OVER_MAX = 4096
"""Lives that are over and may still speak. The oldest is forgotten: it has had days to fall silent.
"""


class Fleet:
    """All lives of a job. What is to be done about them gathers in `_effects`."""

    def __init__(self, term: int, desired: Desired, nodes: Sequence[str], timing: Timing) -> None:
        self.term = term
        self.desired = desired
        self.timing = timing
        self.nodes = tuple(nodes)
        self.shards = [Shard(i, first_version(term)) for i in range(desired.shards)]
        self.slots: dict[str, Slot] = {}
        self._counter = 0
        self._leaving: dict[Life, int] = {}  # when each is killed
        self._over: dict[Life, int] = {}  # when each may be told again
        self._strain = Strain(timing)
        self._rations = [Ration(timing.replace_ms, 0) for _ in self.shards]
        self._expected: dict[str, Life] = {}  # by slot, who is there and has not spoken yet
        self._expects_until = 0
        self._silenced: set[Life] = set()  # given up for their silence, and not seen to be dead
        self._lost_lives = 0
        self._is_rationed = False  # since the last tick: somebody waits for a replacement
        self._effects: list[SupervisorEffect] = []

    # -- slots --------------------------------------------------------------------------------

    def _add_slot(self, role: Role, shard: Shard, index: int, now: int) -> Slot:
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

    def _remove_slot(self, shard: Shard, slot: Slot) -> None:
        """A replica's slot is no more, and no life that was in it is let in again."""
        del self.slots[slot.name]
        del shard.replicas[slot.name]
        shard.floors[slot.name] = Life(slot.name, self._next_incarnation())

    # -- starting -----------------------------------------------------------------------------

    def _next_incarnation(self) -> Incarnation:
        """Never the same twice."""
        self._counter += 1
        return Incarnation(self.term, self._counter)

    def _is_expected(self, slot: Slot, now: int) -> bool:
        """Whether a life of it is there, as far as is known, and may speak soon."""
        return now < self._expects_until and slot.name in self._expected

    def _spawn(self, slot: Slot, start: Start, now: int) -> Known | None:
        """Starts a life, if there is a node for it; the caller puts it into the slot."""
        node = self._place(slot)
        if node is None:
            return None
        life = Life(slot.name, self._next_incarnation())
        self._effects.append(Spawn(life, node, start))
        if isinstance(start, ReplicaStart):
            return Known(life, start.plan, now, node, start.origins)
        return Known(life, "", now, node)

    def _place(self, slot: Slot) -> str | None:
        lives = [
            Placed(other.role, other.shard, known.node)
            for other in self.slots.values()
            for known in other.lives()
        ]
        return place(slot.role, slot.shard, self.nodes, lives)

    # -- ending -------------------------------------------------------------------------------

    def _dismiss(self, known: Known, reason: str, now: int, *, by_force: bool = False) -> None:
        """Asks a life to go, and sees to it that it does."""
        known.goes("leave")
        self._retire(known.life, reason, now, by_force=by_force)

    def _retire(self, life: Life, reason: str, now: int, *, by_force: bool = False) -> None:
        self._effects.append(Send(str(life), Retire(self.term, life, reason)))
        if by_force:
            self._effects.append(Kill(life))
            self._leaving.pop(life, None)
            self._forget(life, now + self.timing.kill_ms)
        else:
            self._leaving[life] = now + self.timing.kill_ms

    def _kill_overdue(self, now: int) -> None:
        """Ends the lives that were asked to go, and have not gone."""
        for life in [life for life, at in self._leaving.items() if now >= at]:
            del self._leaving[life]
            self._forget(life, now + self.timing.kill_ms)
            self._effects.append(Kill(life))

    # -- strain -------------------------------------------------------------------------------

    def _is_strained(self, now: int) -> bool:
        """Whether the machines are slow, and not the lives on them."""
        return self._strain.lasts(now)

    def _may_replace(self, shard: Shard, now: int) -> bool:
        """Whether one more life of a shard may be replaced because it is slow or silent."""
        ration = self._rations[shard.number]
        if ration.may_take(now, strained=self._is_strained(now)):
            return True
        self._is_rationed = True
        return False

    def _replaces(self, shard: Shard, now: int) -> None:
        """One more is."""
        self._rations[shard.number].take(strained=self._is_strained(now))

    def _silence(self, life: Life) -> None:
        """Notes that it was given up for its silence: if it speaks, that was needless."""
        self._silenced.add(life)
        if len(self._silenced) > OVER_MAX:
            self._silenced.remove(min(self._silenced))

    def _was_needless(self, shard: int, now: int) -> None:
        """A life that was given up for its silence, or that another is started for, speaks."""
        self._rations[shard].was_needless()
        self._strain.sign(now)

    def _tell_of_strain(self, now: int) -> None:
        """Says that the machines are overloaded, where they are for long."""
        taken = sum(ration.taken for ration in self._rations)
        needless = sum(ration.needless for ration in self._rations)
        rationed, self._is_rationed = self._is_rationed, False
        what = self._strain.alarm(now, self._lost_lives, taken, needless, rationed=rationed)
        if what:
            self._effects.append(Alarm(what))

    def _forget(self, life: Life, again_at: int) -> None:
        """Notes that it is over; if it still speaks, it is told at `again_at` at the soonest."""
        self._over.pop(life, None)
        self._over[life] = again_at
        if len(self._over) > OVER_MAX:
            del self._over[next(iter(self._over))]

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        for ration in self._rations:
            ration.validate()
        for slot in self.slots.values():
            slot.validate()
            if any(known.life in self._leaving for known in slot.lives()):
                raise Bug(f"{slot.name} holds a life that was asked to go")
        for shard in self.shards:
            if not shard.assigned or not set(shard.assigned) <= set(shard.mergers):
                raise Bug(f"shard {shard.number}: assigned mergers {shard.assigned}")
            if not shard.awaited or not set(shard.awaited) <= set(shard.assigned):
                raise Bug(f"shard {shard.number}: awaited mergers {shard.awaited}")
