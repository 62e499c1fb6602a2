"""RunningSums over the C++ module: checks and result arrays here, the work there."""

from __future__ import annotations

from typing import Any

import numpy as np

from gapless.kernels import _native
from gapless.kernels.keys import Ids, Mask, as_int64


class RunningSums:
    """Sums over ranges of places, by id; see `gapless.kernels.running_sums`."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._sums = _native.RunningSums(columns)

    def add(self, ids: Any, places: Any, values: Any) -> bool:
        """Adds cells, by id and then place, `values` a row a column; False, with nothing changed,
        where a cell would leave int64.
        """
        columns = np.ascontiguousarray(values, np.int64)
        return self._sums.add(as_int64("ids", ids), as_int64("places", places), columns)

    def sums(self, ids: Any, low: Any, high: Any) -> Ids | None:
        """Of each range [low, high) of an id the sums, a row a column; None where one leaves int64.
        It is fastest where ranges of an id stand together, and go forward.
        """
        keys = as_int64("ids", ids)
        found = np.empty((self._columns, len(keys)), np.int64)
        good = self._sums.sums(keys, as_int64("low", low), as_int64("high", high), found)
        return found if good else None

    def drop(self, ids: Any, places: Any) -> None:
        """Forgets the cells of each id before its place."""
        self._sums.drop(as_int64("ids", ids), as_int64("places", places))

    def drop_before(self, place: int) -> None:
        """Forgets all cells before a place."""
        self._sums.drop_before(place)

    def cells(self) -> tuple[Ids, Ids, Ids]:
        """All cells, by id and then place: ids, places, and values, a row a column."""
        n = len(self._sums)
        ids, places = np.empty(n, np.int64), np.empty(n, np.int64)
        values = np.empty((self._columns, n), np.int64)
        self._sums.cells(ids, places, values)
        return ids, places, values

    def has(self, ids: Any) -> Mask:
        """Which ids have a cell."""
        keys = as_int64("ids", ids)
        mask = np.empty(len(keys), np.bool_)
        self._sums.has(keys, mask)
        return mask

    def __len__(self) -> int:
        return len(self._sums)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._sums.nbytes

    def validate(self) -> None:
        """Checks every invariant; `RuntimeError` where one is broken."""
        self._sums.validate()
