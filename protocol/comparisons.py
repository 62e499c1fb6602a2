"""Numbers of different types compared exactly, where one type cannot hold the other's values.

    uint64 2**63      > int64 -1          true, though no integer type holds both
    int64 2**53 + 1  == double 2.0**53    false, though the nearest double is equal

Arrow brings both sides to one type, and fails for values that it cannot hold. What it answers is
right; this is for where it does not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

COMPARES = frozenset(("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"))
"""Functions of two numbers whose answers do not depend on the types that hold them."""

_Order = npt.NDArray[np.int8]
_Numbers = npt.NDArray[Any]


def is_exact(a: pa.DataType, b: pa.DataType) -> bool:
    """Whether values of these types can be compared here: two numbers, an integer among them."""
    numbers = all(pa.types.is_integer(t) or pa.types.is_floating(t) for t in (a, b))
    return numbers and (pa.types.is_integer(a) or pa.types.is_integer(b))


def compared(function: str, a: Any, b: Any) -> pa.Array | pa.Scalar:
    """One of `COMPARES` of two columns, or of a column and a constant; null beside null."""
    rows = next((len(side) for side in (a, b) if isinstance(side, pa.Array)), 1)
    left, right = _column(a, rows), _column(b, rows)
    present = ~(_nulls(left) | _nulls(right))
    order, unordered = _order(_values(left), _values(right))
    answers = {
        "equal": order == 0,
        "not_equal": order != 0,
        "less": order < 0,
        "less_equal": order <= 0,
        "greater": order > 0,
        "greater_equal": order >= 0,
    }[function]
    answers = np.where(unordered, function == "not_equal", answers)
    column = pa.array(answers, pa.bool_(), mask=~present)
    return column if isinstance(a, pa.Array) or isinstance(b, pa.Array) else column[0]


def _order(a: _Numbers, b: _Numbers) -> tuple[_Order, npt.NDArray[np.bool_]]:
    """-1, 0 or 1 for each pair; and where there is no order, as one is NaN."""
    if a.dtype.kind == "f":
        order, unordered = _order(b, a)
        return -order, unordered
    if b.dtype.kind == "f":
        return _with_float(a, b), np.isnan(b)
    if a.dtype.kind == b.dtype.kind:
        return _signs(a, b), np.zeros(len(a), np.bool_)
    if a.dtype.kind == "u":
        order, unordered = _order(b, a)
        return -order, unordered
    below = a < 0  # of a signed and an unsigned one
    order = _signs(np.where(below, 0, a).astype(np.uint64), b.astype(np.uint64))
    return np.where(below, np.int8(-1), order), np.zeros(len(a), np.bool_)


def _with_float(a: _Numbers, b: _Numbers) -> _Order:
    """Rounding keeps the order, so only an integer whose float is equal has to be looked at."""
    wide = b.astype(np.float64)
    rounded = a.astype(np.float64)
    order = _signs(rounded, wide)
    beyond = float(int(np.iinfo(a.dtype).max) + 1)  # what only rounding reaches
    equal = rounded == wide
    order[equal & (wide >= beyond)] = -1
    inside = equal & (wide < beyond)
    order[inside] = _signs(a[inside], wide[inside].astype(a.dtype))
    return order


def _signs(a: _Numbers, b: _Numbers) -> _Order:
    return (a > b).astype(np.int8) - (a < b).astype(np.int8)


def _column(side: Any, rows: int) -> pa.Array:
    return side if isinstance(side, pa.Array) else pa.repeat(side, rows)


def _nulls(column: pa.Array) -> npt.NDArray[np.bool_]:
    nulls: npt.NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return nulls


def _values(column: pa.Array) -> _Numbers:
    wide = pa.uint64() if pa.types.is_unsigned_integer(column.type) else pa.int64()
    filled = column.fill_null(0) if column.null_count else column
    if pa.types.is_integer(column.type):
        filled = filled.cast(wide)
    values: _Numbers = filled.to_numpy(zero_copy_only=False)
    return values
