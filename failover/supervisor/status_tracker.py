"""Hearing: what the supervisor makes of the news. It notes, and answers what must not wait.

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

from collections.abc import Sequence

from gapless.failover.backoff import FAILURES_MAX
from gapless.failover.effects import Alarm, Died, Send
from gapless.failover.job.desired import Desired
from gapless.failover.job.settings import OnDivergence
from gapless.failover.life_start import LivePeer, shown_origin
from gapless.failover.messages import (
    Assign,
    Fence,
    Hold,
    Life,
    MergerStatus,
    ReplicaStatus,
    SnapshotReply,
)
from gapless.failover.supervisor import adoption as adopting
from gapless.failover.supervisor import assignment as assigning
from gapless.failover.supervisor import divergence as diverging
from gapless.failover.supervisor import failure_detector as suspecting
from gapless.failover.supervisor import replacement as replacing
from gapless.failover.supervisor.cutover import Cutover
from gapless.failover.supervisor.divergence import DIVERGES
from gapless.failover.supervisor.fleet import Fleet
from gapless.failover.supervisor.shutdown import ENDING
from gapless.failover.supervisor.slots import Known, Shard, Slot
from gapless.failover.timing import Timing
from gapless.protocol.elements import INF


class Hearing(Fleet):
    """A fleet that is heard of."""

    def __init__(
        self,
        term: int,
        desired: Desired,
        nodes: Sequence[str],
        timing: Timing,
        on_divergence: OnDivergence = "report",
    ) -> None:
        super().__init__(term, desired, nodes, timing)
        self.cutover: Cutover | None = None
        self.ending = ENDING.first
        self.on_divergence = on_divergence
        self._must_end = ""  # why, where what was heard says so

    # -- statuses -----------------------------------------------------------------------------

    def _on_status(self, status: ReplicaStatus | MergerStatus, now: int) -> None:
        self._expected.pop(status.life.slot, None)
        slot = self.slots.get(status.life.slot)
        if slot is None or slot.find(status.life) is None:
            self._on_stranger(slot, status, now)
            slot = self.slots.get(status.life.slot)
        known = slot.find(status.life) if slot is not None else None
        if slot is None or known is None:
            return
        suspecting.heard(known, status.busy, now)
        slot.heard_at = now
        if isinstance(status, ReplicaStatus):
            self._on_replica(slot, known, status, now)
        else:
            self._on_merger(slot, known, status, now)

    def _on_replica(self, slot: Slot, known: Known, status: ReplicaStatus, now: int) -> None:
        shard = self.shards[slot.shard]
        if known.replica is not None and status.stable < known.replica.stable:
            return
        if status.waits_for and (known.replica is None or not known.replica.waits_for):
            self._effects.append(Alarm(f"{known.life} reads no more: {status.waits_for}"))
        known.replica = status
        known.plan = status.plan
        if known.state == "starting":
            known.goes("report")
        if known.state == "joining" and not status.is_joining:
            known.goes("join")
            known.mark_at = known.attached_at = now
            known.origins = ()
            if known.suspicion:  # a merger was faster to say that it is the odd one
                known.goes("suspect")
        if status.is_joining:
            self._tell_of_the_dead(known, status)
        suspecting.progress(known, status, shard, now)
        if status.assigned < shard.version:
            self._assign(shard, known)
        if status.held_at != INF and self._may_lift(slot, known):
            self._effects.append(Send(str(known.life), Hold(self.term, INF, now)))

    def _tell_of_the_dead(self, known: Known, status: ReplicaStatus) -> None:
        """A peer that it asks for a snapshot, and that is over or silent, will not answer: it is
        answered in its place, so that the next origin is tried at once.
        """
        for origin in known.origins:
            if isinstance(origin, LivePeer) and status.origin == shown_origin(origin):
                peer = self._find(origin.life)
                if peer is None or not peer.is_live:
                    answer = SnapshotReply(origin.life, None, "it is over, or silent")
                    self._effects.append(Send(str(known.life), answer))

    def _may_lift(self, slot: Slot, known: Known) -> bool:
        """Whether a hold is left over from a cutover that is over. A life whose plan is not
        desired stays held: it might promise the other answer.
        """
        return (
            self.cutover is None
            and known is slot.current
            and known.plan == self.desired.plan_of(slot.index)
        )

    def _on_merger(self, slot: Slot, known: Known, status: MergerStatus, now: int) -> None:
        shard = self.shards[slot.shard]
        before = known.merger
        if before is not None:
            if status.stable < before.stable or status.durable_stable < before.durable_stable:
                return
            if status.detached > before.detached:
                what = f"{known.life} has let go of {status.detached} inputs by now"
                self._effects.append(Alarm(f"{what}: what they said cannot be"))
        known.merger = status
        if known.state == "starting":
            known.goes("report")
            known.goes("join")
            assigning.begins(slot, now)
        assigning.moved(shard, slot, status.durable_stable, now)
        known.acting = frozenset(input.life for input in status.inputs if input.qualifies)
        suspecting.output_progress(known, before, status, now)
        for input in status.inputs:
            replica = self._find(input.life)
            if replica is not None:
                replica.attached_at = now
                if replica.qualified_ms < 0 and self._qualifies(shard, input.life):
                    replica.qualified_ms = now - replica.began_at
        fenced = {life.slot: life for life in status.fences}
        for fence in shard.fences():
            obeyed = fenced.get(fence.slot)
            if obeyed is None or obeyed < fence:
                self._effects.append(Send(str(known.life), Fence(self.term, fence)))
        verdict = diverging.judge(self.on_divergence, before, status)
        if verdict is not None:
            self._follow(verdict, now)

    # -- divergence ---------------------------------------------------------------------------

    def _follow(self, verdict: diverging.Verdict, now: int) -> None:
        """Says that replicas differ, and does what is to be done about it."""
        self._effects.append(Alarm(verdict.alarm))
        if verdict.is_end:
            self._must_end = verdict.alarm
        slot = None if verdict.odd is None else self.slots.get(verdict.odd.slot)
        known = None if slot is None or verdict.odd is None else slot.find(verdict.odd)
        if slot is not None and known is not None and not self._is_cutting():
            self._is_odd(slot, known, now)

    def _is_odd(self, slot: Slot, known: Known, now: int) -> None:
        """A life is alone against a majority. Another merger may say so, too."""
        if known.suspicion == DIVERGES:
            return
        ran_ms = now - known.began_at
        slot.oddities.failed(now, ran_ms if ran_ms >= diverging.FORGIVEN_MS else 0)
        if slot.oddities.failures >= FAILURES_MAX and self._may_give_up_odd(slot):
            self._give_up_odd(slot, now)
        elif known is slot.successor:
            self._dismiss(known, DIVERGES, now, by_force=True)
            self._lost(slot, known, DIVERGES, now)
        else:
            if known.state == "running":
                known.goes("suspect")
            known.suspicion = DIVERGES

    def _may_give_up_odd(self, slot: Slot) -> bool:
        """Only while another one can carry the output."""
        shard = self.shards[slot.shard]
        return self._may_give_up(slot) and any(
            other.current is not None and self._goes_on(shard, other.current)
            for other in shard.replicas.values()
            if other is not slot
        )

    def _give_up_odd(self, slot: Slot, now: int) -> None:
        """Each life of the slot was the odd one: it is what it runs."""
        reason = f"it {DIVERGES}: {slot.oddities.failures} consecutive lives were the odd one"
        for known in list(slot.lives()):
            self._dismiss(known, reason, now, by_force=True)
        slot.successor = None
        if slot.current is not None:
            slot.empty(reason, now)
        slot.give_up(reason)
        slot.fence = Life(slot.name, self._next_incarnation())
        for merger in self.shards[slot.shard].live_mergers():
            self._effects.append(Send(str(merger.life), Fence(self.term, slot.fence)))
        what = f"{slot.name} is given up, for {reason}"
        self._effects.append(Alarm(f"{what}. Scale or switch the job to have it tried again"))

    def _find(self, life: Life) -> Known | None:
        slot = self.slots.get(life.slot)
        return slot.find(life) if slot is not None else None

    def _assign(self, shard: Shard, known: Known) -> None:
        order = Assign(self.term, shard.version, shard.assigned, shard.awaited)
        self._effects.append(Send(str(known.life), order))

    def _qualifies(self, shard: Shard, life: Life) -> bool:
        """Whether this replica can carry the output, at every awaited merger that lives."""
        return replacing.qualifies(life, shard.awaited_mergers())

    def _goes_on(self, shard: Shard, known: Known) -> bool:
        """Whether a life can be relied on: it says so itself, lately, and so do the mergers."""
        return known.is_live and self._qualifies(shard, known.life)

    # -- strangers ----------------------------------------------------------------------------

    def _on_stranger(
        self, slot: Slot | None, status: ReplicaStatus | MergerStatus, now: int
    ) -> None:
        """A life that is in no slot: of a supervisor before this one, or over."""
        life = status.life
        if life in self._silenced and slot is not None:
            self._silenced.discard(life)
            self._was_needless(slot.shard, now)
        if self.ending == "stopping":
            if life not in self._leaving and self._over.get(life, now) <= now:
                self._retire(life, "the job is stopped", now)
        elif self._is_over(life):
            self._tell_again(slot, life, now)
        else:
            self._adopt(life, status.plan if isinstance(status, ReplicaStatus) else "", now)

    def _is_over(self, life: Life) -> bool:
        """Whether it is one that has ended, or was asked to: what this term has started, and is in
        no slot, is.
        """
        return life in self._over or life in self._leaving or life.incarnation.term == self.term

    def _tell_again(self, slot: Slot | None, life: Life, now: int) -> None:
        """Answers a life that should not be there any more, once it is not needed."""
        if life in self._leaving or self._over.get(life, now) > now:
            return
        if slot is None or slot.role == "m" or self._is_out(slot, life):
            self._retire(life, "another life has its slot", now, by_force=True)

    def _is_out(self, slot: Slot, life: Life) -> bool:
        """Whether a life of a replica is fenced, or was given up while the current one goes on."""
        if slot.fence is not None and life < slot.fence:
            return True
        return slot.current is not None and self._goes_on(self.shards[slot.shard], slot.current)

    def _adopt(self, life: Life, plan: str, now: int) -> None:
        slot = self._slot_of(life, now)
        if slot is None:
            self._retire(life, "the job has no such slot", now)
            return
        known = Known(life, plan, now)
        current = slot.current
        qualifies = current is not None and self._goes_on(self.shards[slot.shard], current)
        part = adopting.part(slot, life, self.term, qualifies)
        if part == "current":
            slot.fill(known)
        elif part == "successor":
            slot.successor = known
            if slot.role == "m":
                self._dismiss(slot.succeed(), "a later life has its slot", now, by_force=True)
        elif part == "before":
            slot.current, slot.successor = known, current
        elif part == "none":
            self._retire(life, "another life has its slot", now)

    def _slot_of(self, life: Life, now: int) -> Slot | None:
        """Its slot. One beyond the desired number of replicas is made, and emptied in due course,
        for it may be all that runs; but not for one that was asked to go when it was removed.
        """
        slot = self.slots.get(life.slot)
        name = adopting.named(life.slot)
        if slot is not None or name is None or name.role == "m" or name.shard >= len(self.shards):
            return slot
        shard = self.shards[name.shard]
        if life.slot in shard.floors and life < shard.floors[life.slot]:
            return None
        return self._add_slot("r", shard, name.number, now)

    # -- what dies ----------------------------------------------------------------------------

    def _on_died(self, event: Died, now: int) -> None:
        self._leaving.pop(event.life, None)
        self._silenced.discard(event.life)
        if self._expected.get(event.life.slot) == event.life:
            del self._expected[event.life.slot]
        self._forget(event.life, now)
        slot = self.slots.get(event.life.slot)
        known = slot.find(event.life) if slot is not None else None
        if slot is not None and known is not None:
            known.goes("die")
            self._lost(slot, known, event.reason, now)

    def _on_nodes(self, names: tuple[str, ...], now: int) -> None:
        self.nodes = names
        lost = [
            known.life
            for slot in self.slots.values()
            for known in slot.lives()
            if known.node and known.node not in names
        ]
        for life in lost:
            self._on_died(Died(life, "its node is lost"), now)

    def _lost(self, slot: Slot, known: Known, reason: str, now: int) -> None:
        """A life is over that was needed."""
        self._lost_lives += 1
        ran_ms, stood_ms = now - known.began_at, known.stood_ms(now)
        if known is slot.successor:
            slot.successor = None
            slot.trials.failed(now, ran_ms, known.reached, stood_ms=stood_ms)
            if slot.trials.failures == FAILURES_MAX:
                what = f"{slot.name} keeps its life, as {FAILURES_MAX} others beside it failed"
                self._effects.append(Alarm(f"{what}: {reason}"))
            return
        slot.empty(reason, now)
        slot.backoff.failed(now, ran_ms, known.reached, stood_ms=stood_ms)
        if slot.successor is not None and not self._is_cutting():
            slot.take_over()
        elif slot.backoff.is_spent and self._may_give_up(slot):
            slot.give_up(reason)
            what = f"{slot.name} failed {slot.backoff.failures} consecutive times: {reason}"
            self._effects.append(Alarm(f"{what}. Scale or switch the job to have it tried again"))

    def _may_give_up(self, slot: Slot) -> bool:
        """Never the last of its shard."""
        shard = self.shards[slot.shard]
        alike = shard.mergers if slot.role == "m" else shard.replicas
        return any(other is not slot and other.state != "failed" for other in alike.values())

    def _is_cutting(self) -> bool:
        """Whether a cutover is under way: then each slot's successor belongs to it."""
        return self.cutover is not None and not self.cutover.is_committed
