"""The groups of an aggregate: values of its group columns as dense, recycled ids.

    src  A  B  A      ->  ids 0 1 0          group by nothing: one group, id 0

An id is used by the holders of its group's state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.kernels.keys import Ids, Mask


class Groups:
    """Ids of groups. A user of an id says when it has no use for it any more."""

    def __init__(self, rows: pa.Schema, group_by: Sequence[str]) -> None:
        self.schema = pa.schema([rows.field(name) for name in group_by])
        self._places = [rows.get_field_index(name) for name in group_by]
        self._table = KeyTable(self.schema) if group_by else None

    def of(self, rows: pa.RecordBatch) -> Ids:
        """The group of each row."""
        if self._table is None:
            return np.zeros(rows.num_rows, np.int64)
        return self._table.intern(rows.select(self._places))[0]

    def find(self, rows: pa.RecordBatch) -> Ids:
        """The group of each row, -1 where it is not known."""
        if self._table is None:
            return np.zeros(rows.num_rows, np.int64)
        found: Ids = self._table.find(rows.select(self._places))
        return found

    def intern(self, columns: Sequence[pa.Array], n: int) -> Ids:
        """The groups with these values in their columns, n of them."""
        if self._table is None:
            return np.zeros(n, np.int64)
        batch = pa.RecordBatch.from_arrays(list(columns), schema=self.schema)
        return self._table.intern(batch)[0]

    def columns(self, ids: Ids) -> list[pa.Array]:
        """The values of groups."""
        return [] if self._table is None else list(self._table.rows(ids).columns)

    def choose(self, ids: Ids, chosen: Callable[[pa.RecordBatch], Mask]) -> Mask:
        """Which of these are groups that are chosen, by their values."""
        known = np.unique(ids)
        is_chosen = np.zeros(self.capacity, np.bool_)
        columns = self.columns(known)
        is_chosen[known] = chosen(pa.RecordBatch.from_arrays(columns, schema=self.schema))
        found: Mask = is_chosen[ids]
        return found

    def release(self, ids: Ids) -> None:
        """Forgets groups; the one of no columns stays."""
        if self._table is not None and len(ids):
            self._table.release(ids)

    @property
    def capacity(self) -> int:
        """One above the largest id."""
        return 1 if self._table is None else self._table.capacity

    def __len__(self) -> int:
        """Groups known."""
        return 1 if self._table is None else len(self._table)

    @property
    def nbytes(self) -> int:
        """Bytes of the table."""
        return 0 if self._table is None else int(self._table.nbytes)

    def validate(self) -> None:
        """Raises where an invariant of the table is broken."""
        if self._table is not None:
            self._table.validate()
