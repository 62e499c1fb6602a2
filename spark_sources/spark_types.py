"""Types of a journal and types of Spark: which stands for which, and what can be written as what.

    journal                         Spark
    bool, int8 to int64             the same
    uint8, uint16, uint32           the next wider integer
    uint64                          decimal(20,0)
    float, double                   the same
    decimals of up to 38 digits     decimal
    strings, binaries of any kind   string, binary
    date32, date64                  date
    time32, time64                  time
    timestamp with a zone           timestamp: an instant; Spark counts microseconds, the journal
    timestamp without               timestamp_ntz      its own unit (conform.py)
    duration                        interval day to second
    dictionary, struct, list        what its values have; struct; array

A journal that Spark makes without being told the columns gets the Arrow types that Spark itself
sends: integers as they are, timestamps in microseconds. Being told is the `columns` option: a list
of [name, type, nullable] in JSON, where a type is written as Arrow prints it.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import types as st

from gapless.journal.layout import Layout
from gapless.protocol import plain, type_text
from gapless.protocol.errors import DecodeError, SchemaError
from gapless.protocol.lists import is_list
from gapless.protocol.schema import TIME_COLUMNS

SPARK_DIGITS_MAX = 38
"""Digits of Spark's widest decimal."""
UINT64_DIGITS = 20
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""Ticks of each unit."""

_SIMPLE: list[tuple[pa.DataType, st.DataType]] = [
    (pa.bool_(), st.BooleanType()),
    (pa.int8(), st.ByteType()),
    (pa.int16(), st.ShortType()),
    (pa.int32(), st.IntegerType()),
    (pa.int64(), st.LongType()),
    (pa.float32(), st.FloatType()),
    (pa.float64(), st.DoubleType()),
    (pa.string(), st.StringType()),
    (pa.binary(), st.BinaryType()),
    (pa.date32(), st.DateType()),
    (pa.time64("ns"), st.TimeType(9)),
    (pa.timestamp("us", "UTC"), st.TimestampType()),
    (pa.timestamp("us"), st.TimestampNTZType()),
    (pa.duration("us"), st.DayTimeIntervalType()),
]
"""Types that each side has, in the form in which Spark sends and takes them."""
_TO_SPARK: dict[pa.DataType, st.DataType] = dict(_SIMPLE) | {
    pa.uint8(): st.ShortType(),
    pa.uint16(): st.IntegerType(),
    pa.uint32(): st.LongType(),
    pa.uint64(): st.DecimalType(UINT64_DIGITS, 0),
    pa.large_string(): st.StringType(),
    pa.string_view(): st.StringType(),
    pa.large_binary(): st.BinaryType(),
    pa.binary_view(): st.BinaryType(),
    pa.date64(): st.DateType(),
}
_BY_FORM: list[tuple[Callable[[pa.DataType], bool], st.DataType]] = [
    (pa.types.is_fixed_size_binary, st.BinaryType()),
    (pa.types.is_time, st.TimeType(9)),
    (pa.types.is_duration, st.DayTimeIntervalType()),
]
_INTEGERS = (st.ByteType, st.ShortType, st.IntegerType, st.LongType)


# -- from the journal to Spark --------------------------------------------------------------------


def spark_type(name: str, t: pa.DataType) -> st.DataType:
    """The Spark type that stands for a journal's type; `SchemaError` where Spark has none."""
    if t in _TO_SPARK:
        return _TO_SPARK[t]
    if pa.types.is_struct(t):
        fields = [(f.name, spark_type(f"{name}.{f.name}", f.type), f.nullable) for f in t]
        return st.StructType([st.StructField(*field) for field in fields])
    if is_list(t):
        return st.ArrayType(spark_type(f"{name}.item", t.value_type), t.value_field.nullable)
    if pa.types.is_dictionary(t):
        return spark_type(name, t.value_type)
    if pa.types.is_timestamp(t):
        return st.TimestampNTZType() if t.tz is None else st.TimestampType()
    if pa.types.is_decimal(t) and t.precision <= SPARK_DIGITS_MAX and 0 <= t.scale <= t.precision:
        return st.DecimalType(t.precision, t.scale)
    for is_form, found in _BY_FORM:
        if is_form(t):
            return found
    raise SchemaError(
        f"column {name!r}: Spark has no {t}; read this journal without Spark "
        "(gl.JournalReader), or write the column as a type that Spark has"
    )


def spark_schema(layout: Layout) -> st.StructType:
    """What Spark sees of a journal: its columns, and before them the times where it has frames."""
    times = [] if layout.has_rows else [pa.field(n, pa.int64(), False) for n in TIME_COLUMNS]
    return spark_fields([*times, *layout.schema.payload])


def spark_fields(fields: Iterable[pa.Field]) -> st.StructType:
    """Fields of Arrow as those of Spark."""
    return st.StructType(
        [st.StructField(f.name, spark_type(f.name, f.type), f.nullable) for f in fields]
    )


