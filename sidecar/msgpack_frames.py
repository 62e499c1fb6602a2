"""Rows as msgpack: for producers in a language without Arrow, and for people with little time.

    {"vs": [6, 6, 7],                       when each event starts
     "ve": [20, nil, 9],                    when it ends; nil: no end yet
     "was": [nil, nil, 12],                 what the end was before; nil, or no "was": an insert
     "columns": {"src": ["A", "B", "A"],    the payload, a list a column
                 "len": [7, 8, 7]}}

One msgpack map, a list a column, as many values in each as there are rows. Times are integers in
the stream's unit. A payload value is written as its Arrow type says: integers and floats as such,
bool, string as str, binary as bin, timestamps, dates and durations as an integer of their unit,
decimals as their text, a list as a list, a struct as that of its fields' values, an interval as
that of its months, days and nanoseconds. nil is null. docs/sidecar.md has it byte by byte.

It is read by columns: Python looks at single values only of decimals, structs, lists and intervals.
"""

from __future__ import annotations

from decimal import Decimal
from itertools import chain
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa

from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import DecodeError, FrameError
from gapless.protocol.frame import Frame, Times
from gapless.protocol.ipc_guard import ROWS_MAX
from gapless.protocol.lists import list_of
from gapless.protocol.schema import StreamSchema
from gapless.protocol.values import floats, from_values, ticks_type, to_values

DECIMAL_CHARS_MAX = 160
"""Characters of a decimal: 76 digits is the widest type; an exponent may say the rest."""

_KEYS = frozenset({"vs", "ve", "was", "columns"})


def encode(frame: Frame) -> bytes:
    """The rows of a frame."""
    ends = pa.array(frame.ve, mask=frame.ve == INF)
    document: dict[str, Any] = {"vs": frame.vs.tolist(), "ve": ends.to_pylist()}
    if not frame.insert_only:
        document["was"] = pa.array(frame.was, mask=frame.is_insert).to_pylist()
    payload = frame.payload
    document["columns"] = {
        field.name: _written(to_values(payload.column(i)), field.type)
        for i, field in enumerate(payload.schema)
    }
    data: bytes = msgpack.packb(document, use_bin_type=True)
    return data


def decode(data: bytes, schema: StreamSchema, rows_max: int = ROWS_MAX) -> Frame:
    """The inverse, of bytes from anybody. Raises `DecodeError`."""
    document = _unpack(data)
    unknown = set(document) - _KEYS
    if unknown:
        raise DecodeError("msgpack frame", f"has {_first(unknown)}", ", ".join(sorted(_KEYS)))
    starts = _times(document, "vs", None)
    rows = len(starts)
    if rows > rows_max:
        raise DecodeError("vs", f"{rows} rows", f"<= {rows_max}")
    ends = _times(document, "ve", INF)
    was = _times(document, "was", BEGIN) if document.get("was") is not None else None
    for name, times in (("ve", ends), ("was", was)):
        if times is not None and len(times) != rows:
            raise DecodeError(name, f"{len(times)} times", rows)
    columns = document.get("columns")
    if not isinstance(columns, dict):
        raise DecodeError("columns", f"is a {type(columns).__name__}", "a map of lists")
    strangers = set(columns) - set(schema.names)
    if strangers:
        raise DecodeError("columns", f"has {_first(strangers)}", ", ".join(schema.names))
    payload = [_column(columns, field, rows) for field in schema.payload]
    try:
        return Frame.from_columns(schema, starts, ends, payload, was)
    except FrameError as e:
        raise DecodeError("rows", str(e)) from None


def _first(keys: set[Any]) -> str:
    """One of them, always the same: a stranger's keys may be texts and bytes."""
    return f"{min(map(repr, keys)):.40}"


def _unpack(data: bytes) -> dict[str, Any]:
    size = len(data)
    try:
        document = msgpack.unpackb(
            data,
            raw=False,
            strict_map_key=True,
            max_str_len=size,
            max_bin_len=size,
            max_array_len=min(size, ROWS_MAX),
            max_map_len=size // 2,
            max_ext_len=0,
        )
    except (ValueError, msgpack.UnpackException, RecursionError) as e:
        raise DecodeError("msgpack frame", str(e) or type(e).__name__) from None
    if not isinstance(document, dict):
        raise DecodeError("msgpack frame", f"is a {type(document).__name__}", "a map")
    return document


def _times(document: dict[str, Any], name: str, missing: int | None) -> Times:
    listed = document.get(name)
    if not isinstance(listed, list):
        raise DecodeError(name, f"is a {type(listed).__name__}", "a list of integers")
    try:
        _check_kinds(listed, pa.int64())
        times = pa.array(listed, pa.int64())
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as e:
        raise DecodeError(name, f"is not a list of 64 bit integers: {e}") from None
    if missing is None:
        if times.null_count:
            raise DecodeError(name, "has nil", "integers")
    else:
        times = times.fill_null(missing)
    array: Times = np.asarray(times.to_numpy(zero_copy_only=False), np.int64)
    return array


