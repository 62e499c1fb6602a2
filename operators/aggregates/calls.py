"""The aggregate functions by their names: what users write, as `gl.count()`, `gl.sum("len")`, ...

    count  count_distinct  sum_  mean  var  stddev  quantile  mode
    min_  max_  arg_min  arg_max  first  last  bool_and  bool_or  array_agg  string_agg  aggregate
    window_start  window_end  window_time

Nulls do not count. With `where=` only the rows count for which that expression is true. Three names
end in an underscore here, for Python has functions of that name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from gapless.operators.aggregates.arg_extremes import ArgMax, ArgMin
from gapless.operators.aggregates.collected import ArrayAgg, StringAgg
from gapless.operators.aggregates.counted import ExactQuantile, Mode
from gapless.operators.aggregates.counts import Count
from gapless.operators.aggregates.custom import Custom
from gapless.operators.aggregates.distinct import PRECISION, CountDistinct, Method
from gapless.operators.aggregates.extremes import BoolAnd, BoolOr, First, Last, Max, Min
from gapless.operators.aggregates.filtered import Filtered
from gapless.operators.aggregates.function import AggregateFunction
from gapless.operators.aggregates.quantile import ACCURACY, Quantile
from gapless.operators.aggregates.sums import Mean, Stddev, Sum, Var
from gapless.operators.aggregates.window_bounds import WindowBound
from gapless.protocol.column_names import column_name, column_names
from gapless.protocol.errors import Misuse, SchemaError
from gapless.protocol.expr import Expr
from gapless.protocol.type_text import type_of_text

ColumnOf = str | Expr
"""A column: its name, or itself."""


def count(column: ColumnOf | None = None, *, where: Expr | None = None) -> AggregateFunction:
    """How many rows there are; with a column, how many values in it are not null."""
    return _of(Count(None if column is None else column_name("count", column)), where)


def sum_(
    column: ColumnOf, scale: int | None = None, *, where: Expr | None = None
) -> AggregateFunction:
    """The sum: of integers exact and int64, and aside where int64 does not hold it.

    Of floats it depends on the order of rows in its last bits, and replicas may differ, unless
    `scale` says how many parts of 1 matter (100: hundredths): then each value is rounded to a whole
    number of them, half to even, and those are added exactly.
    """
    return _of(Sum(column_name("sum", column), scale), where)


def mean(
    column: ColumnOf, scale: int | None = None, *, where: Expr | None = None
) -> AggregateFunction:
    """The mean as a float64; for floats see `sum_`."""
    return _of(Mean(column_name("mean", column), scale), where)


def var(
    column: ColumnOf, scale: int | None = None, ddof: int = 0, *, where: Expr | None = None
) -> AggregateFunction:
    """The variance as a float64: the population's, with `ddof=1` the sample's; for floats see
    `sum_`.
    """
    return _of(Var(column_name("var", column), scale, ddof), where)


def stddev(
    column: ColumnOf, scale: int | None = None, ddof: int = 0, *, where: Expr | None = None
) -> AggregateFunction:
    """The standard deviation, the root of `var`."""
    return _of(Stddev(column_name("stddev", column), scale, ddof), where)


def min_(column: ColumnOf, *, where: Expr | None = None) -> AggregateFunction:
    """The smallest value, of the column's type: any that a payload may have."""
    return _of(Min(column_name("min", column)), where)


def max_(column: ColumnOf, *, where: Expr | None = None) -> AggregateFunction:
    """The largest value, of the column's type; of floats NaN is the largest."""
    return _of(Max(column_name("max", column)), where)


def arg_min(column: ColumnOf, by: ColumnOf, *, where: Expr | None = None) -> AggregateFunction:
    """The value of the row with the smallest `by`, of several the smallest."""
    return _of(ArgMin(column_name("arg_min", column), column_name("arg_min by", by)), where)


def arg_max(column: ColumnOf, by: ColumnOf, *, where: Expr | None = None) -> AggregateFunction:
    """The value of the row with the largest `by`, of several the largest."""
    return _of(ArgMax(column_name("arg_max", column), column_name("arg_max by", by)), where)


def bool_and(column: ColumnOf, *, where: Expr | None = None) -> AggregateFunction:
    """Whether all values of a column of bools are true."""
    return _of(BoolAnd(column_name("bool_and", column)), where)


