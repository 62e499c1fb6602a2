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

    __slots__ = ("_default", "values")

    values: Ints

    def __init__(self, default: int, room: int = ROOM_MIN) -> None:
        self._default = default
        self.values = np.full(room, default, np.int64)

    def fit(self, capacity: int) -> Ints:
        """Makes room for ids below `capacity` and returns the array.

        Ids beyond it are forgotten once the array shrinks: they must hold the default by then.
        """
        room = len(self.values)
        if room < capacity or room > max(ROOM_MIN, SPARE_SHARE * capacity):
            resized = np.full(
                max(ROOM_MIN, capacity + capacity // SPARE_SHARE), self._default, np.int64
            )
            kept = min(room, len(resized))
            resized[:kept] = self.values[:kept]
            self.values = resized
        return self.values

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return self.values.nbytes
