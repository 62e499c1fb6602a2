"""Which rows a function has no answer for, found by column.

    len // n         len 8, n 0            "divide by zero"
    len * 4          len 2^62              "overflow"
    text.cast(int8)  "300", "x"            "text is no int8"

Arrow raises for a column if any row fails, and does not say which. What most dirty rows fail for is
known: zero divisors, overflow, and casts of what does not fit. A mask says which rows surely fail
for it; a row that fails and is in no mask is for the caller to find. Nulls fail nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.protocol.casts import beyond

Mask = npt.NDArray[np.bool_]

_is = pa.types
_SUMS = {"add_checked": pc.add, "subtract_checked": pc.subtract, "multiply_checked": pc.multiply}
_REMAINDERS = ("modulo_checked", "remainder_checked")
_OUTSIDE: dict[str, Callable[[Any], Any]] = {
    "sqrt_checked": lambda x: pc.less(x, 0),
    **dict.fromkeys(("ln_checked", "log10_checked", "log2_checked"), lambda x: pc.less_equal(x, 0)),
    **dict.fromkeys(
        ("asin_checked", "acos_checked"),
        lambda x: pc.greater(pc.abs(pc.cast(x, pa.float64(), safe=False)), 1),
    ),
    **dict.fromkeys(("sin_checked", "cos_checked", "tan_checked"), pc.is_inf),
}
"""Functions of numbers that have no answer for some."""
_DIGITS = 20
"""Of an integer of 64 bits."""
_INTEGER = "^-?[0-9]+$"
_HEX = "^-?0[xX][0-9a-fA-F]+$"
_FLOAT = (
    r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$|^[-+]?[nN][aA][nN]$|"
    r"^[-+]?[iI][nN][fF]([iI][nN][iI][tT][yY])?$"
)
_DAY = "^[0-9]{4}-[0-9]{2}-[0-9]{2}"
_SHORT = "^-?[0-9]{1,38}$"
"""Texts of more digits are let be: leading zeros may make them any number."""


class Miss(NamedTuple):
    """Rows that fail, and why."""

    rows: Mask
    reason: str


def misses(
    function: str, values: Sequence[Any], options: dict[str, Any], first: str
) -> Iterator[Miss]:
    """The rows that a function surely fails for, cause by cause. One of `values` at least is an
    array; `first` is what the first of them is called.
    """
    if function in _SUMS and _are_integers(values):
        yield Miss(_overflowing(function, values), "overflow")
    elif function in ("divide_checked", "floor_divide", "true_divide", *_REMAINDERS):
        yield Miss(_mask(pc.equal(values[1], pa.scalar(0).cast(values[1].type))), "divide by zero")
        if function in ("divide_checked", "floor_divide") and _are_integers(values):
            yield Miss(_least_by_minus_one(*values), "overflow")
    elif function in ("negate_checked", "abs_checked"):
        if _is.is_signed_integer(values[0].type):
            yield Miss(_is_least(values[0], values[0].type), "overflow")
    elif function in _OUTSIDE and not _is.is_decimal(values[0].type):
        yield Miss(_mask(_OUTSIDE[function](values[0])), "outside of its domain")
    elif function == "cast" and options.get("safe", True):
        t = options["type"]
        found = without_cast(values[0], t)
        if found is not None:
            yield Miss(found, f"{first} is no {t}")


def _are_integers(values: Sequence[Any]) -> bool:
    return all(_is.is_integer(value.type) for value in values)


def _mask(found: Any) -> Mask:
    """True where it is true; of one value, in one row."""
    if isinstance(found, pa.Scalar):
        return np.array([found.as_py() is True])
    mask: Mask = found.fill_null(False).to_numpy(zero_copy_only=False)
    return mask


# -- arithmetic -----------------------------------------------------------------------------------


def _bounds(t: pa.DataType) -> tuple[int, int]:
    info = np.iinfo(t.to_pandas_dtype())
    return int(info.min), int(info.max)


def _is_least(value: Any, t: pa.DataType) -> Mask:
    return _mask(pc.equal(value, pa.scalar(_bounds(t)[0], t)))


def _least_by_minus_one(a: Any, b: Any) -> Mask:
    if not (_is.is_signed_integer(a.type) and _is.is_signed_integer(b.type)):
        return np.zeros(1, np.bool_)
    t = max(a.type, b.type, key=lambda each: int(each.bit_width))
    return _is_least(a.cast(t), t) & _mask(pc.equal(b, pa.scalar(-1, pa.int64())))


def _overflowing(function: str, values: Sequence[Any]) -> Mask:
    """What does not fit the type that Arrow gives the answer, found with as many digits as it takes
    at the most.
    """
    apply = _SUMS[function]
    t = apply(*(pa.scalar(1, value.type) for value in values)).type
    exact = apply(*(_with_digits(value) for value in values))
    low, high = (pa.scalar(Decimal(bound), exact.type) for bound in _bounds(t))
    return _mask(pc.less(exact, low)) | _mask(pc.greater(exact, high))


def _with_digits(value: Any) -> Any:
    return value.cast(pa.decimal128(_DIGITS, 0)).cast(pa.decimal256(_DIGITS, 0))


# -- casts ----------------------------------------------------------------------------------------


def without_cast(column: Any, t: pa.DataType) -> Mask | None:
    """The rows of a column that surely do not fit type `t`; None where no rule knows any."""
    if not isinstance(column, pa.Array):
        return None
    if _is.is_string(column.type) or _is.is_large_string(column.type):
        find = next((find for fits, find in _OF_TEXT if fits(t)), None)
        return None if find is None else find(column, t)
    if _is.is_floating(column.type) and _is.is_integer(t):
        return _no_whole_number(column, t)
    return beyond(column, t)


def _no_whole_number(column: pa.Array, t: pa.DataType) -> Mask:
    low, high = _bounds(t)
    values = column.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False)
    # Both ends of the range are powers of two, or zero: floats hold them.
    fits = (values == np.trunc(values)) & (values >= low) & (values < float(high + 1))
    found: Mask = ~fits
    return found


def _unlike(*patterns: str) -> Callable[[pa.Array, pa.DataType], Mask]:
    """Texts that match none of some patterns."""

    def find(column: pa.Array, t: pa.DataType) -> Mask:  # noqa: ARG001  # whatever the width
        found = pc.match_substring_regex(column, "|".join(patterns))
        return _mask(pc.invert(found))

    return find


def _no_integer(column: pa.Array, t: pa.DataType) -> Mask:
    unlike = _unlike(_INTEGER, _HEX)(column, t)
    is_short = pc.match_substring_regex(column, _SHORT)
    numbers = pc.if_else(is_short, column, None).cast(pa.decimal128(38, 0))
    low, high = (pa.scalar(Decimal(bound), numbers.type) for bound in _bounds(t))
    return unlike | _mask(pc.less(numbers, low)) | _mask(pc.greater(numbers, high))


_OF_TEXT: list[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array, pa.DataType], Mask]]] = [
    (_is.is_integer, _no_integer),
    (_is.is_floating, _unlike(_FLOAT)),
    (_is.is_boolean, _unlike("^([tT][rR][uU][eE]|[fF][aA][lL][sS][eE]|0|1)$")),
    (_is.is_date, _unlike(_DAY)),
    (_is.is_timestamp, _unlike(_DAY)),
]
"""What texts are surely no value of a type."""
