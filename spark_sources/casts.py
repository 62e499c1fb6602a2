"""Values of files as values of a journal: exactly, or not at all.

    files                journal            1.0 -> 1, "2.50" -> 2.50, "2024-05-01 12:00" -> that
    double, 1.5          int32              does not fit
    string, "abc"        int32              does not parse
    string, "70000"      int16              does not fit
    timestamp[us]        timestamp[ms]      12:00:00.000500 does not fit: nothing is rounded

`cast` gives a column in the type that Spark has for the journal's, and the condition of the rows
that are to be rejected. Where nothing can go wrong there is no condition, and nothing to compute.
A double becomes the nearest float; that is the one thing which is rounded, and none becomes
infinite. An integer in the place of a time counts the column's unit, from 1970.

Text is read as it is everywhere (texts.py), and not by Spark, which takes 1.5d for a number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's own documents use
from pyspark.sql.types import DecimalType, LongType, TimestampNTZType, TimestampType

from gapless.protocol.errors import SchemaError
from gapless.protocol.text_fields import read
from gapless.spark_sources.spark_types import spark_type
from gapless.spark_sources.texts import MISFITS, VALUE, read_texts

MICROS: dict[str, int] = {"s": 10**6, "ms": 10**3, "us": 1, "ns": 0}
"""Microseconds of a unit; 0: it is finer."""
NANOS_PER_MICRO = 1000


class Cast(NamedTuple):
    """A column in its new type."""

    value: Column
    misfits: Column | None
    """True where the value does not parse or fit; None: that cannot be."""


_Form = Callable[[Column, pa.DataType, pa.DataType], Cast]


def cast(name: str, column: Column, given: pa.DataType, wanted: pa.DataType) -> Cast:
    """A column of the type `given` in files as one of the type `wanted` in the journal.

    Raises `SchemaError` where the one cannot mean the other.
    """
    if given == wanted:
        return Cast(column, None)
    for is_given, is_wanted, form in _FORMS:
        if is_given(given) and is_wanted(wanted):
            return form(column, given, wanted)
    if spark_type(name, given) == spark_type(name, wanted) and not pa.types.is_nested(wanted):
        return Cast(column, None)  # widths that only the journal knows are checked where it writes
    raise SchemaError(
        f"column {name!r} is {given} in the files and {wanted} in the schema: one does not become "
        "the other; give the schema what is there, and let the query compute"
    )


def ticks(time: Column, t: pa.DataType) -> Column:
    """A time column as int64 counts of the journal's unit. The session's zone is UTC."""
    if not pa.types.is_timestamp(t):
        return time
    instant = time.cast(TimestampType())
    if t.unit == "ns":
        return F.unix_micros(instant) * F.lit(NANOS_PER_MICRO).cast("bigint")
    whole = {"s": F.unix_seconds, "ms": F.unix_millis, "us": F.unix_micros}
    return whole[t.unit](instant)


def quoted(name: str) -> str:
    """A column's name as Spark's expressions write it."""
    return f"`{name.replace('`', '``')}`"


# -- forms ----------------------------------------------------------------------------------------


def _plain(column: Column, _: pa.DataType, wanted: pa.DataType) -> Cast:
    value = _held(column.try_cast(spark_type("", wanted)), wanted)
    return Cast(value, _lost(column, value))


def _held(value: Column, wanted: pa.DataType) -> Column:
    """The value where the journal's type holds it: Spark's are wider than unsigned integers."""
    if not pa.types.is_unsigned_integer(wanted):
        return value
    return F.when(value.between(F.lit(0), F.lit(Decimal(2**wanted.bit_width - 1))), value)


def _as_text(column: Column, _: pa.DataType, wanted: pa.DataType) -> Cast:
    return Cast(column.cast(spark_type("", wanted)), None)


def _number(column: Column, given: pa.DataType, wanted: pa.DataType) -> Cast:
    """There and back again: what is not the same then has been cut."""
    value = _held(column.try_cast(spark_type("", wanted)), wanted)
    if _always_fits(given, wanted):
        return Cast(value, None)
    back = value.try_cast(spark_type("", given))
    same = back.eqNullSafe(column)
    if pa.types.is_floating(given) and pa.types.is_floating(wanted):
        if wanted.bit_width >= given.bit_width:
            return Cast(value, None)
        return Cast(value, _is_infinite(value) & ~_is_infinite(column))
    return Cast(value, ~same)


def _is_infinite(column: Column) -> Column:
    return F.coalesce(F.abs(column) == F.lit(math.inf), F.lit(False))


def _always_fits(given: pa.DataType, wanted: pa.DataType) -> bool:
    if not (pa.types.is_signed_integer(given) and pa.types.is_signed_integer(wanted)):
        return False
    return bool(given.bit_width <= wanted.bit_width)


def _text(column: Column, _: pa.DataType, wanted: pa.DataType) -> Cast:
    made = read_texts(column, wanted)
    return Cast(made[VALUE], F.coalesce(made[MISFITS], F.lit(False)))


def _counted_time(column: Column, _: pa.DataType, wanted: pa.DataType) -> Cast:
    return _of_unit(column, _instant(column.cast("bigint"), wanted.unit), wanted)


def _other_unit(column: Column, given: pa.DataType, wanted: pa.DataType) -> Cast:
    """A timestamp of another unit, or with another zone, which changes nothing."""
    if MICROS[given.unit] and MICROS[given.unit] >= MICROS[wanted.unit]:
        if spark_type("", given) == spark_type("", wanted):
            return Cast(column, None)
        return Cast(column.cast(spark_type("", wanted)), None)
    return _of_unit(column, column.cast(TimestampType()), wanted)


def from_nanos(column: Column, wanted: pa.DataType) -> Cast:
    """A count of nanoseconds since 1970, as Parquet has them, as a time that Spark has."""
    micros = F.floor(column / F.lit(NANOS_PER_MICRO).cast(DecimalType(4, 0))).cast(LongType())
    cut = _of_unit(column, F.timestamp_micros(micros), wanted)
    finer = column % NANOS_PER_MICRO != 0
    return Cast(cut.value, finer if cut.misfits is None else finer | cut.misfits)


def _instant(counts: Column, unit: str) -> Column:
    """Counts of a unit as TIMESTAMP; null where Spark has no such time, or no such digit."""
    if unit == "ns":
        whole = F.when(counts % NANOS_PER_MICRO == 0, F.call_function("div", counts, F.lit(1000)))
        return F.timestamp_micros(whole)
    return F.timestamp_micros(F.try_multiply(counts, F.lit(MICROS[unit]).cast("bigint")))


def _of_unit(given: Column, instant: Column, wanted: pa.DataType) -> Cast:
    """An instant as a timestamp of a unit; what the unit cannot say misfits."""
    value = instant.cast(TimestampNTZType()) if wanted.tz is None else instant
    misfits = _lost(given, instant)
    if MICROS[wanted.unit] > 1:
        misfits |= F.coalesce(F.unix_micros(instant) % MICROS[wanted.unit] != 0, F.lit(False))
    return Cast(value, misfits)


def _lost(before: Column, after: Column) -> Column:
    return before.isNotNull() & after.isNull()


def _is_number(t: pa.DataType) -> bool:
    return bool(pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t))


def _is_text(t: pa.DataType) -> bool:
    return bool(pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t))


def _has_text(t: pa.DataType) -> bool:
    """Whether a text may mean a value of this type."""
    try:
        read(pa.array([], pa.string()), t)
    except SchemaError:
        return False
    return True


def _is_text_list(t: pa.DataType) -> bool:
    return bool(pa.types.is_list(t) and _is_text(t.value_type))


def _has_text_list(t: pa.DataType) -> bool:
    """Whether texts may mean a list of this type, element by element."""
    return bool(pa.types.is_list(t) and _has_text(t.value_type))


def _is_scalar(t: pa.DataType) -> bool:
    return not (pa.types.is_nested(t) or pa.types.is_dictionary(t) or _is_binary(t))


def _is_binary(t: pa.DataType) -> bool:
    return spark_type("", t).typeName() == "binary"


def _list(column: Column, given: pa.DataType, wanted: pa.DataType) -> Cast:
    """Element by element; a list misfits where one of its elements does."""

    def item(value: Column) -> Cast:
        return cast("item", value, given.value_type, wanted.value_type)

    value = F.transform(column, lambda each: item(each).value)
    if item(F.lit(None)).misfits is None:
        return Cast(value, None)

    def misfits(each: Column) -> Column:
        found = item(each).misfits
        return F.lit(False) if found is None else F.coalesce(found, F.lit(False))

    bad = F.exists(column, misfits)
    return Cast(F.when(~bad, value), bad)


_FORMS: list[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], bool], _Form]] = [
    (_is_text, _is_text, _as_text),
    (_is_text, _has_text, _text),
    (_is_text_list, _has_text_list, _text),
    (pa.types.is_list, pa.types.is_list, _list),
    (_is_number, _is_number, _number),
    (_is_number, pa.types.is_boolean, _number),
    (pa.types.is_boolean, _is_number, _plain),
    (pa.types.is_integer, pa.types.is_timestamp, _counted_time),
    (pa.types.is_timestamp, pa.types.is_timestamp, _other_unit),
    (pa.types.is_date, pa.types.is_timestamp, _plain),
    (_is_scalar, _is_text, _as_text),
]
"""What may become what, first the special ones; anything else only what Spark holds in one type."""
