"""Rows as Python tuples that are equal exactly when the keys are, and back.

The twin's counterpart of the native kernel's row layout. Canonical values: integers for integers
and for the bits of floats (one NaN, one zero), bytes for everything else that has bytes, a tuple
for a struct, None for a null. None of them depends on Python's own idea of equality of floats,
decimals or timestamps. A list is a tuple of its elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import encode_again, plain_type

Row = tuple[Any, ...]

_is = pa.types
_FLOAT_BITS = {16: np.uint16, 32: np.uint32, 64: np.uint64}
_BYTES = {
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
}


def _bare(t: pa.DataType) -> pa.DataType:
    """The type under which `t` is looked at: same buffers, plainer values."""
    if _is.is_integer(t) or _is.is_boolean(t):
        return t
    if _is.is_floating(t):
        return {16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}[t.bit_width]
    if t in _BYTES:
        return _BYTES[t]
    if _is.is_temporal(t) and not _is.is_interval(t):
        return pa.int32() if t.bit_width == 32 else pa.int64()
    if _is.is_decimal(t) or _is.is_interval(t):
        return pa.binary(t.bit_width // 8)
    return t


def _one_nan_one_zero(array: pa.Array) -> pa.Array:
    """The bits of a float array in which equal numbers have equal bits."""
    bits = _FLOAT_BITS[array.type.bit_width]
    data = array.buffers()[1]
    if data is None:
        return array.view(_bare(array.type))
    dtype = f"f{array.type.bit_width // 8}"
    raw = np.frombuffer(data, np.uint8)
    raw = raw[array.offset * array.type.bit_width // 8 :]
    numbers = raw[: len(array) * array.type.bit_width // 8].copy().view(dtype)
    numbers[numbers == 0] = 0.0
    numbers[np.isnan(numbers)] = np.nan
    missing = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    return pa.array(numbers.view(bits), mask=missing)


def to_values(array: pa.Array, name: str) -> list[Any]:
    """The canonical value of each row of a column."""
    t = array.type
    if _is.is_dictionary(t):
        return _look_up(array, name)
    if _is.is_struct(t):
        if t.num_fields == 0:
            return [() if valid else None for valid in array.is_valid().to_pylist()]
        children = zip(array.flatten(), t, strict=True)
        rows = zip(*(to_values(a, f"{name}.{f.name}") for a, f in children), strict=True)
        if array.null_count == 0:
            return list(rows)
        valid = array.is_valid().to_pylist()
        return [row if ok else None for row, ok in zip(rows, valid, strict=True)]
    if _is.is_list(t):
        return _lists(array, name)
    if _is.is_floating(t):
        array = _one_nan_one_zero(array)
    elif _bare(t) != t:
        array = array.view(_bare(t))
    if _is.is_integer(array.type) and array.null_count == 0:
        values: list[Any] = array.to_numpy().tolist()
        return values
    return list(array.to_pylist())


def _lists(array: pa.ListArray, name: str) -> list[Any]:
    elements = iter(to_values(array.flatten(), f"{name}.{array.type.value_field.name}"))
    lengths = array.value_lengths().to_pylist()
    return [None if n is None else tuple(islice(elements, n)) for n in lengths]


def _look_up(array: pa.DictionaryArray, name: str) -> list[Any]:
    values = to_values(array.dictionary, name)
    indices = array.indices.to_pylist()
    for i in indices:
        if i is not None and not 0 <= i < len(values):
            raise ValueError(
                f"column {name!r}: dictionary index {i} of a dictionary of {len(values)}"
            )
    return [None if i is None else values[i] for i in indices]


def rows_of(batch: pa.RecordBatch) -> list[Row]:
    """The canonical rows of a batch."""
    if batch.num_columns == 0:
        return [()] * batch.num_rows
    columns = zip(batch.columns, batch.schema.names, strict=True)
    return list(zip(*(to_values(column, name) for column, name in columns), strict=True))


def _array(values: Sequence[Any], t: pa.DataType) -> pa.Array:
    """The inverse of `to_values` for a type without dictionaries."""
    if _is.is_struct(t):
        missing = pa.array([v is None for v in values], pa.bool_())
        if t.num_fields == 0:
            return pa.array([None if v is None else {} for v in values], t)
        children = [
            _array([None if v is None else v[i] for v in values], field.type)
            for i, field in enumerate(t)
        ]
        return pa.StructArray.from_arrays(children, fields=list(t), mask=missing)
    if _is.is_list(t):
        elements = _array([v for row in values if row is not None for v in row], t.value_type)
        ends = np.cumsum([0, *(len(row or ()) for row in values)]).astype(np.int32)
        missing = pa.array([row is None for row in values], pa.bool_())
        return pa.ListArray.from_arrays(pa.array(ends), elements, type=t, mask=missing)
    bare = _bare(t)
    array = pa.array(values, bare)
    return array if bare == t else array.view(t)


def batch_of(rows: Sequence[Row], schema: pa.Schema) -> pa.RecordBatch:
    """The inverse of `rows_of`."""
    if len(schema) == 0:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
    columns = []
    for i, field in enumerate(schema):
        plain = _array([row[i] for row in rows], plain_type(field.type))
        columns.append(encode_again(plain, field.type, field.name))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
