"""The earliest and the latest time of the rows of an id: where a session begins and ends.

    ts 17, 12, 14        earliest 12, latest 17

No function that a query names: an operator keeps it beside those that answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.kernels.scatter import HIGHEST, LOWEST, max_at, min_at
from gapless.operators.aggregates.function import Accumulator, AggregateFunction
from gapless.operators.aggregates.parts import OfParts, Part
from gapless.protocol.columns import int64s
from gapless.protocol.documents import Document
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Times


@dataclass(frozen=True, slots=True)
class Span(AggregateFunction):
    """From the earliest time of the rows to the latest."""

    name = "span"
    columns = ()
    bounded = True
    differential = False
    sub = "earliest and latest time"
    super_ = "the earliest and the latest of them"

    def result(self, schema: pa.Schema) -> pa.DataType:
        """It is asked for its times, never for an answer."""
        raise Misuse("a span has no answer")

    def accumulator(self, schema: pa.Schema, rows: Accumulator | None = None) -> Spans:
        """Sixteen bytes an id."""
        return Spans()

    def to_document(self) -> Document:
        """No query says it."""
        raise Misuse("a span is in no query")


class _Edge(Part):
    """The earliest or the latest time by id. Times are finite, so the far end stands for none."""

    __slots__ = ("_none", "_offer", "_times", "fields")

    repeats = True

    def __init__(self, latest: bool) -> None:
        name = "latest" if latest else "earliest"
        self.fields = [pa.field(name, pa.int64(), nullable=False)]
        self._none = LOWEST if latest else HIGHEST
        self._offer = max_at if latest else min_at
        self._times = Column(self._none)

    def fit(self, capacity: int) -> None:
        """Makes room."""
        self._times.fit(capacity)

    def offer(self, ids: Ids, times: Times) -> None:
        """Keeps the best of what is there and of these."""
        self._offer(self._times.values, ids, times)

    def of(self, ids: Ids) -> Times:
        """The times of these ids."""
        times: Times = self._times.values[ids]
        return times

    def take(self, ids: Ids) -> list[pa.Array]:
        """The times, as a column."""
        return [int64s(self.of(ids))]

    def merge(self, ids: Ids, columns: Sequence[pa.Array], subtract: bool = False) -> None:
        """Keeps the best of both."""
        self.offer(ids, columns[0].to_numpy())

    def clear(self, ids: Ids) -> None:
        """Back to none."""
        self._times.values[ids] = self._none

    @property
    def nbytes(self) -> int:
        """Bytes of the times."""
        return self._times.nbytes


class Spans(OfParts):
    """Earliest and latest times by id."""

    differential = False

    def __init__(self) -> None:
        self.earliest, self.latest = _Edge(latest=False), _Edge(latest=True)
        super().__init__(self.earliest, self.latest)

    def add(self, ids: Ids, rows: pa.RecordBatch, times: Times) -> None:
        """Offers each time."""
        times = times if times.flags.c_contiguous else times.copy()
        self.earliest.offer(ids, times)
        self.latest.offer(ids, times)

    def results(self, ids: Ids) -> pa.Array:
        """It is asked for its times, never for an answer."""
        raise Misuse("a span has no answer")
