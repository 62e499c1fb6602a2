"""What a flight recorder costs of a pump's turn: python -m tests.chaos.sim.recorder_cost

Each life of some simulated jobs is replayed through a pump without a recorder, and with one that
has its first image; what is told is the least CPU time of each. Messages are encoded as a pump
does; other effects do nothing here, so in a job the share is smaller. Images are told apart: each
part of a record begins with one.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from gapless.actors.pump import Pump
from gapless.actors.wire import Wire
from gapless.chaos.sim.simulator import Simulation
from gapless.failover.effects import Send, Start
from gapless.failover.recorder.record import Record, decode, encode
from gapless.failover.recorder.recorder import PART_EVENTS_MAX, Recorder
from tests.chaos.sim.flight_records import recorded

ROUNDS = 15


class Held:
    """A recorder as a pump has it."""

    def __init__(self, machine: Any) -> None:
        self.recorder = Recorder(machine, time.thread_time_ns)
        self.recorder.note(Start(), 0)  # with the image
        self.note = self.recorder.note

    def write(self, reason: str) -> None:
        """Nothing breaks down here."""
        raise AssertionError(reason)


def turned(record: Record, simulation: Simulation, *, is_recorded: bool) -> int:
    """Nanoseconds of CPU that the turns of a life take."""
    machine = record.start(simulation.workload.functions)
    held = Held(machine) if is_recorded else None
    wire = Wire(simulation.schema)
    does: dict[type, Callable[[Any], Any]] = defaultdict(lambda: lambda _: None)
    does[Send] = lambda effect: wire.encode([effect.message])
    pump = Pump("cost", machine, {}, record=held)
    pump._does = does
    times = [0]
    with pytest.MonkeyPatch.context() as patch:  # what a machine does depends on the time
        patch.setattr("gapless.actors.pump.now_ms", lambda: times[0])
        began = time.process_time_ns()
        for event, times[0] in record.events:
            pump.post(event)
            pump._wait()
            pump._run_timers()
        return time.process_time_ns() - began


def image_ns(record: Record, simulation: Simulation) -> int:
    """What an image at the end of a life takes."""
    machine = record.start(simulation.workload.functions)
    for event, now in record.events:
        machine.on(event, now)
    began = time.process_time_ns()
    Held(machine)
    return time.process_time_ns() - began


def main(seeds: int) -> None:
    """Prints the shares, by machine."""
    sums: dict[str, list[int]] = {}
    for seed in range(seeds):
        with pytest.MonkeyPatch.context() as patch, recorded(patch) as lives:
            simulation = Simulation(seed)
            simulation.run()
        plans = {name: plan.to_document() for name, plan in simulation.plans.items()}
        for life in lives.values():
            taken = life.recorder.take()
            record = decode(encode(taken, life.process.name, "", "0", plans))
            plain = noted = image = sys.maxsize
            for _ in range(ROUNDS):
                plain = min(plain, turned(record, simulation, is_recorded=False))
                noted = min(noted, turned(record, simulation, is_recorded=True))
                image = min(image, image_ns(record, simulation))
            row = sums.setdefault(taken.machine, [0] * 5)
            added = (1, len(record.events), plain, noted, image)
            sums[taken.machine] = [a + b for a, b in zip(row, added, strict=True)]
    for machine, (count, events, plain, noted, image) in sorted(sums.items()):
        turn, part = plain / events, image / count / PART_EVENTS_MAX
        told = (
            f"{machine:<10} {events} turns of {turn / 1000:.1f} us",
            f"to note {100 * (noted - plain) / plain:.2f} %",
            f"an image {image / count / 1000:.0f} us, {100 * part / turn:.2f} %",
        )
        sys.stdout.write("; ".join(told) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4)
