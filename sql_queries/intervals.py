"""Lengths of time in the text: INTERVAL '5' MINUTE, and `10 minutes` in a window clause.

Both become what `engine/durations.py` takes ("5m"), or an Arrow duration in an expression. A month
or a year has no fixed length, so no window or time of ours can be that long.
"""

from __future__ import annotations

import re
from fractions import Fraction

import pyarrow as pa
from sqlglot import exp

from gapless.protocol.expr import Expr, lit
from gapless.sql_queries.clause import Span
from gapless.sql_queries.places import Text

_NS = {
    "microsecond": 10**3,
    "millisecond": 10**6,
    "second": 10**9,
    "minute": 60 * 10**9,
    "hour": 3600 * 10**9,
    "day": 86400 * 10**9,
    "week": 7 * 86400 * 10**9,
}
_ABBREVIATED = {
    "us": "microsecond",
    "ms": "millisecond",
    "msec": "millisecond",
    "s": "second",
    "sec": "second",
    "m": "minute",
    "min": "minute",
    "h": "hour",
    "hr": "hour",
    "d": "day",
}
_UNITS = (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1))
"""Of Arrow's durations, the coarsest first."""
_WRITTEN = re.compile(r"\s*([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*([a-zA-Z]+)?\s*", re.ASCII)
_CLOCK = re.compile(r"([0-9]{1,6}):([0-5][0-9]):([0-5][0-9](?:\.[0-9]{1,9})?)\s*$", re.ASCII)
_PART = r"[0-9]{1,18}(?:\.[0-9]{1,9})?\s*[a-zA-Z]+\s*"
_SEVERAL = re.compile(rf"(?=.*\S)\s*(?:{_PART})*(?:{_CLOCK.pattern})?", re.ASCII)
"""`1 hour 30 minutes`, `01:30:00`, `1 day 01:30:00`."""
ROW_UNITS = ("row", "rows")


def is_interval(node: exp.Expr) -> bool:
    """Whether a node is a length of time."""
    return isinstance(node, exp.Interval)


def nanoseconds(node: exp.Expr, text: Text, example: str = "INTERVAL '5' MINUTE") -> int:
    """The length of an interval."""
    if not isinstance(node, exp.Interval) or not isinstance(node.this, exp.Literal):
        raise text.error(f"a length of time is wanted here, as in {example}", node)
    form = _WRITTEN.fullmatch(node.this.name)
    unit = node.args.get("unit")
    if form is None and unit is None and _SEVERAL.fullmatch(node.this.name):
        parts = _WRITTEN.finditer(node.this.name)
        clock = _CLOCK.search(node.this.name)
        of_clock = zip(clock.groups(), ("hour", "minute", "second"), strict=True) if clock else ()
        told = [(p[1], p[2]) for p in parts if p[2]]
        return sum(_length(n, w, node, text) for n, w in (*told, *of_clock))
    word = unit.name if unit is not None else form[2] if form else None
    if form is None or word is None or (unit is not None and form[2]):
        raise text.error(f"this is not a length of time: write it as in {example}", node)
    return _length(form[1], word, node, text)


def signed_ns(node: exp.Expr, text: Text) -> int:
    """The same of one that may be negative: -INTERVAL '5' MINUTE, INTERVAL '-5' MINUTE."""
    if isinstance(node, exp.Neg):
        return -nanoseconds(node.this, text)
    if isinstance(node, exp.Interval) and isinstance(node.this, exp.Literal):
        number = node.this.name.lstrip()
        if number.startswith("-"):
            positive = node.copy()
            positive.this.set("this", number[1:])
            return -nanoseconds(positive, text)
    return nanoseconds(node, text)


def span_ns(span: Span, text: Text) -> int:
    """The length of a window's span that is one of time."""
    return _length(str(span.this), str(span.args["unit"]), span, text)


def _length(number: str, word: str, node: exp.Expr, text: Text) -> int:
    unit = word.lower()
    unit = _ABBREVIATED.get(unit, _ABBREVIATED.get(unit.rstrip("s"), unit.rstrip("s")))
    if unit not in _NS:
        advice = "a month has no fixed length: " if unit in ("month", "year", "quarter") else ""
        raise text.error(f"{advice}units are {', '.join(_NS)}, not {word}", node)
    ns = Fraction(number) * _NS[unit]
    if ns.denominator != 1:
        raise text.error(f"{number} {word} is no whole number of nanoseconds", node)
    return ns.numerator


def duration(ns: int) -> str:
    """As the steps of a query take it: "90s", "250ms"."""
    short, divisor = next((s, d) for s, d in _UNITS if ns % d == 0)
    return f"{ns // divisor}{short}"


def literal(ns: int) -> Expr:
    """As a constant in an expression: in the coarsest unit that holds it, so that a time keeps
    its own unit.
    """
    short, divisor = next((s, d) for s, d in _UNITS if ns % d == 0)
    return lit(pa.scalar(ns // divisor, pa.duration(short)))


def ticks(ns: int, unit: str, node: exp.Expr, text: Text) -> int:
    """As a count of a stream's unit of time."""
    divisor = dict(_UNITS)[unit]
    if ns % divisor:
        raise text.error(f"this is no whole number of {unit}, the stream's unit", node)
    return ns // divisor
