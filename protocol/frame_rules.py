"""What makes a batch a frame's: the columns of the stream's schema, and times that make sense.

    _vs  _ve  _was                        a finite _vs, in every row
      6   20  BEGIN     an insert         _vs < _ve
      6   30     20     an adjust         _vs < _was, and _vs <= _ve (equal: removed)
      6    6  BEGIN     neither           `FrameError`, with the row

A frame is checked once, when it is made of what somebody gives; its parts inherit that. What only a
whole stream can break is the business of `Tdb` and of LMerge.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.protocol.elements import BEGIN, INF, format_time
from gapless.protocol.errors import FrameError, SchemaError
from gapless.protocol.nulls import check_nulls
from gapless.protocol.schema import TIME_COLUMNS, UNIT_KEY, StreamSchema

_Times = npt.NDArray[np.int64]


def check_columns(batch: pa.RecordBatch, schema: StreamSchema) -> None:
    """Raises `FrameError` for a null where `schema` allows none; in a time there never is one."""
    columns = batch.columns
    for name, column in zip(TIME_COLUMNS, columns[:3], strict=True):
        if column.null_count:
            raise FrameError(f"column {name}: {column.null_count} nulls, times are never null")
    for i, field in schema.required_fields:
        check_nulls(field, columns[3 + i])


def check_times(vs: _Times, ve: _Times, was: _Times) -> None:
    """Raises `FrameError` where the times of a row are those of no insert and of no adjust."""
    not_after = was <= vs  # inserts (their was is BEGIN) and bad adjusts
    bad = (ve < vs) | (not_after & ((was != BEGIN) | (ve == vs)))
    bad |= (vs == BEGIN) | (vs == INF)
    if bad.any():
        i = int(bad.argmax())
        row = ", ".join(
            f"{name} {format_time(int(t[i]))}"
            for name, t in zip(TIME_COLUMNS, (vs, ve, was), strict=True)
        )
        raise FrameError(
            f"row {i} ({row}): needs a finite _vs; _vs < _ve in an insert (_was = begin); "
            "_vs <= _ve and _vs < _was in an adjust"
        )


def with_schema(batch: pa.RecordBatch, schema: StreamSchema) -> pa.RecordBatch:
    """`batch`, seen to be of `schema`, and saying so itself: unit of time included."""
    if batch.schema.equals(schema.arrow, check_metadata=True):
        return batch
    if not batch.schema.equals(schema.arrow):
        raise SchemaError(schema_difference(batch.schema, schema.arrow))
    unit = (batch.schema.metadata or {}).get(UNIT_KEY, schema.time_unit.encode())
    if unit != schema.time_unit.encode():
        raise SchemaError(f"time unit: expected {schema.time_unit}, got {unit.decode()}")
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema.arrow)


def schema_difference(got: pa.Schema, wanted: pa.Schema) -> str:
    """One sentence that names the first column in which two schemas differ."""
    for i, field in enumerate(wanted):
        if i >= len(got):
            return f"column {i}: {field.name} {field.type} is missing"
        if not got.field(i).equals(field):
            return f"column {i}: expected {field}, got {got.field(i)}"
    return f"column {len(wanted)}: unexpected {got.field(len(wanted))}"
