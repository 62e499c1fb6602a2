"""Columns as Spark sends them and columns as a journal has them: from one to the other, exactly.

    Spark: timestamp[us]     journal: timestamp[ms]
    12:00:00.250000          12:00:00.250
    12:00:00.250001          does not fit: the row is rejected, and nothing is rounded

Whatever agrees is handed on as it is; all else is done by column. A value that the journal's width
or unit cannot hold *misfits*: the column says so in a mask, for the writer to reject the row.
In the other direction all that can misfit are nanoseconds, of which Spark knows a thousand.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.protocol.casts import by_elements
from gapless.protocol.errors import BadData
from gapless.spark_sources.spark_types import PER_SECOND

Bad = npt.NDArray[np.bool_] | None
"""True for each row that misfits; None where none does."""


class Conformed(NamedTuple):
    """A column in its new type. Where a row misfits, any value stands there."""

    column: pa.Array
    bad: Bad


def conformed(array: pa.Array, t: pa.DataType) -> Conformed:
    """A column in the type `t`, which means the same (`spark_types.check_writable`)."""
    if array.type == t:
        return Conformed(array, None)
    if pa.types.is_struct(t):
        return _struct(array, t)
    if pa.types.is_list(t):
        return Conformed(*by_elements(array, t, conformed))
    if pa.types.is_dictionary(t):
        values, bad = conformed(array, t.value_type)
        encoded = values.dictionary_encode()
        indices = encoded.indices.cast(t.index_type)
        column = pa.DictionaryArray.from_arrays(indices, encoded.dictionary, ordered=t.ordered)
        return Conformed(column, bad)
    if pa.types.is_dictionary(array.type):
        return conformed(array.dictionary_decode(), t)
    if pa.types.is_temporal(t) and not pa.types.is_date(t):
        return _ticks(array, t)
    bad = _misfits(array, t)
    if bad is not None:
        array = pc.if_else(pa.array(bad), pa.scalar(None, array.type), array)
    return Conformed(array.cast(t), bad)


def for_spark(columns: Sequence[pa.Array], schema: pa.Schema, where: str) -> pa.RecordBatch:
    """Columns of a journal as the batch that Spark takes. Raises `BadData` where Spark has no such
    value; `where` says of what.
    """
    arrays = []
    for array, field in zip(columns, schema, strict=True):
        column, bad = conformed(array, field.type)
        if bad is not None:
            raise BadData(
                f"{where}: column {field.name!r} is {array.type} and has times that Spark, which "
                "counts microseconds, does not know; read it without Spark (gl.JournalReader)"
            )
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def either(first: Bad, second: Bad) -> Bad:
    """The rows that misfit in one or the other."""
    if first is None or second is None:
        return second if first is None else first
    return first | second


def _struct(array: pa.StructArray, t: pa.DataType) -> Conformed:
    """Field by field; of a struct that is null its fields are null, so nothing in it misfits."""
    children, bad = [], None
    for child, field in zip(array.flatten(), t, strict=True):
        column, wrong = conformed(child, field.type)
        children.append(column)
        bad = either(bad, wrong)
    mask = array.is_null() if array.null_count else None
    return Conformed(pa.StructArray.from_arrays(children, fields=list(t), mask=mask), bad)


def _ticks(array: pa.Array, t: pa.DataType) -> Conformed:
    """Counts of one unit as counts of another; a zone changes nothing."""
    had, wanted = PER_SECOND[array.type.unit], PER_SECOND[t.unit]
    if had == wanted:
        return Conformed(array.cast(t), None)
    counts = _values(array)
    if had > wanted:
        step = had // wanted
        made = counts // step
        bad = made * step != counts
    else:
        step = wanted // had
        made = counts * step  # what overflows misfits
        bad = made // step != counts
    present = None if not array.null_count else array.is_valid().to_numpy(zero_copy_only=False)
    if present is not None:
        bad &= present
    raw = made.astype(np.int32) if t.bit_width == 32 else made
    column = pa.array(raw, mask=None if present is None else ~present).view(t)
    return Conformed(column, bad if bad.any() else None)


def _values(array: pa.Array) -> npt.NDArray[np.int64]:
    """The counts of a temporal column; those of nulls are whatever lies there."""
    dtype = np.dtype(np.int32 if array.type.bit_width == 32 else np.int64)
    data = array.buffers()[1]
    if data is None or not len(array):
        return np.zeros(len(array), np.int64)
    values = np.frombuffer(data, dtype, len(array), array.offset * dtype.itemsize)
    return values.astype(np.int64, copy=False)


def _misfits(array: pa.Array, t: pa.DataType) -> Bad:
    """The rows that a width cannot hold: of an integer, or of binary of a fixed size."""
    if pa.types.is_fixed_size_binary(t):
        bad = pc.not_equal(pc.binary_length(array), t.byte_width)
    elif pa.types.is_integer(t) and not _holds(t, array.type):
        least, most = _bounds(t)
        values: Any = (least, most)
        if pa.types.is_decimal(array.type):
            values = (Decimal(least), Decimal(most))
            array = array.cast(pa.decimal256(array.type.precision + 1, 0))
        else:
            array, values = array.cast(pa.int64()), (max(least, -(2**63)), min(most, 2**63 - 1))
        low, high = (pa.scalar(value, array.type) for value in values)
        bad = pc.or_(pc.less(array, low), pc.greater(array, high))
    else:
        return None
    if not pc.any(bad).as_py():
        return None
    rows: npt.NDArray[np.bool_] = pc.fill_null(bad, False).to_numpy(zero_copy_only=False)
    return rows


def _holds(t: pa.DataType, given: pa.DataType) -> bool:
    """Whether every value of one integer type is one of another."""
    if not pa.types.is_integer(given):
        return False
    (least, most), (low, high) = _bounds(t), _bounds(given)
    return least <= low and high <= most


def _bounds(t: pa.DataType) -> tuple[int, int]:
    if pa.types.is_unsigned_integer(t):
        return 0, 2**t.bit_width - 1
    return -(2 ** (t.bit_width - 1)), 2 ** (t.bit_width - 1) - 1
