"""What an aggregate computes: functions, and their state by id.

function.py    what each function is, and each state; the interfaces
calls.py       the functions by name
filtered.py    where=: a function of some of the rows

counts.py      count; how many values an id has seen
sums.py        sum, mean, var, stddev: moments.py of exact.py's integers, floats.py
extremes.py    min, max, first, last, bool_and, bool_or: of numbers, and picked.py of the rest
arg_extremes.py   arg_min, arg_max
distinct.py    count_distinct: by tally.py, or by hll.py over hashing.py
quantile.py    quantile: a DDSketch in a tally
counted.py     quantile(exact=True), mode: of values in a tally
collected.py   array_agg, string_agg: all values, with their times in a tally
custom.py      aggregate: a user's function, of custom_rows.py (a tally) or, with merge=, of
               custom_answers.py, whose laws merge_laws.py tries
window_bounds.py     window_start, window_end, window_time: of the answer's window

parts.py, inputs.py, forwarding.py, documents.py     what they share
"""

from gapless.operators.aggregates.calls import (
    aggregate,
    arg_max,
    arg_min,
    array_agg,
    bool_and,
    bool_or,
    count,
    count_distinct,
    first,
    last,
    max_,
    mean,
    min_,
    mode,
    quantile,
    stddev,
    string_agg,
    sum_,
    var,
    window_end,
    window_start,
    window_time,
)

__all__ = [
    "aggregate",
    "arg_max",
    "arg_min",
    "array_agg",
    "bool_and",
    "bool_or",
    "count",
    "count_distinct",
    "first",
    "last",
    "max_",
    "mean",
    "min_",
    "mode",
    "quantile",
    "stddev",
    "string_agg",
    "sum_",
    "var",
    "window_end",
    "window_start",
    "window_time",
]
