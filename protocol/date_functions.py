"""Functions of dates and times: `col("at").dt.hour`.

Of a timestamp with a time zone they answer in that zone; any other is as it is written.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gapless.protocol.errors import ExpressionError
from gapless.protocol.expr import Expr, Part, call
from gapless.protocol.expr_aliases import of_dates
from gapless.protocol.function_table import Spelling, listed

_date = partial(listed, "dt")

UNITS = (
    "year", "quarter", "month", "week", "day",
    "hour", "minute", "second", "millisecond", "microsecond", "nanosecond",
)  # fmt: skip
"""What a time is cut to, and two times differ by."""
TICKS = ("s", "ms", "us", "ns")
"""Of `epoch`."""


def _unit(function: str, unit: str) -> str:
    known = unit.lower().removesuffix("s")
    if known not in UNITS:
        raise ExpressionError(f"{function}: unit {unit!r} is none of {', '.join(UNITS)}")
    return known


def _part(function: str, x: Expr, **options: Any) -> Expr:
    """A part of a time: `x.dt.hour`, and `x.dt.hour()` for those who call it so elsewhere."""
    return Part(function, (x,), options)


class DateFunctions:
    """What an expression's `dt` has."""

    __slots__ = ("_x",)

    def __init__(self, x: Expr) -> None:
        self._x = x

    if not TYPE_CHECKING:  # a type checker is to find such a name

        def __getattr__(self, name: str) -> Any:
            return of_dates(self, name)

    # -- parts --------------------------------------------------------------------------------

    @property
    @_date("year", "date or time -> int64", "YEAR(x)", "EXTRACT(YEAR FROM x)")
    def year(self) -> Expr:
        """The year."""
        return _part("year", self._x)

    @property
    @_date("quarter", "date or time -> int64", "QUARTER(x)", "EXTRACT(QUARTER FROM x)")
    def quarter(self) -> Expr:
        """The quarter of the year, 1 to 4."""
        return _part("quarter", self._x)

    @property
    @_date("month", "date or time -> int64", "MONTH(x)", "EXTRACT(MONTH FROM x)")
    def month(self) -> Expr:
        """The month, 1 to 12."""
        return _part("month", self._x)

    @property
    @_date("iso_week", "date or time -> int64", "WEEK(x)", "WEEKOFYEAR(x)", "EXTRACT(WEEK FROM x)")
    def week(self) -> Expr:
        """The ISO week, 1 to 53: the first has the year's first Thursday."""
        return _part("iso_week", self._x)

    @property
    @_date("iso_year", "date or time -> int64", "ISOYEAR(x)", "EXTRACT(ISOYEAR FROM x)")
    def iso_year(self) -> Expr:
        """The year that the ISO week belongs to."""
        return _part("iso_year", self._x)

    @property
    @_date("day", "date or time -> int64", "DAY(x)", "DAYOFMONTH(x)", "EXTRACT(DAY FROM x)")
    def day(self) -> Expr:
        """The day of the month."""
        return _part("day", self._x)

    @property
    @_date("day_of_year", "date or time -> int64", "DAYOFYEAR(x)", "EXTRACT(DOY FROM x)")
    def day_of_year(self) -> Expr:
        """The day of the year, from 1."""
        return _part("day_of_year", self._x)

    @property
    @_date(
        "day_of_week",
        "date or time -> int64",
        Spelling("ISODOW(x)", lambda x: x.dt.weekday + 1),
        Spelling("EXTRACT(ISODOW FROM x)", lambda x: x.dt.weekday + 1),
        Spelling("DAYOFWEEK(x)", lambda x: (x.dt.weekday + 1) % 7),
        Spelling("EXTRACT(DOW FROM x)", lambda x: (x.dt.weekday + 1) % 7),
        note="SQL has 1 to 7 in ISODOW, and Sunday 0 in DOW.",
    )
    def weekday(self) -> Expr:
        """The day of the week: Monday is 0, Sunday 6."""
        return _part("day_of_week", self._x)

    @property
    @_date("hour", "time -> int64", "HOUR(x)", "EXTRACT(HOUR FROM x)")
    def hour(self) -> Expr:
        """The hour, 0 to 23."""
        return _part("hour", self._x)

    @property
    @_date("minute", "time -> int64", "MINUTE(x)", "EXTRACT(MINUTE FROM x)")
    def minute(self) -> Expr:
        """The minute, 0 to 59."""
        return _part("minute", self._x)

    @property
    @_date("second", "time -> int64", "SECOND(x)", "EXTRACT(SECOND FROM x)")
    def second(self) -> Expr:
        """The second, 0 to 59, without its fraction."""
        return _part("second", self._x)

    @property
    @_date("millisecond", "time -> int64")
    def millisecond(self) -> Expr:
        """The milliseconds of the second, 0 to 999."""
        return _part("millisecond", self._x)

    @property
    @_date("microsecond", "time -> int64")
    def microsecond(self) -> Expr:
        """The microseconds of the millisecond, 0 to 999."""
        return _part("microsecond", self._x)

    # -- the whole ----------------------------------------------------------------------------

    @property
    @_date("cast", "date or time -> date", "DATE(x)")
    def date(self) -> Expr:
        """The day, without the time."""
        return _part("cast", self._x, type=pa.date32(), safe=True)

    @_date(
        "floor_temporal",
        "date or time -> the same",
        Spelling("DATE_TRUNC(unit, x)", lambda unit, x: x.dt.truncate(unit)),
        note="Of a date a date; DuckDB gives a timestamp.",
    )
    def truncate(self, unit: str, multiple: int = 1) -> Expr:
        """The beginning of its "hour", "day", "week" (a Monday), ..., or of so many of them."""
        unit = _unit("truncate", unit)
        if multiple < 1:
            raise ExpressionError(f"truncate: {multiple} {unit}s: give at least 1")
        return call("floor_temporal", self._x, multiple=multiple, unit=unit)

    @_date(
        "(epoch)",
        "date or time -> int64",
        Spelling("EPOCH(x)", lambda x: x.dt.epoch("us") / 1_000_000),
        Spelling("EXTRACT(EPOCH FROM x)", lambda x: x.dt.epoch("us") / 1_000_000),
        Spelling("EPOCH_MS(x)", lambda x: x.dt.epoch("ms")),
        Spelling("EPOCH_US(x)", lambda x: x.dt.epoch("us")),
        Spelling("EPOCH_NS(x)", lambda x: x.dt.epoch("ns")),
        note="EPOCH is a double with its fraction. DuckDB rounds EPOCH_MS to the nearest.",
    )
    def epoch(self, unit: str = "s") -> Expr:
        """How many "s", "ms", "us" or "ns" since 1970 began, rounded down."""
        if unit not in TICKS:
            raise ExpressionError(f"epoch: unit {unit!r} is none of {', '.join(TICKS)}")
        return call("epoch", self._x, unit=unit)

    @_date(
        "days_between, hours_between, ...",
        "date or time, same -> int64",
        Spelling("DATE_DIFF(unit, x, y)", lambda unit, x, y: x.dt.until(y, unit)),
        Spelling("DATEDIFF(unit, x, y)", lambda unit, x, y: x.dt.until(y, unit)),
    )
    def until(self, other: Any, unit: str = "day") -> Expr:
        """How many days, hours, ... begin after this time, up to the other one."""
        return call(f"{_unit('until', unit)}s_between", self._x, other)

    @_date(
        "strftime",
        "date or time -> text",
        note="`%S` has the fraction of the column's unit.",
    )
    def strftime(self, format: str = "%Y-%m-%dT%H:%M:%S") -> Expr:  # noqa: A002  # as Arrow's
        """The time as text."""
        return call("strftime", self._x, format=format, locale="C")
