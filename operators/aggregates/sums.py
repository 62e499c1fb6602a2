"""sum, mean and var of a column of numbers.

    sum(len)                 integers: exact, int64; one that int64 does not hold has no answer
    sum(price, scale=100)    floats, each rounded to a whole number of hundredths: exact, float64
    sum(price)               floats as they are: float64; the order of rows decides the last bits

The first two are differential, and the same on every replica. The third is neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from gapless.operators.aggregates.floats import FloatSums, FloatVariance
from gapless.operators.aggregates.function import Accumulator, AggregateFunction
from gapless.operators.aggregates.inputs import arithmetic_column
from gapless.operators.aggregates.moments import ExactMoments, Moment
from gapless.protocol.documents import Document
from gapless.protocol.errors import Misuse

SCALE_MAX = 10**15
"""Still an integer that float64 holds exactly, as the parts of a value must be."""


@dataclass(frozen=True, slots=True)
class _Arithmetic(AggregateFunction):
    """What the three have in common."""

    column: str
    scale: int | None = None

    moment: ClassVar[Moment]
    bounded = True
    differential = True

    def __post_init__(self) -> None:
        k = self.scale
        if k is not None and (type(k) is not int or not 1 <= k <= SCALE_MAX):
            raise Misuse(f"{self.name}: scale={k!r}: how many parts of 1, 1 to {SCALE_MAX}")

    @property
    def name(self) -> str:
        """What it is called."""
        return self.moment

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column."""
        return (self.column,)

    @property
    def may_diverge(self) -> str | None:
        """Of floats that are not scaled."""
        if self.scale is not None:
            return None
        return f"{self}: float sums depend on the order of rows; scale= makes them exact"

    def result(self, schema: pa.Schema) -> pa.DataType:
        """int64 for the sum of integers, else float64."""
        t = arithmetic_column(self, schema).type
        exact = pa.types.is_integer(t) and self.scale is None and self.moment == "sum"
        return pa.int64() if exact else pa.float64()

    def accumulator(self, schema: pa.Schema, rows: Accumulator | None = None) -> Accumulator:
        """Of integers eight bytes a sum and id, and a variance has two sums."""
        column = arithmetic_column(self, schema)
        if self.scale is not None or pa.types.is_integer(column.type):
            return ExactMoments(self.moment, column, self.scale, rows)
        if self.moment == "var":
            return FloatVariance(column, self.may_diverge)
        return FloatSums(column, rows, self.may_diverge, mean=self.moment == "mean")

    def to_document(self) -> Document:
        """The function as plain data."""
        scale: dict[str, Document] = {} if self.scale is None else {"scale": self.scale}
        return {"function": self.name, "column": self.column, **scale}

    def __str__(self) -> str:
        scale = "" if self.scale is None else f", scale={self.scale}"
        return f"{self.name}({self.column}{scale})"


@dataclass(frozen=True, slots=True)
class Sum(_Arithmetic):
    """The sum of the values; null if there are none."""

    moment = "sum"
    sub = "sum"
    super_ = "sum of the sums"


@dataclass(frozen=True, slots=True)
class Mean(_Arithmetic):
    """Their sum by their number, rounded once if exact; null if there are none."""

    moment = "mean"
    sub = "sum and count"
    super_ = "sum of the sums by sum of the counts"


@dataclass(frozen=True, slots=True)
class Var(_Arithmetic):
    """The population's variance; null if there are no values."""

    moment = "var"
    sub = "count, sum and sum of squares"
    super_ = "mean of the squares less square of the mean, of their sums"
