"""Functions by their names in SQL, and what each builds of its arguments.

A name that is not here is refused with the nearest ones; aggregates are in aggregates.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gapless.protocol.conditions import concat
from gapless.protocol.expr import Expr, Literal, call, if_else

Build = Callable[..., Expr]

_PARTS = {
    "year": "year",
    "quarter": "quarter",
    "month": "month",
    "day": "day",
    "hour": "hour",
    "minute": "minute",
    "second": "second",
    "isodow": None,
    "dow": None,
    "doy": "day_of_year",
    "week": "iso_week",
}
_TRUNCATES = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")


class BadArgument(ValueError):
    """An argument that a function cannot have; the message says what it may be."""


def constant(value: Any, what: str) -> Any:
    """The value of an argument that has to be a constant."""
    if not isinstance(value, Literal):
        raise BadArgument(f"{what} has to be a constant")
    return value.constant.scalar.as_py()


def part_of(part: str, value: Any) -> Expr:
    """EXTRACT(part FROM value)."""
    name = part.lower()
    if name not in _PARTS:
        raise BadArgument(f"no part {part!r}: there are {', '.join(_PARTS)}")
    if name == "isodow":
        return call("day_of_week", value, count_from_zero=False)
    if name == "dow":
        return call("day_of_week", value, week_start=7)
    return call(str(_PARTS[name]), value)


def _date_trunc(unit: Any, value: Any) -> Expr:
    name = str(constant(unit, "the unit of date_trunc")).lower()
    if name not in _TRUNCATES:
        raise BadArgument(f"no unit {name!r}: there are {', '.join(_TRUNCATES)}")
    return call("floor_temporal", value, unit=name)


def substring(value: Any, start: Any, length: Any = None) -> Expr:
    """SUBSTRING(value FROM start FOR length): places count from 1."""
    first = int(constant(start, "the start of substring"))
    if first < 1:
        raise BadArgument("the start of substring is 1 or more")
    if length is None:
        return call("utf8_slice_codeunits", value, start=first - 1)
    count = int(constant(length, "the length of substring"))
    if count < 0:
        raise BadArgument("the length of substring is not negative")
    return call("utf8_slice_codeunits", value, start=first - 1, stop=first - 1 + count)


def _text(function: str, option: str) -> Build:
    def build(value: Any, pattern: Any) -> Expr:
        text = constant(pattern, "what is looked for")
        return call(function, value, **{option: text})

    return build


def position(value: Any, part: Any) -> Expr:
    """Where a part begins, from 1; 0 where it is not."""
    return call("find_substring", value, pattern=constant(part, "what is looked for")) + 1


def _replace(value: Any, part: Any, by: Any) -> Expr:
    return call(
        "replace_substring",
        value,
        pattern=constant(part, "what is replaced"),
        replacement=constant(by, "the replacement"),
    )


def _round(value: Any, digits: Any = 0) -> Expr:
    places = constant(digits, "the digits of round") if isinstance(digits, Expr) else digits
    return call("round", value, ndigits=places, round_mode="half_towards_infinity")


def joined(left: Any, right: Any) -> Expr:
    """Left || right: null where one is."""
    return call("binary_join_element_wise", left, right, "")


def _nullif(value: Expr, other: Any) -> Expr:
    return if_else(call("coalesce", value == other, False), None, value)


def _one(function: str) -> Build:
    return lambda value: call(function, value)


def trim(function: str) -> Build:
    """TRIM, LTRIM, RTRIM: spaces, or the characters that are said."""

    def build(value: Any, characters: Any = None) -> Expr:
        if characters is None:
            return call(f"{function}_whitespace", value)
        return call(function, value, characters=constant(characters, "what is trimmed"))

    return build


FUNCTIONS: dict[str, Build] = {
    "abs": _one("abs"),
    "ceil": _one("ceil"),
    "ceiling": _one("ceil"),
    "floor": _one("floor"),
    "round": _round,
    "sqrt": _one("sqrt"),
    "exp": _one("exp"),
    "ln": _one("ln"),
    "log10": _one("log10"),
    "log2": _one("log2"),
    "sign": _one("sign"),
    "power": lambda a, b: call("power", a, b),
    "pow": lambda a, b: call("power", a, b),
    "mod": lambda a, b: a % b,
    "greatest": lambda *v: call("max_element_wise", *v),
    "least": lambda *v: call("min_element_wise", *v),
    "coalesce": lambda *v: call("coalesce", *v),
    "ifnull": lambda a, b: call("coalesce", a, b),
    "nullif": _nullif,
    "lower": _one("utf8_lower"),
    "upper": _one("utf8_upper"),
    "length": _one("utf8_length"),
    "char_length": _one("utf8_length"),
    "reverse": _one("utf8_reverse"),
    "trim": trim("utf8_trim"),
    "btrim": trim("utf8_trim"),
    "ltrim": trim("utf8_ltrim"),
    "rtrim": trim("utf8_rtrim"),
    "substr": substring,
    "substring": substring,
    "replace": _replace,
    "strpos": position,
    "concat": concat,
    "starts_with": _text("starts_with", "pattern"),
    "ends_with": _text("ends_with", "pattern"),
    "contains": _text("match_substring", "pattern"),
    "regexp_like": _text("match_substring_regex", "pattern"),
    "date_trunc": _date_trunc,
    "date_part": lambda part, value: part_of(str(constant(part, "the part")), value),
    "year": lambda v: part_of("year", v),
    "month": lambda v: part_of("month", v),
    "day": lambda v: part_of("day", v),
    "hour": lambda v: part_of("hour", v),
    "minute": lambda v: part_of("minute", v),
    "second": lambda v: part_of("second", v),
}
"""What each builds."""
