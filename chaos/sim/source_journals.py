"""The sources of a simulated run: journals that grow, batch by batch, and who waits for that.

    batch --pace--> batch --pace--> batch ... --> end         once there were frames enough
      |
      '--> Writer --> journal on the simulated disk --> replicas that wait for it are woken

Rows and their order are the workload's; the pace is drawn.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from gapless.chaos.judge.history import Written
from gapless.chaos.sim.disk import View
from gapless.journal.writer import Writer
from gapless.protocol.elements import INF

if TYPE_CHECKING:
    from gapless.chaos.sim.simulator import Simulation

SOURCE_EVERY_MS = (25, 40, 90)
"""A batch comes at one of these paces: the sources, and with them the faults, span one to five
seconds. Then faults come one upon the other, or leave time for each of the killed to come back.
Where there are few batches they come as much slower."""
FRAMES_MIN = 300
"""That are read from a source, taken in by a merger or delivered, in every run: the sources go on
until then."""
LAST_FRAMES = 6
"""That come of the end of the sources at least: each replica reads it, and tells both mergers."""
SPAN_BATCHES = 14
"""Batches that are written at least. Faults begin while they are."""


class SourceJournals:
    """What is written to the sources, and when. `open`, then `begin`."""

    def __init__(self, world: Simulation) -> None:
        self._world = world
        work = world.workload
        self.batches = work.batches(random.Random(f"workload {world.seed}"))
        """Those that were or will be written."""
        self.waiting_for: dict[str, list[Callable[[], None]]] = {name: [] for name in work.layouts}
        """By source, whom to wake when it has grown."""
        self.growth = dict.fromkeys(work.layouts, 0)
        """How often it has grown."""
        self.time = 0
        """How far the sources are."""
        self.ended_at: int | None = None
        """When they did."""
        self._writers: dict[str, Writer] = {}
        pace_ms = world.rng.choice(SOURCE_EVERY_MS)
        self._pace_ms = pace_ms * -(-SPAN_BATCHES // len(self.batches))
        self.span_ms = self._pace_ms * min(SPAN_BATCHES, len(self.batches))
        """How long the first batches take."""

    def open(self) -> None:
        """Makes the journals."""
        world = self._world
        for name, layout in world.workload.layouts.items():
            self._writers[name] = Writer(
                self.disk(name), layout, who="producer", token="p", now_ms=lambda: world.now
            )

    def disk(self, name: str) -> View:
        """Where the journal of a source lies."""
        return View(self._world.disk, f"sources/{name}")

    def begin(self) -> None:
        """Writes the first batch; the others follow by themselves."""
        self._write(0)

    def _write(self, number: int) -> None:
        """The next batch, and all that follow; or the end, once there were frames enough."""
        world = self._world
        world.by_time()
        is_enough = number >= SPAN_BATCHES and world.frames >= FRAMES_MIN - LAST_FRAMES
        if (is_enough and not world.workload.whole) or number == len(self.batches):
            self._end(number)
            return
        source, rows = self.batches[number]
        writer = self._writers[source]
        writer.append(rows)
        self.time = max(self.time, writer.stable)
        self._grown(source, writer.stable)
        world.at(world.now + self._pace_ms, self._write, number + 1)

    def _end(self, number: int) -> None:
        self.batches = self.batches[:number]
        self.ended_at = self._world.now
        for name, writer in self._writers.items():
            writer.end()
            self._grown(name, INF)

    def _grown(self, source: str, stable: int) -> None:
        self._world.say(Written(source, stable))
        self.growth[source] += 1
        waiting, self.waiting_for[source] = self.waiting_for[source], []
        for wake in waiting:
            wake()
