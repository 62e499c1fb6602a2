"""Rows as programs have them, made into batches of a journal's schema.

    journal   ts: timestamp[ms]   src: int32
    given     {"src": [7, 2**40, 9], "ts": [t, t, t], "len": [1, 2, 3]}
    taken     ts, src of rows 0 and 2               in the journal's order and types
    rejected  row 1: src: the value is no int32

Columns are conformed as those of a query's source are (engine/conform.py). What is wrong with one
row costs that row; what is wrong with a column costs the batch, with an error that names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from gapless.engine.conform import Conform
from gapless.journal.rejects import Origin, Rejected
from gapless.protocol.columns import take_rows
from gapless.protocol.errors import BadData, Misuse, SchemaError
from gapless.protocol.plain_rows import plain_rows


@dataclass(frozen=True, slots=True)
class Taken:
    """One batch, parted."""

    batch: pa.RecordBatch
    """The rows that fit, in the journal's schema."""
    rejected: list[Rejected]
    """Those that do not."""
    origin: Origin
    """Where row i of `batch` is from."""


class RowsIn:
    """Makes batches of one schema of whatever holds rows."""

    def __init__(self, schema: pa.Schema, what: str) -> None:
        self._schema = schema
        self._what = what
        self._conform = Conform(schema, what)

    def take(self, rows: Any, origin: Origin) -> Taken:
        """The rows that fit, and those that do not; `origin` says where row i of `rows` is from.

        Raises `SchemaError` where a column is missing or of another kind, `BadData` where what
        Arrow itself asks of a batch does not hold, such as that texts are UTF-8.
        """
        given = self._as_batch(rows)
        columns, misfits = self._conform(given)
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        try:
            batch.validate(full=True)  # else nobody could read the journal
        except pa.ArrowInvalid as e:
            raise BadData(f"{self._what}: the batch is no valid Arrow: {e}") from None
        if not misfits:
            return Taken(batch, [], origin)
        left = np.ones(batch.num_rows, np.bool_)
        rejected: list[Rejected] = []
        for reason, misfit in misfits:
            bad = misfit & left  # the first reason counts
            left &= ~bad
            places = np.flatnonzero(bad).tolist()
            texts = plain_rows(take_rows(given, bad))
            rejected += [(reason, origin(i), text) for i, text in zip(places, texts, strict=True)]
        kept = np.flatnonzero(left)
        return Taken(take_rows(batch, left), rejected, lambda i: origin(int(kept[i])))

    def _as_batch(self, rows: Any) -> pa.RecordBatch:
        if isinstance(rows, pa.RecordBatch):
            return rows
        if isinstance(rows, pa.Table):
            return _one_batch(rows)
        if isinstance(rows, Mapping) or _is_pandas(rows):
            return self._of_columns(rows)
        if hasattr(rows, "__arrow_c_array__") or hasattr(rows, "__arrow_c_stream__"):
            return _one_batch(pa.table(rows))
        raise Misuse(
            f"{self._what}: {type(rows).__name__} appended: it takes a record batch, a table, a "
            "data frame, or a mapping from columns to values"
        )

    def _of_columns(self, rows: Any) -> pa.RecordBatch:
        missing = [name for name in self._schema.names if name not in rows]
        if missing:
            raise SchemaError(f"{self._what}: column {missing[0]!r} is not among {', '.join(rows)}")
        arrays = [self._array(rows[field.name], field) for field in self._schema]
        if len({len(array) for array in arrays}) > 1:
            sizes = zip(self._schema.names, map(len, arrays), strict=True)
            said = ", ".join(f"{name} {size}" for name, size in sizes)
            raise Misuse(f"{self._what}: columns have different numbers of values: {said}")
        return pa.RecordBatch.from_arrays(arrays, names=self._schema.names)

    def _array(self, values: Any, field: pa.Field) -> pa.Array:
        """Values as Arrow takes them; in a column of times integers are ticks."""
        try:
            array = pa.array(values) if not isinstance(values, pa.ChunkedArray) else values
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as e:
            raise SchemaError(f"{self._what}: column {field.name!r}: {e}") from None
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
        is_time = pa.types.is_timestamp(field.type) or pa.types.is_duration(field.type)
        if is_time and pa.types.is_integer(array.type):
            return array.cast(pa.int64()).view(field.type)
        return array


def _is_pandas(rows: Any) -> bool:
    """Without importing pandas, which nobody has if nobody imported it."""
    return any(
        c.__module__.partition(".")[0] == "pandas" and c.__name__ == "DataFrame"
        for c in type(rows).mro()
    )


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    if not batches:
        return pa.RecordBatch.from_arrays(
            [pa.array([], field.type) for field in table.schema], schema=table.schema
        )
    if len(batches) > 1:
        raise Misuse(
            f"{table.num_rows:,} rows are too many for one batch, and a batch is not cut: append "
            "parts of them"
        )
    return batches[0]
