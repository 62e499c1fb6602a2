"""Cells that are few among many places and groups: each has an id of a table.

    (place 7, group 2) -> 0      (place 9, group 40_000) -> 1

The other way of finding cells is in `cells.py`, with what says when to use which.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.operators.numbers import sorting
from gapless.protocol.elements import INF
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Times

_KEYS = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in ("place", "group")])


class Found(NamedTuple):
    """Cells in the order of their places."""

    places: Times
    groups: Ids
    ids: Ids


class SparseCells:
    """Ids of cells, looked up by place and group."""

    def __init__(self) -> None:
        self._table = KeyTable(_KEYS)
        self._places = Column(INF)  # by id; INF where it is free
        self._groups = Column(-1)

    @property
    def capacity(self) -> int:
        """One above the largest id."""
        return self._table.capacity

    def ids(
        self, places: Times, groups: Ids, capacity: int, within: tuple[int, int] | None = None
    ) -> Ids | None:
        """The cell of each row; there is room for all."""
        keys = pa.RecordBatch.from_arrays([pa.array(places), pa.array(groups)], schema=_KEYS)
        ids, first_seen = self._table.intern(keys)
        new = first_seen.nonzero()[0]
        if len(new):
            self._places.fit(self._table.capacity)[ids[new]] = places[new]
            self._groups.fit(self._table.capacity)[ids[new]] = groups[new]
        return ids

    def between(self, first: int, end: int, counts: Ids) -> Found:
        """The cells at places from `first` to below `end`, in their order."""
        places = self._places.values
        ids = ((places >= first) & (places < end)).nonzero()[0]
        if len(ids):
            found = places[ids]
            ids = ids[sorting(found - found.min(), ids)]
        return Found(places[ids], self._groups.values[ids], ids)

    def places(self, end: int) -> Times:
        """The places below `end` that have a cell."""
        return np.unique(self._places.values[self._places.values < end])

    def find(self, place: int, groups: Ids) -> Ids:
        """The cells of groups at a place; -1 where there is none."""
        places = np.full(len(groups), place, np.int64)
        keys = pa.RecordBatch.from_arrays([pa.array(places), pa.array(groups)], schema=_KEYS)
        ids: Ids = self._table.find(keys)
        return ids

    def free(self, found: Found) -> bool:
        """Frees cells. False once none is left: a new layout may do better."""
        self._table.release(found.ids)
        for column, free in ((self._places, INF), (self._groups, -1)):
            column.values[found.ids] = free
            column.fit(self._table.capacity)
        return len(self._table) > 0

    def has(self, groups: Ids, counts: Ids) -> np.typing.NDArray[np.bool_]:
        """Which groups have a cell."""
        return np.isin(groups, self._groups.values)

    @property
    def nbytes(self) -> int:
        """Bytes of the table."""
        return int(self._table.nbytes) + self._places.nbytes + self._groups.nbytes

    def validate(self, counts: Ids) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._table.validate()
        live = int(np.count_nonzero(self._places.values < INF))
        if not live == len(self._table) == int(np.count_nonzero(counts)):
            raise Bug(f"{live} cells with a place, {len(self._table)} live keys")
