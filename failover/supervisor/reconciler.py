"""The reconciler: on each tick, by shard, brings what runs closer to what is desired.

    watch     silent, behind, unattached: suspected; not up yet and silent: dead
    choose    the mergers that replicas send to
    replace   a successor beside a life that is suspected or has an old plan; it takes over, or goes
    shrink    slots beyond the desired number, the highest index first
    settle    a life that has taken over: its slot's earlier lives are fenced
    fill      empty slots, mergers first, as their back-off allows

All but the fill may lower what runs, so each has one method that says whether it may.
"""

from __future__ import annotations

from collections.abc import Collection

from gapless.failover.effects import Alarm
from gapless.failover.life_start import MergerStart, ReplicaStart
from gapless.failover.messages import Life
from gapless.failover.replica.origins import origins
from gapless.failover.supervisor import assignment, failure_detector, replacement
from gapless.failover.supervisor.checkpoint_policy import Checkpoints
from gapless.failover.supervisor.effects import SupervisorEffect
from gapless.failover.supervisor.failure_detector import SILENT
from gapless.failover.supervisor.fleet import Fleet, Spawned
from gapless.failover.supervisor.slots import Known, Shard, Slot
from gapless.protocol.elements import INF
from gapless.protocol.errors import Bug

FIRST_TERM = 1
"""Of a job. Nothing can run before it, and no merger has written anything."""

Effects = list[SupervisorEffect]


