"""The aggregate functions by their names: what users write, as `gl.count()`, `gl.sum("len")`, ...

Three end in an underscore here, for Python has functions of that name.
"""

from __future__ import annotations

from gapless.operators.aggregates.counts import Count
from gapless.operators.aggregates.sums import Mean, Sum, Var


def count(column: str | None = None) -> Count:
    """How many rows there are; with a column, how many values in it are not null."""
    return Count(column)


def sum_(column: str, scale: int | None = None) -> Sum:
    """The sum: of integers exact and int64, and aside where int64 does not hold it.

    Of floats it depends on the order of rows in its last bits, and replicas may differ, unless
    `scale` says how many parts of 1 matter (100: hundredths): then each value is rounded to a whole
    number of them, half to even, and those are added exactly.
    """
    return Sum(column, scale)


def mean(column: str, scale: int | None = None) -> Mean:
    """The mean as a float64; for floats see `sum_`."""
    return Mean(column, scale)


def var(column: str, scale: int | None = None) -> Var:
    """The population's variance as a float64; for floats see `sum_`."""
    return Var(column, scale)
