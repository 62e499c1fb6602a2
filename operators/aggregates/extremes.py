"""min, max, first, last, bool_and, bool_or: one value of the rows that an id has seen.

    ts    len            first(len) 7      the earliest time; of its values the smallest
    10    7              last(len)  9      the latest time; of its values the largest
    10    8              min(len)   2      by value: numbers, times, false before true, bytes;
    20    9              max(len)   9      NaN above all
    20    2              bool_and is the min of bools, bool_or their max

Ties are broken by value, in the order of `operators/order.py`, so that arrival never shows. What an
id holds once it has seen nothing is not the smallest that was there before the smallest one went:
none of them is differential.

Numbers are kept as keys, int64s in the order of the values (`kernels/scatter.py`); of other types
see `picked.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.kernels.scatter import (
    HIGHEST,
    LOWEST,
    first_at,
    keys_of,
    last_at,
    max_at,
    min_at,
    values_of,
)
from gapless.operators.aggregates.function import Accumulator, AggregateFunction, place_of
from gapless.operators.aggregates.inputs import NumberColumn, Numbers, has_numbers
from gapless.operators.aggregates.parts import OfParts, Part
from gapless.operators.aggregates.picked import PickedValues
from gapless.protocol.documents import Document
from gapless.protocol.errors import SchemaError
from gapless.protocol.frame import Mask, Times


@dataclass(frozen=True, slots=True)
class _Extreme(AggregateFunction):
    """What they have in common."""

    column: str

    largest: ClassVar[bool]
    timed: ClassVar[bool]
    bounded = True
    differential = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column."""
        return (self.column,)

    def result(self, schema: pa.Schema) -> pa.DataType:
        """The column's type."""
        t: pa.DataType = schema.field(place_of(self, schema, self.column)).type
        return t

    def accumulator(self, schema: pa.Schema, rows: Accumulator | None = None) -> Accumulator:
        """Of numbers eight bytes an id, sixteen with times."""
        place, t = place_of(self, schema, self.column), self.result(schema)
        if has_numbers(t):
            return _OfNumbers(NumberColumn(place, t), self.largest, self.timed)
        return PickedValues(place, t, self.largest, self.timed)

    def to_document(self) -> Document:
        """The function as plain data."""
        return {"function": self.name, "column": self.column}

    def __str__(self) -> str:
        return f"{self.name}({self.column})"


@dataclass(frozen=True, slots=True)
class Min(_Extreme):
    """The smallest value; null if there are none."""

    name = "min"
    largest = False
    timed = False
    sub = "min"
    super_ = "min of the mins"


@dataclass(frozen=True, slots=True)
class Max(_Extreme):
    """The largest value; null if there are none."""

    name = "max"
    largest = True
    timed = False
    sub = "max"
    super_ = "max of the maxes"


@dataclass(frozen=True, slots=True)
class First(_Extreme):
    """The value at the earliest time, the smallest of several; null if there are none."""

    name = "first"
    largest = False
    timed = True
    sub = "earliest time, and the smallest value then"
    super_ = "the value of the earliest, the smallest of several"


@dataclass(frozen=True, slots=True)
class Last(_Extreme):
    """The value at the latest time, the largest of several; null if there are none."""

    name = "last"
    largest = True
    timed = True
    sub = "latest time, and the largest value then"
    super_ = "the value of the latest, the largest of several"


@dataclass(frozen=True, slots=True)
class _OfBools(_Extreme):
    """What bool_and and bool_or have in common."""

    timed = False

    def result(self, schema: pa.Schema) -> pa.DataType:
        """bool; raises where the column is of another type."""
        t: pa.DataType = schema.field(place_of(self, schema, self.column)).type
        if not pa.types.is_boolean(t):
            raise SchemaError(
                f"{self}: column {self.column!r} is {t}; make a bool of it first, as in "
                f".map(ok=gl.col({self.column!r}) != 0)"
            )
        return t


@dataclass(frozen=True, slots=True)
class BoolAnd(_OfBools):
    """Whether all values are true; null if there are none."""

    name = "bool_and"
    largest = False
    sub = "and"
    super_ = "and of the ands"


@dataclass(frozen=True, slots=True)
class BoolOr(_OfBools):
    """Whether any value is true; null if there are none."""

    name = "bool_or"
    largest = True
    sub = "or"
    super_ = "or of the ors"


