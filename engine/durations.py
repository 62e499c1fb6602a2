"""Durations as people write them, as whole numbers of a stream's unit of time, and back.

    ticks("10s", "ms")     10000             text(10_000, "ms")    "10 s"
    ticks("1.5s", "ms")    1500              text(1_500, "ms")     "1500 ms"
    ticks(250, "ms")       250               text(INF, "ms")       "all"
    ticks("1us", "ms")     Misuse: no whole number of ms

An int is a count of the stream's own unit. Nothing is rounded: replicas must agree.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Misuse
from gapless.protocol.schema import TIME_UNITS

Duration = int | str | timedelta
"""A count of the stream's unit, a text such as "10s", or Python's own."""

_NS = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FORM = re.compile(r"\s*([0-9]{1,19}(?:\.[0-9]{1,9})?)\s*([a-z]{1,3})\s*", re.ASCII)
_SPOKEN = ("d", "h", "min", "s", "ms", "us", "ns")  # the largest that divides is what is said


def ticks(value: Duration, unit: str, what: str = "duration", least: int = 0) -> int:
    """The duration as a count of `unit` (s, ms, us or ns); raises `Misuse` where it is invalid.

    `what` names it in errors; less than `least` and as much as INF are refused.
    """
    count = _count(value, unit, what)
    if count < least:
        raise Misuse(f"{what} {_shown(value)}: it is at least {least}")
    if count >= INF:
        raise Misuse(f"{what} {_shown(value)}: an int64 of {unit} does not hold it")
    return count


def instant(value: Duration | datetime, unit: str, what: str) -> int:
    """A time as a count of `unit` from 1970 on: of a datetime, in UTC if it has no time zone, or
    of a duration, also of a negative one.
    """
    if isinstance(value, datetime):
        value = value.replace(tzinfo=value.tzinfo or UTC) - _EPOCH
    if isinstance(value, str) and value.strip().startswith("-"):
        return -ticks(value.strip()[1:], unit, what)
    return ticks(value, unit, what, least=BEGIN + 1)


def text(count: int, unit: str) -> str:
    """For people: in the largest unit that divides it."""
    if count == INF:
        return "all"
    ns = count * _NS[unit]
    spoken = next(u for u in _SPOKEN if ns % _NS[u] == 0) if count else unit
    return f"{ns // _NS[spoken]} {spoken}"


def _count(value: Duration, unit: str, what: str) -> int:
    if unit not in TIME_UNITS:
        raise Misuse(f"time unit {unit!r}: use one of {', '.join(TIME_UNITS)}")
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, timedelta):
        micros = (value.days * 86400 + value.seconds) * 10**6 + value.microseconds
        ns = Fraction(micros * 1000)
    elif isinstance(value, str):
        ns = _parsed(value, what)
    else:
        raise Misuse(f"{what} {value!r}: {_WRITTEN}")
    count = ns / _NS[unit]
    if count.denominator != 1:
        raise Misuse(
            f"{what} {_shown(value)}: it is not a whole number of {unit}, the stream's unit"
        )
    return count.numerator


_WRITTEN = "write a text such as '10s', '500ms', '1m', '2h', '1d', or an int in the stream's unit"


def _parsed(value: str, what: str) -> Fraction:
    form = _FORM.fullmatch(value)
    if form is None or form[2] not in _NS:
        raise Misuse(f"{what} {value[:50]!r}: {_WRITTEN}")
    return Fraction(form[1]) * _NS[form[2]]


def _shown(value: Duration) -> str:
    return str(value) if isinstance(value, timedelta) else repr(value)
