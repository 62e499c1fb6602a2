"""Columns of one type as columns of another: each value exactly, or not at all.

    int64 7, 70000              int16              7, and 70000 does not fit
    timestamp[us] .000500       timestamp[ms]      does not fit: nothing is cut
    double 0.1, 1e300           float              the nearest float, and 1e300 does not fit
    decimal 2.505               decimal(10, 2)     does not fit
    list [7, 70000]             list<int16>        does not fit, as one of its elements

A value that does not fit is null in the result, and true in the mask beside it. The one thing that
is rounded is a float, which becomes the nearest of a narrower width; but none becomes infinite.

What does not fit is found by column: rows that do not fit are as many as the data likes, and cost
no more than those that do.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.protocol.columns import without_views
from gapless.protocol.errors import SchemaError
from gapless.protocol.lists import elements, lengths, list_of, normal

Mask = npt.NDArray[np.bool_]

_is = pa.types
_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""Of a second."""
_DAY_MS = 86_400_000
_WHOLE_BITS = {16: 11, 32: 24, 64: 53}
"""Of a float so wide: integers up to 2 to this power are all exact."""
_INTEGER_DIGITS = 20
"""Of the longest integer, 2**64 - 1."""
_DIGITS_MAX = 76
"""Of Arrow's widest decimal."""


class Made(NamedTuple):
    """A column in its new type."""

    column: pa.Array
    misfits: Mask | None
    """True for each row whose value does not fit: it is null in the column. None: all fit."""


_Make = Callable[[pa.Array, pa.DataType], tuple[pa.Array, Mask | None]]


def misfit(name: str, t: pa.DataType, shown: str = "the value") -> str:
    """Why a row is none, one of whose values does not become its column's type: the same words
    wherever rows come in.
    """
    return f"{name}: {shown} is no {t}"


def exact(column: pa.Array, t: pa.DataType) -> Made:
    """A column as type `t`.

    Raises `SchemaError` where the types are not of one kind, or the values are more than the
    indices of a dictionary can count.
    """
    column = normal(column)  # not by a cast: Arrow makes other lists of slices of some layouts
    given = column.type
    if given == t:
        return Made(column, None)
    if _is.is_list(given) and _is.is_list(t):
        return by_elements(column, t, exact)
    if _is.is_null(given):
        return Made(pa.nulls(len(column), t), None)
    if _is.is_dictionary(given):
        return exact(decoded(column), t)
    if _is.is_dictionary(t):
        values, misfits = exact(column, t.value_type)
        return Made(encoded(values, t), misfits)
    if _is.is_integer(given) and _is.is_decimal(t):
        return exact(column.cast(pa.decimal128(_INTEGER_DIGITS, 0)), t)
    for is_given, is_wanted, find in _KNOWN:
        if is_given(given) and is_wanted(t):
            return _without(column, t, find(column, t))
    return _cast(column, t)


def by_elements(column: pa.ListArray, t: pa.ListType, make: _Make) -> Made:
    """Lists whose elements `make` gives their new type; one misfits where one of its elements does.

    So Arrow casts no list: its cast of a slice looks at all that the slice's parent has.
    """
    inside, wrong = make(elements(column), t.value_type)
    counts = lengths(column)
    missing, misfits = column.is_null(), None
    if wrong is not None:
        misfits = np.zeros(len(column), np.bool_)
        misfits[np.repeat(np.arange(len(column)), counts)[wrong]] = True
        missing = pc.or_(missing, pa.array(misfits))
    return Made(list_of(inside, counts, t, missing), misfits)


def beyond(column: pa.Array, t: pa.DataType) -> Mask | None:
    """The rows whose numbers or times do not fit a type of their own kind; None for other kinds,
    where no rule finds them. Null fits.
    """
    for is_given, is_wanted, find in _KNOWN:
        if is_given(column.type) and is_wanted(t):
            return find(column, t)
    return None


def decoded(column: pa.DictionaryArray) -> pa.Array:
    """The values of a dictionary, row by row; of views, too, which Arrow does not take from."""
    t = column.type.value_type
    plain = column.dictionary.cast(without_views(t))
    rows = pa.DictionaryArray.from_arrays(column.indices, plain).dictionary_decode()
    return rows if rows.type == t else rows.cast(t)


def encoded(values: pa.Array, t: pa.DictionaryType) -> pa.DictionaryArray:
    """Values as a dictionary of type `t`."""
    made = values.dictionary_encode()
    try:
        indices = made.indices.cast(t.index_type)
    except pa.ArrowInvalid:
        raise SchemaError(
            f"{len(made.dictionary):,} different values are more than {t} can count: declare it "
            "with wider indices"
        ) from None
    return pa.DictionaryArray.from_arrays(indices, made.dictionary, ordered=t.ordered)


def narrowed(column: pa.Array, t: pa.DataType) -> Made:
    """Floats as floats of another width; what would become infinite does not fit."""
    if column.type == t:
        return Made(column, None)
    made = column.cast(t)
    if t.bit_width > column.type.bit_width:
        return Made(made, None)
    misfits = np.isinf(_floats(made)) & ~np.isinf(_floats(column))
    return masked(made, misfits)


