"""The partition of a row as a Spark SQL expression: the rule of `gapless.journal.partition`.

Built-ins only, so that Spark runs it inside its generated code, next to the row, with no Python:

    key {"src": int32, "at": timestamp[ms, UTC]}, 8 partitions

    cast(pmod(xxhash64(cast(cast(src as int) as bigint),
                       unix_micros(cast(at as timestamp)) floor-divided by 1000), 8L) as int)

Spark's `xxhash64` over columns in canonical form is the rule itself. So all that happens here is to
bring each column into that form, as the type that the JOURNAL gives it:

- A column is first cast to the Spark type that stands for the journal's type, and that is the row
  that the journal must get. For an Arrow timestamp without a zone it is TIMESTAMP_NTZ, with one
  TIMESTAMP; a cast between those two goes by the session's time zone, so set that to UTC.
- Spark counts microseconds, the journal perhaps seconds: what is finer is cut off downwards, so
  half a millisecond before 1970 is tick -1 of a journal in ms. What does not fit the unit's int64
  has no partition of its own: it counts as null, and the row's writer must reject it.
- uint8 to uint32 are Spark's next wider integers, uint64 is DECIMAL(20,0): as Spark reads Parquet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's own documents use
from pyspark.sql.types import DecimalType, TimestampNTZType, TimestampType

from gapless.journal.partition import check_count, check_key
from gapless.protocol.errors import SchemaError
from gapless.spark_sources.spark_types import PER_SECOND, SPARK_DIGITS_MAX

_Form = Callable[[Column, pa.DataType], Column]

_MICROS_PER_SECOND = PER_SECOND["us"]
_MS_PER_DAY = 86_400_000
_SPARK_INTEGERS = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.uint8(): "smallint",
    pa.uint16(): "int",
    pa.uint32(): "bigint",
}


def partition_id(key: Mapping[str, pa.DataType], count: int) -> Column:
    """The partition, an int from 0 to `count - 1`, of a row with the given key columns.

    `key` has the key's columns in its order, each with the journal's type. Raises `Misuse` for what
    no journal's key may be, and `SchemaError` for a type that Spark does not have.
    """
    check_count(count)
    check_key(pa.schema(list(key.items())), list(key))
    parts = [
        part
        for name, t in key.items()
        for part in _canonical(F.col(f"`{name.replace('`', '``')}`"), t, name)
    ]
    if count == 1:
        return F.lit(0)
    return F.pmod(F.xxhash64(*parts), F.lit(count).cast("bigint")).cast("int")


def _canonical(column: Column, t: pa.DataType, name: str) -> Iterator[Column]:
    """What `xxhash64` is to see of a column: one column, of a struct one for each of its fields."""
    if pa.types.is_struct(t):
        for field in t:
            yield from _canonical(column.getField(field.name), field.type, f"{name}.{field.name}")
    elif pa.types.is_dictionary(t):
        yield from _canonical(column, t.value_type, name)
    else:
        yield _leaf(column, t, name)


def _leaf(column: Column, t: pa.DataType, name: str) -> Column:
    types = pa.types
    if t in _SPARK_INTEGERS:
        return column.cast(_SPARK_INTEGERS[t]).cast("bigint")
    if types.is_float16(t):
        raise SchemaError(f"key column {name!r}: Spark has no {t}; make it a float")
    if types.is_floating(t):
        return column.cast("float" if types.is_float32(t) else "double").cast("double")
    if types.is_decimal(t):
        return _decimal(column, t, name)
    for is_type, form in _FORMS:
        if is_type(t):
            return form(column, t)
    return column.cast("binary")  # of what may be a key, only this is left


def _decimal(column: Column, t: pa.DataType, name: str) -> Column:
    """Spark hashes the unscaled value by the digits of the type, as the rule says."""
    if t.precision > SPARK_DIGITS_MAX or not 0 <= t.scale <= t.precision:
        raise SchemaError(
            f"key column {name!r}: Spark has no {t}; its decimals have up to {SPARK_DIGITS_MAX} "
            "digits and a scale from 0 to their number"
        )
    return column.cast(DecimalType(t.precision, t.scale))


def _boolean(column: Column, _: pa.DataType) -> Column:
    return column.cast("boolean").cast("bigint")


def _string(column: Column, _: pa.DataType) -> Column:
    return column.cast("string").cast("binary")  # bytes: no collation makes two strings one


def _uint64(column: Column, _: pa.DataType) -> Column:
    """The same 64 bits: what is 2^63 or more, less 2^64."""
    number = column.cast("decimal(20,0)")
    wrapped = F.when(number >= Decimal(2**63), number - Decimal(2**64)).otherwise(number)
    return wrapped.try_cast("bigint")


def _date(column: Column, t: pa.DataType) -> Column:
    days = F.unix_date(column.cast("date")).cast("bigint")
    return days * F.lit(_MS_PER_DAY).cast("bigint") if pa.types.is_date64(t) else days


def _time(column: Column, t: pa.DataType) -> Column:
    """Of seconds with nine digits: a difference of TIMEs would stop at microseconds."""
    seconds = column.cast("time(9)").cast("decimal(14,9)")
    return F.floor(seconds * F.lit(PER_SECOND[t.unit])).cast("bigint")


def _timestamp(column: Column, t: pa.DataType) -> Column:
    """Spark's types by class, as what the name "timestamp" means is a setting of the session."""
    if t.tz is not None:
        return _in_unit(F.unix_micros(column.cast(TimestampType())), t.unit)
    since_1970 = column.cast(TimestampNTZType()) - F.expr("timestamp_ntz'1970-01-01 00:00:00'")
    return _in_unit(_micros(since_1970), t.unit)


def _duration(column: Column, t: pa.DataType) -> Column:
    return _in_unit(_micros(column.cast("interval day to second")), t.unit)


def _micros(interval: Column) -> Column:
    return F.call_function("div", interval, F.expr("interval '0.000001' second"))


def _in_unit(micros: Column, unit: str) -> Column:
    per_second = PER_SECOND[unit]
    if per_second > _MICROS_PER_SECOND:
        return F.try_multiply(micros, F.lit(per_second // _MICROS_PER_SECOND).cast("bigint"))
    step = F.lit(_MICROS_PER_SECOND // per_second).cast("bigint")
    towards_zero = F.call_function("div", micros, step)
    return towards_zero - (micros % step < 0).cast("bigint")


_FORMS: Sequence[tuple[Callable[[pa.DataType], bool], _Form]] = (
    (pa.types.is_boolean, _boolean),
    (pa.types.is_uint64, _uint64),
    (pa.types.is_string, _string),
    (pa.types.is_large_string, _string),
    (pa.types.is_string_view, _string),
    (pa.types.is_date, _date),
    (pa.types.is_time, _time),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_duration, _duration),
)
