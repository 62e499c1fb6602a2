"""quantile(exact=True) and mode: one of the values, chosen by how often each was seen.

    values   3 3 8 9 9         quantile(len, 0.5, exact=True)  8      rank floor(0.5 * 4) = 2
                               mode(len)                       3      of 3 and 9 the smaller one

Every value is kept with its count: no constant bounds that, but it slides, and no order shows.
Values are of any type that a payload may have, in the order of `operators/order.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids
from gapless.operators.aggregates.function import Accumulator, AggregateFunction, place_of
from gapless.operators.aggregates.inputs import present_rows
from gapless.operators.aggregates.parts import OfParts
from gapless.operators.aggregates.plain import plain_type, plain_values, restored
from gapless.operators.aggregates.quantile import check_share
from gapless.operators.aggregates.tally import Tally, at_rank
from gapless.protocol.documents import Document
from gapless.protocol.frame import Times


@dataclass(frozen=True, slots=True)
class _Chosen(AggregateFunction):
    """What both have in common."""

    column: str

    bounded = False
    differential = True
    sub = "values and their counts"

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column."""
        return (self.column,)

    def result(self, schema: pa.Schema) -> pa.DataType:
        """The column's type."""
        t: pa.DataType = schema.field(place_of(self, schema, self.column)).type
        return t


@dataclass(frozen=True, slots=True)
class ExactQuantile(_Chosen):
    """The value of rank floor(q * (n - 1)) of n, from 0; null if there are none."""

    q: float

    name = "quantile"
    super_ = "value of the rank in the sum of the counts"

    def __post_init__(self) -> None:
        check_share("quantile: q", self.q)
        object.__setattr__(self, "q", float(self.q))

    def accumulator(self, schema: pa.Schema, rows: Accumulator | None = None) -> Accumulator:
        """Every value, with its count."""
        return _OfRank(place_of(self, schema, self.column), self.result(schema), self.q)

    def to_document(self) -> Document:
        """The function as plain data."""
        return {"function": self.name, "column": self.column, "q": self.q, "exact": True}

    def __str__(self) -> str:
        return f"quantile({self.column}, {self.q}, exact=True)"


@dataclass(frozen=True, slots=True)
class Mode(_Chosen):
    """The value that is there most often, of several the smallest; null if there are none."""

    name = "mode"
    super_ = "value of the largest sum of the counts"

    def accumulator(self, schema: pa.Schema, rows: Accumulator | None = None) -> Accumulator:
        """Every value, with its count."""
        return _MostOften(place_of(self, schema, self.column), self.result(schema))

    def to_document(self) -> Document:
        """The function as plain data."""
        return {"function": self.name, "column": self.column}

    def __str__(self) -> str:
        return f"mode({self.column})"


class _Counted(OfParts):
    """Values and their counts, of which one is the answer."""

    differential = True

    def __init__(self, place: int, t: pa.DataType) -> None:
        self._place = place
        self._type = t
        self._tally = Tally(plain_type(t))
        super().__init__(self._tally)

    def add(self, ids: Ids, rows: pa.RecordBatch, times: Times) -> None:
        """Counts each value."""
        ids, column = present_rows(ids, rows.column(self._place))
        self._tally.add(ids, plain_values(column))

    def results(self, ids: Ids) -> pa.Array:
        """The values that are chosen."""
        sizes = self._tally.sizes(ids)
        _, values, counts = self._tally.in_order(ids)
        places = self._chosen(sizes, counts)
        missing = sizes == 0
        at = np.zeros(len(ids), np.int64)
        at[~missing] = places
        return restored(values.take(pa.array(at, mask=missing)), self._type)

    @abstractmethod
    def _chosen(self, sizes: Ids, counts: Ids) -> Ids:
        """Where, of each id that has values, the answer stands; see `at_rank`."""


class _OfRank(_Counted):
    """The value of a rank."""

    def __init__(self, place: int, t: pa.DataType, q: float) -> None:
        super().__init__(place, t)
        self._q = q

    def _chosen(self, sizes: Ids, counts: Ids) -> Ids:
        return at_rank(sizes, counts, self._q)


class _MostOften(_Counted):
    """The value of the largest count."""

    def _chosen(self, sizes: Ids, counts: Ids) -> Ids:
        sizes = sizes[sizes > 0]
        if not len(sizes):
            return sizes
        begins = np.cumsum(sizes) - sizes
        largest = counts == np.repeat(np.maximum.reduceat(counts, begins), sizes)
        at = largest.nonzero()[0]  # some of each id
        first: Ids = at[np.searchsorted(at, begins)]
        return first