def bool_or(column: ColumnOf, *, where: Expr | None = None) -> AggregateFunction:
    """Whether any value of a column of bools is true."""
    return _of(BoolOr(column_name("bool_or", column)), where)


def first(column: ColumnOf, *, where: Expr | None = None) -> AggregateFunction:
    """The value at the earliest time; of several then, the smallest."""
    return _of(First(column_name("first", column)), where)


def last(column: ColumnOf, *, where: Expr | None = None) -> AggregateFunction:
    """The value at the latest time; of several then, the largest."""
    return _of(Last(column_name("last", column)), where)


def array_agg(column: ColumnOf, *, where: Expr | None = None) -> AggregateFunction:
    """All values as a list, in order of time; those of one time in their own order."""
    return _of(ArrayAgg(column_name("array_agg", column)), where)


def string_agg(
    column: ColumnOf, separator: str = ",", *, where: Expr | None = None
) -> AggregateFunction:
    """All texts, with a separator between them, in the order of `array_agg`."""
    return _of(StringAgg(column_name("string_agg", column), separator), where)


def count_distinct(
    column: ColumnOf,
    method: Method = "exact",
    precision: int = PRECISION,
    *,
    where: Expr | None = None,
) -> AggregateFunction:
    """How many different values there are.

    `method="hll"` estimates it from 2^precision bytes a group: 1.04 / sqrt(2^precision) off as a
    rule, which is 1.6 % at 12.
    """
    return _of(CountDistinct(column_name("count_distinct", column), method, precision), where)


def mode(column: ColumnOf, *, where: Expr | None = None) -> AggregateFunction:
    """The value that is there most often; of several the smallest."""
    return _of(Mode(column_name("mode", column)), where)


def quantile(
    column: ColumnOf,
    q: float,
    accuracy: float | None = None,
    *,
    exact: bool = False,
    where: Expr | None = None,
) -> AggregateFunction:
    """The value of rank floor(q * (n - 1)) of n, from 0, or one that is off by `accuracy` of it.

    `accuracy` is 0.01 unless you say otherwise: some counts a group. `exact=True` keeps every
    value with its count, and takes values of any type.
    """
    name = column_name("quantile", column)
    if not exact:
        return _of(Quantile(name, q, ACCURACY if accuracy is None else accuracy), where)
    if accuracy is not None:
        raise Misuse("quantile: an exact one is off by nothing: leave accuracy= out, or exact=")
    return _of(ExactQuantile(name, q), where)


def aggregate(
    columns: ColumnOf | Sequence[ColumnOf],
    fn: Callable[..., Any],
    returns: pa.DataType | str,
    merge: Callable[[Any, Any], Any] | None = None,
    *,
    where: Expr | None = None,
) -> AggregateFunction:
    """What `fn` makes of a group's values: an Arrow array, ascending and without nulls.

    Of several columns, or a tuple of one, it gets an array each: the rows by time, then by their
    values, nulls among them. It gives a Python value or an Arrow scalar that fits `returns`; where
    it does not, or raises, the group goes aside with the reason.

    `merge` makes one answer of the answers to two parts of the rows, so that windows are put
    together from panes and one answer is kept in place of all rows. It gets them as Python values,
    and never None. Whether it gives what `fn` gives of all the rows is tried on drawn rows first.
    """
    if isinstance(returns, str):
        try:
            returns = type_of_text(returns)
        except SchemaError as e:
            raise SchemaError(f"aggregate: {e}") from None
    of_rows = isinstance(columns, list | tuple)
    given = columns if isinstance(columns, list | tuple) else (columns,)
    names = column_names("aggregate", given)
    return _of(Custom(names, fn, returns, merge, of_rows), where)


def _of(function: AggregateFunction, where: Expr | None) -> AggregateFunction:
    """The function, of all rows or of some."""
    return function if where is None else Filtered(function, where)


def window_start() -> WindowBound:
    """The first time that the answer's window covers; of a session, that of its first row."""
    return WindowBound("start")


def window_end() -> WindowBound:
    """The time at which the answer's window has ended: `_vs` of the answer."""
    return WindowBound("end")


def window_time() -> WindowBound:
    """One tick before the end of the answer's window: what a window above reads, `on=`."""
    return WindowBound("time")