def masked(column: pa.Array, misfits: Mask | None) -> Made:
    """The column with nulls where rows do not fit."""
    if misfits is None or not misfits.any():
        return Made(column, None)
    return Made(pc.if_else(pa.array(misfits), pa.scalar(None, column.type), column), misfits)


def halved(column: pa.Array, cast: Callable[[pa.Array], object]) -> Mask:
    """The rows that `cast` raises `ArrowInvalid` for: halves what it raises for until single rows
    are left. For what no rule finds by column; such rows are to be few.
    """
    bad = np.zeros(len(column), np.bool_)
    parts = [(0, len(column))]
    while parts:
        start, end = parts.pop()
        try:
            cast(column.slice(start, end - start))
        except pa.ArrowInvalid:
            if end - start == 1:
                bad[start] = True
            else:
                middle = (start + end) // 2
                parts += [(start, middle), (middle, end)]
    return bad


def _without(column: pa.Array, t: pa.DataType, misfits: Mask | None) -> Made:
    column, misfits = masked(column, misfits)
    made, more = _cast(column, t)
    if misfits is None or more is None:
        return Made(made, misfits if more is None else more)
    return Made(made, misfits | more)


def _cast(column: pa.Array, t: pa.DataType) -> Made:
    if _is.is_floating(column.type) and _is.is_floating(t):
        return narrowed(column, t)
    try:
        return Made(column.cast(t), None)
    except pa.ArrowNotImplementedError as e:
        raise SchemaError(f"{column.type} does not become {t}: {e}") from None
    except pa.ArrowInvalid:
        column, misfits = masked(column, halved(column, lambda part: part.cast(t)))
        return Made(column.cast(t), misfits)


# -- what does not fit ----------------------------------------------------------------------------


def _floats(column: pa.Array) -> npt.NDArray[np.floating]:
    values: npt.NDArray[np.floating] = column.to_numpy(zero_copy_only=False)
    return values


def _numbers(column: pa.Array) -> npt.NDArray[np.integer]:
    """Integers, with 0, which fits everywhere, for null."""
    filled = column.fill_null(0) if column.null_count else column
    values: npt.NDArray[np.integer] = filled.to_numpy()
    return values


def _beyond(values: npt.NDArray[np.integer], least: int, most: int) -> Mask:
    have = np.iinfo(values.dtype)
    bad = np.zeros(len(values), np.bool_)
    if least > have.min:
        bad |= values < values.dtype.type(least)
    if most < have.max:
        bad |= values > values.dtype.type(most)
    return bad


def _other_width(column: pa.Array, t: pa.DataType) -> Mask:
    bounds = np.iinfo(t.to_pandas_dtype())
    return _beyond(_numbers(column), int(bounds.min), int(bounds.max))


def _integer_as_float(column: pa.Array, t: pa.DataType) -> Mask:
    most = 2 ** _WHOLE_BITS[t.bit_width]
    return _beyond(_numbers(column), -most, most)


def _other_unit(column: pa.Array, t: pa.DataType) -> Mask | None:
    had, wanted = _TICKS[column.type.unit], _TICKS[t.unit]
    ticks = _numbers(column.view(pa.int64()))
    if had >= wanted:
        return None if had == wanted else ticks % (had // wanted) != 0
    most = np.iinfo(np.int64).max // (wanted // had)
    return _beyond(ticks, -most, most)


def _days(column: pa.Array, t: pa.DataType) -> Mask | None:  # noqa: ARG001  # all have one form
    """Milliseconds that are whole days, as days of 32 bits."""
    ticks = _numbers(column.view(pa.int64()))
    bounds = np.iinfo(np.int32)
    bad: Mask = ticks % _DAY_MS != 0
    return bad | _beyond(ticks // _DAY_MS, int(bounds.min), int(bounds.max))


def _other_digits(column: pa.Array, t: pa.DataType) -> Mask:
    """Decimals with more digits behind the point, or before it."""
    wide = pa.decimal256(_DIGITS_MAX, column.type.scale)
    values = column.cast(wide)
    bad = pa.array(np.zeros(len(column), np.bool_))
    if t.scale < column.type.scale:
        bad = pc.not_equal(pc.round(values, ndigits=t.scale), values)
    before = t.precision - t.scale
    if before + column.type.scale < _DIGITS_MAX:
        most = pa.scalar(Decimal(10) ** before, wide)
        bad = pc.or_(bad, pc.greater_equal(pc.abs(values), most))
    found: Mask = pc.fill_null(bad, False).to_numpy(zero_copy_only=False)
    return found


_Find = Callable[[pa.Array, pa.DataType], Mask | None]
_KNOWN: list[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], bool], _Find]] = [
    (_is.is_integer, _is.is_integer, _other_width),
    (_is.is_integer, _is.is_floating, _integer_as_float),
    (_is.is_timestamp, _is.is_timestamp, _other_unit),
    (_is.is_duration, _is.is_duration, _other_unit),
    (_is.is_date64, _is.is_date32, _days),
    (_is.is_decimal, _is.is_decimal, _other_digits),
]
"""What of one type does not fit another."""
