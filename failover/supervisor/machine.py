"""The supervisor reconciles what runs with what is desired, and never gives up redundancy early.

    what is heard    status_tracker.py   what is done, on each tick           reconciler.py
    ReplicaStatus, MergerStatus          what is silent or lags is suspected  failure_detector.py
    Died, Nodes             | slots      a suspected one is replaced          replacement.py
    Command                 | desired    an empty slot is filled, somewhere   fleet.py, placement.py
    CheckpointTaken                      checkpoints, a cutover, the end

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

from gapless.failover.effects import (
    Alarm,
    Command,
    Desire,
    Died,
    DropCheckpoint,
    Exit,
    Nodes,
    Send,
    Start,
    SupervisorEffect,
    SupervisorEvent,
    Tick,
)
from gapless.failover.job.desired import Desired, Stop, Switch
from gapless.failover.job.settings import OnDivergence
from gapless.failover.job.state import JobState, shown
from gapless.failover.life_start import Stored
from gapless.failover.machines import unhandled
from gapless.failover.messages import (
    SUPERVISOR,
    CheckpointTaken,
    Life,
    MergerStatus,
    ReplicaStatus,
    Retire,
    TakeCheckpoint,
)
from gapless.failover.replica import snapshots
from gapless.failover.supervisor import failure_detector as suspecting
from gapless.failover.supervisor.checkpoint_policy import CheckpointInfo, Checkpoints, taker
from gapless.failover.supervisor.cutover import Cutover, ShardView
from gapless.failover.supervisor.cutover_view import shard_view
from gapless.failover.supervisor.reconciler import FIRST_TERM, Tending
from gapless.failover.supervisor.shutdown import ENDING, drain_orders, has_closed
from gapless.failover.supervisor.slots import Shard, Slot
from gapless.failover.timing import Timing
from gapless.protocol.elements import BEGIN
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import Misuse


class Supervisor(Tending):
    """One life of a job's root. Pure: the shell does what the effects say."""

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
        super().__init__(term, desired, nodes, timing or Timing(), on_divergence)
        self.life = Life(SUPERVISOR, Incarnation(term, 0))
        self._checkpoints = Checkpoints(term, checkpoints, self.timing.checkpoint_ms)
        self._adopts_until = 0
        self._ticked_at = 0
        self.ended_because = ""
        """Why the job ends, or has ended; empty while it runs."""
        for shard in self.shards:
            for i in range(desired.mergers):
                self._add_slot("m", shard, i, 0)
            for i in range(desired.replicas):
                self._add_slot("r", shard, i, 0)
            shard.assigned = shard.awaited = tuple(shard.mergers)

    def expect(self, lives: Iterable[Life]) -> None:
        """Before the start: lives of supervisors before this one that are known to be there. Their
        slots are not filled until they have had the time of a joining replica to speak: on a busy
        machine that is longer than this one listens for all others.
        """
        self._expected.update({life.slot: life for life in lives})

    # -- events -------------------------------------------------------------------------------

    def on(self, event: SupervisorEvent, now: int) -> list[SupervisorEffect]:
        """What follows from `event` at time `now`, in milliseconds.

        A `Command` that makes no sense raises `Misuse`, and nothing has changed.
        """
        self._effects = []
        match event:
            case Tick():
                self._tick(now)
            case ReplicaStatus() | MergerStatus() | CheckpointTaken() | Died():
                self._on_news(event, now)
            case Command():
                self._on_command(event, now)
            case Nodes(names):
                self._on_nodes(names, now)
            case Start():
                self._on_start(now)
            case Retire():
                if self._is_meant(event):
                    self._effects.append(Exit(f"term {event.term}: {event.reason}"))
            case _:
                raise unhandled("a supervisor", event)
        return self._effects

    def obeys(self, term: int) -> bool:
        """Whether an order of that term counts."""
        return term >= self.term

    def _is_meant(self, order: Retire) -> bool:
        return self.obeys(order.term) and (order.life == self.life or order.term > self.term)

    def _on_start(self, now: int) -> None:
        self._ticked_at = self._adopts_until = now
        for slot in self.slots.values():
            slot.heard_at = slot.wanted_at = slot.standing.moved_at = now
        if self.term > FIRST_TERM:
            self._adopts_until += self.timing.adopt_ms
            self._expects_until = now + self.timing.join_ms
            before = Life(SUPERVISOR, Incarnation(self.term - 1, 0))
            self._effects.append(Send(str(before), Retire(self.term, before, "a new term began")))
        if self.desired.state == "draining":
            self.ending = ENDING.after(self.ending, "drain")
            self.ended_because = "it was asked to drain"
        elif self.desired.state == "stopped":
            self.ending = ENDING.after(self.ending, "stop")
            self.ended_because = "it was stopped before"
        self._tick(now)

    def _on_news(
        self, event: ReplicaStatus | MergerStatus | CheckpointTaken | Died, now: int
    ) -> None:
        term = event.life.incarnation.term
        if self._is_superseded(term):
            self._effects.append(Exit(f"term {term} has begun"))
        elif isinstance(event, CheckpointTaken):
            self._on_checkpoint(event)
        elif isinstance(event, Died):
            self._on_died(event, now)
            if self.ending == "stopping":
                self._finish(now)
        else:
            self._on_status(event, now)
            if self._must_end and self.ending in ("running", "draining"):
                self._end(Stop(), self.desired.changed(Stop()), self._must_end, now)

    def _is_superseded(self, term: int) -> bool:
        """Whether a life of that term shows that another supervisor has the job."""
        return term > self.term

    # -- commands -----------------------------------------------------------------------------

    def _on_command(self, command: Command, now: int) -> None:
        change = command.change
        desired = self.desired.changed(change)
        if isinstance(change, Stop):
            how = "drain" if change.drain else "stop"
            self._end(change, desired, f"it was asked to {how}", now)
            return
        if self.cutover is not None:
            raise Misuse(f"a cutover at {self.cutover.at} is under way: wait until it is over")
        if isinstance(change, Switch) and change.at != BEGIN:
            self._begin_cutover(desired, change.at, now)
        else:
            self._desire(desired)
            self._make_slots(now)
        for slot in self.slots.values():
            slot.try_again()

    def _end(self, change: Stop, desired: Desired, reason: str, now: int) -> None:
        """Begins to end the job, or ends it in another way."""
        if self.cutover is not None:
            self._effects += self.cutover.give_up(self._views(), "the job is to end", now)
            self._follow_cutover(now)
        self._desire(desired)
        self.ended_because = reason
        if change.drain:
            self.ending = ENDING.after(self.ending, "drain")
        else:
            self._stop("stop", now)

    def _desire(self, desired: Desired) -> None:
        self.desired = desired
        self._effects.append(Desire(desired))

    def _make_slots(self, now: int) -> None:
        for shard in self.shards:
            there = {slot.index for slot in shard.replicas.values()}
            for i in range(self.desired.replicas):
                if i not in there:
                    self._add_slot("r", shard, i, now)

    # -- time ---------------------------------------------------------------------------------

    def _tick(self, now: int) -> None:
        slept_ms, self._ticked_at = now - self._ticked_at, now
        late_ms = slept_ms - self.timing.heartbeat_ms
        if late_ms > 0:
            if now - slept_ms < self._adopts_until:
                self._adopts_until += late_ms
                self._expects_until += late_ms
            for shard in self.shards:
                suspecting.forgive(shard, late_ms, now)
        lives = (known for slot in self.slots.values() for known in slot.lives())
        self._strain.tick(slept_ms, lives, now)
        if self._leaving:
            self._kill_overdue(now)
        if self.ending == "stopping":
            self._finish(now)
            return
        if now < self._adopts_until:
            return
        for shard in self.shards:
            self._tend(shard, now)
            self._take_checkpoint(shard, now)
        if self.cutover is not None:
            self._cut(self.cutover, now)
        if self.ending == "draining":
            self._drain(now)
        self._tell_of_strain(now)

    # -- checkpoints --------------------------------------------------------------------------

    def _take_checkpoint(self, shard: Shard, now: int) -> None:
        for plan in self.desired.plans:
            kind = (shard.number, plan)
            if not self._checkpoints.is_due(kind, now):
                continue
            running = {k.life: k.stable for k in shard.running() if k.plan == plan}
            leader = self._leader(shard)
            life = taker(running, leader)
            is_large = self._checkpoints.nbytes(kind) > snapshots.MESSAGE_BYTES_MAX
            spares = shard.awaits(plan) if not is_large else shard.has_newcomer(plan)
            is_spared = spares and (is_large or life == leader)
            if is_spared and self._checkpoints.may_wait(kind, now):
                continue
            if life is not None:
                order = TakeCheckpoint(self.term, self._checkpoints.ask(kind, now))
                self._effects.append(Send(str(life), order))

    def _on_checkpoint(self, answer: CheckpointTaken) -> None:
        slot = self.slots.get(answer.life.slot)
        if slot is None:
            self._effects.append(DropCheckpoint(answer.name))
            return
        if answer.reason:
            self._effects.append(Alarm(f"no checkpoint by {answer.life}: {answer.reason}"))
        lost = self._checkpoints.taken(slot.shard, answer)
        plans = set(self.desired.plans)
        if self.cutover is not None:
            plans.update(self.cutover.desired.plans)
        lives = [(s, known) for s in self.slots.values() for known in s.lives()]
        kinds = {(s.shard, known.plan) for s, known in lives}
        kinds |= {(shard.number, plan) for shard in self.shards for plan in plans}
        used = {o.name for _, known in lives for o in known.origins if isinstance(o, Stored)}
        join_by = {shard.number: self._join_at(shard) for shard in self.shards}
        unneeded = self._checkpoints.drop(kinds, join_by, used)
        self._effects += [DropCheckpoint(name) for name in (*lost, *unneeded)]

    # -- cutover ------------------------------------------------------------------------------

    def _begin_cutover(self, desired: Desired, at: int, now: int) -> None:
        if any(slot.role == "r" and slot.index >= desired.replicas for slot in self.slots.values()):
            raise Misuse("the job is still being scaled down: wait until it is done")
        cutover = Cutover(self.term, desired, at, self._views(), now, self.timing)
        for slot in self.slots.values():
            if slot.successor is not None:
                self._cancel(slot, slot.successor, "another plan comes", now)
        self.cutover = cutover

    def _cut(self, cutover: Cutover, now: int) -> None:
        self._effects += cutover.look(self._views(), now)
        self._follow_cutover(now)
        if self.cutover is None or cutover.state not in ("joining", "holding"):
            return
        for shard in self.shards:
            for slot in shard.replicas.values():
                if slot.successor is None and slot.trials.allows(now):
                    plan = cutover.desired.plan_of(slot.index)
                    held_at = cutover.held_at
                    slot.successor = self._start_replica(shard, slot, plan, held_at, now)

    def _views(self) -> list[ShardView]:
        committed = self.cutover is not None and self.cutover.is_committed
        return [
            shard_view(shard, partial(self._qualifies, shard), committed=committed)
            for shard in self.shards
        ]

    def _follow_cutover(self, now: int) -> None:
        """Does with the slots what the cutover has ordered."""
        cutover = self.cutover
        if cutover is None:
            return
        if cutover.is_committed and self.desired is not cutover.desired:
            self.desired = cutover.desired
            for slot in self.slots.values():
                if slot.successor is not None:
                    self._commit(slot, now)
        elif cutover.state in ("undoing", "failed"):
            for slot in self.slots.values():
                if slot.successor is not None:
                    self._cancel(slot, slot.successor, "the cutover is given up", now)
        if cutover.is_over:
            self.cutover = None

    def _commit(self, slot: Slot, now: int) -> None:
        """The new life is the one of its slot."""
        if slot.current is None:
            slot.take_over()
        else:
            before = slot.succeed()
            self._dismiss(before, "the query was changed", now, by_force=bool(before.suspicion))
        self._fence(self.shards[slot.shard], slot)

    # -- the end ------------------------------------------------------------------------------

    def _drain(self, now: int) -> None:
        for shard in self.shards:
            self._effects += drain_orders(shard, self.term, now, self.timing)
        if all(has_closed(shard) for shard in self.shards):
            self._desire(replace(self.desired, state="stopped"))
            self._stop("all have closed", now)

    def _stop(self, cause: str, now: int) -> None:
        self.ending = ENDING.after(self.ending, cause)
        for slot in self.slots.values():
            for known in list(slot.lives()):
                self._dismiss(known, "the job is stopped", now)
            slot.successor = None
            if slot.current is not None:
                slot.empty("the job is stopped", now)
        self._finish(now)

    def _finish(self, now: int) -> None:
        """Exits once all have gone, and nobody else can turn up."""
        if self.ending == "stopping" and not self._leaving and now >= self._adopts_until:
            self.ending = ENDING.after(self.ending, "all have gone")
            self._effects.append(Exit("the job is stopped"))

    # -- views --------------------------------------------------------------------------------

    def state(self, now: int | None = None) -> JobState:
        """How the job is, for people and checkers; without `now`, at the last tick."""
        at = self._ticked_at if now is None else now
        samples = (
            sample
            for shard in self.shards
            for known in shard.live_mergers()
            if known.merger is not None
            for sample in known.merger.samples
        )
        return JobState(
            self.term,
            self._ticked_at < self._adopts_until,
            self.ending,
            self.cutover.state if self.cutover is not None else "",
            tuple(shard.assigned for shard in self.shards),
            tuple(shown(slot, shard, at) for shard in self.shards for slot in shard.slots()),
            self.ended_because,
            tuple(samples),
            tuple(shard.best for shard in self.shards),
            tuple(shard.awaited for shard in self.shards),
        )

    def sizes(self) -> dict[str, int]:
        """What it keeps, in numbers."""
        return {"checkpoints": len(self._checkpoints.names())}

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        super().validate()
        self._checkpoints.validate()
        if self.cutover is not None:
            self.cutover.validate()
