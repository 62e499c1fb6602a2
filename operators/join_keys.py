"""The values of a join's `on` columns as numbers: what is equal on both sides has one number.

    left k   A  B  null          right key   B  null  null
    number   0  2   1                        2   3     5

Null equals nothing, so a row with a null in its `on` columns meets nobody. An outer join keeps it
all the same, under an odd number which is that of its side and start alone: no row of the other
side has it, and not all of the rows with nulls hang on one chain.

A number stays while rows use it, and for some time after, as many keys come again. When most of
them are in use by nobody, those are forgotten together.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids, Mask
from gapless.operators.join_columns import JoinColumns
from gapless.protocol.frame import Times

SPARE = 4
"""Keys known for each row that is alive, before the unused are forgotten: with 2, a stream whose
keys come back learns each of them again and again."""
KEYS_MIN = 4096
"""Fewer are not worth a look."""

_MOMENT = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in ("side", "vs")])


class _Numbers:
    """A KeyTable that can forget all but some of its rows."""

    def __init__(self, schema: pa.Schema) -> None:
        self.table = KeyTable(schema)
        self._known = Column(0)  # 1 where the id is live

    def intern(self, batch: pa.RecordBatch) -> Ids:
        ids, first = self.table.intern(batch)
        self._known.fit(self.table.capacity)[ids[first]] = 1
        return ids

    def forget_but(self, used: Ids) -> None:
        known = self._known.values
        kept = np.zeros(len(known), np.bool_)
        kept[used] = True
        gone = ((known > 0) & ~kept).nonzero()[0]
        self.table.release(gone)
        known[gone] = 0
        self._known.fit(self.table.capacity)

    @property
    def nbytes(self) -> int:
        return int(self.table.nbytes) + self._known.nbytes


class JoinKeys:
    """Numbers for the `on` columns of both sides; without such columns all rows have number 0."""

    def __init__(self, columns: JoinColumns, payload: pa.Schema) -> None:
        on = [payload.field(name).with_nullable(True) for name in columns.on[0]]
        self._on = columns.on
        self._schema = pa.schema(on)
        self._keeps_nulls = any(columns.keeps)
        self._values = _Numbers(self._schema)
        self._moments = _Numbers(_MOMENT)

    def of(self, side: int, payload: pa.RecordBatch, vs: Times) -> tuple[Ids, Mask | None]:
        """The number of each row, and which have none: they meet nobody and are not kept."""
        if not self._on[side]:
            return np.zeros(payload.num_rows, np.int64), None
        names = self._on[side]
        batch = payload.select(names)
        if names != self._schema.names:
            batch = pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)
        ids = self._values.intern(batch)
        nulls = _nulls(batch.columns)
        if not self._keeps_nulls:
            return ids, nulls
        ids = 2 * ids
        if nulls is not None:
            start = vs[nulls]
            arrays = [pa.array(np.full(len(start), side)), pa.array(start)]
            moments = pa.RecordBatch.from_arrays(arrays, schema=_MOMENT)
            ids[nulls] = 2 * self._moments.intern(moments) + 1
        return ids, None

    def values(self, keys: Ids) -> list[pa.Array]:
        """What rows with these numbers have in the `on` columns; not of outer joins."""
        columns: list[pa.Array] = self._values.table.rows(keys).columns
        return columns

    def is_large(self, rows: int) -> bool:
        """Whether there are far more keys than so many live rows can use."""
        return len(self) > SPARE * rows + KEYS_MIN

    def forget_but(self, used: Ids) -> None:
        """Forgets all numbers but these."""
        if self._keeps_nulls:
            self._values.forget_but(used[used % 2 == 0] // 2)
            self._moments.forget_but(used[used % 2 == 1] // 2)
        else:
            self._values.forget_but(used)

    @property
    def capacity(self) -> int:
        """One above the largest number of an inner join."""
        return max(1, int(self._values.table.capacity))

    def __len__(self) -> int:
        return len(self._values.table) + len(self._moments.table)

    @property
    def nbytes(self) -> int:
        """Bytes of the tables."""
        return self._values.nbytes + self._moments.nbytes

    def validate(self) -> None:
        """Raises where the tables are broken."""
        self._values.table.validate()
        self._moments.table.validate()


def _nulls(columns: list[pa.Array]) -> Mask | None:
    """Where some column is null; None where none is."""
    mask: Mask | None = None
    for column in columns:
        missing = column.is_null() if column.null_count else None
        if pa.types.is_dictionary(column.type) and column.dictionary.null_count:
            # A value may be null, and not only an index.
            missing = column.dictionary.is_null().take(column.indices).fill_null(True)
        if missing is not None:
            here = missing.to_numpy(zero_copy_only=False)
            mask = here if mask is None else mask | here
    return mask
