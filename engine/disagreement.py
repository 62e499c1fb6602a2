"""Why replicas of a query might not agree to the last bit: what the expressions and functions do.

    select total = exp(x)          exp is the C library's: machines differ in the last bit
    where hour(at) == 3            time-zone rules are the machine's
    select score = mine:rate(len)  a user's function: nobody can see what it does
    aggregate sum(x)               a sum of floats depends on the order

Replicas that differ diverge when they race. What is said here is said by `explain`, so that it is
known before. Everything else a plan does is the same on every machine: integers are exact, and
comparisons, `+ - * /`, roots and roundings of floats are IEEE's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from gapless.engine.fit import Computed
from gapless.engine.functions import UserFunction
from gapless.operators.aggregates.custom import Custom
from gapless.operators.aggregates.filtered import Filtered
from gapless.operators.aggregates.function import AggregateFunction
from gapless.operators.rank_keys import RankKey
from gapless.protocol.expr import Call, Expr

_LIBM = frozenset(
    name + checked
    for name in (
        *("sin", "cos", "tan", "asin", "acos", "atan", "atan2"),
        *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
        *("exp", "expm1", "ln", "log10", "log1p", "log2", "logb", "power"),
    )
    for checked in ("", "_checked")
)
"""Functions that Arrow takes from the C library, whose last bit is not laid down."""
_CASTS = ("cast", "try_cast")
_ZONES = frozenset({"assume_timezone", "local_timestamp", "strftime", "strptime", "is_dst"})
"""Functions that look at the machine's time-zone rules, or names of days and months."""
_UTC = frozenset({"UTC", "utc", "Etc/UTC", "+00:00", "Z"})


def computed_may_differ(where: str, computed: Computed, payload: pa.Schema) -> Iterator[str]:
    """Sentences for one expression or function of a user's; `where` names its step."""
    if isinstance(computed, UserFunction):
        yield f"{where}: {computed} is a function of yours; it must decide by the row alone"
        return
    seen = set()
    for call in _calls(computed):
        reason = _why(call, payload)
        if reason is not None and (call.function, reason) not in seen:
            seen.add((call.function, reason))
            yield f"{where}: {call.function} {reason}"


def ranks_may_differ(where: str, keys: Iterable[RankKey], payload: pa.Schema) -> tuple[str, ...]:
    """Sentences for the keys that rows are ranked by."""
    of_each = (computed_may_differ(f"{where} by={key.by}", key.by, payload) for key in keys)
    return tuple(sentence for sentences in of_each for sentence in sentences)


def aggregate_may_differ(
    name: str, function: AggregateFunction, payload: pa.Schema
) -> Iterator[str]:
    """Sentences for one aggregate over rows of this payload."""
    where = f"aggregate {name}"
    if isinstance(function, Filtered):
        yield from computed_may_differ(where, function.where, payload)
        function = function.unfiltered
    if isinstance(function, Custom):
        called = f"{where}: {function.qualified_name}"
        yield f"{called} is a function of yours; it must decide by the values alone"
        if function.merge is not None and _has_floats(function.returns):
            yield f"{where}: merged floats may depend on the order in their last bits"
        return
    why = function.accumulator(payload).may_diverge
    if why is not None:
        yield f"{where}: {why}"


def _has_floats(t: pa.DataType) -> bool:
    if pa.types.is_dictionary(t):
        return _has_floats(t.value_type)
    return pa.types.is_floating(t) or any(_has_floats(t.field(i).type) for i in range(t.num_fields))


def _calls(expr: Expr) -> Iterator[Call]:
    left = [expr]
    while left:
        node = left.pop()
        if isinstance(node, Call):
            yield node
            left += reversed(node.args)


def _why(call: Call, payload: pa.Schema) -> str | None:
    if call.function in _LIBM and pa.types.is_floating(call.type(payload)):
        return "of floats is the C library's: machines may differ in the last bit"
    if call.function in _ZONES:
        return "reads the machine's rules of time zones and names of days"
    if call.function in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
        return None
    types = [arg.type(payload) for arg in call.args]
    if call.function in _CASTS:
        types.append(call.type(payload))
    zoned = [t for t in types if pa.types.is_timestamp(t) and t.tz not in {None, *_UTC}]
    if zoned and (call.function in _OF_CALENDAR or call.function in _CASTS):
        return f"of {zoned[0]} reads the machine's rules of time zones"
    return None


_OF_CALENDAR = frozenset(
    {
        *("year", "quarter", "month", "day", "hour", "day_of_week", "day_of_year", "us_year"),
        *("iso_year", "iso_week", "us_week", "week", "year_month_day", "iso_calendar"),
        *("is_leap_year", "floor_temporal", "ceil_temporal", "round_temporal"),
        *("years_between", "quarters_between", "month_interval_between", "weeks_between"),
        *("days_between", "month_day_nano_interval_between", "day_time_interval_between"),
        *("hours_between", "minute", "minutes_between", "months_between"),
    }
)
"""Functions that see a timestamp with a zone in that zone's calendar."""
