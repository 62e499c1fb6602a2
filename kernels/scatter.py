"""Scatters: arrays of state by id, to which a call adds what many rows say. Ids may repeat.

           ids  0  2  0  1              count_at(acc, ids)           acc  2  1  1
        values  5  7 -1  4              add_at(acc, ids, values)          4  4  7
                                        min_at(acc, ids, values)         -1  4  7

This is all that a bounded aggregate does with a row, so it is in the kernel: numpy's `add.at` takes
five times as long once types differ. Values are integers of any width, float32 or float64, as they
are in their Arrow column: nothing is converted first.

- **Sums of integers are exact.** `add_at` and `square_at` stay in int64 as long as that holds
  every sum on the way, and say False, with nothing changed, where it does not. The caller then
  widens to sums of three words (`widen`) and continues by `add_wide_at`: 192 bits hold 2^63 squares
  of uint64. So whether a sum fits in int64 is judged when somebody asks for it, and the order of
  rows, which decides what is seen on the way, does not show.
- **Smallest and largest** are kept as keys: an int64 that is ordered as the values are, for floats
  with -0.0 equal to 0.0 and NaN above all (as in `operators/order.py`). `LOWEST` and `HIGHEST`
  stand for "none yet"; `min_at` and `max_at` say whether a value has the key that does.
- `first_at` and `last_at` keep a time and a key each: the earliest time and at that time the
  smallest key; the latest, and the largest.

Errors are those of `keys.py`: TypeError for another type, ValueError for another length or an id
beyond the state. Whichever is raised, nothing was changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gapless.kernels import KERNEL
from gapless.kernels.keys import Ids
from gapless.kernels.twin_scatter import HIGHEST, LOWEST, WORDS, keys_of

if TYPE_CHECKING or KERNEL == "native":
    from gapless.kernels._native import (
        add_at,
        add_wide_at,
        count_at,
        first_at,
        last_at,
        max_at,
        merge_wide_at,
        min_at,
        square_at,
    )
else:
    from gapless.kernels.twin_scatter import (
        add_at,
        add_wide_at,
        count_at,
        first_at,
        last_at,
        max_at,
        merge_wide_at,
        min_at,
        square_at,
    )

__all__ = [
    "HIGHEST",
    "LOWEST",
    "WORDS",
    "add_at",
    "add_wide_at",
    "count_at",
    "first_at",
    "keys_of",
    "last_at",
    "max_at",
    "merge_wide_at",
    "min_at",
    "square_at",
    "values_of",
    "widen",
]


def widen(sums: Ids) -> Ids:
    """Sums of one word as sums of three: row 0 has the lowest words."""
    wide = np.empty((WORDS, len(sums)), np.int64)
    wide[0] = sums
    wide[1:] = sums >> 63
    return wide


def values_of(keys: Ids, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """The inverse of `keys_of`: values of an integer type, float32 or float64."""
    wanted = np.dtype(dtype)
    if wanted.kind == "f":
        bits = keys ^ ((keys >> 63) & HIGHEST)
        return bits.view(np.float64).astype(wanted, copy=False)
    if wanted == np.uint64:
        return (keys ^ LOWEST).view(np.uint64)
    return keys.astype(wanted, copy=False)
