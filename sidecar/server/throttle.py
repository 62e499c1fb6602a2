"""A token bucket: how long a producer that exceeds its rate has to wait. Time is handed in.

    100 a second             spends 150 at once --> waits 0.5 s     (after BURST_S of credit)

What is not used is saved up for a while, so that a burst after silence is no offence.
"""

from __future__ import annotations

BURST_S = 1.0
"""How much may be saved up, in seconds of the rate."""


class TokenBucket:
    """Fills steadily and may be overdrawn: then the caller waits until it is back at zero."""

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._left = per_s * BURST_S
        self._at: float | None = None

    def spend(self, amount: float, now_s: float) -> float:
        """Takes so much out; returns how many seconds to wait before the next call."""
        passed = 0.0 if self._at is None else max(0.0, now_s - self._at)
        self._at = now_s
        self._left = min(self._per_s * BURST_S, self._left + passed * self._per_s) - amount
        return max(0.0, -self._left / self._per_s)
