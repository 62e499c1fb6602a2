"""Sums, means and variances of floats as they are: fast, and not the same in every order.

A sum keeps one float64 by id. A variance keeps a mean and the sum of squared deviations from it,
which two sets of rows bring together without the cancellation that sums of squares suffer from
(Chan, Golub and LeVeque):

    d = mean_b - mean_a      mean = mean_a + d n_b / n      m2 = m2_a + m2_b + d^2 n_a n_b / n

Subtraction would leave other rounding errors than never having added, so neither is differential.
Both are int64 columns whose bits are floats.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.kernels.scatter import add_at
from gapless.operators.aggregates.counts import Counts, Present
from gapless.operators.aggregates.function import Accumulator
from gapless.operators.aggregates.inputs import NumberColumn
from gapless.operators.aggregates.parts import OfParts, Part
from gapless.protocol.frame import Times

Floats = npt.NDArray[np.float64]


class FloatTotals(Part):
    """A sum of floats by id."""

    __slots__ = ("_bits", "fields")

    def __init__(self, name: str) -> None:
        self.fields = [pa.field(name, pa.float64(), nullable=False)]
        self._bits = Column(0)  # which are those of 0.0

    @property
    def values(self) -> Floats:
        """By id; may be written to."""
        return self._bits.values.view(np.float64)

    def fit(self, capacity: int) -> None:
        """Makes room."""
        self._bits.fit(capacity)

    def take(self, ids: Ids) -> list[pa.Array]:
        """The sums."""
        return [pa.array(self.values[ids])]

    def merge(self, ids: Ids, columns: Sequence[pa.Array], subtract: bool = False) -> None:
        """Adds sums."""
        add_at(self.values, ids, columns[0].to_numpy(), subtract)

    def clear(self, ids: Ids) -> None:
        """Back to 0."""
        self._bits.values[ids] = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the sums."""
        return self._bits.nbytes


class FloatSums(OfParts):
    """The sum or the mean of floats."""

    differential = False

    uses_rows = True

    def __init__(
        self, column: NumberColumn, rows: Accumulator | None, may_diverge: str | None, mean: bool
    ) -> None:
        self.may_diverge = may_diverge
        self._column = column
        self._mean = mean
        self._present = Present(rows)
        self._total = FloatTotals("total")
        super().__init__(self._present, self._total)

    def add(self, ids: Ids, rows: pa.RecordBatch, times: Times) -> None:
        """Adds each value, in the order of rows."""
        values, valid = self._column.read(rows)
        add_at(self._total.values, self._present.add(ids, valid), values)

    def results(self, ids: Ids) -> pa.Array:
        """The sum, by the number of values for a mean."""
        answers = self._total.values[ids]
        if self._mean:
            answers = answers / np.maximum(self._present.of(ids), 1)
        return pa.array(answers, mask=self._present.missing(ids))


class FloatVariance(OfParts):
    """The variance of floats, or its root."""

    differential = False

    def __init__(
        self, column: NumberColumn, may_diverge: str | None, ddof: int, root: bool
    ) -> None:
        """`ddof`: so many values less divide it than there are."""
        self.may_diverge = may_diverge
        self._ddof = ddof
        self._root = root
        self._column = column
        self._moments = _Deviations()
        super().__init__(self._moments)

    def add(self, ids: Ids, rows: pa.RecordBatch, times: Times) -> None:
        """Brings the rows' own mean and deviations together with what is there."""
        values, valid = self._column.read(rows)
        present = ids if valid is None else ids[valid]
        if not len(present):
            return
        touched, place = np.unique(present, return_inverse=True)
        counts = np.bincount(place, minlength=len(touched))
        with np.errstate(invalid="ignore", over="ignore"):  # infinities have no variance: NaN
            numbers = values.astype(np.float64, copy=False)
            means = np.asarray(np.bincount(place, numbers, len(touched)) / counts, np.float64)
            off = numbers - means[place]
            squares = np.asarray(np.bincount(place, off * off, len(touched)), np.float64)
        self._moments.combine(touched, counts, means, squares)

    def results(self, ids: Ids) -> pa.Array:
        """The deviations by the number of values."""
        counts, _, squares = self._moments.of(ids)
        by = counts - self._ddof
        variances = squares / np.maximum(by, 1)
        return pa.array(np.sqrt(variances) if self._root else variances, mask=by <= 0)


class _Deviations(Part):
    """By id: how many values, their mean, and the squares of their deviations from it, summed."""

    def __init__(self) -> None:
        self._counts = Counts("values")
        self._means = FloatTotals("mean")
        self._squares = FloatTotals("squares")
        self._columns = (self._counts, self._means, self._squares)
        self.fields = [field for column in self._columns for field in column.fields]

    def fit(self, capacity: int) -> None:
        """Makes room."""
        for column in self._columns:
            column.fit(capacity)

    def of(self, ids: Ids) -> tuple[Ids, Floats, Floats]:
        """Counts, means and squares of these ids."""
        return self._counts.of(ids), self._means.values[ids], self._squares.values[ids]

    def combine(self, ids: Ids, counts: Ids, means: Floats, squares: Floats) -> None:
        """Takes in those of other rows; ids do not repeat."""
        before, mean, deviations = self.of(ids)
        total = np.maximum(before + counts, 1)
        with np.errstate(invalid="ignore", over="ignore"):
            delta = means - mean
            mean = mean + delta * (counts / total)
            deviations = deviations + squares + delta * delta * (before * (counts / total))
        self._counts.merge(ids, [pa.array(counts)])
        self._means.values[ids] = mean
        self._squares.values[ids] = deviations

    def take(self, ids: Ids) -> list[pa.Array]:
        """Counts, means and squares."""
        return [column.take(ids)[0] for column in self._columns]

    def merge(self, ids: Ids, columns: Sequence[pa.Array], subtract: bool = False) -> None:
        """Brings them together."""
        counts, means, squares = (column.to_numpy() for column in columns)
        self.combine(ids, counts, means, squares)

    def clear(self, ids: Ids) -> None:
        """Back to no values."""
        for column in self._columns:
            column.clear(ids)

    @property
    def nbytes(self) -> int:
        """Bytes of the three."""
        return sum(column.nbytes for column in self._columns)
