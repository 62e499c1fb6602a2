"""What a stream's rows look like: payload columns and the unit of time.

A `StreamSchema` is the payload's Arrow schema and a time unit. A frame's batch has three columns
more, in front: `_vs`, `_ve` and `_was`, int64 and never null (a nullable int64 column becomes
float64 in numpy, which has no room for INF).

Payload types are those whose equality is exact and whose bytes decide it: fixed width, bool,
decimal, string and binary in every layout, dictionaries of those, lists and structs of all of
these. Maps and unions are refused here, when the schema is made, with a sentence that says so. Of a
list's layouts a schema has one: `large_list<string>` is `list<string>` in it (`lists.py`).

The fingerprint names a schema in journals and on the wire: the same fields, types and unit give
the same sixteen bytes in every process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import pyarrow as pa

from gapless.protocol.columns import can_shrink, has_views
from gapless.protocol.errors import SchemaError
from gapless.protocol.lists import is_list, normal_type
from gapless.protocol.type_text import type_of_text

VS, VE, WAS = "_vs", "_ve", "_was"
TIME_COLUMNS = (VS, VE, WAS)
TIME_UNITS = ("s", "ms", "us", "ns")

FIELDS_MAX = 4096
"""Columns in one payload; wider tables are a modelling error, or an attack."""
DICTIONARY_INDEX_BITS_MIN = 32
"""Bits of a dictionary's index: each frame may have its own dictionary, what is gathered from many
of them has all their values, and would not fit narrow indices at some unlucky moment."""
NESTING_MAX = 16
"""Levels of structs and lists inside structs and lists."""
FIXED_BYTES_MAX = 1 << 16
"""Bytes of one fixed-size binary value: each row takes them, null or not."""
_DIGITS_MAX = {32: 9, 64: 18, 128: 38, 256: 76}
"""Decimal digits that fit in so many bits. Arrow holds scales beyond, and crashes using them."""
_OLD_INTERVALS = ("month_interval", "day_time_interval")
"""Types that pyarrow reads from a file and can do nothing with."""

UNIT_KEY = b"gapless.time_unit"
"""Where the Arrow schema of a frame's batch says the time unit."""

_TIME_FIELDS = [pa.field(name, pa.int64(), nullable=False) for name in TIME_COLUMNS]


class StreamSchema:
    """The payload columns of a stream and its time unit. Immutable; equal by content."""

    def __init__(
        self, payload: pa.Schema | Mapping[str, pa.DataType | str], time_unit: str = "ms"
    ) -> None:
        if not isinstance(payload, pa.Schema):
            columns = [(name, _data_type(name, t)) for name, t in payload.items()]
            try:
                payload = pa.schema(columns)
            except (TypeError, UnicodeEncodeError) as e:
                raise SchemaError(f"a name is a string, a type one of Arrow's: {e}") from None
        if time_unit not in TIME_UNITS:
            raise SchemaError(f"time unit {time_unit!r}: use one of {', '.join(TIME_UNITS)}")
        try:
            payload = pa.schema([_normal(field) for field in payload])
            _check_fields(payload)
        except UnicodeDecodeError as e:  # Arrow takes any bytes that a file has for a name
            raise SchemaError(f"a name or time zone in the payload is no UTF-8 text: {e}") from None
        self._payload = payload
        self._time_unit = time_unit

    @property
    def payload(self) -> pa.Schema:
        """The payload columns alone."""
        return self._payload

    @property
    def time_unit(self) -> str:
        """The unit of `_vs`, `_ve`, `_was` and of every stable: s, ms, us or ns."""
        return self._time_unit

    @property
    def names(self) -> list[str]:
        """The names of the payload columns."""
        return list(self._payload.names)

    @cached_property
    def arrow(self) -> pa.Schema:
        """The schema of a frame's batch: the time columns, then the payload.

        The unit stands in its metadata, so that a batch says by itself what its times mean.
        """
        return pa.schema([*_TIME_FIELDS, *self._payload], {UNIT_KEY: self._time_unit})

    @cached_property
    def required(self) -> tuple[int, ...]:
        """The payload columns in which a null, at some level, is not allowed."""
        return tuple(i for i, field in enumerate(self._payload) if _has_required(field))

    @cached_property
    def required_fields(self) -> tuple[tuple[int, pa.Field], ...]:
        """The same, each with its field: to make one costs as much as to look at it."""
        return tuple((i, self._payload.field(i)) for i in self.required)

    @cached_property
    def has_views(self) -> bool:
        """Whether a payload column has a view layout, for which Arrow lacks some functions."""
        return any(has_views(field.type) for field in self._payload)

    @cached_property
    def can_shrink(self) -> bool:
        """Whether `compact` may have something to do for a payload column."""
        return any(can_shrink(field.type) for field in self._payload)

    @cached_property
    def fixed_row_bytes(self) -> int | None:
        """Bytes of the payload of a row, without its nulls; None where rows differ in length."""
        try:
            bits: int = sum(field.type.bit_width for field in self._payload)
        except ValueError:
            return None
        return -(-bits // 8)

    @cached_property
    def empty_batch(self) -> pa.RecordBatch:
        """A frame's batch without rows."""
        return pa.RecordBatch.from_arrays(
            [pa.nulls(0, field.type) for field in self.arrow], schema=self.arrow
        )

    @cached_property
    def empty_payload(self) -> pa.RecordBatch:
        """A batch of the payload columns alone, without rows."""
        columns = [pa.nulls(0, field.type) for field in self.payload]
        return pa.RecordBatch.from_arrays(columns, schema=self.payload)

    @staticmethod
    def of_batch(arrow: pa.Schema) -> StreamSchema:
        """The stream schema behind the Arrow schema of a frame's batch."""
        for i, field in enumerate(_TIME_FIELDS):
            if i >= len(arrow) or not arrow.field(i).equals(field):
                raise SchemaError(
                    f"column {i}: a frame starts with {', '.join(TIME_COLUMNS)}, int64 not null"
                )
        unit = (arrow.metadata or {}).get(UNIT_KEY, b"ms")
        return StreamSchema(pa.schema(list(arrow)[3:]), unit.decode(errors="replace"))

    @cached_property
    def fingerprint(self) -> bytes:
        """Sixteen bytes that two schemas share exactly when they are equal."""
        text = repr([_described(field) for field in self._payload])
        return hashlib.sha256(f"{self._time_unit}\n{text}".encode()).digest()[:16]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, StreamSchema):
            return NotImplemented
        return self._time_unit == other._time_unit and bool(self._payload.equals(other._payload))

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        fields = ", ".join(f"{f.name}: {f.type}" for f in self._payload)
        return f"StreamSchema({{{fields}}}, time_unit={self._time_unit!r})"


