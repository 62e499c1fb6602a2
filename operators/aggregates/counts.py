"""count() and count(column): rows, and values that are not null.

    group  len                  count()     A 2   B 1
    A      4                    count(len)  A 1   B 1
    A      null
    B      9

Also the parts that other accumulators count with: `Counts`, `Rare` for what hardly ever happens,
and `Present`, how many values an id has seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.kernels.scatter import add_at, count_at
from gapless.operators.aggregates.function import Accumulator, AggregateFunction, place_of
from gapless.operators.aggregates.inputs import valid_rows
from gapless.operators.aggregates.parts import OfParts, Part
from gapless.protocol.columns import int64s
from gapless.protocol.documents import Document
from gapless.protocol.errors import Bug, Misuse
from gapless.protocol.frame import Mask, Times


@dataclass(frozen=True, slots=True)
class Count(AggregateFunction):
    """How many rows there are, or values in a column; never null."""

    column: str | None = None

    name = "count"
    bounded = True
    differential = True
    sub = "count"
    super_ = "sum of the counts"

    @property
    def columns(self) -> tuple[str, ...]:
        """The column, if it counts one's values."""
        return () if self.column is None else (self.column,)

    def result(self, schema: pa.Schema) -> pa.DataType:
        """int64, whatever is counted."""
        for column in self.columns:
            place_of(self, schema, column)
        return pa.int64()

    def accumulator(self, schema: pa.Schema, rows: Accumulator | None = None) -> CountAccumulator:
        """Eight bytes an id."""
        return CountAccumulator(
            None if self.column is None else place_of(self, schema, self.column)
        )

    def to_document(self) -> Document:
        """The function as plain data."""
        column: dict[str, Document] = {} if self.column is None else {"column": self.column}
        return {"function": self.name, **column}

    def __str__(self) -> str:
        return f"count({self.column or ''})"


