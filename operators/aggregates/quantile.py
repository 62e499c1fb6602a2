"""quantile: a DDSketch (Masson, Rim and Lee, 2019), whose answers are off by a share of the value.

    quantile(len, 0.99)      some x with  |x - exact| <= accuracy * |exact|

Values are counted by bucket, and a bucket's bounds are so close that one number stands for all of
it. Counts add and subtract: the sketch slides, and no order shows. The exact quantile here is the
value of rank floor(q * (n - 1)), from 0, in ascending order.

A bucket is found without a logarithm: libm's differ from machine to machine. A float is
2^e * (1 + s); a cubic p(s) stands for log2(1 + s), with p(0) = 0 and p(1) = 1, so that

    bucket = m e + floor(m p(s))             m buckets from one power of two to the next

    p(s) = (6/35 s - 3/5) s^2 + 10/7 s       the smallest slope against ln is 10/7, at s = 0

A bucket is then at most 7 / (10 m) wide in ln, and the harmonic mean of its bounds is within
tanh(7 / (20 m)) of everything in it: m = 7 / (20 accuracy), rounded up. Bounds are found by trying
that very formula, so rounding moves a bound and never a value out of its bucket. Each step is one
IEEE operation.

Buckets are numbered in the order of values:  -inf < ... -1 < 0 (zero) < 1 ... < inf < NaN.
Numbers below 2^-1022 have fewer digits than others: there the answer may be off by 2^-1074 more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.kernels.keys import Ids
from gapless.operators.aggregates.function import Accumulator, AggregateFunction
from gapless.operators.aggregates.inputs import NumberColumn, Numbers, arithmetic_column
from gapless.operators.aggregates.parts import OfParts
from gapless.operators.aggregates.tally import Tally, at_rank
from gapless.protocol.documents import Document
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Times

ACCURACY_MIN, ACCURACY_MAX = 1e-5, 0.5
"""At 1e-5 a value range of a factor 1000 has 350,000 buckets: exact values would take less."""

ACCURACY = 0.01
"""Off by 1 %: 36 counts from one power of two to the next."""

_EXPONENT_MIN, _EXPONENT_MAX = -1074, 1023
_MANTISSA_BITS = 52

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Quantile(AggregateFunction):
    """The value below which a share `q` of the values lies; null if there are none."""

    column: str
    q: float
    accuracy: float = ACCURACY

    name = "quantile"
    bounded = True
    differential = True
    sub = "counts by bucket of a DDSketch"
    super_ = "bucket of the rank in the sum of the counts"

    def __post_init__(self) -> None:
        check_share("quantile: q", self.q)
        if not _is_number(self.accuracy) or not ACCURACY_MIN <= self.accuracy <= ACCURACY_MAX:
            raise Misuse(
                f"quantile: accuracy={self.accuracy!r}: a share of the answer, {ACCURACY_MIN} to "
                f"{ACCURACY_MAX}"
            )
        object.__setattr__(self, "q", float(self.q))
        object.__setattr__(self, "accuracy", float(self.accuracy))

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column."""
        return (self.column,)

    def result(self, schema: pa.Schema) -> pa.DataType:
        """float64, of any numbers."""
        arithmetic_column(self, schema)
        return pa.float64()

    def accumulator(self, schema: pa.Schema, rows: Accumulator | None = None) -> Accumulator:
        """A count for each bucket that has values."""
        return _Sketch(arithmetic_column(self, schema), self.q, Buckets(self.accuracy))

    def to_document(self) -> Document:
        """The function as plain data."""
        return {
            "function": self.name,
            "column": self.column,
            "q": self.q,
            "accuracy": self.accuracy,
        }

    def __str__(self) -> str:
        return f"quantile({self.column}, {self.q}, accuracy={self.accuracy})"


def check_share(what: str, q: object) -> None:
    """Raises unless `q` is a share of values."""
    if not _is_number(q) or not 0 <= q <= 1:
        raise Misuse(f"{what}={q!r}: a share, 0 to 1")


def _is_number(x: object) -> TypeGuard[float]:
    return isinstance(x, int | float) and not isinstance(x, bool)


