"""Hypothesis strategies for what streams are made of, each covering all that the product accepts.

    payload_types()        every supported Arrow type: leaves, dictionaries, structs, lists
    values(t)              canonical Python values of a type, as `gapless.protocol.values` has them
    arrays(t)              Arrow columns of it, now and then a slice of a longer one
    schemas()              a `StreamSchema` of a few columns
    frames(schema)         legal frames: inserts, adjusts, removals, a stable or none
    documents()            control documents: plain data

Times and integers come from a small domain most of the time, so that rows meet, and from the edges
of int64 often enough to matter.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from gapless.protocol.columns import without_views
from gapless.protocol.documents import Document
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.frame import Frame
from gapless.protocol.schema import TIME_UNITS, StreamSchema
from gapless.protocol.values import canonical_float, from_values

INDEX_TYPES = [
    pa.int8(), pa.int16(), pa.int32(), pa.int64(),
    pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
]  # fmt: skip

FIXED_TYPES = [
    pa.bool_(),
    *INDEX_TYPES,
    pa.float16(), pa.float32(), pa.float64(),
    pa.decimal32(5, 2), pa.decimal64(12, 0), pa.decimal128(30, 10), pa.decimal256(60, 5),
    pa.date32(), pa.date64(),
    pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"),
    pa.timestamp("s"), pa.timestamp("ms", "UTC"), pa.timestamp("us", "Europe/Berlin"),
    pa.timestamp("ns"),
    pa.duration("s"), pa.duration("ns"),
    pa.month_day_nano_interval(),
    pa.binary(1), pa.binary(16),
]  # fmt: skip

VARIABLE_TYPES = [
    pa.string(), pa.large_string(), pa.string_view(),
    pa.binary(), pa.large_binary(), pa.binary_view(),
]  # fmt: skip

LEAF_TYPES = FIXED_TYPES + VARIABLE_TYPES

NAMES = st.text("abcxyzAZ09 _.é=,:<>", min_size=1, max_size=6).filter(lambda s: s[0] != "_")

_TICKS_A_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_INT64 = st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1)


def dictionary_types() -> st.SearchStrategy[pa.DataType]:
    return st.builds(
        pa.dictionary,
        st.sampled_from([t for t in INDEX_TYPES if t.bit_width >= 32]),
        st.sampled_from(LEAF_TYPES),
        st.booleans(),
    )


def struct_types(fields: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    field = st.builds(pa.field, NAMES, fields, st.booleans())
    return st.lists(field, min_size=1, max_size=3, unique_by=lambda f: f.name).map(pa.struct)


def list_types() -> st.SearchStrategy[pa.DataType]:
    """Lists of plain leaves, of structs with lists in them, of lists; of nullable items or not."""
    plain = st.sampled_from([t for t in LEAF_TYPES if without_views(t) == t])

    def lists(of: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
        return st.builds(
            lambda t, nullable: pa.list_(pa.field("item", t, nullable)), of, st.booleans()
        )

    return lists(plain | struct_types(plain | lists(plain)) | lists(plain))


def payload_types() -> st.SearchStrategy[pa.DataType]:
    """Every type that a payload column may have, structs and lists to two levels."""
    flat = st.sampled_from(LEAF_TYPES) | dictionary_types() | list_types()
    return flat | struct_types(flat | struct_types(flat))


def values(t: pa.DataType, nullable: bool = True) -> st.SearchStrategy[Any]:
    """Canonical Python values of type `t`; None among them where it is nullable."""
    some = _values(t)
    return st.none() | some if nullable else some


def _values(t: pa.DataType) -> st.SearchStrategy[Any]:
    types = pa.types
    if types.is_dictionary(t):
        return _values(t.value_type)
    if types.is_struct(t):
        return st.tuples(*(values(field.type, field.nullable) for field in t))
    if types.is_list(t):
        item = values(t.value_type, t.value_field.nullable)
        return st.lists(item, max_size=3).map(tuple)
    if types.is_boolean(t):
        return st.booleans()
    if types.is_integer(t):
        return _integers(t)
    if types.is_floating(t):
        return st.floats(width=t.bit_width).map(canonical_float)
    if types.is_decimal(t):
        most = 10**t.precision - 1
        unscaled = st.integers(-3, 3) | st.integers(-most, most)
        return unscaled.map(lambda n: _decimal(n, t.scale))
    if types.is_interval(t):
        int32 = st.integers(-(2**31), 2**31 - 1)
        return st.tuples(int32, int32, _INT64)
    if types.is_temporal(t):
        return _ticks(t)
    if types.is_fixed_size_binary(t):
        return st.binary(min_size=t.byte_width, max_size=t.byte_width)
    if types.is_string(t) or types.is_large_string(t) or types.is_string_view(t):
        return st.text(st.characters(codec="utf-8"), max_size=20)
    return st.binary(max_size=20)


def _decimal(unscaled: int, scale: int) -> Decimal:
    digits = tuple(map(int, str(abs(unscaled))))
    return Decimal((int(unscaled < 0), digits, -scale))


def _integers(t: pa.DataType) -> st.SearchStrategy[int]:
    bits = t.bit_width
    if pa.types.is_unsigned_integer(t):
        return st.integers(0, 5) | st.integers(0, 2**bits - 1)
    return st.integers(-5, 5) | st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _ticks(t: pa.DataType) -> st.SearchStrategy[int]:
    if pa.types.is_time(t):
        return st.integers(0, _TICKS_A_DAY[t.unit] - 1)
    if pa.types.is_date32(t):
        return st.integers(-(2**31), 2**31 - 1)
    if pa.types.is_date64(t):
        return st.integers(-(10**9), 10**9).map(lambda days: days * _TICKS_A_DAY["ms"])
    return _INT64


@st.composite
def arrays(
    draw: st.DrawFn, t: pa.DataType, length: int | None = None, nullable: bool = True
) -> pa.Array:
    """A column of type `t`; sometimes a slice, whose buffers hold more than its rows."""
    if length is None:
        length = draw(st.integers(0, 8))
    before, after = draw(st.sampled_from([(0, 0), (0, 0), (1, 0), (3, 2)]))
    rows = st.lists(
        values(t, nullable), min_size=before + length + after, max_size=before + length + after
    )
    return from_values(draw(rows), t).slice(before, length)


@st.composite
def schemas(
    draw: st.DrawFn,
    types: st.SearchStrategy[pa.DataType] | None = None,
    columns_max: int = 3,
    time_unit: str | None = None,
) -> StreamSchema:
    """A schema of one to `columns_max` payload columns."""
    field = st.builds(pa.field, NAMES, types or payload_types(), st.booleans())
    fields = draw(st.lists(field, min_size=1, max_size=columns_max, unique_by=lambda f: f.name))
    return StreamSchema(pa.schema(fields), time_unit or draw(st.sampled_from(TIME_UNITS)))


def starts() -> st.SearchStrategy[int]:
    """Times that an event may start at."""
    return st.integers(-3, 8) | st.sampled_from([BEGIN + 1, INF - 1])


def stables() -> st.SearchStrategy[int | None]:
    """Stable times, or None."""
    return st.none() | st.integers(-3, 12) | st.sampled_from([BEGIN + 1, INF])


@st.composite
def row_times(draw: st.DrawFn) -> tuple[int, int, int]:
    """`_vs`, `_ve`, `_was` of one legal row."""
    vs = draw(starts())

    def end(low: int) -> int:
        near = st.integers(low, min(low + 6, INF))
        return draw(near | st.just(INF))

    if draw(st.booleans()):
        return vs, end(vs + 1), BEGIN
    return vs, end(vs), end(vs + 1)


@st.composite
def frames(draw: st.DrawFn, schema: StreamSchema | None = None, rows_max: int = 8) -> Frame:
    """A legal frame. A frame is legal by itself: it need not continue any stream."""
    if schema is None:
        schema = draw(schemas())
    times = draw(st.lists(row_times(), max_size=rows_max))
    vs, ve, was = (np.array([t[i] for t in times], np.int64) for i in range(3))
    payload = [draw(arrays(f.type, len(times), f.nullable)) for f in schema.payload]
    return Frame.from_columns(schema, vs, ve, payload, was, draw(stables()))


def documents() -> st.SearchStrategy[Document]:
    """Plain data as control documents hold it."""
    leaves = (
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**64 - 1)
        | st.floats(allow_nan=False)
        | st.text(st.characters(codec="utf-8"), max_size=20)
        | st.binary(max_size=20)
    )
    keys = st.text(st.characters(codec="utf-8"), max_size=5)
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
        max_leaves=12,
    )
