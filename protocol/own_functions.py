"""Functions that `pyarrow.compute` does not have, or not by column, made of those it has.

    utf8_find          the place of a text, in code points: Arrow's counts bytes
    utf8_extract       a group of a regular expression, by number: Arrow wants names
    text_join          texts without those that are null: Arrow's drops rows that have null alone
    months_between     months that begin between two times: Arrow's gives a type of its own
    epoch              ticks since 1970 in any unit
    list_get           an element, null where there is none: Arrow's fails
    list_contains      whether a value is an element
    case               the value of the first condition that is true
    null_if            null where two values are equal
    is_distinct_from   inequality of which null is a value
    try_cast           null where a value does not fit

Each is called with arrays, or constants, as Arrow's are, and gives one answer a row. Each costs a
few calls of Arrow's functions over the column, however many rows there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.protocol.casts import halved, masked
from gapless.protocol.errors import ExpressionError
from gapless.protocol.lists import elements, lengths, normal, own
from gapless.protocol.misses import without_cast
from gapless.protocol.regex_groups import named_groups

_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class OwnFunction(NamedTuple):
    """One of them."""

    arity: range
    """How many arguments it takes."""
    options: dict[str, type]
    """Its options, all of which are to be given."""
    apply: Callable[..., Any]
    """The answer, of the arguments and the options."""
    check: Callable[..., Any] = lambda **_: None
    """Raises where its options cannot be."""


def checked_options(function: str, arity_given: int, options: dict[str, Any]) -> dict[str, Any]:
    """The options of a call; raises `ExpressionError` where it cannot be."""
    known = OWN[function]
    if arity_given not in known.arity:
        raise ExpressionError(f"{function}: {arity_given} arguments, wants {_wanted(known.arity)}")
    if options.keys() != known.options.keys():
        wanted = ", ".join(f"{name}=" for name in known.options) or "no options"
        raise ExpressionError(f"{function}: takes {wanted}")
    for name, value in options.items():
        t = known.options[name]
        if not isinstance(value, t) or (t is int and isinstance(value, bool)):
            raise ExpressionError(f"{function}: {name} is of type {t.__name__}, not {value!r}")
    try:
        known.check(**options)
    except pa.ArrowInvalid as e:
        raise ExpressionError(f"{function}: {e}") from None
    return options


def _wanted(arity: range) -> str:
    return str(arity.start) if len(arity) == 1 else f"{arity.start}, {arity[1]}, ..."


def apply_own(function: str, values: Sequence[Any], options: dict[str, Any]) -> Any:
    """The answer of one of them: an array, or of constants alone a constant."""
    if any(isinstance(value, pa.Array) for value in values):
        return OWN[function].apply(*values, **options)
    column = pa.repeat(values[0], 1)
    return OWN[function].apply(column, *values[1:], **options)[0]


# -- text -----------------------------------------------------------------------------------------


def _find(x: pa.Array, *, pattern: str) -> pa.Array:
    is_there = pc.match_substring(x, pattern=pattern)
    if not pattern:
        return pc.if_else(is_there, pa.scalar(0, pa.int64()), pa.scalar(-1, pa.int64()))
    # What stands before the first one, by characters: Arrow's own answer counts bytes.
    before = pc.list_element(pc.split_pattern(x, pattern=pattern, max_splits=1), 0)
    return pc.if_else(is_there, pc.utf8_length(before).cast(pa.int64()), -1)


def _extract(x: pa.Array, *, pattern: str, group: int) -> pa.Array:
    found = pc.extract_regex(x, pattern=named_groups(pattern))
    names = [field.name for field in found.type]
    text = pc.struct_field(found, [names.index(f"g{group}")])
    return pc.if_else(found.is_valid(), text, pa.scalar(None, text.type))


def _check_extract(pattern: str, group: int) -> None:
    named = named_groups(pattern)
    pc.extract_regex(pa.array([""]), pattern=named)  # raises where it is no regular expression
    groups = named.count("(?P<g") - 1
    if not 0 <= group <= groups:
        raise ExpressionError(f"extract: {pattern!r} has {groups} groups, and no group {group}")


def _text_join(*texts: Any, separator: str) -> pa.Array:
    # Arrow gives no row where all are null, so there is one that is not; it is cut off again.
    joined = pc.binary_join_element_wise("", *texts, separator, null_handling="skip")
    return pc.utf8_slice_codeunits(joined, len(separator))


# -- times ----------------------------------------------------------------------------------------


def _epoch(x: pa.Array, *, unit: str) -> pa.Array:
    if pa.types.is_date(x.type):
        x = x.cast(pa.timestamp("ms" if pa.types.is_date64(x.type) else "s"))
    if not pa.types.is_timestamp(x.type):
        raise ExpressionError(f"epoch: takes a timestamp or a date, not {x.type}")
    ticks = x.cast(pa.int64())
    had, wanted = _TICKS[x.type.unit], _TICKS[unit]
    if wanted >= had:
        return pc.multiply_checked(ticks, wanted // had)
    divisor = pa.scalar(had // wanted, pa.int64())
    down = pc.less(pc.remainder(ticks, divisor), 0)  # a division rounds toward zero
    return pc.subtract(pc.divide(ticks, divisor), down.cast(pa.int64()))


def _months_between(x: Any, other: Any) -> pa.Array:
    months = [pc.add(pc.multiply(pc.year(at), 12), pc.month(at)) for at in (x, other)]
    return pc.subtract(months[1], months[0])


def _check_epoch(unit: str) -> None:
    if unit not in _TICKS:
        raise ExpressionError(f"epoch: unit {unit!r} is none of {', '.join(_TICKS)}")


# -- lists ----------------------------------------------------------------------------------------


def _as_list(function: str, x: pa.Array) -> pa.ListArray:
    if not pa.types.is_list(x.type):
        raise ExpressionError(f"{function}: takes a list, not {x.type}")
    return x


def _list_get(x: pa.Array, *, place: int) -> pa.Array:
    x = _as_list("list_get", normal(x))
    counts = lengths(x)
    starts = np.cumsum(counts) - counts
    from_start = place if place >= 0 else counts + place
    is_there = (from_start < counts) & (from_start >= 0)
    return elements(x).take(pa.array(starts + from_start, pa.int64(), mask=~is_there))


def _list_contains(x: pa.Array | pa.Scalar, value: pa.Array | pa.Scalar) -> pa.Array:
    if isinstance(x, pa.Scalar):
        x = pa.repeat(x, len(value))
    x = _as_list("list_contains", normal(x))
    rows = np.repeat(np.arange(len(x)), lengths(x))
    beside = value.take(pa.array(rows)) if isinstance(value, pa.Array) else value
    equal = pc.fill_null(pc.equal(elements(x), beside), False)
    found = np.zeros(len(x), np.bool_)
    found[rows[equal.to_numpy(zero_copy_only=False)]] = True
    has_value = value.is_valid() if isinstance(value, pa.Array) else value.is_valid
    is_known = pc.and_(x.is_valid(), has_value)
    return pc.if_else(is_known, pa.array(found), pa.scalar(None, pa.bool_()))


# -- conditions -----------------------------------------------------------------------------------


def _case(*values: Any) -> pa.Array:
    rows = next(len(v) for v in values if isinstance(v, pa.Array))
    columns = [v if isinstance(v, pa.Array) else pa.repeat(v, rows) for v in values]
    conditions, chosen = columns[:-1:2], [*columns[1::2], columns[-1]]
    t = next((c.type for c in chosen if not pa.types.is_null(c.type)), None)
    if t is None:
        return columns[-1]
    chosen = [pa.nulls(rows, t) if pa.types.is_null(c.type) else c for c in chosen]
    return pc.case_when(pc.make_struct(*conditions), *chosen)


def _null_if(x: Any, other: Any) -> Any:
    equal = pc.fill_null(pc.equal(x, other), False)
    return pc.if_else(equal, pa.scalar(None, x.type), x)


def _is_distinct_from(x: Any, other: Any) -> Any:
    apart = pc.not_equal(x, other)
    return pc.coalesce(apart, pc.not_equal(pc.is_null(x), pc.is_null(other)))


def _try_cast(x: pa.Array, *, type: pa.DataType) -> pa.Array:  # noqa: A002  # as in `cast`
    x = own(normal(x))
    options = pc.CastOptions.safe(type)
    try:
        return pc.cast(x, options=options)
    except pa.ArrowNotImplementedError:
        raise
    except pa.ArrowInvalid:
        left, _ = masked(x, without_cast(x, type))
    try:
        return pc.cast(left, options=options)
    except pa.ArrowInvalid:
        bad = halved(left, lambda part: pc.cast(part, options=options))
        return pc.cast(masked(left, bad).column, options=options)


_ONE, _TWO = range(1, 2), range(2, 3)

OWN = {
    "utf8_find": OwnFunction(_ONE, {"pattern": str}, _find),
    "utf8_extract": OwnFunction(_ONE, {"pattern": str, "group": int}, _extract, _check_extract),
    "text_join": OwnFunction(range(1, 4096), {"separator": str}, _text_join),
    "months_between": OwnFunction(_TWO, {}, _months_between),
    "epoch": OwnFunction(_ONE, {"unit": str}, _epoch, _check_epoch),
    "list_get": OwnFunction(_ONE, {"place": int}, _list_get),
    "list_contains": OwnFunction(_TWO, {}, _list_contains),
    "case": OwnFunction(range(3, 4096, 2), {}, _case),
    "null_if": OwnFunction(_TWO, {}, _null_if),
    "is_distinct_from": OwnFunction(_TWO, {}, _is_distinct_from),
    "try_cast": OwnFunction(_ONE, {"type": pa.DataType}, _try_cast),
}
"""All of them, by name."""