class Buckets:
    """Which bucket a number is in, and which number stands for a bucket."""

    def __init__(self, accuracy: float) -> None:
        self._per_octave = int(np.ceil(0.35 / accuracy)) + 1  # one more, for what rounding moves
        self._infinity = (_EXPONENT_MAX + 1 - _EXPONENT_MIN) * self._per_octave + 1
        bounds = self._bounds()
        self._middles = 2 * bounds[:-1] * bounds[1:] / (bounds[:-1] + bounds[1:])

    def of(self, values: Numbers) -> npt.NDArray[np.int32]:
        """The bucket of each number."""
        with np.errstate(invalid="ignore"):  # a NaN that signals is as good as another
            numbers = values.astype(np.float64, copy=False) + 0.0
        sizes = np.abs(numbers)
        finite = np.isfinite(sizes)
        half, exponent = np.frexp(np.where(finite, sizes, 1.0))  # half: 0.5 <= half < 1
        steps = self._steps(2.0 * half - 1.0)
        buckets = (exponent.astype(np.int64) - 1 - _EXPONENT_MIN) * self._per_octave + steps + 1
        buckets[sizes == 0] = 0
        buckets[~finite] = self._infinity
        buckets = np.where(numbers < 0, -buckets, buckets)
        buckets[np.isnan(sizes)] = self._infinity + 1
        return buckets.astype(np.int32)

    def middles(self, buckets: npt.NDArray[np.int32]) -> Floats:
        """The number that stands for each bucket."""
        sizes = np.abs(buckets.astype(np.int64))
        exponents, steps = np.divmod(np.maximum(sizes - 1, 0), self._per_octave)
        exponents = np.minimum(exponents + _EXPONENT_MIN, _EXPONENT_MAX)
        with np.errstate(over="ignore"):  # the last bucket's middle may lie beyond the last float
            numbers = np.ldexp(self._middles[steps], exponents)
        numbers = np.minimum(numbers, np.finfo(np.float64).max)
        numbers[sizes == 0] = 0.0
        numbers[sizes == self._infinity] = np.inf
        numbers[sizes > self._infinity] = np.nan
        middles: Floats = np.where(buckets < 0, -numbers, numbers)
        return middles

    def _steps(self, s: Floats) -> Ids:
        """floor(m p(s)), at most m - 1."""
        p = ((6.0 / 35.0 * s - 0.6) * s + 10.0 / 7.0) * s
        steps = np.floor(p * float(self._per_octave)).astype(np.int64)
        return np.minimum(steps, self._per_octave - 1)

    def _bounds(self) -> Floats:
        """By step, the smallest 1 + s in it, and 2.0: by bisection over all 2^52 of them."""
        steps = np.arange(self._per_octave)
        low, high = np.zeros((2, self._per_octave), np.int64)
        high += 1 << _MANTISSA_BITS
        for _ in range(_MANTISSA_BITS + 1):
            middle = (low + high) // 2
            reached = self._steps(middle / float(1 << _MANTISSA_BITS)) >= steps
            high = np.where(reached, middle, high)
            low = np.where(reached, low, np.minimum(middle + 1, high))
        return np.append(1.0 + high / float(1 << _MANTISSA_BITS), 2.0)


class _Sketch(OfParts):
    """Counts by bucket."""

    differential = True

    def __init__(self, column: NumberColumn, q: float, buckets: Buckets) -> None:
        self._column = column
        self._q = q
        self._buckets = buckets
        self._tally = Tally(pa.int32())
        super().__init__(self._tally)

    def add(self, ids: Ids, rows: pa.RecordBatch, times: Times) -> None:
        """Counts each value in its bucket."""
        values, valid = self._column.read(rows)
        if valid is not None:
            ids = ids[valid]
        self._tally.add(ids, pa.array(self._buckets.of(values)))

    def results(self, ids: Ids) -> pa.Array:
        """The middle of the bucket in which the rank is."""
        positions, values, counts = self._tally.entries(ids)
        buckets = values.to_numpy()
        order = np.lexsort((buckets, positions))
        buckets, counts = buckets[order], counts[order]
        sizes = self._tally.sizes(ids)
        has = sizes > 0
        places = at_rank(sizes, counts, self._q)
        answers = np.zeros(len(ids))
        answers[has] = self._buckets.middles(buckets[places])
        return pa.array(answers, mask=~has)
