"""When events happen: at a steady rate, except for one stretch in each period at another.

    period 0                        period 1
    |.  .  .  .|        |.  .  .  . |.  .|        |.  .  .  .  .  .  .    a lull: nothing happens
    |.  .  .  .|........|.  .  .  . |.  .|........|.  .  .  .  .  .  .    a burst: many times more
               ^ begins where the seed says, anew in each period

The time of row i is computed from i alone, and never falls as i grows. So a block of rows needs no
other block before it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gapless.journal.generate.blocks import RATE_MAX, Ints, within
from gapless.protocol.errors import Misuse

PERIOD_MAX_MS = 86_400_000 * 366
"""A year: the times of a period's rows stay exact in an int64 at every rate."""
FACTOR_MAX = 10_000
"""A burst's rate, in times of the base rate."""


@dataclass(frozen=True)
class Pace:
    """`rate` events a second; in a stretch of each `period_ms`, `factor` times as many."""

    seed: int
    rate: int
    period_ms: int
    stretch_ms: int
    factor: int
    """0 for lulls."""
    stretch: str
    """What a stretch is called, in errors."""

    def __post_init__(self) -> None:
        name = self.stretch
        within(f"{name} every", self.period_ms, 2, PERIOD_MAX_MS, "ms")
        within(f"{name}, inside {self.period_ms} ms,", self.stretch_ms, 0, self.period_ms - 1, "ms")
        within(f"{name} factor", self.factor, 0, FACTOR_MAX)
        within(f"rate in a {name}", self.rate * self.factor, 0, RATE_MAX, "events a second")
        if self.stretch_ms and not self._rows_in_period:
            raise Misuse(
                f"{name} every {self.period_ms} ms: at a rate of {self.rate} a second no event "
                "happens in so much time: make it longer, or the rate higher"
            )

    @property
    def _rows_in_stretch(self) -> int:
        return self.rate * self.factor * self.stretch_ms // 1000

    @property
    def _rows_in_period(self) -> int:
        return self.rate * (self.period_ms - self.stretch_ms) // 1000 + self._rows_in_stretch

    def time_of(self, rows: Ints) -> Ints:
        """When these rows happen, in milliseconds after the start. No row of a lull's is inside."""
        if not self.stretch_ms:
            return _ms(rows, self.rate)
        period, row = np.divmod(rows, self._rows_in_period)
        begin = self.begins(period)
        before = begin * self.rate // 1000
        inside = self._rows_in_stretch
        time = np.where(
            row < before,
            _ms(row, self.rate),
            begin + self.stretch_ms + _ms(row - before - inside, self.rate),
        )
        if inside:
            is_inside = (row >= before) & (row < before + inside)
            time = np.where(is_inside, begin + _ms(row - before, self.rate * self.factor), time)
        spread: Ints = period * self.period_ms + time
        return spread

    def begins(self, periods: Ints) -> Ints:
        """Where in each of these periods its stretch begins, in milliseconds after the period."""
        places = np.uint64(self.period_ms - self.stretch_ms + 1)
        return (mixed(self.seed, periods) % places).astype(np.int64)

    def in_stretch(self, time_ms: Ints) -> npt.NDArray[np.bool_]:
        """Which of these times are inside a stretch."""
        if not self.stretch_ms:
            return np.zeros(len(time_ms), np.bool_)
        period, time = np.divmod(time_ms, self.period_ms)
        since = time - self.begins(period)
        inside: npt.NDArray[np.bool_] = (since >= 0) & (since < self.stretch_ms)
        return inside


def _ms(rows: Ints, rate: int) -> Ints:
    return rows * 1000 // rate


def mixed(seed: int, numbers: Ints) -> npt.NDArray[np.uint64]:
    """For each number 64 bits that look drawn, and need none drawn before: splitmix64."""
    start = (seed + 1) * 0xD1342543DE82EF95 % 2**64  # neighbouring seeds have nothing in common
    z = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(start)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
