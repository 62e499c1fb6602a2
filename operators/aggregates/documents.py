"""Aggregate functions from documents, which may come from anybody.

    {"function": "sum", "column": "len", "scale": 100}        sum(len, scale=100)

Each function writes its own (`to_document`). A user's function is only named there, and has to be
available.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gapless.operators.aggregates.arg_extremes import ArgMax, ArgMin
from gapless.operators.aggregates.collected import ArrayAgg, StringAgg
from gapless.operators.aggregates.counted import ExactQuantile, Mode
from gapless.operators.aggregates.counts import Count
from gapless.operators.aggregates.custom import Custom
from gapless.operators.aggregates.distinct import METHODS, CountDistinct
from gapless.operators.aggregates.extremes import BoolAnd, BoolOr, First, Last, Max, Min
from gapless.operators.aggregates.filtered import Filtered
from gapless.operators.aggregates.function import AggregateFunction, UserFunctions
from gapless.operators.aggregates.hll import PRECISION_MAX, PRECISION_MIN
from gapless.operators.aggregates.quantile import Quantile
from gapless.operators.aggregates.sums import SCALE_MAX, Mean, Stddev, Sum, Var
from gapless.operators.aggregates.window_bounds import WindowBound
from gapless.protocol.documents import Document, Fields
from gapless.protocol.errors import DecodeError, Misuse
from gapless.protocol.expr import Expr
from gapless.protocol.plain import type_from_plain

WHAT = "aggregate"


def decode(document: Document, functions: UserFunctions) -> AggregateFunction:
    """The function that a document says; raises `DecodeError` where it says none."""
    plain = dict(document) if isinstance(document, dict) else document
    where = plain.pop("where", None) if isinstance(plain, dict) else None
    returns = plain.pop("returns", None) if isinstance(plain, dict) else None
    fields = Fields(plain, WHAT)
    name = fields.take("function", str)
    if name == Custom.name:
        function: AggregateFunction = _custom(fields, returns, functions)
    elif returns is not None:
        raise DecodeError(WHAT, f"has unknown fields: returns, of {name[:50]!r}")
    elif name in _READERS:
        try:
            function = _READERS[name](fields)
        except Misuse as e:
            raise DecodeError(WHAT, str(e)) from None
    else:
        raise DecodeError(f"{WHAT}.function", repr(name[:50]), f"one of {', '.join(_READERS)}")
    fields.done()
    return function if where is None else Filtered(function, Expr.from_document(where))


def _count(fields: Fields) -> Count:
    return Count(fields.take("column", str, None))


def _arithmetic(kind: type[Sum | Mean]) -> Callable[[Fields], AggregateFunction]:
    def read(fields: Fields) -> AggregateFunction:
        return kind(fields.take("column", str), fields.take_int("scale", 1, SCALE_MAX, None))

    return read


def _spread(kind: type[Var | Stddev]) -> Callable[[Fields], AggregateFunction]:
    def read(fields: Fields) -> AggregateFunction:
        scale = fields.take_int("scale", 1, SCALE_MAX, None)
        return kind(fields.take("column", str), scale, fields.take_int("ddof", 0, 1, 0))

    return read


def _of_column(
    kind: type[Min | Max | First | Last | BoolAnd | BoolOr | Mode | ArrayAgg],
) -> Callable[[Fields], AggregateFunction]:
    return lambda fields: kind(fields.take("column", str))


def _arg(kind: type[ArgMin | ArgMax]) -> Callable[[Fields], AggregateFunction]:
    return lambda fields: kind(fields.take("column", str), fields.take("by", str))


def _string_agg(fields: Fields) -> StringAgg:
    return StringAgg(fields.take("column", str), fields.take("separator", str))


def _distinct(fields: Fields) -> CountDistinct:
    column, method = fields.take("column", str), fields.take("method", str)
    precision = fields.take_int("precision", PRECISION_MIN, PRECISION_MAX)
    known = next((m for m in METHODS if m == method), None)
    if known is None:
        raise DecodeError(f"{WHAT}.method", repr(method[:50]), f"one of {', '.join(METHODS)}")
    return CountDistinct(column, known, precision)


def _quantile(fields: Fields) -> Quantile | ExactQuantile:
    column, q = fields.take("column", str), fields.take("q", float)
    if fields.take("exact", bool, False):
        return ExactQuantile(column, q)
    return Quantile(column, q, fields.take("accuracy", float))


def _custom(fields: Fields, returns: Document, functions: UserFunctions) -> Custom:
    columns = fields.take("columns", list, [])
    names = tuple(columns) or (fields.take("column", str),)
    if not all(isinstance(name, str) for name in names):
        raise DecodeError(f"{WHAT}.columns", f"{names!r:.200}", "names of columns")
    function = _available(fields.take("call", str), "call", functions)
    called = fields.take("merge", str, "")
    merge = _available(called, "merge", functions) if called else None
    try:
        return Custom(names, function, type_from_plain(returns), merge, bool(columns))
    except Misuse as e:
        raise DecodeError(WHAT, str(e)) from None


def _available(call: str, field: str, functions: UserFunctions) -> Callable[..., Any]:
    function = functions.get(call)
    if function is None:
        what = f"no function {call[:200]!r} is available"
        raise DecodeError(f"{WHAT}.{field}", what, "one that is")
    return function


_READERS: Mapping[str, Callable[[Fields], AggregateFunction]] = {
    Count.name: _count,
    "sum": _arithmetic(Sum),
    "mean": _arithmetic(Mean),
    "var": _spread(Var),
    "stddev": _spread(Stddev),
    **{
        kind.name: _of_column(kind)
        for kind in (Min, Max, First, Last, BoolAnd, BoolOr, Mode, ArrayAgg)
    },
    ArgMin.name: _arg(ArgMin),
    ArgMax.name: _arg(ArgMax),
    StringAgg.name: _string_agg,
    CountDistinct.name: _distinct,
    Quantile.name: _quantile,
    "window_start": lambda _: WindowBound("start"),
    "window_end": lambda _: WindowBound("end"),
    "window_time": lambda _: WindowBound("time"),
}
