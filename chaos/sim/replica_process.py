"""The process of a replica, in a simulation: what its effects do says failover/io/replica_io.py.

    ReadSource   a few ms, look     there is a frame: the answer
                           |
                           '------- nothing new: looks again soon after the source has grown, and
                                    again after FOLLOW_MS; then it answers that

Checkpoints, and the machine's own work, are done one after the other, as a thread does them. In
some runs the pace of replicas is drawn: a few rows at once, now more and now fewer.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from gapless.chaos.judge.history import (
    Assigned,
    CheckpointStored,
    Drained,
    Forwarded,
    Joined,
    Obeyed,
    TailTrimmed,
)
from gapless.chaos.sim.disk import View
from gapless.chaos.sim.processes import (
    CHECKPOINT_MS_MAX,
    READ_MS_MAX,
    WORK_MS_MAX,
    Process,
)
from gapless.chaos.sim.source_ends import SourceEnds
from gapless.chaos.sim.step_queue import StepQueue
from gapless.failover.io.replica_io import EFFECTS
from gapless.failover.io.steps import Outcome, Step
from gapless.failover.machines import Event
from gapless.failover.messages import Drain, Life
from gapless.failover.replica import checkpoint as checkpoints
from gapless.failover.replica.effects import CheckpointWritten, ReplicaEvent, SourceRead
from gapless.failover.replica.machine import Replica
from gapless.failover.replica.sources import Sources
from gapless.failover.replica.tail import Tail
from gapless.journal import reader
from gapless.protocol.elements import BEGIN, INF

if TYPE_CHECKING:
    from gapless.chaos.sim.simulator import Simulation

FRAME_ROWS = reader.FRAME_ROWS
"""That a replica reads at once from a source, where its pace is not drawn."""
FOLLOW_MS = 150
"""How long a read waits for a source to grow before it says that there is nothing new."""
PACED_SHARE = 0.15
"""Of all runs, those in which the pace of replicas is drawn; of those that are drained while their
sources go on it is all: where a drain cuts shows in small frames."""
PACES = (1, 2, 7, 30)
"""Rows at once: single ones, parts of a batch, and several batches."""
PACE_CHANGES_ONE_IN = 6
"""Reads, to one before which the pace is drawn anew."""


class ReadPace:
    """How many rows a replica wants at once. A run's is drawn apart from all else."""

    def __init__(self, name: str, *, is_drawn: bool) -> None:
        self._rng = random.Random(f"pace of {name}") if is_drawn else None
        self._rows = PACES[0]

    @staticmethod
    def is_drawn(seed: int) -> bool:
        """Whether it is, in a seed's run."""
        return random.Random(f"paces {seed}").random() < PACED_SHARE

    def rows(self) -> int:
        """By now."""
        return FRAME_ROWS if self._rng is None else self._rows

    def goes_on(self) -> None:
        """Another read begins."""
        if self._rng is not None and self._rng.random() * PACE_CHANGES_ONE_IN < 1:
            self._rows = self._rng.choice(PACES)


@dataclass(slots=True, eq=False)
class PendingRead:
    """A read that is under way."""

    source: str
    step: Step[ReplicaEvent]
    """What it does when it looks next."""
    is_limited: bool = False
    """Whether it is known when it looks for the last time."""


