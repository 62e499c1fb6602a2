"""Back-off: how soon what has failed is tried again.

    failures   1      2      3      4    ...
    wait_ms   200    400    800   1600   ...  30 000, 30 000

A life that ran for a while, or that got farther than any before it in its slot, was no failure: the
waits begin anew behind it. So a slot whose lives die at once, or all at the same row, starts few of
them; and one whose lives are killed, however often, has the next one soon.
"""

from __future__ import annotations

from gapless.failover.timing import Timing
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Bug

FAILURES_MAX = 10
"""In a row. With the default waits that is after some two minutes: whatever repairs itself, a node
or a disk that comes back, has had its time; the rest is for a person.
"""
DOUBLINGS_MAX = 30
"""Beyond it no wait grows any more, as each is far above any bound that makes sense."""


class Backoff:
    """The waits of one slot."""

    __slots__ = ("_free_at", "_reached", "_timing", "failures")

    def __init__(self, timing: Timing) -> None:
        self.failures = 0
        """In a row."""
        self._timing = timing
        self._free_at: int | None = None
        self._reached = BEGIN

    def failed(self, now: int, ran_ms: int, reached: int = BEGIN) -> None:
        """A life has ended that ran for so long, and had promised up to `reached`."""
        if ran_ms >= self._timing.steady_ms or reached > self._reached:
            self.failures = 0
        self._reached = max(self._reached, reached)
        wait_ms = self._timing.backoff_ms << min(self.failures, DOUBLINGS_MAX)
        self._free_at = now + min(wait_ms, self._timing.backoff_max_ms)
        self.failures += 1

    def allows(self, now: int) -> bool:
        """Whether the next life may be started."""
        return self._free_at is None or now >= self._free_at

    @property
    def is_spent(self) -> bool:
        """Whether it has failed so often that trying on is of no use."""
        return self.failures >= FAILURES_MAX

    def reset(self) -> None:
        """What made it fail is gone: somebody has said so."""
        self.failures = 0
        self._free_at = None

    def validate(self) -> None:
        """Raises `Bug` where it waits without a failure."""
        if self.failures < 0 or (self.failures and self._free_at is None):
            raise Bug(f"back-off after {self.failures} failures until {self._free_at}")