# -- from Spark to the journal --------------------------------------------------------------------


def arrow_type(name: str, t: st.DataType) -> pa.DataType:
    """The type that a journal gets for a column of Spark when nobody says which."""
    if isinstance(t, st.DecimalType):
        return pa.decimal128(t.precision, t.scale)
    if isinstance(t, st.StructType):
        return pa.struct(
            [pa.field(f.name, arrow_type(f"{name}.{f.name}", f.dataType), f.nullable) for f in t]
        )
    if isinstance(t, st.ArrayType):
        item = arrow_type(f"{name}.item", t.elementType)
        return pa.list_(pa.field("item", item, t.containsNull))
    for arrow, spark in _SIMPLE:
        if type(spark) is type(t):
            return arrow
    raise SchemaError(
        f"column {name!r}: {t.simpleString()} is nothing that a stream can carry (bool, numbers, "
        "decimal, string, binary, dates and times, lists and structs of these are); select it "
        "away, or make it a string"
    )


def payload_of(schema: st.StructType) -> pa.Schema:
    """The payload that a journal gets for rows of Spark when nobody says which."""
    return pa.schema([pa.field(f.name, arrow_type(f.name, f.dataType), f.nullable) for f in schema])


def check_writable(name: str, given: st.DataType, t: pa.DataType) -> None:
    """Raises `SchemaError` unless a column of Spark can be written as a journal's type.

    It can where the values mean the same on both sides. Whether each of them fits the journal's
    width and unit is seen row by row, and a row that does not is rejected.
    """
    wanted = spark_type(name, t)
    if isinstance(given, st.StructType) and pa.types.is_struct(t):
        if given.fieldNames() != [f.name for f in t]:
            raise SchemaError(
                f"column {name!r}: the fields {', '.join(given.fieldNames())} are to be "
                f"{', '.join(f.name for f in t)}, in that order"
            )
        for field, inner in zip(given, t, strict=True):
            check_writable(f"{name}.{field.name}", field.dataType, inner.type)
    elif isinstance(given, st.ArrayType) and pa.types.is_list(t):
        check_writable(f"{name}.item", given.elementType, t.value_type)
    elif not _means_the_same(given, wanted, t):
        raise SchemaError(
            f"column {name!r} is {given.simpleString()}, and the journal has {t}: cast it to "
            f"{wanted.simpleString()} before it is written"
        )


def _means_the_same(given: st.DataType, wanted: st.DataType, t: pa.DataType) -> bool:
    if isinstance(given, _INTEGERS):
        return bool(pa.types.is_integer(t))
    if isinstance(given, st.DecimalType) and isinstance(wanted, st.DecimalType):
        whole_digits = given.precision - given.scale <= wanted.precision - wanted.scale
        return given.scale <= wanted.scale and whole_digits
    if isinstance(given, st.FloatType):
        return isinstance(wanted, st.FloatType | st.DoubleType)
    return type(given) is type(wanted)


# -- the option `columns` -------------------------------------------------------------------------

_ENCODED = "arrow:"
"""Begins a type that has no text of its own (a struct): its schema message in base64 follows."""


def type_of_text(text: str) -> pa.DataType:
    """The Arrow type that prints as `text`; `SchemaError` where none does."""
    try:
        if text.startswith(_ENCODED):
            return plain.type_from_plain(base64.b64decode(text.removeprefix(_ENCODED)))
        return type_text.type_of_text(text)
    except SchemaError as e:
        raise SchemaError(f"columns: {e}") from None
    except (ValueError, DecodeError, binascii.Error, pa.ArrowException) as e:
        raise SchemaError(f"{text[:50]!r} is no type: {e}") from None


def text_of_type(t: pa.DataType) -> str:
    """The inverse of `type_of_text`."""
    text = str(t)
    try:
        if type_of_text(text) == t:
            return text
    except SchemaError:
        pass  # a name in it has signs that types have, too
    data: bytes = pa.schema([pa.field("", t)]).serialize().to_pybytes()
    return _ENCODED + base64.b64encode(data).decode()


def columns_text(payload: pa.Schema) -> str:
    """The option `columns` for a payload."""
    return json.dumps([[f.name, text_of_type(f.type), f.nullable] for f in payload])


def columns_of(text: str) -> pa.Schema:
    """The inverse of `columns_text`."""
    try:
        columns: Any = json.loads(text)
    except ValueError as e:
        raise SchemaError(f"columns={text!r} is no JSON: {e}") from None
    fields = []
    for column in columns if isinstance(columns, list) else [columns]:
        match column:
            case [str(name), str(t), bool(nullable)]:
                fields.append(pa.field(name, type_of_text(t), nullable))
            case _:
                raise SchemaError(f"columns: {column!r} is not [name, type, nullable]")
    return pa.schema(fields)
