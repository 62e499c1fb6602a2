"""What an aggregate computes: functions, and their state by id.

function.py    what each function is, and each state; the interfaces
calls.py       the functions by name

counts.py      count; how many values an id has seen
sums.py        sum, mean, var: moments.py of exact.py's integers, floats.py
extremes.py    min, max, first, last: of numbers, and picked.py of the rest
distinct.py    count_distinct: by tally.py, or by hll.py over hashing.py
quantile.py    quantile: a DDSketch in a tally
custom.py      aggregate: a user's function of a tally

parts.py, inputs.py, documents.py     what they share
"""

from gapless.operators.aggregates.calls import (
    aggregate,
    count,
    count_distinct,
    first,
    last,
    max_,
    mean,
    min_,
    quantile,
    sum_,
    var,
)

__all__ = [
    "aggregate",
    "count",
    "count_distinct",
    "first",
    "last",
    "max_",
    "mean",
    "min_",
    "quantile",
    "sum_",
    "var",
]
