"""Functions that choose among their arguments: an argument concerns only the rows that need it.

    case(n != 0: len / n, otherwise 0)      n = 2     len / n is needed
                                            n = 0     it is not: that it fails there is no matter

All arguments are computed for all rows as long as none fails, for that is fastest. Where one fails,
`failed_rows.py` asks here which rows it concerns: elsewhere nothing is lost.

    and, or        what stands right: the rows that the left side leaves open
    if_else, case  a branch: the rows whose condition is true; a condition: those where none before
                   it is true
    coalesce       a value: the rows where all before it are null
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask = npt.NDArray[np.bool_]


def concerned(function: str, before: Sequence[Any], n: int) -> Mask | None:
    """Of n rows those that the next argument of a function concerns, given the values of the
    arguments before it; None: all.
    """
    guard = GUARDS.get(function)
    return guard(before, n) if guard is not None and before else None


def _is(value: Any, wanted: bool, n: int) -> Mask:
    """The rows where a condition is true, or where it is false."""
    if pa.types.is_null(value.type):
        return np.zeros(n, np.bool_)
    if isinstance(value, pa.Scalar):
        return np.full(n, value.as_py() is wanted)
    found = value if wanted else pc.invert(value)
    return np.asarray(pc.fill_null(found, False).to_numpy(zero_copy_only=False), np.bool_)


def _and(before: Sequence[Any], n: int) -> Mask:
    return ~_is(before[0], False, n)


def _or(before: Sequence[Any], n: int) -> Mask:
    return ~_is(before[0], True, n)


def _if_else(before: Sequence[Any], n: int) -> Mask:
    return _is(before[0], len(before) == 1, n)


def _coalesce(before: Sequence[Any], n: int) -> Mask:
    missing = np.ones(n, np.bool_)
    for value in before:
        is_null = value.is_null() if isinstance(value, pa.Array) else not value.is_valid
        missing &= np.asarray(is_null)
    return missing


def _case(before: Sequence[Any], n: int) -> Mask:
    """Conditions and values in turn, and the value of rows where none is true."""
    left = np.ones(n, np.bool_)
    *earlier, last = [_is(condition, True, n) for condition in before[::2]]
    for is_true in earlier:
        left &= ~is_true
    return left & (last if len(before) % 2 else ~last)


GUARDS: dict[str, Callable[[Sequence[Any], int], Mask]] = {
    "and_kleene": _and,
    "or_kleene": _or,
    "if_else": _if_else,
    "coalesce": _coalesce,
    "case": _case,
}
