"""What a flight recorder costs of a pump's turn: python -m tests.chaos.sim.recorder_cost

The longest life of each machine of some simulated jobs is replayed through a pump without a
recorder, and with one that is full, as that of any machine is after some minutes: it lets go of an
old event with each new one, while a pump without one lets go of an event as soon as it is done with
it. Printed are medians of CPU time over rounds in which both are run one behind the other. Messages
are encoded as a pump does; other effects do nothing here, so in a job the share is smaller. Images
are counted separately: there is one every so many events.
"""

from __future__ import annotations

import gc
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from statistics import median
from typing import Any

import pytest

from gapless.actors.pump import Pump
from gapless.actors.wire import Wire
from gapless.chaos.sim.simulator import Simulation
from gapless.failover.effects import Send, Start
from gapless.failover.machines import Event
from gapless.failover.recorder.budget import Budget
from gapless.failover.recorder.record import Record, decode, encode
from gapless.failover.recorder.recorder import EVENTS_MAX, IMAGE_EVERY, Recorder, Taken
from tests.chaos.sim.flight_records import Recorded, recorded

ROUNDS = 15
EMPTY = Taken("", None, "", [])


class Held:
    """A recorder as a pump has it."""

    def __init__(self, machine: Any, before: Iterable[tuple[Event, int]] = ()) -> None:
        """`before`: what fills it."""
        self.recorder = Recorder(machine, Budget(time.thread_time_ns))
        self.note = self.recorder.note
        self.note(Start(), 0)  # with the image
        for event, now in before:
            self.note(event, now)

    def write(self, reason: str) -> None:
        """Nothing breaks down here."""
        raise AssertionError(reason)


def older(data: bytes) -> Iterator[tuple[Event, int]]:
    """Events that fill a ring, none of them twice the same object."""
    while True:
        yield from decode(data).events


def turned(data: bytes, simulation: Simulation, *, is_recorded: bool) -> int:
    """Nanoseconds of CPU that the turns of a life take."""
    record = decode(data)
    machine = record.start(simulation.workload.functions)
    held = Held(machine, islice(older(data), EVENTS_MAX + IMAGE_EVERY))  # else caches are warmer
    wire = Wire(simulation.schema)
    does: dict[type, Callable[[Any], Any]] = defaultdict(lambda: lambda _: None)
    does[Send] = lambda effect: wire.encode([effect.message])
    pump = Pump("cost", machine, {}, record=held if is_recorded else None)
    pump._does = does
    events, times = record.events[::-1], [0]
    record.events.clear()
    with pytest.MonkeyPatch.context() as patch:  # what a machine does depends on the time
        patch.setattr("gapless.actors.pump.now_ms", lambda: times[0])
        gc.collect()
        gc.disable()  # as many objects go as come: whose turn a collection falls into is chance
        began = time.process_time_ns()
        while events:
            event, times[0] = events.pop()
            pump.post(event)
            del event
            pump._wait()
            pump._run_timers()
        took = time.process_time_ns() - began
        gc.enable()
        return took


def image_ns(record: Record, simulation: Simulation) -> int:
    """What an image at the end of a life takes."""
    machine = record.start(simulation.workload.functions)
    for event, now in record.events:
        machine.on(event, now)
    began = time.process_time_ns()
    Held(machine)
    return time.process_time_ns() - began


@dataclass
class Sums:
    """Of one kind of machine, one entry a round."""

    turns: int = 0
    turn_ns: list[float] = field(default_factory=list)
    note_ns: list[float] = field(default_factory=list)
    image_ns: list[float] = field(default_factory=list)

    def told(self) -> str:
        """The shares, for people."""
        turn, note, image = map(median, (self.turn_ns, self.note_ns, self.image_ns))
        return (
            f"{self.turns} turns of {turn / 1000:.1f} us; to note {100 * note / turn:.2f} %; "
            f"an image {image / 1000:.0f} us, {100 * image / IMAGE_EVERY / turn:.2f} %"
        )


def main(seeds: int) -> None:
    """Prints the shares, by machine."""
    sums: dict[str, Sums] = defaultdict(Sums)
    for seed in range(seeds):
        with pytest.MonkeyPatch.context() as patch, recorded(patch) as lives:
            simulation = Simulation(seed)
            simulation.run()
        plans = {name: plan.to_document() for name, plan in simulation.plans.items()}
        longest: dict[str, tuple[Recorded, Taken]] = {}
        for life in lives.values():
            taken = life.recorder.take()
            if len(taken.events) > len(longest.get(taken.machine, (life, EMPTY))[1].events):
                longest[taken.machine] = life, taken
        for life, taken in longest.values():
            data = encode(taken, life.process.name, "", "0", plans)
            count, row = len(taken.events), sums[taken.machine]
            row.turns += count
            for number in range(ROUNDS):
                took = {}
                for is_recorded in (number % 2 == 0, number % 2 == 1):
                    took[is_recorded] = turned(data, simulation, is_recorded=is_recorded) / count
                row.turn_ns.append(took[False])
                row.note_ns.append(took[True] - took[False])
                row.image_ns.append(image_ns(decode(data), simulation))
    for machine, row in sorted(sums.items()):
        sys.stdout.write(f"{machine:<10} {row.told()}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4)
