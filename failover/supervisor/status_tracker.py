"""The status tracker: what a supervisor makes of the news. It notes, and answers what cannot wait.

    ReplicaStatus   its life's state, progress       an old assignment --> Assign again
                                                     a hold left over  --> Hold(INF)
    MergerStatus    its inputs: who qualifies        a fence it lacks  --> Fence again
                    replicas differ  --> an alarm, and what divergence.py says
    from a stranger                                  adopt it, or ask it to go
    Died, Nodes     its slot is empty; back-off

Orders get lost, so each is given again until a status shows that it is obeyed. Statuses overtake
each other: one that is behind what is known counts as a heartbeat, and no more.
"""

from __future__ import annotations

from gapless.failover.backoff import FAILURES_MAX
from gapless.failover.effects import Alarm, Send
from gapless.failover.job.settings import OnDivergence
from gapless.failover.life_start import LivePeer, shown_origin
from gapless.failover.messages import Fence, Hold, Life, SnapshotReply
from gapless.failover.statuses import MergerStatus, ReplicaStatus
from gapless.failover.supervisor import adoption, assignment, divergence, failure_detector
from gapless.failover.supervisor.divergence import DIVERGES
from gapless.failover.supervisor.effects import Died, SupervisorEffect
from gapless.failover.supervisor.fleet import Fleet
from gapless.failover.supervisor.slots import Known, Shard, Slot
from gapless.protocol.elements import INF

Effects = list[SupervisorEffect]