class Reconciler:
    """Keeps a fleet as desired, and never gives up redundancy before the replacement has joined."""

    def __init__(self, fleet: Fleet, checkpoints: Checkpoints) -> None:
        self._fleet = fleet
        self._checkpoints = checkpoints

    def reconcile(self, shard: Shard, now: int) -> Effects:
        """What is due for a shard."""
        effects = self._watch(shard, now)
        effects += self._choose_mergers(shard, now)
        if not self._fleet.is_cutting:
            effects += self._replace(shard, now)
            effects += self._shrink(shard, now)
        effects += self._settle(shard)
        return effects + self._fill(shard, now)

    # -- watching -----------------------------------------------------------------------------

    def _watch(self, shard: Shard, now: int) -> Effects:
        """Suspects running lives that are silent or lag, or clears them. One that does not run
        yet, or is a merger, is declared dead at once: there is nothing to lose.
        """
        timing, strained = self._fleet.timing, self._fleet.budget.is_strained(now)
        effects: Effects = []
        for slot in shard.slots():
            for known in slot.lives():
                if known.state == "suspected":
                    self._clear(shard, slot, known, now)
                elif known.is_live and slot.role == "r" and known is slot.current:
                    why = failure_detector.suspicion(known, shard, now, timing, strained=strained)
                    if why:
                        known.goes("suspect")
                        known.suspicion = why
                elif failure_detector.is_silent(known, now, timing, strained=strained):
                    effects += self._give_up_silent(shard, slot, known, now)
        return effects

    def _clear(self, shard: Shard, slot: Slot, known: Known, now: int) -> None:
        """A suspected life runs, where what it was suspected of is over."""
        if not failure_detector.has_recovered(known, now, self._fleet.timing):
            return
        if known.suspicion == SILENT and slot.successor is not None:
            self._fleet.budget.was_needless(shard.number, now)
        known.goes("recover")
        known.suspicion = ""
        known.mark_at = known.attached_at = now

    def _give_up_silent(self, shard: Shard, slot: Slot, known: Known, now: int) -> Effects:
        """Ends a life that nothing is lost with, as far as the budget goes."""
        fleet = self._fleet
        if not fleet.budget.may_replace(shard.number, now):
            return []
        fleet.budget.replaces(shard.number, now)
        effects = fleet.dismiss(known, "it is silent", now, by_force=True)
        fleet.silence(known.life)
        return effects + fleet.lose(slot, known, "it was silent", now)

    # -- mergers ------------------------------------------------------------------------------

    def _choose_mergers(self, shard: Shard, now: int) -> Effects:
        """Which mergers replicas are to send to, and to wait for."""
        timing = self._fleet.timing
        chosen = assignment.assignment(shard, now, timing, self._may_unassign)
        if (chosen.assigned, chosen.awaited) == (shard.assigned, shard.awaited):
            return []
        assignment.takes(shard, chosen, now, timing)
        effects: Effects = []
        for name in chosen.stuck:
            again_s = (shard.mergers[name].progress.again_at - now) / 1000
            effects.append(
                Alarm(
                    f"{name} is not waited for any more: it lives, and has made nothing durable "
                    f"for {timing.absent_ms / 1000:g} s while {', '.join(chosen.awaited)} "
                    f"went on. It is tried again in {again_s:g} s"
                )
            )
        lives = [known for slot in shard.replicas.values() for known in slot.lives()]
        return [*effects, *(self._fleet.assign(shard, known) for known in lives)]

    def _may_unassign(self, awaited: Collection[str], name: str) -> bool:
        return assignment.may_unassign(awaited, name)

    # -- replicas -----------------------------------------------------------------------------

    def _replace(self, shard: Shard, now: int) -> Effects:
        fleet = self._fleet
        effects: Effects = []
        for slot in shard.replicas.values():
            beside = slot.successor
            if beside is None:
                continue
            needed = replacement.is_needed(slot, fleet.desired)
            goes_on = slot.current is not None and fleet.goes_on(shard, slot.current)
            if goes_on and beside.plan != fleet.desired.plan_of(slot.index):
                effects += self.cancel(slot, beside, f"plan {beside.plan} is not wanted", now)
            elif (needed or not goes_on) and self._may_promote(shard, beside):
                effects += self._promote(shard, slot, now)
            elif goes_on and not needed:
                effects += self.cancel(slot, beside, "the life beside it goes on", now)
        if self._may_start_successor(shard):
            effects += self._start_successor(shard, now)
        return effects

    def _start_successor(self, shard: Shard, now: int) -> Effects:
        """Beside the first that waits for one, and that the budget does not hold."""
        fleet = self._fleet
        for slot in replacement.waiting(shard, fleet.desired, now):
            is_doubted = replacement.is_doubted(slot, fleet.desired)
            if is_doubted and not fleet.budget.may_replace(shard.number, now):
                continue
            plan = fleet.desired.plan_of(slot.index)
            started = self.start_replica(shard, slot, plan, INF, now)
            if started is None:
                return []
            slot.successor = started.known
            if is_doubted:
                fleet.budget.replaces(shard.number, now)
            return [started.effect]
        return []

    def _may_start_successor(self, shard: Shard) -> bool:
        """One at a time."""
        return not replacement.has_successor(shard)

    def _may_promote(self, shard: Shard, successor: Known) -> bool:
        """Only who can be relied on takes over."""
        return self._fleet.goes_on(shard, successor)

    def _promote(self, shard: Shard, slot: Slot, now: int) -> Effects:
        before = slot.succeed()
        self._fleet.budget.lost_lives += 1
        effects = self.fence_earlier(shard, slot)
        by_force = bool(before.suspicion)
        return effects + self._fleet.dismiss(
            before, "another has taken over", now, by_force=by_force
        )

    def cancel(self, slot: Slot, successor: Known, reason: str, now: int) -> Effects:
        """A successor is not wanted any more."""
        slot.successor = None
        slot.trials.failed(now, now - successor.began_at)
        return self._fleet.dismiss(successor, reason, now)

    def _shrink(self, shard: Shard, now: int) -> Effects:
        fleet = self._fleet
        slot = replacement.surplus(shard, fleet.desired)
        if slot is None or not self._may_remove(shard):
            return []
        effects: Effects = []
        for known in slot.lives():
            reason = f"{fleet.desired.replicas} replicas are enough"
            effects += fleet.dismiss(known, reason, now)
        fleet.remove_slot(shard, slot)
        return effects

    def _may_remove(self, shard: Shard) -> bool:
        """Whether all that remain carry the output. Until then the output may depend even on a slot
        whose life was reported dead: it may be a zombie.
        """
        desired = self._fleet.desired.replicas
        stays = [other for other in shard.replicas.values() if other.index < desired]
        lives = [other.current for other in stays if other.state != "failed"]
        return bool(lives) and all(
            known is not None and self._fleet.goes_on(shard, known) for known in lives
        )

    def _settle(self, shard: Shard) -> Effects:
        """A life that came into its slot after a death takes it over for good once it qualifies:
        the dead one may be a zombie, and all there is until then.
        """
        effects: Effects = []
        for slot in shard.replicas.values():
            known = slot.current
            if known is None or slot.fence == known.life or slot.successor is not None:
                continue
            if self._fleet.goes_on(shard, known):
                effects += self.fence_earlier(shard, slot)
        return effects

    def fence_earlier(self, shard: Shard, slot: Slot) -> Effects:
        """From now on no merger lets in a life of the slot before the current one."""
        if slot.current is None:
            raise Bug(f"{slot.name} is fenced, and has no life")
        return self._fleet.fence(shard, slot, slot.current.life)

    # -- starting -----------------------------------------------------------------------------

    def _fill(self, shard: Shard, now: int) -> Effects:
        effects: Effects = []
        for slot in shard.slots():
            if slot.current is not None or slot.state == "failed" or slot.successor is not None:
                continue
            if not slot.backoff.allows(now) or self._fleet.is_expected(slot, now):
                continue
            started = self._start(shard, slot, now)
            if started is not None:
                slot.fill(started.known)
                effects.append(started.effect)
        return effects

    def _start(self, shard: Shard, slot: Slot, now: int) -> Spawned | None:
        """The next life of an empty slot, if it is time for it."""
        fleet = self._fleet
        if slot.role == "m":
            peers = tuple(name for name in shard.mergers if name != slot.name)
            return fleet.spawn(slot, MergerStart(shard.number, peers, shard.fences()), now)
        if slot.index >= fleet.desired.replicas or not self._may_start(shard, slot, now):
            return None
        held_at = INF if fleet.cutover is None else fleet.cutover.old_held_at
        return self.start_replica(shard, slot, fleet.desired.plan_of(slot.index), held_at, now)

    def _may_start(self, shard: Shard, slot: Slot, now: int) -> bool:
        """A replica waits until the mergers have reported what is durable: else it would have to
        read all from the beginning. It does not wait for ever, as a merger may not come back.
        """
        return (
            self._fleet.term == FIRST_TERM
            or shard.durable() is not None
            or now - slot.wanted_at >= self._fleet.timing.start_ms
        )

    def start_replica(
        self, shard: Shard, slot: Slot, plan: str, held_at: int, now: int
    ) -> Spawned | None:
        """A life of a slot, if there is a node for it; the caller puts it into the slot."""
        join_at = self._fleet.join_at(shard)
        # a checkpoint may be one of the odd life itself: then it would be as odd
        stored = None
        if not slot.oddities.failures:
            stored = self._checkpoints.newest((shard.number, plan), join_at)
        start = ReplicaStart(
            shard.number,
            plan,
            shard.assigned,
            shard.version,
            origins(shard, plan, _leader(shard), join_at, stored),
            held_at,
            shard.awaited,
        )
        return self._fleet.spawn(slot, start, now)


def _leader(shard: Shard) -> Life | None:
    """The lives that are never asked for a snapshot: the output waits for them."""
    leader = shard.leader()
    return leader.life if leader is not None else None
