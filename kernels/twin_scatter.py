"""What `scatter.py` asks of the kernel, in plain Python: the oracle of `cpp/scatter.cpp`.

Row by row, in exact integers. Whatever is raised, nothing was changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from gapless.kernels.keys import Ids

LOWEST, HIGHEST = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)
WORDS = 3
"""Words of a wide sum."""

_WORD = 1 << 64
_INTEGERS = frozenset(np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8))
_FLOATS = frozenset(map(np.dtype, ("f4", "f8")))

Values = npt.NDArray[Any]


def keys_of(values: Values) -> Ids:
    """An int64 for each value, ordered as the values are; NaN above all, -0.0 as 0.0."""
    if values.dtype.kind == "f":
        with np.errstate(invalid="ignore"):  # a NaN that signals is as good as another
            numbers = values.astype(np.float64) + 0.0
        numbers[np.isnan(numbers)] = np.nan
        bits = numbers.view(np.int64)
        keys: Ids = bits ^ ((bits >> 63) & HIGHEST)
        return keys
    if values.dtype == np.uint64:
        return values.view(np.int64) ^ LOWEST
    return values.astype(np.int64, copy=False)


# -- checks ---------------------------------------------------------------------------------------


def _is_array(array: object, dimensions: int) -> bool:
    return isinstance(array, np.ndarray) and array.ndim == dimensions and array.flags.c_contiguous


def _check_ints(call: str, name: str, array: Any, dimensions: int = 1) -> None:
    if not _is_array(array, dimensions) or array.dtype != np.int64:
        raise TypeError(f"{call}: {name} needs a contiguous int64 array")


def _check_values(call: str, values: Any, kinds: frozenset[np.dtype[Any]]) -> None:
    if not _is_array(values, 1) or values.dtype not in kinds:
        raise TypeError(f"{call}: values of a type that it does not take")


def _check_ids(call: str, ids: Ids, room: int, *others: int) -> None:
    _check_ints(call, "ids", ids)
    if any(n != len(ids) for n in others):
        raise ValueError("the arrays of one call need the same length")
    if ((ids < 0) | (ids >= room)).any():
        raise ValueError(f"{call}: an id has no place")


# -- sums -----------------------------------------------------------------------------------------


def count_at(acc: Ids, ids: Ids) -> None:
    """One more for each mention of an id."""
    _check_ints("count_at", "acc", acc)
    _check_ids("count_at", ids, len(acc))
    for i in ids.tolist():
        acc[i] += 1


def add_at(acc: npt.NDArray[Any], ids: Ids, values: Values, subtract: bool = False) -> bool:
    """Adds integers to int64 sums, or floats to float64 sums.

    False, with nothing changed, where an int64 does not hold a sum, also in between.
    """
    if not _is_array(acc, 1) or acc.dtype not in (np.dtype("i8"), np.dtype("f8")):
        raise TypeError("add_at: acc needs a contiguous int64 or float64 array")
    _check_values("add_at", values, _INTEGERS if acc.dtype.kind == "i" else _FLOATS)
    _check_ids("add_at", ids, len(acc), len(values))
    if acc.dtype.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):  # infinities and NaN, as IEEE has it
            signed = (-values if subtract else values).astype(np.float64)
            np.add.at(acc, ids, signed)
        return True
    sign = -1 if subtract else 1
    return _add_exactly(acc, ids, (sign * v for v in values.tolist()))


def square_at(acc: Ids, ids: Ids, values: Values) -> bool:
    """Adds the squares of integers, as `add_at` does."""
    _check_ints("square_at", "acc", acc)
    _check_values("square_at", values, _INTEGERS)
    _check_ids("square_at", ids, len(acc), len(values))
    return _add_exactly(acc, ids, (v * v for v in values.tolist()))


def _add_exactly(acc: Ids, ids: Ids, terms: Any) -> bool:
    sums = dict(zip(ids.tolist(), acc[ids].tolist(), strict=True))
    for i, term in zip(ids.tolist(), terms, strict=True):
        sums[i] += term
        if not LOWEST <= sums[i] <= HIGHEST:
            return False
    acc[list(sums)] = list(sums.values())
    return True


def add_wide_at(wide: Ids, ids: Ids, values: Values, squared: bool = False) -> None:
    """Adds integers, or their squares, to sums of three words; beyond 192 bits they wrap."""
    _check_wide("add_wide_at", wide)
    _check_values("add_wide_at", values, _INTEGERS)
    _check_ids("add_wide_at", ids, wide.shape[1], len(values))
    for i, v in zip(ids.tolist(), values.tolist(), strict=True):
        _add_words(wide, i, v * v if squared else v)


def merge_wide_at(wide: Ids, ids: Ids, other: Ids, subtract: bool = False) -> None:
    """Adds sums of three words, column j of `other` to that of `ids[j]`."""
    _check_wide("merge_wide_at", wide)
    _check_wide("merge_wide_at", other)
    _check_ids("merge_wide_at", ids, wide.shape[1], other.shape[1])
    for j, i in enumerate(ids.tolist()):
        term = _from_words(other[:, j])
        _add_words(wide, i, -term if subtract else term)


def _check_wide(call: str, wide: Any) -> None:
    _check_ints(call, "wide", wide, dimensions=2)
    if len(wide) != WORDS:
        raise ValueError(f"{call}: a wide sum has {WORDS} words")


def _from_words(words: Ids) -> int:
    return sum((int(w) % _WORD) << 64 * i for i, w in enumerate(words))


def _add_words(wide: Ids, i: int, term: int) -> None:
    total = _from_words(wide[:, i]) + term
    for row in range(WORDS):
        word = (total >> 64 * row) % _WORD
        wide[row, i] = word - _WORD if word > HIGHEST else word


# -- smallest, largest, first, last ---------------------------------------------------------------


def min_at(acc: Ids, ids: Ids, values: Values) -> bool:
    """Keeps the smallest key; whether a value has the key HIGHEST, which stands for none."""
    return _pick_at("min_at", acc, ids, values, HIGHEST, min)


def max_at(acc: Ids, ids: Ids, values: Values) -> bool:
    """Keeps the largest key; whether a value has the key LOWEST, which stands for none."""
    return _pick_at("max_at", acc, ids, values, LOWEST, max)


def _pick_at(
    call: str, acc: Ids, ids: Ids, values: Values, none: int, pick: Callable[[int, int], int]
) -> bool:
    _check_ints(call, "acc", acc)
    _check_values(call, values, _INTEGERS | _FLOATS)
    _check_ids(call, ids, len(acc), len(values))
    keys = keys_of(values).tolist()
    for i, key in zip(ids.tolist(), keys, strict=True):
        acc[i] = pick(int(acc[i]), key)
    return none in keys


def first_at(times: Ids, keys: Ids, ids: Ids, when: Ids, values: Values) -> None:
    """Keeps the earliest time and its smallest key."""
    _pick_by_time("first_at", times, keys, ids, when, values, min)


def last_at(times: Ids, keys: Ids, ids: Ids, when: Ids, values: Values) -> None:
    """Keeps the latest time and its largest key."""
    _pick_by_time("last_at", times, keys, ids, when, values, max)


def _pick_by_time(
    call: str,
    times: Ids,
    keys: Ids,
    ids: Ids,
    when: Ids,
    values: Values,
    pick: Callable[[tuple[int, int], tuple[int, int]], tuple[int, int]],
) -> None:
    for name, array in (("times", times), ("keys", keys), ("when", when)):
        _check_ints(call, name, array)
    _check_values(call, values, _INTEGERS | _FLOATS)
    if len(times) != len(keys):
        raise ValueError("the arrays of one call need the same length")
    _check_ids(call, ids, len(times), len(when), len(values))
    rows = zip(ids.tolist(), when.tolist(), keys_of(values).tolist(), strict=True)
    for i, t, key in rows:
        times[i], keys[i] = pick((int(times[i]), int(keys[i])), (t, key))
