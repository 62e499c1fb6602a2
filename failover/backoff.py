"""Back-off: how soon what has failed is tried again.

    failures   1      2      3      4    ...
    wait_ms   200    400    800   1600   ...  30 000, 30 000

A life that ran for a while, that got farther than any before it in its slot, or that stood where it
was for some heartbeats before it died, was no failure: the waits begin anew behind it. So a slot
whose lives die at once, or all at the same row, starts few of them; and one whose lives are killed,
however often, has the next one soon, also while the sources pause.
"""

from __future__ import annotations

from gapless.failover.timing import Timing
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Bug

FAILURES_MAX = 10
"""Consecutive ones. With the default waits that is after some two minutes: whatever repairs itself,
a node or a disk that comes back, has had its time; the rest is for a person.
"""
STOOD_HEARTBEATS = 5
"""A row that kills a life does so when it is read; one that has read everything, and survives
so many heartbeats, was ended by something else."""
DOUBLINGS_MAX = 30
"""Beyond it no wait grows any more, as each is far above any bound that makes sense."""


class Backoff:
    """The waits of one slot."""

    __slots__ = ("_free_at", "_reached", "_timing", "failures")

    def __init__(self, timing: Timing) -> None:
        self.failures = 0
        """Consecutive ones."""
        self._timing = timing
        self._free_at: int | None = None
        self._reached = BEGIN

    def failed(
        self, now: int, ran_ms: int, reached: int = BEGIN, *, stood_ms: int | None = None
    ) -> None:
        """A life has ended that ran for so long, and had promised up to `reached`; since it did
        that, and was of use, it had gone on for `stood_ms`: what killed it was no row behind that.
        """
        stood = stood_ms is not None and stood_ms >= STOOD_HEARTBEATS * self._timing.heartbeat_ms
        if ran_ms >= self._timing.steady_ms or reached > self._reached or stood:
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
        """Whether it has failed so often that another attempt is useless."""
        return self.failures >= FAILURES_MAX

    def reset(self) -> None:
        """The cause of the failures is gone, as a person or a new plan has declared."""
        self.failures = 0
        self._free_at = None

    def validate(self) -> None:
        """Raises `Bug` where it waits without a failure."""
        if self.failures < 0 or (self.failures and self._free_at is None):
            raise Bug(f"back-off after {self.failures} failures until {self._free_at}")