def _check_fields(payload: pa.Schema) -> None:
    if not 1 <= len(payload) <= FIELDS_MAX:
        raise SchemaError(f"a payload has 1 to {FIELDS_MAX} columns, not {len(payload)}")
    if len(set(payload.names)) != len(payload.names):
        raise SchemaError(f"payload columns share a name: {', '.join(payload.names)}")
    for field in payload:
        if not field.name or field.name.startswith("_"):
            raise SchemaError(
                f"payload column {field.name!r}: names are not empty and do not start with _"
            )
        check_type(field.name, field.type)


def _normal(field: pa.Field) -> pa.Field:
    return field.with_type(normal_type(field.type)).remove_metadata()


def _has_required(field: pa.Field) -> bool:
    inner: Iterable[pa.Field] = field.type if pa.types.is_struct(field.type) else ()
    if pa.types.is_list(field.type):
        inner = (field.type.value_field,)
    return not field.nullable or any(map(_has_required, inner))


def _described(field: pa.Field) -> tuple[Any, ...]:
    """A field as nested tuples. Arrow's own text would let a name imitate other fields."""
    t = field.type
    if pa.types.is_struct(t):
        return field.name, field.nullable, "struct", *map(_described, t)
    if pa.types.is_list(t):
        return field.name, field.nullable, "list", _described(t.value_field)
    return field.name, field.nullable, str(t)


def _data_type(name: str, given: pa.DataType | str) -> pa.DataType:
    if not isinstance(given, str):
        return given
    try:
        return type_of_text(given)
    except SchemaError as e:
        raise SchemaError(f"column {name!r}: {e}") from None


def check_type(name: str, t: pa.DataType, depth: int = 0) -> None:
    """Raises `SchemaError` unless columns of type `t` may stand in a payload."""
    types = pa.types
    if depth > NESTING_MAX:
        raise SchemaError(f"column {name!r}: types nest deeper than {NESTING_MAX} levels")
    if types.is_struct(t):
        if t.num_fields == 0:
            raise SchemaError(f"column {name!r}: a struct without fields")
        if len({field.name for field in t}) != t.num_fields:
            raise SchemaError(f"column {name!r}: a struct whose fields share a name")
        for field in t:
            check_type(f"{name}.{field.name}", field.type, depth + 1)
    elif is_list(t):
        check_type(f"{name}.item", t.value_type, depth + 1)  # first, for it bounds what is below
        if not normal_type(t).equals(t):
            raise SchemaError(f"column {name!r}: {t} is not supported; use {normal_type(t)}")
    elif types.is_dictionary(t):
        if types.is_dictionary(t.value_type) or types.is_nested(t.value_type):
            raise SchemaError(f"column {name!r}: {t} is not supported; decode the dictionary")
        if t.index_type.bit_width < DICTIONARY_INDEX_BITS_MIN:
            raise SchemaError(
                f"column {name!r}: {t.index_type} indices: values of many frames come together in "
                "state and output; use int32"
            )
        check_type(name, t.value_type, depth + 1)
    else:
        _check_leaf(name, t)


def _check_leaf(name: str, t: pa.DataType) -> None:
    types = pa.types
    if types.is_timestamp(t):
        _ = t.tz  # reading it decodes it
    elif types.is_decimal(t):
        if abs(t.scale) > _DIGITS_MAX[t.bit_width]:
            raise SchemaError(
                f"column {name!r}: {t} has a scale beyond the {_DIGITS_MAX[t.bit_width]} digits "
                "that its width holds"
            )
    elif types.is_fixed_size_binary(t):
        if not 0 < t.byte_width <= FIXED_BYTES_MAX:
            raise SchemaError(f"column {name!r}: {t} has not 1 to {FIXED_BYTES_MAX} bytes")
    elif not (
        (types.is_primitive(t) and str(t) not in _OLD_INTERVALS)
        or types.is_boolean(t)
        or types.is_string(t)
        or types.is_large_string(t)
        or types.is_string_view(t)
        or types.is_binary(t)
        or types.is_large_binary(t)
        or types.is_binary_view(t)
    ):
        raise SchemaError(
            f"column {name!r}: type {t} is not supported in a payload "
            "(fixed width, bool, decimal, string, binary, dictionary, list, struct are)"
        )
