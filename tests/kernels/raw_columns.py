"""Arrow columns as unfriendly as the format allows, made buffer by buffer from a seed.

Values come from small pools, so that rows meet. What differs without meaning is drawn freely: where
in its buffers a column starts, at what address they lie, whether a validity bitmap is there when
nothing is null, what lies under a null (for a dictionary an index far outside), which dictionary
stands behind equal values, which NaN and which zero is meant.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

INDEX_TYPES = [
    pa.int8(), pa.int16(), pa.int32(), pa.int64(),
    pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
]  # fmt: skip

FIXED_TYPES = [
    *INDEX_TYPES,
    pa.float16(), pa.float32(), pa.float64(),
    pa.decimal32(5, 2), pa.decimal64(12, 3), pa.decimal128(30, 10), pa.decimal256(60, 5),
    pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"),
    pa.timestamp("s"), pa.timestamp("ms", "UTC"), pa.timestamp("ns"),
    pa.duration("us"), pa.month_day_nano_interval(),
    pa.binary(0), pa.binary(1), pa.binary(3), pa.binary(16), pa.binary(32), pa.binary(33),
    pa.binary(100),
]  # fmt: skip

TEXT_TYPES = [
    pa.string(), pa.large_string(), pa.string_view(),
    pa.binary(), pa.large_binary(), pa.binary_view(),
]  # fmt: skip

LEAF_TYPES = [pa.bool_(), *FIXED_TYPES, *TEXT_TYPES]

TEXTS = ["", "a", "b", "ab", "abcd", "é", "exactly12byt", "exactly13byte", "sixteen bytes ok"]
TEXTS += ["longer than any inline form", "longer than any inline FORM", "x" * 300]

FLOATS = {
    16: (np.uint16, [0, 0x8000, 0x7E00, 0xFE01, 0x7C01, 0x7C00, 0x3C00, 1, 0x8001]),
    32: (np.uint32, [0, 1 << 31, 0x7FC00000, 0xFFC00001, 0x7F800001, 0x7F800000, 0x3F800000, 1]),
    64: (
        np.uint64,
        [0, 1 << 63, 0x7FF8 << 48, 0xFFF8 << 48 | 1, 0x7FF0 << 48 | 1, 0x7FF0 << 48, 0x3FF0 << 48],
    ),
}
"""Bits of both zeros, three NaNs, infinity, one, the smallest number."""

_is = pa.types


def key_types(fields_min: int = 0) -> st.SearchStrategy[pa.DataType]:
    """Every kind of type that a key may have, structs and lists to two levels."""
    leaves = st.sampled_from(LEAF_TYPES)
    flat = leaves | st.builds(pa.dictionary, st.sampled_from(INDEX_TYPES), leaves, st.booleans())
    in_lists = st.sampled_from([t for t in LEAF_TYPES if not is_view(t)])

    def structs(of: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
        return st.lists(of, min_size=fields_min, max_size=3).map(
            lambda types: pa.struct([(f"f{i}", t) for i, t in enumerate(types)])
        )

    def lists(of: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
        return of.map(pa.list_)

    nested = lists(in_lists | structs(in_lists) | lists(in_lists | structs(in_lists)))
    return flat | nested | structs(flat | nested | structs(flat))


def is_view(t: pa.DataType) -> bool:
    """Whether it is a view layout, which the elements of a list may not have."""
    return bool(_is.is_string_view(t) or _is.is_binary_view(t))


def schemas(fields_min: int = 0) -> st.SearchStrategy[pa.Schema]:
    """Schemas of up to four columns; tables and structs have at least `fields_min`."""
    return st.lists(key_types(fields_min), min_size=fields_min, max_size=4).map(
        lambda types: pa.schema([(f"c{i}", t) for i, t in enumerate(types)])
    )


def raw_batch(rng: np.random.Generator, schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """A batch of `rows` rows; `rng` decides everything else."""
    if len(schema) == 0:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
    return pa.RecordBatch.from_arrays(
        [raw_column(rng, field.type, rows) for field in schema], schema=schema
    )


def raw_column(rng: np.random.Generator, t: pa.DataType, rows: int) -> pa.Array:
    """A column of `rows` values of type `t`; `rng` decides everything else."""
    offset = int(rng.choice([0, 0, 1, 7, 64]))
    held = offset + rows + int(rng.integers(0, 3))
    if _is.is_dictionary(t):
        column = _dictionary(rng, t, held)
    elif _is.is_string_view(t) or _is.is_binary_view(t):
        column = pa.array(_texts(rng, held, _is.is_string_view(t)), t)
    else:
        column = _from_buffers(rng, t, held)
    return column.slice(offset, rows)


def _buffer(rng: np.random.Generator, data: bytes) -> pa.Buffer:
    """The bytes at an address that is aligned to nothing, half of the time."""
    shift = int(rng.choice([0, int(rng.integers(1, 8))]))
    return pa.py_buffer(bytes(shift) + data).slice(shift)


def _validity(rng: np.random.Generator, rows: int) -> pa.Buffer | None:
    style = rng.integers(0, 4)
    if style == 0:
        return None
    valid = np.ones(rows, bool) if style == 1 else rng.random(rows) < 0.7
    return _buffer(rng, np.packbits(valid, bitorder="little").tobytes())


def _texts(rng: np.random.Generator, rows: int, is_text: bool) -> list[Any]:
    picked = [TEXTS[i] for i in rng.integers(0, len(TEXTS), rows)]
    null = rng.random(rows) < rng.choice([0.0, 0.3])
    values = [text if is_text else text.encode() for text in picked]
    return [None if n else v for n, v in zip(null, values, strict=True)]


def _from_buffers(rng: np.random.Generator, t: pa.DataType, rows: int) -> pa.Array:
    validity = _validity(rng, rows)
    if _is.is_struct(t):
        children = [raw_column(rng, field.type, rows) for field in t]
        return pa.Array.from_buffers(t, rows, [validity], children=children)
    if _is.is_list(t):
        return _lists(rng, t, rows, validity)
    if _is.is_boolean(t):
        bits = rng.bytes((rows + 7) // 8)
        return pa.Array.from_buffers(t, rows, [validity, _buffer(rng, bits)])
    if t in FIXED_TYPES:
        return pa.Array.from_buffers(t, rows, [validity, _buffer(rng, _fixed(rng, t, rows))])
    data = [TEXTS[i].encode() for i in rng.integers(0, len(TEXTS), rows)]
    lead = b"bytes before the first value"[: int(rng.integers(0, 28))]
    wide = _is.is_large_string(t) or _is.is_large_binary(t)
    ends = len(lead) + np.cumsum([0, *map(len, data)])
    offsets = ends.astype(np.int64 if wide else np.int32).tobytes()
    body = _buffer(rng, lead + b"".join(data))
    return pa.Array.from_buffers(t, rows, [validity, _buffer(rng, offsets), body])


def _lists(
    rng: np.random.Generator, t: pa.ListType, rows: int, validity: pa.Buffer | None
) -> pa.Array:
    """Few short lists that meet; elements before the first, behind the last, and under nulls."""
    lead, behind = int(rng.integers(0, 4)), int(rng.integers(0, 3))
    ends = lead + np.cumsum([0, *rng.integers(0, int(rng.choice([1, 3, 5])), rows)])
    elements = raw_column(rng, t.value_type, int(ends[-1]) + behind)
    offsets = _buffer(rng, ends.astype(np.int32).tobytes())
    return pa.Array.from_buffers(t, rows, [validity, offsets], children=[elements])


def _fixed(rng: np.random.Generator, t: pa.DataType, rows: int) -> bytes:
    if _is.is_floating(t):
        dtype, bits = FLOATS[t.bit_width]
        return np.array(bits, dtype)[rng.integers(0, len(bits), rows)].tobytes()
    width = t.byte_width if _is.is_fixed_size_binary(t) else t.bit_width // 8
    # Small numbers, so that every type can print them; differing in the first or the last byte.
    pool = [bytes([n]) + bytes(width - 1) for n in range(4)] if width else [b""]
    if _is.is_date64(t):
        pool = [(n * 86_400_000).to_bytes(8, "little") for n in range(4)]
    if _is.is_integer(t) or _is.is_fixed_size_binary(t):
        pool += [bytes(width - 1) + bytes([n]) for n in (1, 2, 255)] if width else []
    return b"".join(pool[i] for i in rng.integers(0, len(pool), rows))


def _dictionary(rng: np.random.Generator, t: pa.DictionaryType, rows: int) -> pa.Array:
    dictionary = raw_column(rng, t.value_type, int(rng.integers(1, 12)))
    indices = rng.integers(0, len(dictionary), rows)
    null = rng.random(rows) < rng.choice([0.0, 0.3])
    indices[null] = 99  # outside, which nobody may mind under a null
    sign = "u" if _is.is_unsigned_integer(t.index_type) else "i"
    dtype = np.dtype(f"{sign}{t.index_type.bit_width // 8}")
    validity = _buffer(rng, np.packbits(~null, bitorder="little").tobytes()) if null.any() else None
    data = _buffer(rng, indices.astype(dtype).tobytes())
    plain = pa.Array.from_buffers(t.index_type, rows, [validity, data])
    return pa.DictionaryArray.from_arrays(plain, dictionary, ordered=t.ordered, safe=False)
