"""Payload values between Arrow columns and Python, exactly and in one canonical form.

Used where a person or a slow twin looks at rows one by one: elements, the text notation, the TDB.

Canonical means: two payloads are equal under the product's rule exactly when their Python tuples
are equal and hash alike. So every NaN is the one object `math.nan` (tuples compare by identity
first), -0.0 becomes 0.0, a struct is a tuple of its fields, a list one of its elements, a
dictionary is decoded, and dates, times, timestamps and durations are integer counts of their unit,
because Python's own types lose nanoseconds and time zones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from gapless.protocol.errors import FrameError
from gapless.protocol.lists import elements, list_of


def canonical_float(x: float) -> float:
    """The one NaN, and zero without a sign."""
    return math.nan if x != x else x + 0.0  # -0.0 + 0.0 is 0.0


def ticks_type(t: pa.DataType) -> pa.DataType | None:
    """The integer type that holds the ticks of a temporal type; None where `t` is not one."""
    if not pa.types.is_temporal(t) or pa.types.is_interval(t):
        return None
    return pa.int32() if t.bit_width == 32 else pa.int64()


def to_values(array: pa.Array) -> list[Any]:
    """The rows of `array` as canonical Python values."""
    t = array.type
    ticks = ticks_type(t)
    if ticks is not None:
        return list(array.view(ticks).to_pylist())
    if pa.types.is_dictionary(t):
        values = to_values(array.dictionary)
        return [None if i is None else values[i] for i in array.indices.to_pylist()]
    if pa.types.is_struct(t):
        rows: Iterable[Any] = zip(*map(to_values, array.flatten()), strict=True)
        if array.null_count == 0:
            return list(rows)
        return [v if ok else None for v, ok in zip(rows, array.is_valid().to_pylist(), strict=True)]
    if pa.types.is_list(t):
        items = iter(to_values(elements(array)))
        lengths = array.value_lengths().to_pylist()
        return [None if n is None else tuple(islice(items, n)) for n in lengths]
    if pa.types.is_floating(t):
        return [None if x is None else canonical_float(float(x)) for x in array.to_pylist()]
    return list(array.to_pylist())


def from_values(values: Sequence[Any], t: pa.DataType, name: str = "value") -> pa.Array:
    """The inverse of `to_values`; raises `FrameError` where a value does not fit type `t`."""
    try:
        array = _from_values(values, t)
        array.validate(full=True)  # a time of day within the day, a date64 of whole days, ...
        return array
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as e:
        raise FrameError(f"column {name!r} of type {t}: {e}") from None


def _from_values(values: Sequence[Any], t: pa.DataType) -> pa.Array:
    ticks = ticks_type(t)
    if ticks is not None or pa.types.is_integer(t):
        for v in values:
            if isinstance(v, Decimal):
                raise TypeError(f"the decimal {v} is no integer")  # Arrow would cut off its rest
    if ticks is not None:
        return pa.array(values, ticks).view(t)
    if pa.types.is_dictionary(t):
        places: dict[Any, int] = {}
        indices = [None if v is None else places.setdefault(v, len(places)) for v in values]
        return pa.DictionaryArray.from_arrays(
            pa.array(indices, t.index_type),
            _from_values(list(places), t.value_type),
            ordered=t.ordered,
        )
    if pa.types.is_struct(t):
        for v in values:
            if v is not None and len(v) != t.num_fields:
                raise ValueError(f"a struct of {t.num_fields} fields, got {len(v)}")
        children = [
            _from_values([None if v is None else v[i] for v in values], field.type)
            for i, field in enumerate(t)
        ]
        missing = pa.array([v is None for v in values], pa.bool_())
        return pa.StructArray.from_arrays(children, fields=list(t), mask=missing)
    if pa.types.is_list(t):
        return _lists(values, t)
    if pa.types.is_floating(t):
        return floats(values, t)
    return pa.array(values, t)


def _lists(values: Sequence[Any], t: pa.DataType) -> pa.Array:
    for v in values:
        if v is not None and not isinstance(v, list | tuple):  # a text has a length, too
            raise TypeError(f"a list is a list or a tuple, not {v!r:.40}")
    inside = _from_values([item for v in values for item in v or ()], t.value_type)
    counts = np.array([len(v or ()) for v in values], np.int64)
    return list_of(inside, counts, t, pa.array([v is None for v in values], pa.bool_()))


def floats(values: Sequence[Any], t: pa.DataType) -> pa.Array:
    """Numbers as floats of type `t`, each the nearest; raises `OverflowError` where a number would
    become infinite.
    """
    if pa.types.is_float16(t):
        with np.errstate(over="ignore"):
            array = pa.array([None if v is None else np.float16(v) for v in values], t)
    else:
        array = pa.array(values, t)
    infinite = np.flatnonzero(np.isinf(array.to_numpy(zero_copy_only=False)))
    for i in infinite.tolist():
        if not math.isinf(values[i]):
            raise OverflowError(f"{values[i]} is beyond all of {t}")
    return array


def payload_tuples(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """The rows of a payload batch as canonical tuples: equal exactly when the payloads are."""
    return list(zip(*map(to_values, batch.columns), strict=True))


def payload_columns(payloads: Sequence[tuple[Any, ...]], schema: pa.Schema) -> list[pa.Array]:
    """The columns of such rows: the inverse of `payload_tuples`. Raises `FrameError`."""
    width = len(schema)
    for payload in payloads:
        if len(payload) != width:
            raise FrameError(f"payload {payload!r}: the schema has {width} columns")
    return [
        from_values([payload[i] for payload in payloads], field.type, field.name)
        for i, field in enumerate(schema)
    ]
