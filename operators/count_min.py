"""CountMin: how often values came, never too low, in memory that does not grow with their number.

    rows of counters     a value has one in each row     its count is at most the least of them
      . . 5 . 2            a: 5 in row 0, 7 in row 1     5: row 1 also counts what shares it
      . 7 . . .

Each of `DEPTH` rows has `width` counters (Cormode and Muthukrishnan, An improved data stream
summary, 2005). A counter holds what came of all values that share it, so an estimate is never below
the count. Of N rows a counter holds N / width more in the mean, so more than c times that with a
probability below 1 / c, and all `DEPTH` of them do with one below c^-DEPTH:

    width = 60 / share, DEPTH = 4, c = 6     error <= share N / 10 but with a probability of 0.1 %

That holds of values that nobody has chosen by the hash, which has no seed
(`aggregates/hashing.py`). Estimates of those may be as large as N, and never too low.

Counters add up: the sketch of two sets of rows is the sum of theirs, so that of a window is the sum
of its panes', less those that leave.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gapless.kernels.keys import Ids
from gapless.kernels.scatter import add_at
from gapless.operators.aggregates.hashing import Hashes, splitmix64
from gapless.protocol.errors import Bug

DEPTH = 4
"""Rows of counters."""
WIDTH_OF_SHARE = 60
"""Counters of a row for each value that may have the share."""
WIDTH_MIN = 1024
"""32 KB in all: fewer are not worth their errors."""
SHARE_MIN_MILLIONTHS = 100
"""The least share: its counters take 19 MB a sketch."""

_LOW = np.uint64(0xFFFFFFFF)
_HIGH = np.uint64(32)


def width_of(millionths: int) -> int:
    """How many counters a row has for a share in millionths."""
    return max(WIDTH_MIN, -(-WIDTH_OF_SHARE * 1_000_000 // millionths))


class Cells(NamedTuple):
    """The counters of a sketch that are not 0."""

    places: npt.NDArray[np.uint32] | None
    """None: all that there are."""
    counts: npt.NDArray[Any]
    """In as few bytes as the largest needs."""

    @classmethod
    def of(cls, places: Ids | None, counts: Ids) -> Cells:
        """The same, in fewer bytes."""
        stored = np.min_scalar_type(int(counts.max(initial=0)))
        return cls(None if places is None else places.astype(np.uint32), counts.astype(stored))

    @property
    def at(self) -> npt.NDArray[np.uint32] | slice:
        """Where they are."""
        return slice(None) if self.places is None else self.places

    def at_all(self, capacity: int) -> Ids:
        """The same, one by one, in a sketch of so many counters."""
        found: Ids = np.arange(capacity)[self.at]
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of both."""
        return int(self.counts.nbytes) + (0 if self.places is None else int(self.places.nbytes))


class CountMin:
    """Counters of values, which it knows by their hashes."""

    def __init__(self, width: int) -> None:
        self._width = np.uint64(width)
        self.counters = np.zeros(DEPTH * width, np.int64)

    def add(self, hashes: Hashes, counts: Ids) -> None:
        """These values have come so often."""
        add_at(self.counters, self._places(hashes).reshape(-1), np.tile(counts, DEPTH))

    def estimates(self, hashes: Hashes) -> Ids:
        """How often these values have come at most."""
        least: Ids = self.counters[self._places(hashes)].min(axis=0)
        return least

    def _places(self, hashes: Hashes) -> Ids:
        """Of each row, the counter of each value: four times 32 bits of two hashes."""
        more = splitmix64(hashes)
        words = np.stack([hashes >> _HIGH, hashes & _LOW, more >> _HIGH, more & _LOW])
        rows = np.arange(DEPTH, dtype=np.uint64)[:, None] * self._width
        return (((words * self._width) >> _HIGH) + rows).view(np.int64)

    def plus(self, cells: Cells) -> None:
        """With the counts of another sketch."""
        self.counters[cells.at] += cells.counts

    def minus(self, cells: Cells) -> None:
        """Without them."""
        self.counters[cells.at] -= cells.counts

    def cells(self) -> Cells:
        """Its counts, to be kept."""
        places = self.counters.nonzero()[0]
        if len(places) > len(self.counters) // 2:
            return Cells.of(None, self.counters)
        return Cells.of(places, self.counters[places])

    def clear(self) -> None:
        """Back to no rows."""
        self.counters[:] = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the counters."""
        return self.counters.nbytes

    def validate(self, rows: int) -> None:
        """Raises `Bug` unless so many rows are in each of its own."""
        sums = self.counters.reshape(DEPTH, -1).sum(axis=1)
        if (sums != rows).any() or self.counters.min() < 0:
            raise Bug(f"a count-min sketch of {rows} rows has counted {sums.tolist()}")
