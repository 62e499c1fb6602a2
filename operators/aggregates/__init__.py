"""What an aggregate computes: functions, and their state by id.

function.py    the two interfaces          calls.py       the functions by name
counts.py      count; parts that count     sums.py        sum, mean, var
exact.py       sums that are exact         moments.py, floats.py     their state
"""

from gapless.operators.aggregates.calls import count, mean, sum_, var

__all__ = ["count", "mean", "sum_", "var"]
