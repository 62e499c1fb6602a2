"""Columns as accumulators read them: numbers without a copy, and which rows hold a value.

    column     4  null  9             numbers  4  9       valid  0  2
    timestamps, dates, durations, decimals of 32 and 64 bits: the integers that they are made of

A column without nulls costs nothing here: its buffer is looked at where it lies.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.kernels.keys import Ids
from gapless.operators.aggregates.function import AggregateFunction, place_of
from gapless.protocol.columns import take
from gapless.protocol.errors import SchemaError

Numbers = npt.NDArray[Any]

_is = pa.types


def valid_rows(column: pa.Array) -> Ids | None:
    """The positions of rows that hold a value; None where all do."""
    if _is.is_dictionary(column.type) and column.dictionary.null_count:
        column = take(column.dictionary, column.indices)  # an index may stand for a null, too
    if not column.null_count:
        return None
    valid: Ids = column.is_valid().to_numpy(zero_copy_only=False).nonzero()[0]
    return valid


def present_rows(ids: Ids, column: pa.Array) -> tuple[Ids, pa.Array]:
    """The rows that hold a value."""
    valid = valid_rows(column)
    return (ids, column) if valid is None else (ids[valid], take(column, pa.array(valid)))


class NumberColumn:
    """Reads one column of rows of a schema as numbers."""

    __slots__ = ("_bare", "_half", "_place", "type")

    def __init__(self, place: int, t: pa.DataType) -> None:
        self.type = t
        self._place = place
        self._half = _is.is_float16(t)
        self._bare = _bare(t)

    def read(self, rows: pa.RecordBatch) -> tuple[Numbers, Ids | None]:
        """The values that are there, and the positions of their rows: None if those are all."""
        column = rows.column(self._place)
        if self._bare is not None:
            column = (
                column.cast(pa.int8()) if _is.is_boolean(self.type) else column.view(self._bare)
            )
        if not column.null_count:
            values, valid = column.to_numpy(), None
        else:
            values, valid = column.drop_null().to_numpy(), valid_rows(column)
        return (values.astype(np.float32) if self._half else values), valid

    @property
    def dtype(self) -> np.dtype[Any]:
        """What the numbers are."""
        if self._half:
            return np.dtype(np.float32)
        dtype: np.dtype[Any] = np.dtype((self._bare or self.type).to_pandas_dtype())
        return dtype

    def column(self, numbers: Numbers, missing: npt.NDArray[np.bool_] | None) -> pa.Array:
        """The inverse of `read`: numbers as a column of the type, null where one is missing."""
        if self._half:
            numbers = numbers.astype(np.float16)
        array = pa.array(numbers, mask=missing)
        if self._bare is None:
            return array
        return array.cast(pa.bool_()) if _is.is_boolean(self.type) else array.view(self.type)


def _bare(t: pa.DataType) -> pa.DataType | None:
    """The integers that a type is made of; None for a type that numpy takes as it is."""
    if _is.is_integer(t) or _is.is_floating(t):
        return None
    if _is.is_boolean(t):
        return pa.int8()
    return pa.int32() if t.bit_width == 32 else pa.int64()


def has_numbers(t: pa.DataType) -> bool:
    """Whether a type's values are numbers of 64 bits at most, in their own order."""
    return bool(
        _is.is_integer(t)
        or _is.is_floating(t)
        or _is.is_boolean(t)
        or (_is.is_temporal(t) and not _is.is_interval(t))
        or _is.is_decimal32(t)
        or _is.is_decimal64(t)
    )


def arithmetic_column(function: AggregateFunction, schema: pa.Schema) -> NumberColumn:
    """The one column of a function that computes; raises `SchemaError` unless it holds numbers."""
    (name,) = function.columns
    place = place_of(function, schema, name)
    t = schema.field(place).type
    if _is.is_integer(t) or _is.is_floating(t):
        return NumberColumn(place, t)
    if _is.is_decimal(t):
        remedy = "cast it to float64 and give scale=, or to an integer count of its smallest unit"
    elif has_numbers(t):
        remedy = f"cast it to {'int8' if _is.is_boolean(t) else 'int64'} first"
    elif _is.is_dictionary(t) and has_numbers(t.value_type):
        remedy = f"cast it to {t.value_type} first"
    else:
        remedy = "it takes integers and floats"
    raise SchemaError(f"{function}: column {name!r} is {t}; {remedy}")
