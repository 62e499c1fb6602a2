"""Groups that a punctuation has closed before their windows are complete for everybody.

    mark      no more (src = 3 and ts < 20)   its windows below 4 of slide 5 are answered now
    closed    3 -> 4                          and skipped when stable(20) answers those of all

What is closed is remembered until everybody has come as far.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.operators.state import State, table
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Mask, Times

_BEFORE = "_before"


class ClosedGroups:
    """By group, the window below which it has been answered."""

    def __init__(self, groups: pa.Schema) -> None:
        self._schema = groups
        self._table = KeyTable(groups) if len(groups) else None
        self._before = Column(BEGIN)

    def _batch(self, groups: Sequence[pa.Array]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(list(groups), schema=self._schema)

    def answered(self, windows: Times, groups: Sequence[pa.Array]) -> Mask:
        """Which answers of these windows and groups have been given already."""
        if not self or self._table is None:
            return np.zeros(len(windows), np.bool_)
        ids = self._table.find(self._batch(groups))
        answered: Mask = (ids >= 0) & (windows < self._before.values[ids])
        return answered

    def close(self, groups: Sequence[pa.Array], before: Times) -> None:
        """The windows of each of these groups below its `before` have been answered."""
        if self._table is None or not len(groups[0]):
            return
        ids, _ = self._table.intern(self._batch(groups))
        values = self._before.fit(self._table.capacity)
        np.maximum.at(values, ids, before)

    def forget_before(self, window: int) -> None:
        """Drops the groups that are no further than everybody."""
        if not self or self._table is None:
            return
        values = self._before.values
        self._forget(((values > BEGIN) & (values <= window)).nonzero()[0])

    def _forget(self, ids: Ids) -> None:
        if self._table is not None and len(ids):
            self._table.release(ids)
            self._before.values[ids] = BEGIN
            self._before.fit(self._table.capacity)

    def __bool__(self) -> bool:
        return self._table is not None and len(self._table) > 0

    def snapshot(self) -> pa.RecordBatch:
        """The groups, and before which window each is closed."""
        ids = (self._before.values > BEGIN).nonzero()[0]
        groups = [] if self._table is None else self._table.rows(ids).columns
        return pa.RecordBatch.from_arrays(
            [pa.array(self._before.values[ids]), *groups], schema=self._with_before
        )

    @property
    def _with_before(self) -> pa.Schema:
        return pa.schema([pa.field(_BEFORE, pa.int64(), nullable=False), *self._schema])

    def restore(self, state: State, name: str) -> None:
        """Takes them back."""
        rows = table(state, name, self._with_before)
        if self._table is not None and rows.num_rows:
            ids, _ = self._table.intern(self._batch(rows.columns[1:]))
            self._before.fit(self._table.capacity)[ids] = rows.column(0).to_numpy()

    @property
    def nbytes(self) -> int:
        """Bytes of the groups."""
        return 0 if self._table is None else int(self._table.nbytes) + self._before.nbytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        closed = int(np.count_nonzero(self._before.values > BEGIN))
        if self._table is not None and closed != len(self._table):
            raise Bug(f"{closed} closed groups, {len(self._table)} live keys")
