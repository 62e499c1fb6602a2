"""Time is a fault: work takes its time, and a process stops in the middle of what it does.

    on(event) --> [Send, Append, Send]      usually what follows from an event takes no time
                    |      |
                    |      '-- append: look at the epoch, write ....stops.... move the live end
                    '-- ....stops....       others go on meanwhile, and may take its place

In a share of runs work is *slow*, in ways that are drawn from the seed: an event costs its process
a moment, or now and then as long as a fold or a snapshot of a large state does; an append, a table,
a checkpoint, a read of a source takes as long on its disk. And processes *stop*: between two
effects of one event, or inside of one, before some write to the disk. What was under way is
finished later, when another life may have taken the journal over. A process that is ended meanwhile
finishes nothing.

All that until the last fault is over: then the job has to come to its end. What takes longer than a
heartbeat on its way is told to the checkers, as a fault of that process.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gapless.chaos.judge.history import Healed, Struck

if TYPE_CHECKING:
    from gapless.chaos.sim.processes import Process
    from gapless.chaos.sim.simulator import Simulation

SLOW_SHARE = 0.4
"""Of the runs, those in which time is a fault."""
WORK_MS = ((2, 30), (100, 900))
"""What an event costs: a little, or as much as makes others think that it hangs."""
WORK_ONE_IN = (15, 250)
"""Events, to one that costs that; of the second kind there are few."""
DISK_MS = (60, 1_200)
"""What an append, a table, a checkpoint, a read may take at most, in a run where disks are slow."""
PAUSE_MS = (20, 900)
REACHED_MS = 30
"""How long a process that has stopped goes on before anybody can end it."""
PAUSE_ONE_IN = 40
"""Events with several effects, and writes, to one where its process stops."""
LONG_MS = 50
"""What takes longer is told as a fault."""


class Gone(BaseException):
    """A process was ended in the middle of an effect: nothing of that is finished.

    Nobody catches it on its way through journals and machines: it is no `Exception`.
    """


@dataclass(frozen=True, slots=True)
class Slow:
    """In which ways time is a fault of one run."""

    work: bool = False
    disks_ms: int = 0
    pauses: bool = False


QUICK = Slow()


def drawn(seed: int) -> Slow:
    """What a seed draws; nothing is slow in many runs."""
    rng = random.Random(f"time {seed}")
    if rng.random() >= SLOW_SHARE:
        return QUICK
    ways = [rng.random() < 0.6 for _ in range(3)]
    return Slow(ways[0], rng.randint(*DISK_MS) if ways[1] else 0, ways[2])


class Toil:
    """How long the work of processes takes, in one run."""

    def __init__(self, world: Simulation, slow: Slow) -> None:
        self._world = world
        self._slow = slow
        self._rng = random.Random(f"toil {world.seed}")
        self._ends: list[int] = []  # of the stops in the middle of an effect that are under way
        self.stops = 0
        """How often a process has stopped in the middle of something."""
        self.open = 0
        """What takes long and is not over."""

    @property
    def _is_slow(self) -> bool:
        return not self._world.strikes.is_over

    # -- work -----------------------------------------------------------------------------------

    def disk_ms(self, process: Process, least_ms: int) -> int:
        """How long something takes that would take so long on a quick disk."""
        most = self._slow.disks_ms
        if not most or not self._is_slow:
            return least_ms
        ms = least_ms + int(self._rng.random() ** 3 * most)  # long ones are few
        self._tell(process, "works long", ms)
        return ms

    def after(self, process: Process) -> None:
        """A process has done what an event asked for, and that has cost it its time."""
        if not self._slow.work or not self._is_slow:
            return
        for (least, most), one_in in zip(WORK_MS, WORK_ONE_IN, strict=True):
            if self._rng.random() * one_in < 1:
                self._hold(process, least + int(self._rng.random() * (most - least)))

    def _hold(self, process: Process, ms: int) -> None:
        """Nothing reaches it meanwhile."""
        process.frozen += 1
        self._world.at(self._world.now + ms, process.thaw)
        self._tell(process, "works long", ms)

    def _tell(self, process: Process, what: str, ms: int) -> None:
        if ms > LONG_MS:
            world = self._world
            self.open += 1
            world.say(Struck(what, process.name))
            world.at(world.now + ms, self._over, what, process.name)

    def _over(self, what: str, name: str) -> None:
        self.open -= 1
        self._world.say(Healed(what, name))

    # -- stops ------------------------------------------------------------------------------------

    def stops_between(self, process: Process, rest: Callable[[], None]) -> bool:
        """Whether a process stops between two effects: it does the rest when it goes on."""
        if not self._slow.pauses or self._rng.random() * PAUSE_ONE_IN >= 1 or not self._is_slow:
            return False
        process.put_off(rest)
        self._stands_still(process)
        return True

    def _stands_still(self, process: Process, at_most_ms: int = max(PAUSE_MS)) -> int:
        """Its machine does: who would end it reaches it once it has gone on for a while."""
        world = self._world
        ms = min(world.between(PAUSE_MS), at_most_ms)
        self.stops += 1
        self._hold(process, ms)
        process.cannot_be_killed += 1
        world.at(world.now + ms + REACHED_MS, self._is_reached, process)
        return ms

    @staticmethod
    def _is_reached(process: Process) -> None:
        process.cannot_be_killed -= 1

    def within(self, process: Process, do: Callable[..., None], *args: Any) -> None:
        """Does an effect: its process may stop before some write."""
        disk = self._world.disk
        if not self._slow.pauses or disk.before_write is not None or not self._is_slow:
            do(*args)
            return

        def before_write() -> None:
            if self._rng.random() * PAUSE_ONE_IN < 1:
                disk.before_write = None
                self._stop(process)

        disk.before_write = before_write
        try:
            do(*args)
        finally:
            if disk.before_write is before_write:
                disk.before_write = None

    def _stop(self, process: Process) -> None:
        """The world goes on while a process stands still; raises `Gone` where that ends it. One
        that stops meanwhile goes on first: else the earlier one would hear of more, and what it was
        in the middle of would wait for the later one.
        """
        world = self._world
        left_ms = [end - world.now for end in self._ends[-1:]]
        ms = self._stands_still(process, *left_ms)
        world.note(f"{process.name} stops in the middle of it ({ms} ms)")
        self._ends.append(world.now + ms)
        try:
            world.agenda.go_on_until(world.now + ms)
        finally:
            self._ends.pop()
        if not process.is_alive or world.agenda.is_stopped:
            raise Gone
