"""Tending: on each tick, by shard, what is done so that what runs comes closer to what is desired.

    watch     silent, behind, unattached: suspected; not up yet and silent: dead
    choose    the mergers that replicas send to
    replace   a successor beside who is suspected, or runs an old plan; it takes over, or goes
    shrink    slots beyond the desired number, the highest index first
    settle    a life that has taken over: its slot's earlier lives are fenced
    fill      empty slots, mergers first, as their back-off allows

All but the fill may lower what runs, so each has one method that says whether it may.
"""

from __future__ import annotations

from collections.abc import Collection

from gapless.failover.effects import Alarm, Send
from gapless.failover.life_start import MergerStart, ReplicaStart
from gapless.failover.messages import Fence, Life
from gapless.failover.replica.origins import origins
from gapless.failover.supervisor import assignment as assigning
from gapless.failover.supervisor import failure_detector as suspecting
from gapless.failover.supervisor import replacement as replacing
from gapless.failover.supervisor.checkpoint_policy import Checkpoints
from gapless.failover.supervisor.failure_detector import SILENT
from gapless.failover.supervisor.slots import Known, Shard, Slot
from gapless.failover.supervisor.status_tracker import Hearing
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug

FIRST_TERM = 1
"""Of a job. Nothing can run before it, and no merger has written anything."""


