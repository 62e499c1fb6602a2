"""Exact sums of integers by id, which cost eight bytes each as long as they fit.

    narrow   sums[id]                     int64, checked at every addition
    wide     words[0..2][id]              192 bits, from the first sum on that left int64

A sum that leaves int64 on the way may come back: whether it fits is a question to the final sum
alone, or the order of rows would show. So where the kernel finds that a narrow sum overflows, all
become wide and go on. 192 bits hold 2^63 squares of 64-bit integers. Once no sum needs the upper
words any more they are given back when the room for ids changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.kernels.columns import ROOM_MIN, SPARE_SHARE, Column
from gapless.kernels.keys import Ids
from gapless.kernels.scatter import (
    WORDS,
    add_at,
    add_wide_at,
    merge_wide_at,
    square_at,
    widen,
)
from gapless.operators.aggregates.parts import Part
from gapless.protocol.columns import int64s
from gapless.protocol.frame import Mask

Integers = npt.NDArray[Any]
"""int64s, or Python's integers where those do not hold them all."""

_EXACT_IN_FLOAT = 1 << 53
"""Every integer up to this one is a float64."""


class ExactSums(Part):
    """Sums of integers, or of their squares.

    In sub-aggregates they are words, the lowest first; upper ones are null where the lowest is all.
    """

    __slots__ = ("_narrow", "_wide", "fields")

    repeats = True
    added = (True, *[False] * (WORDS - 1))

    def __init__(self, name: str) -> None:
        self.fields = [
            pa.field(name, pa.int64(), nullable=False),
            *(pa.field(f"{name}_{64 * i}", pa.int64()) for i in range(1, WORDS)),
        ]
        self._narrow = Column(0)
        self._wide: Ids | None = None

    # -- room -------------------------------------------------------------------------------------

    def fit(self, capacity: int) -> None:
        """Makes room for ids below `capacity`."""
        if self._wide is None:
            self._narrow.fit(capacity)
            return
        room = self._wide.shape[1]
        if capacity <= room <= max(ROOM_MIN, SPARE_SHARE * capacity):
            return
        resized = np.zeros((WORDS, max(ROOM_MIN, capacity + capacity // SPARE_SHARE)), np.int64)
        kept = min(room, resized.shape[1])
        resized[:, :kept] = self._wide[:, :kept]
        self._wide = resized
        if (resized[1:] == resized[0] >> 63).all():
            self._narrow = Column(0, resized.shape[1])
            self._narrow.values[:] = resized[0]
            self._wide = None

    def _widened(self) -> Ids:
        if self._wide is None:
            self._wide = widen(self._narrow.values)
            self._narrow = Column(0, 0)
        return self._wide

    # -- adding -----------------------------------------------------------------------------------

    def add(self, ids: Ids, values: Integers) -> None:
        """Adds integers of any width."""
        if self._wide is None and add_at(self._narrow.values, ids, values):
            return
        add_wide_at(self._widened(), ids, values)

    def add_squares(self, ids: Ids, values: Integers) -> None:
        """Adds the squares of integers of any width."""
        if self._wide is None and square_at(self._narrow.values, ids, values):
            return
        add_wide_at(self._widened(), ids, values, True)

    def take(self, ids: Ids) -> list[pa.Array]:
        """Their words."""
        if self._wide is None:
            nothing = pa.nulls(len(ids), pa.int64())
            return [int64s(self._narrow.values[ids]), *[nothing] * (WORDS - 1)]
        return [pa.array(row) for row in self._wide[:, ids]]

    def merge(self, ids: Ids, columns: Sequence[pa.Array], subtract: bool = False) -> None:
        """Adds words, or subtracts them."""
        lowest = columns[0].to_numpy()
        narrow = columns[1].null_count == len(ids)
        if narrow and self._wide is None and add_at(self._narrow.values, ids, lowest, subtract):
            return
        terms = widen(lowest)
        if not narrow:
            for i in range(1, WORDS):
                here = columns[i].is_valid().to_numpy(zero_copy_only=False)
                terms[i, here] = columns[i].drop_null().to_numpy()
        merge_wide_at(self._widened(), ids, terms, subtract)

    def clear(self, ids: Ids) -> None:
        """Back to 0."""
        if self._wide is None:
            self._narrow.values[ids] = 0
        else:
            self._wide[:, ids] = 0

    # -- reading ----------------------------------------------------------------------------------

    def totals(self, ids: Ids) -> Ids:
        """The sums; where one is `beyond`, its lowest word."""
        totals: Ids = self._narrow.values[ids] if self._wide is None else self._wide[0, ids]
        return totals

    def beyond(self, ids: Ids) -> Mask | None:
        """Which sums an int64 does not hold; None where all fit."""
        if self._wide is None:
            return None
        words = self._wide[:, ids]
        beyond: Mask = (words[1:] != words[0] >> 63).any(axis=0)
        return beyond if np.count_nonzero(beyond) else None

    def exact(self, ids: Ids) -> Integers:
        """The sums, whatever their size."""
        if self._wide is None or self.beyond(ids) is None:
            return self.totals(ids)
        low, middle = (self._wide[i, ids].view(np.uint64).astype(object) for i in (0, 1))
        high = self._wide[2, ids].astype(object)
        exact: Integers = low + (middle << 64) + (high << 128)
        return exact

    @property
    def nbytes(self) -> int:
        """Bytes of the sums."""
        return self._narrow.nbytes + (0 if self._wide is None else self._wide.nbytes)


def ratio(numerators: Integers, denominators: Integers) -> npt.NDArray[np.float64]:
    """Quotients of integers, each rounded once, so the same on every machine."""
    if not (_fit_in_floats(numerators) and _fit_in_floats(denominators)):
        numerators, denominators = numerators.astype(object), denominators.astype(object)
    quotients: npt.NDArray[np.float64] = np.true_divide(numerators, denominators)
    return quotients.astype(np.float64, copy=False)


def _fit_in_floats(values: Integers) -> bool:
    return values.dtype != object and bool(
        ((values >= -_EXACT_IN_FLOAT) & (values <= _EXACT_IN_FLOAT)).all()
    )


def product(counts: Integers, factors: Integers | int) -> Integers:
    """Products of positive integers, exactly."""
    largest = int(np.max(counts, initial=0)) * int(np.max(factors, initial=0))
    exact: Integers = (counts if largest < 2**63 else counts.astype(object)) * factors
    return exact


def spread(counts: Ids, sums: Integers, squares: Integers) -> Integers:
    """The variance times n^2, exactly: n * sum(x^2) - sum(x)^2."""
    small = 1 << 31
    if sums.dtype != object and squares.dtype != object:
        products = counts.astype(np.float64) * squares.astype(np.float64)
        if ((sums > -small) & (sums < small) & (products < 2.0**62)).all():
            exact: Integers = counts * squares - sums * sums
            return exact
    sums = sums.astype(object)
    wide: Integers = counts.astype(object) * squares.astype(object) - sums * sums
    return wide
