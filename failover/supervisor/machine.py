"""The supervisor reconciles what runs with what is desired, and never gives up redundancy early.

    what is heard    status_tracker.py   what is done, on each tick           reconciler.py
    ReplicaStatus, MergerStatus          what is silent or lags is suspected  failure_detector.py
    Died, Nodes             | slots      a suspected one is replaced          replacement.py
    Command                 | desired    an empty slot is filled, somewhere   fleet.py, placement.py
    CheckpointTaken                      checkpoints                          checkpoint_orders.py
                                         a cutover                            cutover.py
                                         the end of the job                   shutdown.py

It holds a fleet, which its parts share: a status tracker, a reconciler, checkpoint orders.

It is one of several lives of the job's root, told apart by their *term*. A new one listens first
(adoption.py), for all that ran before it still does. One that hears of a later term exits.

It is no part of the output's path: while it is away replicas and mergers go on. Nothing that it
believes can make the output wrong, for lives in one slot are told apart by fences, writers of one
journal by its epochs. What it owes is redundancy:

- a replica that qualifies is asked to go only when another one does in its place, or when a person
  wants fewer; wrongly suspected lives stay;
- the last merger is never unassigned, the last slot of a shard never given up;
- no incarnation is given twice, and no slot is filled more often than its back-off allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

from gapless.failover.effects import Exit, Send, Start, Tick
from gapless.failover.job.desired import Desired, Stop, Switch
from gapless.failover.job.settings import OnDivergence
from gapless.failover.job.state import JobState, shown
from gapless.failover.machines import unhandled
from gapless.failover.messages import SUPERVISOR, Life, Retire
from gapless.failover.statuses import CheckpointTaken, MergerStatus, ReplicaStatus
from gapless.failover.supervisor import failure_detector
from gapless.failover.supervisor.checkpoint_orders import CheckpointOrders
from gapless.failover.supervisor.checkpoint_policy import CheckpointInfo, Checkpoints
from gapless.failover.supervisor.cutover import Cutover, ShardView
from gapless.failover.supervisor.cutover_view import shard_view
from gapless.failover.supervisor.effects import (
    Command,
    Desire,
    Died,
    Nodes,
    SupervisorEffect,
    SupervisorEvent,
)
from gapless.failover.supervisor.fleet import Fleet
from gapless.failover.supervisor.reconciler import FIRST_TERM, Reconciler
from gapless.failover.supervisor.shutdown import ENDING, drain_orders, has_closed
from gapless.failover.supervisor.slots import Slot
from gapless.failover.supervisor.status_tracker import StatusTracker
from gapless.failover.timing import Timing
from gapless.protocol.elements import BEGIN
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import Misuse

Effects = list[SupervisorEffect]


class Supervisor:
    """One life of a job's root. Pure: the shell carries out the effects."""

    FLEET: ClassVar[type[Fleet]] = Fleet
    TRACKER: ClassVar[type[StatusTracker]] = StatusTracker
    RECONCILER: ClassVar[type[Reconciler]] = Reconciler

    def __init__(
        self,
        term: int,
        desired: Desired,
        checkpoints: Iterable[CheckpointInfo] = (),
        nodes: Sequence[str] = (),
        timing: Timing | None = None,
        *,
        on_divergence: OnDivergence = "report",
    ) -> None:
        """`term` is larger than that of every supervisor before it, `checkpoints` are those that
        the job's directory holds, the oldest first. `on_divergence` is one of the job's settings.
        """
        self.term = term
        self.life = Life(SUPERVISOR, Incarnation(term, 0))
        self._timing = timing = timing or Timing()
        self._fleet = self.FLEET(term, desired, nodes, timing)
        self._tracker = self.TRACKER(self._fleet, on_divergence)
        self._checkpoints = Checkpoints(term, checkpoints, timing.checkpoint_ms)
        self._orders = CheckpointOrders(self._fleet, self._checkpoints)
        self._reconciler = self.RECONCILER(self._fleet, self._checkpoints)
        self._adopts_until = 0
        self._ticked_at = 0
        self.ended_because = ""
        """Why the job ends, or has ended; empty while it runs."""

    @property
    def desired(self) -> Desired:
        """What is desired."""
        return self._fleet.desired

    @property
    def slots(self) -> dict[str, Slot]:
        """Every place in the job, by name."""
        return self._fleet.slots

    def expect(self, lives: Iterable[Life]) -> None:
        """Before the start: lives of supervisors before this one that are known to be there. Their
        slots are not filled until they have had the time of a joining replica to speak: on a busy
        machine that is longer than this one listens for all others.
        """
        self._fleet.expect(lives)

    # -- events -------------------------------------------------------------------------------

    def on(self, event: SupervisorEvent, now: int) -> Effects:
        """What follows from `event` at time `now`, in milliseconds.

        A `Command` that makes no sense raises `Misuse`, and nothing has changed.
        """
        match event:
            case Tick():
                return self._on_tick(now)
            case ReplicaStatus() | MergerStatus() | CheckpointTaken() | Died():
                return self._on_news(event, now)
            case Command():
                return self._on_command(event, now)
            case Nodes(names):
                return self._tracker.on_nodes(names, now)
            case Start():
                return self._on_start(now)
            case Retire():
                is_meant = self._is_meant(event)
                return [Exit(f"term {event.term}: {event.reason}")] if is_meant else []
            case _:
                raise unhandled("a supervisor", event)

    def obeys(self, term: int) -> bool:
        """Whether an order of that term counts."""
        return term >= self.term

    def _is_meant(self, order: Retire) -> bool:
        return self.obeys(order.term) and (order.life == self.life or order.term > self.term)

    def _on_start(self, now: int) -> Effects:
        fleet = self._fleet
        self._ticked_at = self._adopts_until = now
        for slot in fleet.slots.values():
            slot.heard_at = slot.wanted_at = slot.progress.moved_at = now
        effects: Effects = []
        if self.term > FIRST_TERM:
            self._adopts_until += self._timing.adopt_ms
            fleet.expects_until = now + self._timing.join_ms
            before = Life(SUPERVISOR, Incarnation(self.term - 1, 0))
            effects.append(Send(str(before), Retire(self.term, before, "a new term began")))
        if fleet.desired.state == "draining":
            self._goes("drain")
            self.ended_because = "it was asked to drain"
        elif fleet.desired.state == "stopped":
            self._goes("stop")
            self.ended_because = "it was stopped before"
        return effects + self._on_tick(now)

    def _on_news(
        self, event: ReplicaStatus | MergerStatus | CheckpointTaken | Died, now: int
    ) -> Effects:
        term = event.life.incarnation.term
        if self._is_superseded(term):
            return [Exit(f"term {term} has begun")]
        if isinstance(event, CheckpointTaken):
            return self._orders.on_taken(event)
        if isinstance(event, Died):
            effects = self._tracker.on_died(event, now)
            return effects + self._finish(now) if self._fleet.ending == "stopping" else effects
        effects = self._tracker.on_status(event, now)
        must_end = self._tracker.must_end
        if must_end and self._fleet.ending in ("running", "draining"):
            effects += self._end(Stop(), self.desired.changed(Stop()), must_end, now)
        return effects

    def _is_superseded(self, term: int) -> bool:
        """Whether a life of that term shows that another supervisor has the job."""
        return term > self.term

    # -- commands -----------------------------------------------------------------------------

    def _on_command(self, command: Command, now: int) -> Effects:
        change, cutover = command.change, self._fleet.cutover
        desired = self.desired.changed(change)
        if isinstance(change, Stop):
            how = "drain" if change.drain else "stop"
            return self._end(change, desired, f"it was asked to {how}", now)
        if cutover is not None:
            raise Misuse(f"a cutover at {cutover.at} is under way: wait until it is over")
        if isinstance(change, Switch) and change.at != BEGIN:
            effects = self._begin_cutover(desired, change.at, now)
        else:
            effects = self._desire(desired)
            self._make_slots(now)
        for slot in self.slots.values():
            slot.try_again()
        return effects

    def _end(self, change: Stop, desired: Desired, reason: str, now: int) -> Effects:
        """Begins to end the job, or ends it in another way."""
        effects: Effects = []
        cutover = self._fleet.cutover
        if cutover is not None:
            effects += cutover.give_up(self._views(), "the job is to end", now)
            effects += self._follow_cutover(cutover, now)
        effects += self._desire(desired)
        self.ended_because = reason
        if change.drain:
            self._goes("drain")
            return effects
        return effects + self._stop("stop", now)

    def _desire(self, desired: Desired) -> Effects:
        self._fleet.desired = desired
        return [Desire(desired)]

    def _make_slots(self, now: int) -> None:
        for shard in self._fleet.shards:
            there = {slot.index for slot in shard.replicas.values()}
            for i in range(self.desired.replicas):
                if i not in there:
                    self._fleet.add_slot("r", shard, i, now)

    # -- time ---------------------------------------------------------------------------------

    def _on_tick(self, now: int) -> Effects:
        fleet = self._fleet
        self._notice_time(now)
        effects = fleet.kill_overdue(now) if fleet.has_leaving else []
        if fleet.ending == "stopping":
            return effects + self._finish(now)
        if now < self._adopts_until:
            return effects
        for shard in fleet.shards:
            effects += self._reconciler.reconcile(shard, now)
            effects += self._orders.take(shard, now)
        if fleet.cutover is not None:
            effects += self._cut(fleet.cutover, now)
        if fleet.ending == "draining":
            effects += self._drain(now)
        return effects + fleet.budget.alarms(now)

    def _notice_time(self, now: int) -> None:
        """Measures how long this supervisor slept, so that no life is blamed for that silence."""
        fleet = self._fleet
        slept_ms, self._ticked_at = now - self._ticked_at, now
        late_ms = slept_ms - self._timing.heartbeat_ms
        if late_ms > 0:
            if now - slept_ms < self._adopts_until:
                self._adopts_until += late_ms
                fleet.expects_until += late_ms
            for shard in fleet.shards:
                failure_detector.forgive(shard, late_ms, now)
        lives = (known for slot in fleet.slots.values() for known in slot.lives())
        fleet.budget.tick(slept_ms, lives, now)

    # -- cutover ------------------------------------------------------------------------------

    def _begin_cutover(self, desired: Desired, at: int, now: int) -> Effects:
        if any(slot.role == "r" and slot.index >= desired.replicas for slot in self.slots.values()):
            raise Misuse("the job is still being scaled down: wait until it is done")
        cutover = Cutover(self.term, desired, at, self._views(), now, self._timing)
        effects = self._cancel_successors("another plan comes", now)
        self._fleet.cutover = cutover
        return effects

    def _cancel_successors(self, reason: str, now: int) -> Effects:
        effects: Effects = []
        for slot in self.slots.values():
            if slot.successor is not None:
                effects += self._reconciler.cancel(slot, slot.successor, reason, now)
        return effects

    def _cut(self, cutover: Cutover, now: int) -> Effects:
        effects = cutover.look(self._views(), now)
        effects += self._follow_cutover(cutover, now)
        if self._fleet.cutover is None or cutover.state not in ("joining", "holding"):
            return effects
        for shard in self._fleet.shards:
            for slot in shard.replicas.values():
                if slot.successor is None and slot.trials.allows(now):
                    plan, held_at = cutover.desired.plan_of(slot.index), cutover.held_at
                    started = self._reconciler.start_replica(shard, slot, plan, held_at, now)
                    if started is not None:
                        slot.successor = started.known
                        effects.append(started.effect)
        return effects

    def _views(self) -> list[ShardView]:
        fleet = self._fleet
        committed = fleet.cutover is not None and fleet.cutover.is_committed
        return [
            shard_view(shard, partial(fleet.qualifies, shard), committed=committed)
            for shard in fleet.shards
        ]

    def _follow_cutover(self, cutover: Cutover, now: int) -> Effects:
        """Does with the slots what the cutover has ordered."""
        effects: Effects = []
        if cutover.is_committed and self.desired is not cutover.desired:
            self._fleet.desired = cutover.desired
            for slot in self.slots.values():
                if slot.successor is not None:
                    effects += self._commit(slot, now)
        elif cutover.state in ("undoing", "failed"):
            effects += self._cancel_successors("the cutover is given up", now)
        if cutover.is_over:
            self._fleet.cutover = None
        return effects

    def _commit(self, slot: Slot, now: int) -> Effects:
        """The new life is the one of its slot."""
        effects: Effects = []
        if slot.current is None:
            slot.take_over()
        else:
            before = slot.succeed()
            by_force = bool(before.suspicion)
            effects = self._fleet.dismiss(before, "the query was changed", now, by_force=by_force)
        return effects + self._reconciler.fence_earlier(self._fleet.shards[slot.shard], slot)

    # -- the end ------------------------------------------------------------------------------

    def _goes(self, cause: str) -> None:
        self._fleet.ending = ENDING.after(self._fleet.ending, cause)

    def _drain(self, now: int) -> Effects:
        shards = self._fleet.shards
        effects: Effects = []
        for shard in shards:
            effects += drain_orders(shard, self.term, now, self._timing)
        if all(has_closed(shard) for shard in shards):
            effects += self._desire(replace(self.desired, state="stopped"))
            effects += self._stop("all have closed", now)
        return effects

    def _stop(self, cause: str, now: int) -> Effects:
        self._goes(cause)
        effects: Effects = []
        for slot in self.slots.values():
            for known in list(slot.lives()):
                effects += self._fleet.dismiss(known, "the job is stopped", now)
            slot.successor = None
            if slot.current is not None:
                slot.empty("the job is stopped", now)
        return effects + self._finish(now)

    def _finish(self, now: int) -> Effects:
        """Exits once all lives have gone and no other can turn up."""
        fleet = self._fleet
        if fleet.ending != "stopping" or fleet.has_leaving or now < self._adopts_until:
            return []
        self._goes("all have gone")
        return [Exit("the job is stopped")]

    # -- views --------------------------------------------------------------------------------

    def state(self, now: int | None = None) -> JobState:
        """How the job is, for people and checkers; without `now`, at the last tick."""
        at = self._ticked_at if now is None else now
        fleet, shards = self._fleet, self._fleet.shards
        samples = (
            sample
            for shard in shards
            for known in shard.live_mergers()
            if known.merger is not None
            for sample in known.merger.samples
        )
        return JobState(
            self.term,
            self._ticked_at < self._adopts_until,
            fleet.ending,
            fleet.cutover.state if fleet.cutover is not None else "",
            tuple(shard.assigned for shard in shards),
            tuple(shown(slot, shard, at) for shard in shards for slot in shard.slots()),
            self.ended_because,
            tuple(samples),
            tuple(shard.best for shard in shards),
            tuple(shard.awaited for shard in shards),
        )

    def sizes(self) -> dict[str, int]:
        """What it keeps, in numbers."""
        return {"checkpoints": len(self._checkpoints.names())}

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._fleet.validate()
        self._checkpoints.validate()
        if self._fleet.cutover is not None:
            self._fleet.cutover.validate()
