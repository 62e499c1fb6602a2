"""Aggregate functions from documents, which may come from anybody.

    {"function": "sum", "column": "len", "scale": 100}        sum(len, scale=100)

Each function writes its own (`to_document`). A user's function is only named there, and has to be
available.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gapless.operators.aggregates.counts import Count
from gapless.operators.aggregates.custom import Custom
from gapless.operators.aggregates.distinct import METHODS, CountDistinct
from gapless.operators.aggregates.extremes import First, Last, Max, Min
from gapless.operators.aggregates.function import AggregateFunction, UserFunctions
from gapless.operators.aggregates.hll import PRECISION_MAX, PRECISION_MIN
from gapless.operators.aggregates.quantile import Quantile
from gapless.operators.aggregates.sums import SCALE_MAX, Mean, Sum, Var
from gapless.protocol.documents import Document, Fields
from gapless.protocol.errors import DecodeError, Misuse
from gapless.protocol.plain import type_from_plain

WHAT = "aggregate"


def decode(document: Document, functions: UserFunctions) -> AggregateFunction:
    """The function that a document says; raises `DecodeError` where it says none."""
    plain = dict(document) if isinstance(document, dict) else document
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
    return function


def _count(fields: Fields) -> Count:
    return Count(fields.take("column", str, None))


def _arithmetic(kind: type[Sum | Mean | Var]) -> Callable[[Fields], AggregateFunction]:
    def read(fields: Fields) -> AggregateFunction:
        return kind(fields.take("column", str), fields.take_int("scale", 1, SCALE_MAX, None))

    return read


def _extreme(
    kind: type[Min | Max | First | Last],
) -> Callable[[Fields], AggregateFunction]:
    return lambda fields: kind(fields.take("column", str))


def _distinct(fields: Fields) -> CountDistinct:
    column, method = fields.take("column", str), fields.take("method", str)
    precision = fields.take_int("precision", PRECISION_MIN, PRECISION_MAX)
    known = next((m for m in METHODS if m == method), None)
    if known is None:
        raise DecodeError(f"{WHAT}.method", repr(method[:50]), f"one of {', '.join(METHODS)}")
    return CountDistinct(column, known, precision)


def _quantile(fields: Fields) -> Quantile:
    return Quantile(
        fields.take("column", str), fields.take("q", float), fields.take("accuracy", float)
    )


def _custom(fields: Fields, returns: Document, functions: UserFunctions) -> Custom:
    column, call = fields.take("column", str), fields.take("call", str)
    function = functions.get(call)
    if function is None:
        raise DecodeError(f"{WHAT}.call", f"no function {call[:200]!r} is available", "one that is")
    try:
        return Custom(column, function, type_from_plain(returns))
    except Misuse as e:
        raise DecodeError(WHAT, str(e)) from None


_READERS: Mapping[str, Callable[[Fields], AggregateFunction]] = {
    Count.name: _count,
    "sum": _arithmetic(Sum),
    "mean": _arithmetic(Mean),
    "var": _arithmetic(Var),
    Min.name: _extreme(Min),
    Max.name: _extreme(Max),
    First.name: _extreme(First),
    Last.name: _extreme(Last),
    CountDistinct.name: _distinct,
    Quantile.name: _quantile,
}