class ReplicaProcess(Process):
    """A replica and its sources."""

    machine: Replica

    def __init__(
        self,
        world: Simulation,
        life: Life,
        node: str,
        machine: Replica,
        sources: Sources,
        ends: SourceEnds,
    ) -> None:
        super().__init__(world, life, node, machine)
        is_paced = world.drain is not None or ReadPace.is_drawn(world.seed)
        self._pace = ReadPace(f"{life}, seed {world.seed}", is_drawn=is_paced)
        self._io = world.build.replica_io(
            sources,
            world.disk_reach.job,
            machine.schema,
            self._pace.rows,
            lambda what: world.note(f"{self.name}: {what}"),
        )
        self._disk = View(world.disk, "job")  # as it is, for the checkers
        self._look: PendingRead | None = None  # each is answered once
        self._dry: dict[str, int] = {}  # how far a source had grown when it had nothing for us
        self._queues: dict[str, StepQueue[ReplicaEvent]] = {
            "checkpoint": StepQueue(self, CHECKPOINT_MS_MAX, self._answers),
            "work": StepQueue(self, WORK_MS_MAX, self._answers),
        }
        self._ends = ends
        self._there: Mapping[str, Mapping[int, int]] | None = None  # when it was told to drain
        self._has_drained = False
        self._tail: Tail | None = None  # what it holds since it has joined
        self._since, self._wanted = BEGIN, BEGIN
        self._mergers: tuple[str, ...] = ()
        self._does |= dict.fromkeys(EFFECTS, self._begins)

    def start(self) -> None:
        """Also reports the hold that it begins with, if any."""
        if self.machine.held_at < INF:
            self.world.say(Obeyed(self.life, self.life.incarnation.term, "Hold"))
        super().start()

    def happens(self, event: Event) -> None:
        """Also tells what the replica forgets, by whom it goes, and what it has drained."""
        if self.is_alive and not self.frozen:
            self._obey(event)
            if isinstance(event, Drain) and self._there is None:
                self._there = self._ends.now()
        super().happens(event)
        machine, say = self.machine, self.world.say
        if machine.is_drained and not self._has_drained and self._there is not None:
            self._has_drained = True
            say(Drained(self.life, self._unread(self._there)))
        if machine.output.links.awaited != self._mergers:
            self._mergers = machine.output.links.awaited
            say(Assigned(self.life, self._mergers))
        if machine.is_joining:
            return
        if self._tail is not machine.output.tail:  # it may begin again, from another origin
            self._tail = machine.output.tail
            self._since = machine.output.tail.since
            self._wanted = machine.forwarded
            say(Joined(self.life, self._since))
        if machine.output.tail.since > self._since:
            self._since = machine.output.tail.since
            say(TailTrimmed(self.life, self._since))
        if machine.forwarded > self._wanted:
            self._wanted = machine.forwarded
            say(Forwarded(self.life, self._wanted))

    def _unread(self, there: Mapping[str, Mapping[int, int]]) -> Mapping[str, int]:
        """Rows of each source that it has not read, and that were there when it was told to drain;
        those that nobody needs do not count.
        """
        given, skipped = self._io.given, self._io.skipped
        return {
            source: self._ends.rows(source, given[source], end, skipped.get(source, BEGIN))
            for source, end in there.items()
        }

    # -- effects ------------------------------------------------------------------------------

    def _begins(self, effect: Any) -> None:
        """Does a step, now or after as long as it takes."""
        step = self._io.step(effect)
        match step.place:
            case "source":
                self._look = PendingRead(effect.source, step)
                self.later(self.disk_ms(1 + self.world.below(READ_MS_MAX)), self._looks, self._look)
            case "checkpoint" | "work":
                self._queues[step.place].put(step)
            case _:
                self._dry.clear()  # the sources may begin elsewhere
                done = step.do()
                self._io.validate()
                if done is not None:  # not within the call of the machine that asked
                    self.later(1, self._answers, done)

    def _answers(self, done: Outcome[ReplicaEvent]) -> None:
        if isinstance(done, Step):
            self._queues[done.place].put(done)
        elif done is not None:
            if isinstance(done, CheckpointWritten) and not done.reason:
                self.world.say(
                    CheckpointStored(self.life, done.name, checkpoints.size(self._disk, done.name))
                )
            self.happens(done)

    # -- sources ------------------------------------------------------------------------------

    def _looks(self, look: PendingRead, *, is_last: bool = False) -> None:
        """Looks whether there is anything new, unless nothing has come since it looked before."""
        if look is not self._look:
            return
        source, grown = look.source, self.world.sources.growth[look.source]
        done: Outcome[ReplicaEvent] = look.step
        if is_last or self._dry.get(source) != grown:
            self._pace.goes_on()
            done = look.step.do()
        if isinstance(done, Step):
            self._dry[source] = grown
            if not is_last:
                look.step = done
                self._waits(look)
                return
            done = done.instead
        self._look = None
        if isinstance(done, SourceRead) and done.frame is not None:
            self.world.frames += 1
            if not done.more:  # it has looked ahead
                self._dry[source] = grown
        self._answers(done)

    def _waits(self, look: PendingRead) -> None:
        """As a follower does: until the source grows, and no longer than FOLLOW_MS."""
        wake = partial(self.later, self.world.below(READ_MS_MAX), self._looks, look)
        self.world.sources.waiting_for[look.source].append(wake)
        if not look.is_limited:
            look.is_limited = True
            self.later(FOLLOW_MS, partial(self._looks, is_last=True), look)
