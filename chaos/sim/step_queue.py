"""Steps that a thread of their own would do: one after the other, each after as long as it takes.

    asked     write a, drop b, load c
    done           a (31 ms)   b (2 ms)   c (12 ms)

Other things happen meanwhile; a process that dies finishes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic

from gapless.chaos.sim.processes import Process
from gapless.failover.io.steps import EventT, Outcome, Step


class StepQueue(Generic[EventT]):
    """The steps of one place of a process."""

    def __init__(
        self, process: Process, ms_max: int, follows: Callable[[Outcome[EventT]], None]
    ) -> None:
        """`ms_max`: how long one takes at most, unless disks are slow. `follows`: is given what
        comes of each.
        """
        self._process = process
        self._ms_max = ms_max
        self._follows = follows
        self._waiting: deque[Step[EventT]] = deque()

    def put(self, step: Step[EventT]) -> None:
        """Has a step done, once those before it are."""
        self._waiting.append(step)
        if len(self._waiting) == 1:
            self._begin()

    def _begin(self) -> None:
        process = self._process
        quick_ms = 1 + process.world.below(self._ms_max)
        process.later(process.disk_ms(quick_ms), self._do)

    def _do(self) -> None:
        done = self._waiting[0].do()
        self._waiting.popleft()
        if self._waiting:
            self._begin()
        self._follows(done)
