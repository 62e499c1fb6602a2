"""Aggregates of the rows of one group, in Python's integers and fractions.

sum of 0.25, 1.5 with scale=4      each to whole quarters, half to even: 1 + 6; then 7/4
first                              of the rows of the earliest time the smallest value
quantile, hll                      the exact answer: `fit` says how far another may be off
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa

from gapless.operators.aggregates.arg_extremes import ArgMax, ArgMin
from gapless.operators.aggregates.counted import ExactQuantile
from gapless.operators.aggregates.filtered import Filtered
from gapless.operators.aggregates.function import AggregateFunction
from gapless.protocol.expr import Expr
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event
from gapless.protocol.values import canonical_float, payload_columns
from tests.engine.oracles.fixed_order import place

INT64 = range(-(2**63), 2**63)


class NoAnswer(Exception):  # an answer that cannot be given is none of ours
    """The group has no answer: it goes aside."""


def aggregate(function: AggregateFunction, schema: StreamSchema, members: Sequence[Event]) -> Any:
    """The answer for rows with their times in `vs`; raises `NoAnswer`."""
    if isinstance(function, Filtered):
        kept = [e for e in members if holds(function.where, schema, e.payload)]
        return aggregate(function.unfiltered, schema, kept)
    if not function.columns:
        return len(members)
    if isinstance(function, ArgMin | ArgMax):
        return _of_extreme(function, schema, members)
    at = schema.names.index(function.columns[0])
    timed = [(e.vs, e.payload[at]) for e in members if e.payload[at] is not None]
    values = [value for _, value in timed]
    if function.name == "count":
        return len(values)
    if function.name == "count_distinct":
        return len(set(values))
    if not values:
        return None
    if function.name in ("first", "last"):
        return _at_end(function.name, timed)
    if function.name in ("array_agg", "string_agg"):
        return _collected(function, timed)
    return _ANSWERS[function.name](function, values)


def _at_end(name: str, timed: Sequence[tuple[int, Any]]) -> Any:
    """Ties of time are broken by the value, in the fixed order."""
    end = min if name == "first" else max
    return end(timed, key=lambda t: (t[0], place((t[1],))))[1]


def holds(where: Expr, schema: StreamSchema, payload: tuple[Any, ...]) -> bool:
    """Whether a condition is true of a row."""
    columns = payload_columns([payload], schema.payload)
    row = pa.RecordBatch.from_arrays(columns, schema=schema.payload)
    return where.evaluate(row)[0].as_py() is True


def _of_extreme(function: ArgMin | ArgMax, schema: StreamSchema, members: Sequence[Event]) -> Any:
    """The value beside the smallest or largest; of several the smallest or largest, too."""
    at = [schema.names.index(name) for name in (function.by, function.column)]
    pairs = [(e.payload[at[0]], e.payload[at[1]]) for e in members]
    pairs = [pair for pair in pairs if None not in pair]
    end = min if function.name == "arg_min" else max
    return end(pairs, key=place)[1] if pairs else None


def _collected(function: Any, timed: Sequence[tuple[int, Any]]) -> Any:
    values = [v for _, v in sorted(timed, key=lambda t: (t[0], place((t[1],))))]
    return tuple(values) if function.name == "array_agg" else function.separator.join(values)


def _mode(values: Sequence[Any]) -> Any:
    often = Counter(values)
    return min(often, key=lambda v: (-often[v], place((v,))))


def _sum(function: Any, values: Sequence[Any]) -> Any:
    if _unscaled(function, values):
        return canonical_float(math.fsum(values))
    if function.scale is not None:
        return _float(sum(_parts(function, values), Fraction(0)) / _divisor(function, values))
    total = sum(values)
    if total not in INT64:
        raise NoAnswer("the sum is beyond int64")
    return total


def _mean(function: Any, values: Sequence[Any]) -> float:
    if _unscaled(function, values):
        return canonical_float(math.fsum(values) / len(values))
    parts = _parts(function, values)
    return _float(sum(parts, Fraction(0)) / (_divisor(function, values) * len(parts)))


def _unscaled(function: Any, values: Sequence[Any]) -> bool:
    """Floats as they are: the answer may be off by some last bits."""
    return function.scale is None and isinstance(values[0], float)


def _var(function: Any, values: Sequence[Any]) -> float | None:
    if _unscaled(function, values) and not all(map(math.isfinite, values)):
        return math.nan
    parts = _parts(function, values)
    mean = sum(parts, Fraction(0)) / len(parts)
    if len(parts) <= function.ddof:
        return None
    squares = sum(((q - mean) ** 2 for q in parts), Fraction(0)) / (len(parts) - function.ddof)
    variance = _float(squares / _divisor(function, values) ** 2)
    return variance if function.name == "var" else math.sqrt(variance)


def _divisor(function: Any, values: Sequence[Any]) -> int:
    return function.scale if function.scale is not None and isinstance(values[0], float) else 1


def _parts(function: Any, values: Sequence[Any]) -> list[Fraction]:
    """Whole parts of 1 where there is a scale, the exact values where there is none."""
    scale = _divisor(function, values)
    try:
        if scale == 1 and function.scale is None:
            return [Fraction(v) for v in values]
        parts = [Fraction(round(Fraction(v) * scale)) for v in values]
    except (ValueError, OverflowError):
        raise NoAnswer("a value that is not finite") from None
    if isinstance(values[0], float) and not all(int(part) in INT64 for part in parts):
        raise NoAnswer("a value whose parts are beyond int64")
    return parts


def _float(exact: Fraction) -> float:
    """Rounded once."""
    return exact.numerator / exact.denominator


def _quantile(function: Any, values: Sequence[Any]) -> Any:
    ordered = sorted(values, key=lambda v: place((v,)))
    answer = ordered[math.floor(Fraction(function.q) * (len(values) - 1))]
    return answer if isinstance(function, ExactQuantile) else float(answer)


def _users(function: Any, values: Sequence[Any]) -> Any:
    answer = function.function(pa.array(sorted(values, key=lambda v: place((v,)))))
    if type(answer) is int and answer not in INT64:
        raise NoAnswer("it does not fit its type")
    return answer


def near(function: AggregateFunction, got: Any, exact: Any) -> bool:
    """Whether an answer is as near to the exact one as the function says."""
    if got is None or exact is None or got != got or exact != exact:
        return (got is None, got != got) == (exact is None, exact != exact)
    off = {"quantile": getattr(function, "accuracy", 0.0), "count_distinct": 0.05}
    return math.isclose(got, exact, rel_tol=off.get(function.name, 0) + 1e-9, abs_tol=1e-9)


_ANSWERS: Mapping[str, Callable[[Any, Sequence[Any]], Any]] = {
    "sum": _sum,
    "mean": _mean,
    "var": _var,
    "stddev": _var,
    "mode": lambda _, values: _mode(values),
    "bool_and": lambda _, values: all(values),
    "bool_or": lambda _, values: any(values),
    "quantile": _quantile,
    "aggregate": _users,
    "min": lambda _, values: min(values, key=lambda v: place((v,))),
    "max": lambda _, values: max(values, key=lambda v: place((v,))),
}
