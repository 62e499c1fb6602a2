"""Runs of the simulator in which each machine has a flight recorder beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import pytest

from gapless.actors.wire import Wire
from gapless.chaos.sim.processes import Process
from gapless.chaos.sim.simulator import Simulation
from gapless.failover.machines import Effect, Event
from gapless.failover.messages import Message
from gapless.failover.recorder.budget import Budget
from gapless.failover.recorder.record import Record, decode, encode
from gapless.failover.recorder.recorder import NOTHING_HEARD, Recorder, Taken, unpacked
from gapless.failover.subscriber.machine import Subscriber

MESSAGES = get_args(Message)


@dataclass
class Recorded:
    """One life, and what its machine did."""

    process: Process
    recorder: Recorder
    effects: list[list[Effect]] = field(default_factory=list)
    """By event, from the first one on."""

    def note(self, event: Event, world: Simulation) -> None:
        """Holds an event; a message as a call that it came with, with others before it."""
        heard = NOTHING_HEARD
        if isinstance(event, MESSAGES):
            heard = event, Wire(world.schema).encode([None, event]), 1
        self.recorder.note(event, world.now, heard)

    def taken(self, simulation: Simulation) -> Taken:
        """What is held, with the messages in it."""
        taken = self.recorder.take()
        events = unpacked(taken.events, Wire(simulation.schema).decode)
        return replace(taken, events=list(events))

    def record(self, simulation: Simulation) -> Record:
        """Its record, through bytes."""
        plans = {name: plan.to_document() for name, plan in simulation.plans.items()}
        return decode(encode(self.taken(simulation), self.process.name, "asked for", "0", plans))


@contextmanager
def recorded(patch: pytest.MonkeyPatch) -> Iterator[dict[Process, Recorded]]:
    """All lives of the runs within that have a record: all but subscribers."""
    lives: dict[Process, Recorded] = {}
    happens, do = Process.happens, Process._do

    def noted(self: Process, event: Event) -> None:
        machine: Any = self.machine
        if self.is_alive and not self.frozen and not isinstance(machine, Subscriber):
            if self not in lives:
                lives[self] = Recorded(self, Recorder(machine, Budget(lambda: 0)))
            lives[self].note(event, self.world)
        happens(self, event)

    def done(self: Process, effects: Sequence[Effect]) -> None:
        if self in lives:
            lives[self].effects.append(list(effects))
        do(self, effects)

    with patch.context() as patched:
        patched.setattr(Process, "happens", noted)
        patched.setattr(Process, "_do", done)
        yield lives
