"""An executor that says how long its plan has taken: the plan alone, and not what was read for it,
or sent of it. It says so before anything follows from the push: the next read is as it advises.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from gapless.failover.executor import Executor
from gapless.protocol.frame import Frame


def clock_ms() -> float:
    """It never goes back."""
    return time.perf_counter() * 1000


class TimedExecutor(Executor):
    """For a pump, which has to turn while its plan is slow."""

    on_took: Callable[[int, float], object] | None = None
    """Is told the rows of each frame, and the milliseconds that the plan took for it."""

    def push(self, source: str, frame: Frame) -> Frame:
        """As the executor's."""
        began = clock_ms()
        out = super().push(source, frame)
        if self.on_took is not None:
            self.on_took(len(frame), clock_ms() - began)
        return out
