"""Rejoining: how a replica came back, in numbers for people. Nothing is decided by them.

    Start ----- state ----- the first rows ----- a merger has taken it in
      |-------->| state_ms        |                      |
      |-------------------------->| read_ms              |
      |------------------------------------------------->| caught_up_ms

Feedback lets it leave out what others have settled. How far that is beyond what it has put out, or
has left out before, is stream time that it has *jumped*.
"""

from __future__ import annotations

from gapless.failover.statuses import NOT_YET, Rejoin
from gapless.protocol.elements import BEGIN, INF

UNITS_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""By the time unit of a stream."""


class RejoinTracker:
    """Of one life of a replica."""

    def __init__(self, time_unit: str) -> None:
        self.phases: Rejoin = NOT_YET
        self._started_at = 0
        self._jumped = 0
        self._units_a_second = UNITS_A_SECOND[time_unit]

    def starts(self, now: int) -> None:
        """All is counted from here."""
        self._started_at = now

    def has_state(self, now: int) -> None:
        """It knows what it begins with; what came of another origin before does not count."""
        self.phases = Rejoin(now - self._started_at)

    def reads(self, now: int) -> None:
        """It has taken a frame of a source."""
        if not self.has_read:
            self.phases = self.phases._replace(read_ms=now - self._started_at)

    def is_taken_in(self, now: int) -> None:
        """A merger has taken in its attach and its whole tail."""
        self.phases = self.phases._replace(caught_up_ms=now - self._started_at)

    @property
    def has_read(self) -> bool:
        """Whether it has read on from the state that it began with."""
        return self.phases.read_ms >= 0

    @property
    def is_over(self) -> bool:
        """Whether a merger has taken it in."""
        return self.phases.caught_up_ms >= 0

    def forwards(self, t: int, forwarded: int, stable: int) -> None:
        """Feedback takes it to t from `forwarded`; its plan is stable up to `stable`."""
        if stable > BEGIN and t < INF:  # before the start and behind the end is no time
            self._jumped += max(0, t - max(stable, forwarded))

    @property
    def jumped_ms(self) -> int:
        """Stream time that it has jumped in all."""
        return self._jumped * 1000 // self._units_a_second