def _column(columns: dict[str, Any], field: pa.Field, rows: int) -> pa.Array:
    name = field.name
    listed = columns.get(name)
    if not isinstance(listed, list):
        raise DecodeError(f"column {name!r}", f"is a {type(listed).__name__}", "a list")
    if len(listed) != rows:
        raise DecodeError(f"column {name!r}", f"{len(listed)} values", rows)
    t = field.type
    try:
        return _array(listed, t)
    except _MISFITS as e:
        raise DecodeError(f"column {name!r}", f"does not fit {t}: {e}") from None


_MISFITS = (
    pa.ArrowException,
    FrameError,
    ArithmeticError,  # of decimals, and of integers that are too large
    AttributeError,
    IndexError,
    TypeError,
    ValueError,
)
"""What making a column of a stranger's values may raise."""


def _array(listed: list[Any], t: pa.DataType) -> pa.Array:
    if pa.types.is_list(t):
        wrong = set(map(type, listed)) - {list, type(None)}
        if wrong:
            raise ValueError(f"a value is a {wrong.pop().__name__}, and no list")
        counts = np.fromiter((len(v or ()) for v in listed), np.int64, len(listed))
        inside = _array(list(chain.from_iterable(v or () for v in listed)), t.value_type)
        return list_of(inside, counts, t, pa.array([v is None for v in listed], pa.bool_()))
    if not _is_simple(t):
        return from_values([_read(v, t) for v in listed], t)
    ticks = ticks_type(t)
    _check_kinds(listed, t)
    if pa.types.is_floating(t):
        return floats(listed, t)
    array = pa.array(listed, t) if ticks is None else pa.array(listed, ticks).view(t)
    array.validate(full=True)  # a time of day within the day, a date64 of whole days, ...
    return array


def _is_simple(t: pa.DataType) -> bool:
    """Whether a list of msgpack values is what Arrow makes a column of by itself."""
    types = pa.types
    return not (
        types.is_decimal(t)
        or types.is_nested(t)
        or types.is_dictionary(t)
        or types.is_float16(t)
        or types.is_interval(t)
    )


def _check_kinds(listed: list[Any], t: pa.DataType) -> None:
    """Raises `ValueError` where a value is not written as its type says: Arrow would cut off what
    is behind the point of a number, or take a text for bytes.
    """
    types = pa.types
    wanted: set[type]
    if types.is_boolean(t):
        wanted = {bool}
    elif types.is_floating(t):
        wanted = {int, float}
    elif types.is_integer(t) or types.is_temporal(t):
        wanted = {int}
    elif types.is_string(t) or types.is_large_string(t) or types.is_string_view(t):
        wanted = {str}
    else:
        wanted = {bytes}
    wrong = set(map(type, listed)) - wanted - {type(None)}
    if wrong:
        raise ValueError(f"a value is a {wrong.pop().__name__}")


def _read(value: Any, t: pa.DataType) -> Any:
    """A msgpack value as a payload value."""
    if value is None:
        return None
    if pa.types.is_decimal(t):
        if not isinstance(value, str) or len(value) > DECIMAL_CHARS_MAX:
            raise ValueError(f"{value!r:.40} is no decimal as text")
        return Decimal(value)
    if pa.types.is_struct(t):
        if not isinstance(value, list) or len(value) != t.num_fields:
            raise ValueError(f"{value!r:.40} is not a list of {t.num_fields} values")
        return tuple(_read(v, field.type) for v, field in zip(value, t, strict=True))
    if pa.types.is_list(t):
        if not isinstance(value, list):
            raise ValueError(f"{value!r:.40} is no list")
        return tuple(_read(v, t.value_type) for v in value)
    if pa.types.is_interval(t):
        if not isinstance(value, list) or list(map(type, value)) != [int] * 3:
            raise ValueError(f"{value!r:.40} is not a list of months, days and nanoseconds")
        return pa.MonthDayNano(value)
    return value


def _written(column: list[Any], t: pa.DataType) -> list[Any]:
    """Payload values as msgpack has them."""
    return column if _is_simple(t) else [_write(v, t) for v in column]


def _write(value: Any, t: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_decimal(t):
        return str(value)
    if pa.types.is_struct(t):
        return [_write(v, field.type) for v, field in zip(value, t, strict=True)]
    if pa.types.is_list(t):
        return [_write(v, t.value_type) for v in value]
    return value
