"""What flight recorders take of the time of one thread, and of memory.

    image | 100 x as long without one | image | ...        of all recorders of the thread together
    BYTES_MAX each, where `bytes_max` is enough for all

A thread that turns one machine has one recorder; a sidecar's loop turns the mergers of all streams,
and their recorders share one budget.
"""

from __future__ import annotations

from collections.abc import Callable

BYTES_MAX = 24 << 20
"""Of frames that the events of one recorder keep in memory: seconds of a busy machine."""
SHARE_FACTOR = 100
"""Images take this part of a thread's time at most."""


class Budget:
    """Shared by the recorders of one thread."""

    def __init__(
        self,
        clock: Callable[[], int],
        *,
        recorders: Callable[[], int] = lambda: 1,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        """`clock` says how long the thread has worked, in any unit; `recorders` how many there
        are, `bytes_max` what all of them may keep.
        """
        self._clock = clock
        self._recorders = recorders
        self._bytes_max = bytes_max
        self._ended_at = 0
        self._took = 0  # the last image, on that clock

    @property
    def bytes_each(self) -> int:
        """What one recorder may keep."""
        return min(BYTES_MAX, self._bytes_max // max(1, self._recorders()))

    @property
    def has_time(self) -> bool:
        """Whether there may be another image by now."""
        return self._clock() - self._ended_at >= SHARE_FACTOR * self._took

    def spend(self, make: Callable[[], bytes]) -> bytes:
        """Makes an image, and notes how long that takes. Raises what it raises."""
        began = self._clock()
        try:
            return make()
        finally:
            self._ended_at = self._clock()
            self._took = self._ended_at - began