class _Best(Part):
    """The smallest or largest key by id, or none.

    The key that stands for none may be a value's, if that has 64 bits: then its ids are marked.
    """

    __slots__ = ("_keys", "_marked", "_none", "_offer", "fields")

    repeats = True

    def __init__(self, largest: bool) -> None:
        self.fields = [pa.field("key", pa.int64())]
        self._none = LOWEST if largest else HIGHEST
        self._offer = max_at if largest else min_at
        self._keys = Column(self._none)
        self._marked: Column | None = None

    def offer(self, ids: Ids, times: Times, values: Numbers) -> None:
        """Keeps the best of what is there and of these."""
        if self._offer(self._keys.values, ids, values):
            if self._marked is None:
                self._marked = Column(0, len(self._keys.values))
            self._marked.values[ids[keys_of(values) == self._none]] = 1

    def of(self, ids: Ids) -> tuple[Ids, Mask | None]:
        """The keys of these ids, and where there are none."""
        keys = self._keys.values[ids]
        none: Mask = keys == self._none
        if self._marked is not None:
            none &= self._marked.values[ids] == 0
        return keys, none if np.count_nonzero(none) else None

    def _columns(self) -> list[Column]:
        return [self._keys, *([] if self._marked is None else [self._marked])]

    def fit(self, capacity: int) -> None:
        """Makes room."""
        for column in self._columns():
            column.fit(capacity)

    def take(self, ids: Ids) -> list[pa.Array]:
        """The keys, null where there are none."""
        keys, none = self.of(ids)
        return [pa.array(keys, mask=none)]

    def merge(self, ids: Ids, columns: Sequence[pa.Array], subtract: bool = False) -> None:
        """Keeps the best of both."""
        ids, (keys,) = _where_valid(ids, columns)
        self.offer(ids, ids, keys)

    def clear(self, ids: Ids) -> None:
        """Back to none."""
        self._keys.values[ids] = self._none
        if self._marked is not None:
            self._marked.values[ids] = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the keys."""
        return sum(column.nbytes for column in self._columns())


class _BestInTime(Part):
    """The earliest time and its smallest key by id, or the latest and its largest; or none.

    Times are finite, so the end of time stands for none.
    """

    __slots__ = ("_keys", "_none", "_offer", "_times", "fields")

    repeats = True

    def __init__(self, latest: bool) -> None:
        self.fields = [pa.field("time", pa.int64()), pa.field("key", pa.int64())]
        self._none = LOWEST if latest else HIGHEST
        self._offer = last_at if latest else first_at
        self._times = Column(self._none)
        self._keys = Column(self._none)

    def offer(self, ids: Ids, times: Times, values: Numbers) -> None:
        """Keeps the best of what is there and of these."""
        self._offer(self._times.values, self._keys.values, ids, times, values)

    def of(self, ids: Ids) -> tuple[Ids, Mask | None]:
        """The keys of these ids, and where there are none."""
        none: Mask = self._times.values[ids] == self._none
        return self._keys.values[ids], none if np.count_nonzero(none) else None

    def fit(self, capacity: int) -> None:
        """Makes room."""
        self._times.fit(capacity)
        self._keys.fit(capacity)

    def take(self, ids: Ids) -> list[pa.Array]:
        """Times and keys, null where there are none."""
        keys, none = self.of(ids)
        return [pa.array(self._times.values[ids], mask=none), pa.array(keys, mask=none)]

    def merge(self, ids: Ids, columns: Sequence[pa.Array], subtract: bool = False) -> None:
        """Keeps the best of both."""
        ids, (times, keys) = _where_valid(ids, columns)
        self.offer(ids, times, keys)

    def clear(self, ids: Ids) -> None:
        """Back to none."""
        self._times.values[ids] = self._none
        self._keys.values[ids] = self._none

    @property
    def nbytes(self) -> int:
        """Bytes of times and keys."""
        return self._times.nbytes + self._keys.nbytes


def _where_valid(ids: Ids, columns: Sequence[pa.Array]) -> tuple[Ids, list[Ids]]:
    """Ids and columns without the rows in which all columns are null."""
    if columns[0].null_count:
        ids = ids[columns[0].is_valid().to_numpy(zero_copy_only=False)]
    return ids, [column.drop_null().to_numpy() for column in columns]


class _OfNumbers(OfParts):
    """One of them, of a column of numbers."""

    differential = False

    def __init__(self, column: NumberColumn, largest: bool, timed: bool) -> None:
        self._column = column
        self._best = _BestInTime(largest) if timed else _Best(largest)
        super().__init__(self._best)

    def add(self, ids: Ids, rows: pa.RecordBatch, times: Times) -> None:
        """Offers each value."""
        values, valid = self._column.read(rows)
        if valid is not None:
            ids, times = ids[valid], times[valid]
        self._best.offer(ids, times, values)

    def results(self, ids: Ids) -> pa.Array:
        """The values of the keys."""
        keys, none = self._best.of(ids)
        if none is not None:
            keys = np.where(none, 0, keys)
        return self._column.column(values_of(keys, self._column.dtype), none)
