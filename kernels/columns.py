"""Growable int64 columns, one value for each id of a `KeyTable`.

Ids are dense and recycled, so per-id state is an array indexed by id. A column follows the table's
capacity: it grows by a quarter beyond what is asked for, and shrinks once less than a quarter of
it is in use, so memory after a peak comes back.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

SPARE_SHARE = 4
"""Grow by 1/4 beyond need: appending stays cheap, and waste stays under a quarter."""
ROOM_MIN = 64
"""Below this many ids it is not worth resizing."""


class Column:
    """An int64 array with a default for ids that were never written."""

    __slots__ = ("_default", "_reserved", "values")

    values: Ints

    def __init__(self, default: int, room: int = ROOM_MIN) -> None:
        self._default = default
        self._reserved = 0
        self.values = np.full(room, default, np.int64)

    def reserve(self, capacity: int) -> None:
        """So many ids are about to come: it has room for them from now on, until 0 is reserved.
        What grows step by step is copied four times in all.
        """
        self._reserved = capacity
        if capacity:
            self.fit(capacity)

    def fit(self, capacity: int) -> Ints:
        """Makes room for ids below `capacity` and returns the array.

        Ids beyond it are forgotten once the array shrinks: they must hold the default by then.
        """
        capacity = max(capacity, self._reserved)
        room = len(self.values)
        if room < capacity or room > max(ROOM_MIN, SPARE_SHARE * capacity):
            resized = np.empty(max(ROOM_MIN, capacity + capacity // SPARE_SHARE), np.int64)
            kept = min(room, len(resized))
            resized[:kept] = self.values[:kept]
            resized[kept:] = self._default
            self.values = resized
        return self.values

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return self.values.nbytes
