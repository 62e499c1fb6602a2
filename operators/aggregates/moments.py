"""Sum, mean and variance from exact integer sums: no order shows, and sub-aggregates subtract.

    kept by id           n (see `Present`)    sum of q    sum of q^2, for a variance
    of integers          q = x
    of floats, scaled    q = x * k rounded to the nearest integer, half to even

    sum   sum(q) / k             mean   sum(q) / (n k)
    var   (n sum(q^2) - sum(q)^2) / (n (n - ddof) k^2)        stddev   its root

Every quotient is rounded once, from exact numbers. What has no q (NaN, an infinity, beyond int64)
is counted; an id that holds any has no answer.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids
from gapless.operators.aggregates.counts import Present, Rare
from gapless.operators.aggregates.exact import ExactSums, product, ratio, spread
from gapless.operators.aggregates.function import Accumulator, Unanswerable
from gapless.operators.aggregates.inputs import NumberColumn, Numbers
from gapless.operators.aggregates.parts import OfParts
from gapless.protocol.frame import Times

Moment = Literal["sum", "mean", "var", "stddev"]

_INT64_END = 2.0**63
"""The first float that is no int64."""


class ExactMoments(OfParts):
    """One of the moments, of integers or of floats that are scaled to integers."""

    differential = True

    uses_rows = True

    def __init__(
        self,
        moment: Moment,
        column: NumberColumn,
        scale: int | None,
        rows: Accumulator | None,
        ddof: int = 0,
    ) -> None:
        """`ddof`: so many values less divide a variance than there are."""
        self._moment = moment
        self._column = column
        self._ddof = ddof
        quantises = scale is not None and pa.types.is_floating(column.type)
        self._divisor = scale if scale is not None and quantises else 1
        self._as_float = moment != "sum" or scale is not None
        self._present = Present(rows)
        self._total = ExactSums("total")
        self._squares = ExactSums("squares") if moment in ("var", "stddev") else None
        self._unfit = Rare("unfit") if quantises else None
        super().__init__(self._present, self._total, self._squares, self._unfit)

    def add(self, ids: Ids, rows: pa.RecordBatch, times: Times) -> None:
        """Adds each value, and its square."""
        values, valid = self._column.read(rows)
        ids = self._present.add(ids, valid)
        if self._unfit is not None:
            ids, values = self._quantised(self._unfit, ids, values)
        self._total.add(ids, values)
        if self._squares is not None:
            self._squares.add_squares(ids, values)

    def _quantised(self, unfit: Rare, ids: Ids, values: Numbers) -> tuple[Ids, Numbers]:
        with np.errstate(over="ignore", invalid="ignore"):  # neither infinities nor NaN fit
            scaled = np.rint(values.astype(np.float64, copy=False) * float(self._divisor))
        fits = (scaled >= -_INT64_END) & (scaled < _INT64_END)  # false for NaN
        if np.count_nonzero(fits) < len(ids):
            unfit.add(ids[~fits])
            ids, scaled = ids[fits], scaled[fits]
        return ids, scaled.astype(np.int64)

    def results(self, ids: Ids) -> pa.Array:
        """The moment; null where there is no value, or no answer."""
        missing = self._present.missing(ids, self._ddof + 1)
        unanswerable = self.unanswerable(ids)
        if unanswerable is not None:
            missing = unanswerable.mask if missing is None else missing | unanswerable.mask
        answers = self._floats(ids) if self._as_float else self._total.totals(ids)
        return pa.array(answers, mask=missing)

    def _floats(self, ids: Ids) -> Numbers:
        totals = self._total.exact(ids)
        if self._moment == "sum":
            return ratio(totals, np.full(len(ids), self._divisor))
        counts = np.maximum(self._present.of(ids), 1)  # where there is none the answer is null
        divisors = product(counts, self._divisor)
        if self._squares is None:
            return ratio(totals, divisors)
        numerators = spread(counts, totals, self._squares.exact(ids))
        others = product(np.maximum(counts - self._ddof, 1), self._divisor)
        variances = ratio(numerators, product(divisors, others))
        return np.sqrt(variances) if self._moment == "stddev" else variances

    def unanswerable(self, ids: Ids) -> Unanswerable | None:
        """Integer sums beyond int64, and floats that have no integer."""
        unfit = None if self._unfit is None else self._unfit.of(ids)
        if unfit is not None and np.count_nonzero(unfit):
            reason = f"a value times {self._divisor} is not finite, or beyond int64"
            return Unanswerable(unfit > 0, reason)
        beyond = None if self._as_float else self._total.beyond(ids)
        return None if beyond is None else Unanswerable(beyond, "the sum is beyond int64")
