"""Aggregates by their names in SQL, as functions of `gl`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from gapless.operators import aggregates as ours
from gapless.operators.aggregates.function import AggregateFunction
from gapless.protocol.expr import Expr

Build = Callable[..., AggregateFunction]

AGGREGATES: dict[str, Build] = {
    "count": ours.count,
    "sum": ours.sum_,
    "avg": ours.mean,
    "mean": ours.mean,
    "min": ours.min_,
    "max": ours.max_,
    "var_pop": ours.var,
    "var_samp": partial(ours.var, ddof=1),
    "variance": partial(ours.var, ddof=1),
    "stddev_pop": ours.stddev,
    "stddev_samp": partial(ours.stddev, ddof=1),
    "stddev": partial(ours.stddev, ddof=1),
    "arg_min": ours.arg_min,
    "min_by": ours.arg_min,
    "arg_max": ours.arg_max,
    "max_by": ours.arg_max,
    "bool_and": ours.bool_and,
    "every": ours.bool_and,
    "bool_or": ours.bool_or,
    "first": ours.first,
    "first_value": ours.first,
    "last": ours.last,
    "last_value": ours.last,
    "mode": ours.mode,
    "array_agg": ours.array_agg,
    "string_agg": ours.string_agg,
    "listagg": ours.string_agg,
    "approx_count_distinct": partial(ours.count_distinct, method="hll"),
    "approx_quantile": ours.quantile,
    "exact_quantile": partial(ours.quantile, exact=True),
}
"""What each builds of the name of a column, and of what stands behind it."""
OF_TWO = frozenset(("arg_min", "min_by", "arg_max", "max_by"))
"""Those whose second argument is a column, too."""

WITH_CONSTANT = frozenset(
    ("string_agg", "listagg", "approx_quantile", "exact_quantile", "approx_count_distinct")
)
"""Those behind whose columns a constant may stand."""


def count_distinct(column: str, where: Expr | None) -> AggregateFunction:
    """count(DISTINCT column)."""
    return ours.count_distinct(column, where=where)


def built(name: str, arguments: list[Any], where: Expr | None) -> AggregateFunction:
    """The aggregate of that name; `where` is the condition of its FILTER."""
    return AGGREGATES[name](*arguments, where=where)
