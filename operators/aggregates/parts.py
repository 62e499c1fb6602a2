"""An accumulator put together from parts, each with its columns of every sub-aggregate.

    partial    nulls | count | total | total_64 | total_128
               `--Present--'   `------ExactSums-----------'

A part keeps one thing by id. What all accumulators do alike is done here, part by part.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa

from gapless.kernels.keys import Ids
from gapless.operators.aggregates.function import Accumulator


class Part(ABC):
    """One thing that an accumulator keeps by id."""

    __slots__ = ()

    repeats: ClassVar[bool] = False
    """Whether the ids of one `merge` may repeat."""
    added: tuple[bool, ...] | None = None
    """Which of its columns add up, as `Accumulator.added` has it."""
    fields: Sequence[pa.Field]
    """Of its columns of sub-aggregates."""

    @abstractmethod
    def fit(self, capacity: int) -> None:
        """Makes room for ids below `capacity`, and gives room far beyond back."""

    @abstractmethod
    def take(self, ids: Ids) -> list[pa.Array]:
        """Columns of sub-aggregates, row i of ids[i]."""

    @abstractmethod
    def merge(self, ids: Ids, columns: Sequence[pa.Array], subtract: bool = False) -> None:
        """Takes columns of sub-aggregates in, or out."""

    @abstractmethod
    def clear(self, ids: Ids) -> None:
        """Back to what an id starts with."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes held."""

    def validate(self) -> None:  # noqa: B027  # most have nothing that could be wrong
        """Raises `Bug` where an invariant is broken."""


class OfParts(Accumulator):
    """An accumulator whose state is that of its parts, in the order of their columns."""

    def __init__(self, *parts: Part | None) -> None:
        self._parts = [part for part in parts if part is not None]
        self.repeats = all(part.repeats for part in self._parts)
        self.partial_schema = pa.schema([field for part in self._parts for field in part.fields])
        added = [part.added for part in self._parts if part.added is not None]
        if self.differential and len(added) == len(self._parts):
            self.added = tuple(adds for of_part in added for adds in of_part)
        ends = [0]
        for part in self._parts:
            ends.append(ends[-1] + len(part.fields))
        self._places = [slice(*ends[i : i + 2]) for i in range(len(self._parts))]

    def fit(self, capacity: int) -> None:
        """Makes room."""
        for part in self._parts:
            part.fit(capacity)

    def take(self, ids: Ids) -> pa.RecordBatch:
        """The columns of all parts."""
        columns = [column for part in self._parts for column in part.take(ids)]
        return pa.RecordBatch.from_arrays(columns, schema=self.partial_schema)

    def merge(self, ids: Ids, partial: pa.RecordBatch) -> None:
        """Takes the columns in, part by part."""
        columns = partial.columns
        for part, place in zip(self._parts, self._places, strict=True):
            part.merge(ids, columns[place])

    def unmerge(self, ids: Ids, partial: pa.RecordBatch) -> None:
        """Takes them out, where the function is differential."""
        if not self.differential:
            super().unmerge(ids, partial)
        columns = partial.columns
        for part, place in zip(self._parts, self._places, strict=True):
            part.merge(ids, columns[place], True)

    def clear(self, ids: Ids) -> None:
        """Back to no rows."""
        for part in self._parts:
            part.clear(ids)

    @property
    def nbytes(self) -> int:
        """Bytes of all parts."""
        return sum(part.nbytes for part in self._parts)

    def validate(self) -> None:
        """Validates all parts."""
        for part in self._parts:
            part.validate()
