"""Patience: how long the next message of a life may take, learned from the gaps so far.

    gaps ms    100 104 98 101 | 400 900 600 ...        a machine that grows busy
    waits ms   900 (hang_ms)  | 1 500 4 300 4 200 ...  mean + DEVIATIONS * deviation

A failure detector with a fixed bound calls a slow machine dead, and replacing what is slow makes it
slower. As phi-accrual detectors do, this one asks how unlikely the silence is for this life: TCP
learns its time-outs the same way, from a running mean and deviation. On a quiet machine the fixed
bound decides, so a death is noticed no later for it. What was learned is forgotten within a dozen
messages, so a hiccup costs seconds of patience, not minutes.
"""

from __future__ import annotations

MEAN_SHARE = 8
"""One gap moves the mean by an eighth of the difference: a single late message is no new habit."""
DEVIATION_SHARE = 4
"""And the deviation by a quarter: a machine that grows slow is noticed within a few messages."""
DEVIATIONS = 6
"""So many deviations beyond the mean a message is unlikely: of the gaps of busy machines, one in
some thousands."""


class Patience:
    """For one kind of message of one life."""

    __slots__ = ("_deviation_ms", "_mean_ms")

    def __init__(self) -> None:
        self._mean_ms = 0.0
        self._deviation_ms = 0.0

    def heard(self, gap_ms: int) -> None:
        """A message came so long after the one before."""
        if not self._mean_ms:
            self._mean_ms = float(gap_ms)
            return
        differs = gap_ms - self._mean_ms
        self._mean_ms += differs / MEAN_SHARE
        self._deviation_ms += (abs(differs) - self._deviation_ms) / DEVIATION_SHARE

    @property
    def mean_ms(self) -> int:
        """Between two messages, lately."""
        return int(self._mean_ms)

    def wait_ms(self, least_ms: int, most_ms: int) -> int:
        """How long to wait for the next message, within these bounds."""
        learned = int(self._mean_ms + DEVIATIONS * self._deviation_ms)
        return max(least_ms, min(most_ms, learned))