class StatusTracker:
    """Keeps what is known of a fleet up to date with the statuses that arrive."""

    def __init__(self, fleet: Fleet, on_divergence: OnDivergence) -> None:
        self._fleet = fleet
        self._on_divergence = on_divergence
        self.must_end = ""
        """Why the job has to be stopped; empty where no status requires it."""

    # -- statuses -----------------------------------------------------------------------------

    def on_status(self, status: ReplicaStatus | MergerStatus, now: int) -> Effects:
        """A life has sent its status."""
        fleet, life = self._fleet, status.life
        fleet.has_spoken(life)
        effects: Effects = []
        slot = fleet.slots.get(life.slot)
        if slot is None or slot.find(life) is None:
            effects += self._on_stranger(slot, status, now)
            slot = fleet.slots.get(life.slot)
        known = slot.find(life) if slot is not None else None
        if slot is None or known is None:
            return effects
        failure_detector.heard(known, status.busy, now)
        slot.heard_at = now
        if isinstance(status, ReplicaStatus):
            return effects + self._on_replica(slot, known, status, now)
        return effects + self._on_merger(slot, known, status, now)

    def _on_replica(self, slot: Slot, known: Known, status: ReplicaStatus, now: int) -> Effects:
        fleet = self._fleet
        shard = fleet.shards[slot.shard]
        if known.replica is not None and status.stable < known.replica.stable:
            return []
        effects: Effects = []
        if status.waits_for and (known.replica is None or not known.replica.waits_for):
            effects.append(Alarm(f"{known.life} reads no more: {status.waits_for}"))
        known.replica = status
        known.plan = status.plan
        if known.state == "starting":
            known.goes("report")
        if known.state == "joining" and not status.is_joining:
            known.goes("join")
            known.mark_at = known.attached_at = now
            known.origins = ()
            if known.suspicion:  # a merger has already reported it as the odd one
                known.goes("suspect")
        if status.is_joining:
            effects += self._answers_for_the_dead(known, status)
        failure_detector.progress(known, status, shard, now)
        if status.assigned < shard.version:
            effects.append(fleet.assign(shard, known))
        if status.held_at != INF and self._may_lift(slot, known):
            effects.append(Send(str(known.life), Hold(fleet.term, INF, now)))
        return effects

    def _answers_for_the_dead(self, known: Known, status: ReplicaStatus) -> Effects:
        """A peer that it asks for a snapshot, and that is over or silent, will not answer: it is
        answered in its place, so that the next origin is tried at once.
        """
        effects: Effects = []
        for origin in known.origins:
            if isinstance(origin, LivePeer) and status.origin == shown_origin(origin):
                peer = self._fleet.find(origin.life)
                if peer is None or not peer.is_live:
                    answer = SnapshotReply(origin.life, None, "it is over, or silent")
                    effects.append(Send(str(known.life), answer))
        return effects

    def _may_lift(self, slot: Slot, known: Known) -> bool:
        """Whether a hold is left over from a cutover that is over. A life whose plan is not
        desired stays held: it might promise the other answer.
        """
        return (
            self._fleet.cutover is None
            and known is slot.current
            and known.plan == self._fleet.desired.plan_of(slot.index)
        )

    def _on_merger(self, slot: Slot, known: Known, status: MergerStatus, now: int) -> Effects:
        shard = self._fleet.shards[slot.shard]
        before = known.merger
        effects: Effects = []
        if before is not None:
            if status.stable < before.stable or status.durable_stable < before.durable_stable:
                return []
            if status.detached > before.detached:
                what = f"{known.life} has let go of {status.detached} inputs by now"
                effects.append(Alarm(f"{what}: what they said cannot be"))
        known.merger = status
        if known.state == "starting":
            known.goes("report")
            known.goes("join")
            assignment.begins(slot, now)
        assignment.moved(shard, slot, status.durable_stable, now)
        known.acting = frozenset(input.life for input in status.inputs if input.qualifies)
        failure_detector.output_progress(known, before, status, now)
        for input in status.inputs:
            replica = self._fleet.find(input.life)
            if replica is not None:
                replica.attached_at = now
                if replica.qualified_ms < 0 and self._fleet.qualifies(shard, input.life):
                    replica.qualified_ms = now - replica.began_at
        effects += self._fences_again(shard, known, status)
        verdict = divergence.judge(self._on_divergence, before, status)
        return effects if verdict is None else effects + self._follow(verdict, now)

    def _fences_again(self, shard: Shard, known: Known, status: MergerStatus) -> Effects:
        """Tells a merger whom it does not fence yet."""
        fenced = {life.slot: life for life in status.fences}
        lacking = [
            fence
            for fence in shard.fences()
            if fence.slot not in fenced or fenced[fence.slot] < fence
        ]
        return [Send(str(known.life), Fence(self._fleet.term, fence)) for fence in lacking]

    # -- divergence ---------------------------------------------------------------------------

    def _follow(self, verdict: divergence.Consequence, now: int) -> Effects:
        """Says that replicas differ, and does what is to be done about it."""
        effects: Effects = [Alarm(verdict.alarm)]
        if verdict.is_end:
            self.must_end = verdict.alarm
        slot = None if verdict.odd is None else self._fleet.slots.get(verdict.odd.slot)
        known = None if slot is None or verdict.odd is None else slot.find(verdict.odd)
        if slot is not None and known is not None and not self._fleet.is_cutting:
            effects += self._is_odd(slot, known, now)
        return effects

    def _is_odd(self, slot: Slot, known: Known, now: int) -> Effects:
        """A life is alone against a majority. Another merger may report that, too."""
        if known.suspicion == DIVERGES:
            return []
        ran_ms = now - known.began_at
        slot.oddities.failed(now, ran_ms if ran_ms >= divergence.FORGIVEN_MS else 0)
        if slot.oddities.failures >= FAILURES_MAX and self._may_give_up_odd(slot):
            return self._give_up_odd(slot, now)
        if known is slot.successor:
            gone = self._fleet.dismiss(known, DIVERGES, now, by_force=True)
            return gone + self._fleet.lose(slot, known, DIVERGES, now)
        if known.state == "running":
            known.goes("suspect")
        known.suspicion = DIVERGES
        return []

    def _may_give_up_odd(self, slot: Slot) -> bool:
        """Only while another one can carry the output."""
        shard = self._fleet.shards[slot.shard]
        return self._fleet.may_give_up(slot) and any(
            other.current is not None and self._fleet.goes_on(shard, other.current)
            for other in shard.replicas.values()
            if other is not slot
        )

    def _give_up_odd(self, slot: Slot, now: int) -> Effects:
        """Each life of the slot was the odd one: it is what it runs."""
        fleet = self._fleet
        reason = f"it {DIVERGES}: {slot.oddities.failures} consecutive lives were the odd one"
        effects: Effects = []
        for known in list(slot.lives()):
            effects += fleet.dismiss(known, reason, now, by_force=True)
        slot.successor = None
        if slot.current is not None:
            slot.empty(reason, now)
        slot.give_up(reason)
        fence = Life(slot.name, fleet.next_incarnation())
        effects += fleet.fence(fleet.shards[slot.shard], slot, fence)
        what = f"{slot.name} is given up, for {reason}"
        return [*effects, Alarm(f"{what}. Scale or switch the job to have it tried again")]

    # -- strangers ----------------------------------------------------------------------------

    def _on_stranger(
        self, slot: Slot | None, status: ReplicaStatus | MergerStatus, now: int
    ) -> Effects:
        """A life that is in no slot: of a supervisor before this one, or over."""
        fleet, life = self._fleet, status.life
        if slot is not None and fleet.was_silenced(life):
            fleet.budget.was_needless(slot.shard, now)
        if fleet.ending == "stopping":
            if not fleet.may_be_told(life, now):
                return []
            return fleet.retire(life, "the job is stopped", now)
        if fleet.is_over(life):
            return self._tell_again(slot, life, now)
        return self._adopt(life, status.plan if isinstance(status, ReplicaStatus) else "", now)

    def _tell_again(self, slot: Slot | None, life: Life, now: int) -> Effects:
        """Answers a life that should not be there any more, once it is not needed."""
        if not self._fleet.may_be_told(life, now):
            return []
        if slot is None or slot.role == "m" or self._is_out(slot, life):
            return self._fleet.retire(life, "another life has its slot", now, by_force=True)
        return []

    def _is_out(self, slot: Slot, life: Life) -> bool:
        """Whether a life of a replica is fenced, or was given up while the current one goes on."""
        if slot.fence is not None and life < slot.fence:
            return True
        shard = self._fleet.shards[slot.shard]
        return slot.current is not None and self._fleet.goes_on(shard, slot.current)

    def _adopt(self, life: Life, plan: str, now: int) -> Effects:
        fleet = self._fleet
        slot = self._slot_of(life, now)
        if slot is None:
            return fleet.retire(life, "the job has no such slot", now)
        known = Known(life, plan, now)
        current = slot.current
        qualifies = current is not None and fleet.goes_on(fleet.shards[slot.shard], current)
        part = adoption.part(slot, life, fleet.term, qualifies)
        if part == "current":
            slot.fill(known)
        elif part == "successor":
            slot.successor = known
            if slot.role == "m":
                before = slot.succeed()
                return fleet.dismiss(before, "a later life has its slot", now, by_force=True)
        elif part == "before":
            slot.current, slot.successor = known, current
        elif part == "none":
            return fleet.retire(life, "another life has its slot", now)
        return []

    def _slot_of(self, life: Life, now: int) -> Slot | None:
        """Its slot. One beyond the desired number of replicas is made, and emptied in due course,
        for it may be all that runs; but not for one that was asked to go when it was removed.
        """
        shards = self._fleet.shards
        slot = self._fleet.slots.get(life.slot)
        name = adoption.named(life.slot)
        if slot is not None or name is None or name.role == "m" or name.shard >= len(shards):
            return slot
        shard = shards[name.shard]
        if life.slot in shard.floors and life < shard.floors[life.slot]:
            return None
        return self._fleet.add_slot("r", shard, name.number, now)

    # -- what dies ----------------------------------------------------------------------------

    def on_died(self, event: Died, now: int) -> Effects:
        """The shell reports that a life is over."""
        self._fleet.has_died(event.life, now)
        slot = self._fleet.slots.get(event.life.slot)
        known = slot.find(event.life) if slot is not None else None
        if slot is None or known is None:
            return []
        known.goes("die")
        return self._fleet.lose(slot, known, event.reason, now)

    def on_nodes(self, names: tuple[str, ...], now: int) -> Effects:
        """These nodes can be used: what ran on others is lost."""
        self._fleet.nodes = names
        lost = [
            known.life
            for slot in self._fleet.slots.values()
            for known in slot.lives()
            if known.node and known.node not in names
        ]
        effects: Effects = []
        for life in lost:
            effects += self.on_died(Died(life, "its node is lost"), now)
        return effects
