"""An executor that reports how long its plan has taken, and which rows it could not process.

The time is that of the plan alone: without reading its input, and without sending its output, also
between two parts of that. It is reported once the whole output is there, before the next read: how
much is read then depends on it (pace.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

from gapless.engine.splice import Runnable, aside_of
from gapless.failover.replica.executor import Executor
from gapless.operators.aside import Aside, SetAside
from gapless.protocol.frame import Frame


def clock_ms() -> float:
    """It never goes back."""
    return time.perf_counter() * 1000


class WatchedExecutor(Executor):
    """For a pump, which has to turn while its plan is slow, and for people, who miss rows."""

    on_took: Callable[[int, float], object] | None = None
    """Is told the rows of each frame, and the milliseconds that the plan took for it."""
    on_aside: Callable[[list[SetAside], int], object] | None = None
    """Is given the rows that a frame has set aside, and told how many there were in all."""

    def __init__(self, name: str, plan: Runnable, memory_limit: int | None) -> None:
        self._aside = Aside("aside")
        aside = aside_of(plan, self._aside)
        make = partial(plan.compile, aside=aside, memory_limit=memory_limit)
        super().__init__(name, make, self._aside)

    def parts(self, source: str, frame: Frame) -> Iterator[Frame]:
        """As the executor's. What is done with a part is no time of the plan's."""
        parts, took_ms = super().parts(source, frame), 0.0
        while True:
            began, before = clock_ms(), self.set_aside
            part = next(parts, None)
            took_ms += clock_ms() - began
            if self.set_aside > before:
                kept = self._aside.take()
                if self.on_aside is not None:
                    self.on_aside(kept, self.set_aside - before)
            if part is None:
                break
            yield part
        if self.on_took is not None:
            self.on_took(len(frame), took_ms)
