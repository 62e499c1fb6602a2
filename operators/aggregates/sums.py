"""sum, mean, var and stddev of a column of numbers.

    sum(len)                 integers: exact, int64; one that int64 does not hold has no answer
    sum(price, scale=100)    floats, each rounded to a whole number of hundredths: exact, float64
    sum(price)               floats as they are: float64; the order of rows decides the last bits
    var(len)                 of n values the squares of their deviations from the mean, by n
    var(len, ddof=1)         by n - 1: the sample's, an estimate of what the values are drawn from

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
    """What they have in common."""

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
        """Of integers eight bytes an id."""
        column = arithmetic_column(self, schema)
        if self.scale is not None or pa.types.is_integer(column.type):
            return ExactMoments(self.moment, column, self.scale, rows)
        return FloatSums(column, rows, self.may_diverge, mean=self.moment == "mean")

    def to_document(self) -> Document:
        """The function as plain data."""
        return {"function": self.name, "column": self.column, **_scale_document(self)}

    def __str__(self) -> str:
        return f"{self.name}({self.column}{_scale_text(self)})"


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
class _Spread(_Arithmetic):
    """What variance and standard deviation have in common."""

    ddof: int = 0

    sub = "count, sum and sum of squares"

    def __post_init__(self) -> None:
        _Arithmetic.__post_init__(self)
        if type(self.ddof) is not int or self.ddof not in (0, 1):
            raise Misuse(
                f"{self.name}: ddof={self.ddof!r}: 0 for the population's, 1 for the sample's"
            )

    def accumulator(self, schema: pa.Schema, rows: Accumulator | None = None) -> Accumulator:
        """Of integers two sums an id."""
        column = arithmetic_column(self, schema)
        if self.scale is not None or pa.types.is_integer(column.type):
            return ExactMoments(self.moment, column, self.scale, rows, self.ddof)
        root = self.moment == "stddev"
        return FloatVariance(column, self.may_diverge, self.ddof, root)

    def to_document(self) -> Document:
        """The function as plain data."""
        ddof: dict[str, Document] = {"ddof": self.ddof} if self.ddof else {}
        return {"function": self.name, "column": self.column, **_scale_document(self), **ddof}

    def __str__(self) -> str:
        ddof = f", ddof={self.ddof}" if self.ddof else ""
        return f"{self.name}({self.column}{_scale_text(self)}{ddof})"


@dataclass(frozen=True, slots=True)
class Var(_Spread):
    """The variance; null where there are no more values than `ddof`."""

    moment = "var"
    super_ = "mean of the squares less square of the mean, of their sums"


@dataclass(frozen=True, slots=True)
class Stddev(_Spread):
    """The standard deviation, the root of the variance; null where that is."""

    moment = "stddev"
    super_ = "root of the variance, of their sums"


def _scale_document(function: _Arithmetic) -> dict[str, Document]:
    return {} if function.scale is None else {"scale": function.scale}


def _scale_text(function: _Arithmetic) -> str:
    return "" if function.scale is None else f", scale={function.scale}"