class Tending(Hearing):
    """A fleet that is kept as desired."""

    _checkpoints: Checkpoints

    def _tend(self, shard: Shard, now: int) -> None:
        self._watch(shard, now)
        self._choose_mergers(shard, now)
        if not self._is_cutting():
            self._replace(shard, now)
            self._shrink(shard, now)
        self._settle(shard)
        self._fill(shard, now)

    def _watch(self, shard: Shard, now: int) -> None:
        """Suspects running lives that are silent or lag, or clears them. One that does not run
        yet, or is no replica, is dead then: there is nothing to lose.
        """
        strained = self._is_strained(now)
        for slot in shard.slots():
            for known in slot.lives():
                if known.state == "suspected":
                    if suspecting.has_recovered(known, now, self.timing):
                        if known.suspicion == SILENT and slot.successor is not None:
                            self._was_needless(shard.number, now)
                        known.goes("recover")
                        known.suspicion = ""
                        known.mark_at = known.attached_at = now
                elif known.is_live and slot.role == "r" and known is slot.current:
                    why = suspecting.suspicion(known, shard, now, self.timing, strained=strained)
                    if why:
                        known.goes("suspect")
                        known.suspicion = why
                elif suspecting.is_silent(
                    known, now, self.timing, strained=strained
                ) and self._may_replace(shard, now):
                    self._replaces(shard, now)
                    self._dismiss(known, "it is silent", now, by_force=True)
                    self._silence(known.life)
                    self._lost(slot, known, "it was silent", now)

    # -- mergers ------------------------------------------------------------------------------

    def _choose_mergers(self, shard: Shard, now: int) -> None:
        chosen = self._chosen(shard, now)
        if (chosen.assigned, chosen.awaited) == (shard.assigned, shard.awaited):
            return
        assigning.takes(shard, chosen, now, self.timing)
        for name in chosen.stuck:
            again_s = (shard.mergers[name].standing.again_at - now) / 1000
            self._effects.append(
                Alarm(
                    f"{name} is not waited for any more: it lives, and has made nothing durable "
                    f"for {self.timing.absent_ms / 1000:g} s while {', '.join(chosen.awaited)} "
                    f"went on. It is tried again in {again_s:g} s"
                )
            )
        for slot in shard.replicas.values():
            for known in slot.lives():
                self._assign(shard, known)

    def _chosen(self, shard: Shard, now: int) -> assigning.Assignment:
        """Which mergers replicas are to send to, and to wait for."""
        return assigning.assignment(shard, now, self.timing, self._may_unassign)

    def _may_unassign(self, awaited: Collection[str], name: str) -> bool:
        return assigning.may_unassign(awaited, name)

    # -- replicas -----------------------------------------------------------------------------

    def _replace(self, shard: Shard, now: int) -> None:
        for slot in shard.replicas.values():
            beside = slot.successor
            if beside is None:
                continue
            needed = replacing.is_needed(slot, self.desired)
            goes_on = slot.current is not None and self._goes_on(shard, slot.current)
            if goes_on and beside.plan != self.desired.plan_of(slot.index):
                self._cancel(slot, beside, f"plan {beside.plan} is not wanted", now)
            elif (needed or not goes_on) and self._may_promote(shard, beside):
                self._promote(shard, slot, now)
            elif goes_on and not needed:
                self._cancel(slot, beside, "the life beside it goes on", now)
        if self._may_start_successor(shard):
            self._start_successor(shard, now)

    def _start_successor(self, shard: Shard, now: int) -> None:
        """Beside the first that waits for one, and that the ration does not hold."""
        for slot in replacing.waiting(shard, self.desired, now):
            is_doubted = replacing.is_doubted(slot, self.desired)
            if is_doubted and not self._may_replace(shard, now):
                continue
            plan = self.desired.plan_of(slot.index)
            slot.successor = self._start_replica(shard, slot, plan, INF, now)
            if slot.successor is not None and is_doubted:
                self._replaces(shard, now)
            return

    def _may_start_successor(self, shard: Shard) -> bool:
        """One at a time."""
        return not replacing.has_successor(shard)

    def _may_promote(self, shard: Shard, successor: Known) -> bool:
        """Only who can be relied on takes over."""
        return self._goes_on(shard, successor)

    def _promote(self, shard: Shard, slot: Slot, now: int) -> None:
        before = slot.succeed()
        self._lost_lives += 1
        self._fence(shard, slot)
        self._dismiss(before, "another has taken over", now, by_force=bool(before.suspicion))

    def _cancel(self, slot: Slot, successor: Known, reason: str, now: int) -> None:
        slot.successor = None
        slot.trials.failed(now, now - successor.began_at)
        self._dismiss(successor, reason, now)

    def _shrink(self, shard: Shard, now: int) -> None:
        slot = replacing.surplus(shard, self.desired)
        if slot is None or not self._may_remove(shard):
            return
        for known in slot.lives():
            self._dismiss(known, f"{self.desired.replicas} replicas are enough", now)
        self._remove_slot(shard, slot)

    def _may_remove(self, shard: Shard) -> bool:
        """Whether all that stays goes on. Until then even a slot whose life is said to be dead may
        be what the output lives on: it is a zombie, perhaps.
        """
        stays = [other for other in shard.replicas.values() if other.index < self.desired.replicas]
        lives = [other.current for other in stays if other.state != "failed"]
        return bool(lives) and all(
            known is not None and self._goes_on(shard, known) for known in lives
        )

    def _settle(self, shard: Shard) -> None:
        """A life that came into its slot after a death takes it over for good once it qualifies:
        the dead one may be a zombie, and all there is until then.
        """
        for slot in shard.replicas.values():
            known = slot.current
            if known is None or slot.fence == known.life or slot.successor is not None:
                continue
            if self._goes_on(shard, known):
                self._fence(shard, slot)

    def _fence(self, shard: Shard, slot: Slot) -> None:
        """From now on no merger lets in a life of the slot before the current one."""
        if slot.current is None:
            raise Bug(f"{slot.name} is fenced, and has no life")
        slot.fence = slot.current.life
        for merger in shard.live_mergers():
            self._effects.append(Send(str(merger.life), Fence(self.term, slot.fence)))

    # -- starting -----------------------------------------------------------------------------

    def _fill(self, shard: Shard, now: int) -> None:
        for slot in shard.slots():
            if slot.current is not None or slot.state == "failed" or slot.successor is not None:
                continue
            if not slot.backoff.allows(now) or self._is_expected(slot, now):
                continue
            known: Known | None = None
            if slot.role == "m":
                peers = tuple(name for name in shard.mergers if name != slot.name)
                known = self._spawn(slot, MergerStart(shard.number, peers, shard.fences()), now)
            elif slot.index < self.desired.replicas and self._may_start(shard, slot, now):
                held_at = INF if self.cutover is None else self.cutover.old_held_at
                plan = self.desired.plan_of(slot.index)
                known = self._start_replica(shard, slot, plan, held_at, now)
            if known is not None:
                slot.fill(known)

    def _may_start(self, shard: Shard, slot: Slot, now: int) -> bool:
        """A replica waits until the mergers have said what is durable: else it would have to read
        all from the beginning. But not for ever, as a merger may not come back.
        """
        return (
            self.term == FIRST_TERM
            or shard.durable() is not None
            or now - slot.wanted_at >= self.timing.start_ms
        )

    def _start_replica(
        self, shard: Shard, slot: Slot, plan: str, held_at: int, now: int
    ) -> Known | None:
        join_at = self._join_at(shard)
        # a checkpoint may be one of the odd life itself: then it would be as odd
        stored = None
        if not slot.oddities.failures:
            stored = self._checkpoints.newest((shard.number, plan), join_at)
        start = ReplicaStart(
            shard.number,
            plan,
            shard.assigned,
            shard.version,
            origins(shard, plan, self._leader(shard), join_at, stored),
            held_at,
            shard.awaited,
        )
        return self._spawn(slot, start, now)

    def _join_at(self, shard: Shard) -> int:
        """Where the durable output of the slowest merger ends."""
        durable = shard.durable()
        return BEGIN if durable is None else durable

    def _leader(self, shard: Shard) -> Life | None:
        """Who is never asked for a snapshot: the output waits for it."""
        leader = shard.leader()
        return leader.life if leader is not None else None