class Counts(Part):
    """A count by id."""

    __slots__ = ("_counts", "fields")

    repeats = True
    added = (True,)

    def __init__(self, name: str = "count") -> None:
        self.fields = [pa.field(name, pa.int64(), nullable=False)]
        self._counts = Column(0)

    def fit(self, capacity: int) -> None:
        """Makes room."""
        self._counts.fit(capacity)

    def add(self, ids: Ids) -> None:
        """One more for each mention of an id."""
        count_at(self._counts.values, ids)

    @property
    def values(self) -> Ids:
        """The counts by id, and spare room; a view, not to be written to."""
        return self._counts.values

    def of(self, ids: Ids) -> Ids:
        """The counts of these ids."""
        counts: Ids = self._counts.values[ids]
        return counts

    def take(self, ids: Ids) -> list[pa.Array]:
        """Their counts, as a column."""
        return [int64s(self._counts.values[ids])]

    def merge(self, ids: Ids, columns: Sequence[pa.Array], subtract: bool = False) -> None:
        """Adds counts, or subtracts them."""
        add_at(self._counts.values, ids, columns[0].to_numpy(), subtract)

    def clear(self, ids: Ids) -> None:
        """Back to 0."""
        self._counts.values[ids] = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the counts."""
        return self._counts.nbytes

    def validate(self) -> None:
        """No count is below 0."""
        if self._counts.values.min() < 0:
            raise Bug("a count below 0: more was subtracted than had been added")


class Rare(Part):
    """A count by id of what hardly ever happens; takes no memory until it does."""

    __slots__ = ("_counts", "_room", "fields")

    repeats = True
    added = (True,)

    def __init__(self, name: str) -> None:
        self.fields = [pa.field(name, pa.int64())]
        self._counts: Counts | None = None
        self._room = 0

    def fit(self, capacity: int) -> None:
        """Makes room, if there is anything."""
        self._room = capacity
        if self._counts is not None:
            self._counts.fit(capacity)

    def _started(self) -> Counts:
        if self._counts is None:
            self._counts = Counts()
            self._counts.fit(self._room)
        return self._counts

    def add(self, ids: Ids) -> None:
        """One more for each mention of an id."""
        if len(ids):
            self._started().add(ids)

    def of(self, ids: Ids) -> Ids | None:
        """The counts of these ids; None where it has never happened."""
        return None if self._counts is None else self._counts.of(ids)

    def take(self, ids: Ids) -> list[pa.Array]:
        """Their counts, as a column; null stands for 0."""
        if self._counts is None:
            return [pa.nulls(len(ids), pa.int64())]
        return self._counts.take(ids)

    def merge(self, ids: Ids, columns: Sequence[pa.Array], subtract: bool = False) -> None:
        """Adds counts, or subtracts them."""
        (column,) = columns
        if column.null_count < len(column):
            self._started().merge(ids, [column.fill_null(0)], subtract)

    def clear(self, ids: Ids) -> None:
        """Back to 0."""
        if self._counts is not None:
            self._counts.clear(ids)

    @property
    def nbytes(self) -> int:
        """Bytes of the counts, if there are any."""
        return 0 if self._counts is None else self._counts.nbytes

    def validate(self) -> None:
        """No count is below 0."""
        if self._counts is not None:
            self._counts.validate()


class Present(Part):
    """How many values that are not null each id has seen.

    Counts rows, and nulls once there is one. The rows are another accumulator's to count, if that
    one is given the same calls: then this takes no memory until there is a null.
    """

    __slots__ = ("_nulls", "_own", "_rows", "added", "fields")

    repeats = True

    def __init__(self, rows: Accumulator | None) -> None:
        self._nulls = Rare("nulls")
        self._own = None if rows is not None else Counts()
        if isinstance(rows, CountAccumulator) and rows.counts_rows:
            self._rows = rows.counts
        elif self._own is not None:
            self._rows = self._own
        else:
            raise Misuse("rows are counted by the accumulator of a count() without a column")
        self.fields = [*self._nulls.fields, *([] if self._own is None else self._own.fields)]
        self.added = (True,) * len(self.fields)

    def fit(self, capacity: int) -> None:
        """Makes room."""
        self._nulls.fit(capacity)
        if self._own is not None:
            self._own.fit(capacity)

    def add(self, ids: Ids, valid: Ids | None) -> Ids:
        """Counts rows of which those at `valid` have a value, None: all; the ids of those."""
        if self._own is not None:
            self._own.add(ids)
        if valid is None:
            return ids
        missing = np.ones(len(ids), np.bool_)
        missing[valid] = False
        self._nulls.add(ids[missing])
        present: Ids = ids[valid]
        return present

    def of(self, ids: Ids) -> Ids:
        """How many values these ids have seen."""
        rows, nulls = self._rows.of(ids), self._nulls.of(ids)
        return rows if nulls is None else rows - nulls

    def missing(self, ids: Ids, least: int = 1) -> Mask | None:
        """Which of these ids have seen fewer than `least`; None where none has."""
        missing: Mask = self.of(ids) < least
        return missing if np.count_nonzero(missing) else None

    def take(self, ids: Ids) -> list[pa.Array]:
        """Nulls, and rows where it counts them."""
        own = [] if self._own is None else self._own.take(ids)
        return [*self._nulls.take(ids), *own]

    def merge(self, ids: Ids, columns: Sequence[pa.Array], subtract: bool = False) -> None:
        """Adds counts, or subtracts them."""
        self._nulls.merge(ids, columns[:1], subtract)
        if self._own is not None:
            self._own.merge(ids, columns[1:], subtract)

    def clear(self, ids: Ids) -> None:
        """Back to no rows."""
        self._nulls.clear(ids)
        if self._own is not None:
            self._own.clear(ids)

    @property
    def nbytes(self) -> int:
        """Bytes of its own counts."""
        return self._nulls.nbytes + (0 if self._own is None else self._own.nbytes)

    def validate(self) -> None:
        """No count is below 0."""
        self._nulls.validate()
        if self._own is not None:
            self._own.validate()


class CountAccumulator(OfParts):
    """The counts of `count()`, or of the values in the column at a place."""

    differential = True

    def __init__(self, place: int | None) -> None:
        self.counts = Counts()
        self._place = place
        super().__init__(self.counts)

    @property
    def counts_rows(self) -> bool:
        """Whether nulls count, too."""
        return self._place is None

    def add(self, ids: Ids, rows: pa.RecordBatch, times: Times) -> None:
        """One more for each row, or for each value."""
        if self._place is not None:
            valid = valid_rows(rows.column(self._place))
            if valid is not None:
                ids = ids[valid]
        self.counts.add(ids)

    def results(self, ids: Ids) -> pa.Array:
        """The counts."""
        return self.counts.take(ids)[0]
