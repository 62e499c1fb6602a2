"""KeyTable and Chains over the C++ module: checks and result arrays here, the work there.

A call costs about two microseconds before its first row, most of it Arrow's hand-over of the
batch. Each object has a lock of its own, so threads may share one. Calls on at least
`GIL_FREE_ROWS_MIN` rows let other Python threads run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from gapless.kernels import _native
from gapless.kernels.keys import (
    Gate,
    Ids,
    Mask,
    as_int64,
    as_pairs,
    encode_again,
    plain_schema,
)

GIL_FREE_ROWS_MIN = _native.GIL_FREE_ROWS_MIN


class _Exported:
    """An array capsule as an object that `pa.record_batch` takes."""

    def __init__(self, schema: pa.Schema, array: object) -> None:
        self._schema = schema
        self._array = array

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self._schema.__arrow_c_schema__(), self._array


class KeyTable:
    """Rows of one schema as dense, recycled ids; see `gapless.kernels`."""

    def __init__(self, schema: pa.Schema) -> None:
        self._gate = Gate(schema)
        self._plain = plain_schema(schema)
        self._encodes = not self._plain.equals(schema)
        self._table = _native.KeyTable(schema)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self._gate.schema

    def intern(self, batch: pa.RecordBatch) -> tuple[Ids, Mask]:
        """The id of each row, and where the row was new and got one."""
        self._gate.check(batch)
        n = batch.num_rows
        ids, first_seen = np.empty(n, np.int64), np.empty(n, np.bool_)
        self._table.intern(batch, ids, first_seen)
        return ids, first_seen

    def intern_since(self, batch: pa.RecordBatch, times: Ids, since: int) -> tuple[Ids, Mask]:
        """The same, but rows with a time below `since` get no new id: -1 where they have none."""
        self._gate.check(batch)
        n = batch.num_rows
        ids, first_seen = np.empty(n, np.int64), np.empty(n, np.bool_)
        self._table.intern_since(batch, times, since, ids, first_seen)
        return ids, first_seen

    def find(self, batch: pa.RecordBatch) -> Ids:
        """The id of each row, -1 where it has none."""
        self._gate.check(batch)
        ids = np.empty(batch.num_rows, np.int64)
        self._table.find(batch, ids)
        return ids

    def release(self, ids: Any) -> None:
        """Forgets rows; their ids will be used again. `ValueError` unless all are live, once."""
        self._table.release(as_int64("ids", ids))

    def rows(self, ids: Any) -> pa.RecordBatch:
        """The rows of live ids, in the order asked for."""
        array = self._table.rows(as_int64("ids", ids))
        batch = pa.record_batch(_Exported(self._plain, array))
        if not self._encodes:
            return batch
        schema = self._gate.schema
        columns = [
            encode_again(column, field.type, field.name)
            for column, field in zip(batch.columns, schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def __len__(self) -> int:
        return len(self._table)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._table.nbytes

    @property
    def capacity(self) -> int:
        """One above the largest live id: how long an array over the ids has to be."""
        return self._table.capacity

    def validate(self) -> None:
        """Checks every invariant; `RuntimeError` where one is broken."""
        self._table.validate()


class Chains:
    """Rows linked by id; see `gapless.kernels`."""

    def __init__(self) -> None:
        self._chains = _native.Chains()

    def add(self, ids: Any, rows: Any) -> None:
        """Stores each row under its id. `ValueError` where a row is stored already."""
        self._chains.add(*as_pairs(ids, rows))

    def probe(self, ids: Any) -> tuple[Ids, Ids]:
        """All pairs (position in `ids`, row stored under that id).

        Pairs come in probe order, and for one id in the order in which its rows were added. An id
        without rows, or a negative one (what `find` gives for an absent key), has no pairs.
        """
        return self._chains.probe(as_int64("ids", ids))

    def remove(self, rows: Any) -> None:
        """Forgets rows. `ValueError` unless all are stored, and named once."""
        self._chains.remove(as_int64("rows", rows))

    def __len__(self) -> int:
        return len(self._chains)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._chains.nbytes

    def validate(self) -> None:
        """Checks every invariant; `RuntimeError` where one is broken."""
        self._chains.validate()
