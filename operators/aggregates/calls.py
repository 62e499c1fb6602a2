"""The aggregate functions by their names: what users write, as `gl.count()`, `gl.sum("len")`, ...

    count  sum_  min_  max_  mean  var  first  last  count_distinct  quantile  aggregate

Nulls do not count. Three end in an underscore here, for Python has functions of that name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from gapless.operators.aggregates.counts import Count
from gapless.operators.aggregates.custom import Custom
from gapless.operators.aggregates.distinct import PRECISION, CountDistinct, Method
from gapless.operators.aggregates.extremes import First, Last, Max, Min
from gapless.operators.aggregates.quantile import Quantile
from gapless.operators.aggregates.sums import Mean, Sum, Var
from gapless.protocol.column_names import column_name
from gapless.protocol.errors import SchemaError
from gapless.protocol.expr import Expr
from gapless.protocol.type_text import type_of_text

ColumnOf = str | Expr
"""A column: its name, or itself."""


def count(column: ColumnOf | None = None) -> Count:
    """How many rows there are; with a column, how many values in it are not null."""
    return Count(None if column is None else column_name("count", column))


def sum_(column: ColumnOf, scale: int | None = None) -> Sum:
    """The sum: of integers exact and int64, and aside where int64 does not hold it.

    Of floats it depends on the order of rows in its last bits, and replicas may differ, unless
    `scale` says how many parts of 1 matter (100: hundredths): then each value is rounded to a whole
    number of them, half to even, and those are added exactly.
    """
    return Sum(column_name("sum", column), scale)


def mean(column: ColumnOf, scale: int | None = None) -> Mean:
    """The mean as a float64; for floats see `sum_`."""
    return Mean(column_name("mean", column), scale)


def var(column: ColumnOf, scale: int | None = None) -> Var:
    """The population's variance as a float64; for floats see `sum_`."""
    return Var(column_name("var", column), scale)


def min_(column: ColumnOf) -> Min:
    """The smallest value, of the column's type: any that a payload may have."""
    return Min(column_name("min", column))


def max_(column: ColumnOf) -> Max:
    """The largest value, of the column's type; of floats NaN is the largest."""
    return Max(column_name("max", column))


def first(column: ColumnOf) -> First:
    """The value at the earliest time; of several then, the smallest."""
    return First(column_name("first", column))


def last(column: ColumnOf) -> Last:
    """The value at the latest time; of several then, the largest."""
    return Last(column_name("last", column))


def count_distinct(
    column: ColumnOf, method: Method = "exact", precision: int = PRECISION
) -> CountDistinct:
    """How many different values there are.

    `method="hll"` estimates it from 2^precision bytes a group: 1.04 / sqrt(2^precision) off as a
    rule, which is 1.6 % at 12.
    """
    return CountDistinct(column_name("count_distinct", column), method, precision)


def quantile(column: ColumnOf, q: float, accuracy: float = 0.01) -> Quantile:
    """The value of rank floor(q * (n - 1)) of n, from 0, or one that is off by `accuracy` of it."""
    return Quantile(column_name("quantile", column), q, accuracy)


def aggregate(
    column: ColumnOf, fn: Callable[[pa.Array], Any], returns: pa.DataType | str
) -> Custom:
    """What `fn` makes of a group's values: an Arrow array, ascending and without nulls.

    It gives a Python value or an Arrow scalar that fits `returns`; where it does not, or raises,
    the group goes aside with the reason.
    """
    if isinstance(returns, str):
        try:
            returns = type_of_text(returns)
        except SchemaError as e:
            raise SchemaError(f"aggregate: {e}") from None
    return Custom(column_name("aggregate", column), fn, returns)
