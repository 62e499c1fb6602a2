"""Final cells of aggregates that add up: what `CellChains` keeps, and windows in one step.

    cells of A at places   1: 2 rows   2: 1   5: 4
    windows                [1, 3) 3 rows    [2, 6) 5 rows      each by a look at its two ends

Counts and exact sums, and all that is made of them, merge by adding int64s. Of each group is kept
what they have added up to by each place (`kernels/running_sums.py`), so what a window costs does
not grow with its cells or with how windows overlap. That holds as long as every sum fits in int64;
from the first that does not on, the operator keeps its cells as those of any aggregate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids, Mask
from gapless.kernels.running_sums import RunningSums
from gapless.operators.aggregates.function import Accumulator
from gapless.operators.answers import Grouping
from gapless.operators.row_windows import Closings
from gapless.protocol.columns import int64s
from gapless.protocol.errors import Bug

Partials = Sequence[pa.RecordBatch]
"""Sub-aggregates, a batch a state."""


class SummedCells:
    """Cells by group and place; a group is a partition."""

    def __init__(self, states: Sequence[Accumulator]) -> None:
        """Of states whose sub-aggregates add up."""
        self._schemas = [state.partial_schema for state in states]
        self._adds = [adds for state in states for adds in state.added or ()]
        self._seen: list[int] = []  # columns that have had something: those that are kept
        self._sums = RunningSums(1)

    @staticmethod
    def of(grouping: Grouping) -> SummedCells | None:
        """For these aggregates; None where not all of them add up."""
        states, _ = grouping.states()
        return None if any(state.added is None for state in states) else SummedCells(states)

    def extend(self, groups: Ids, places: Ids, partials: Partials) -> bool:
        """Adds cells, by group and place, none before a group's last one; False, with nothing
        changed, where a sum is beyond int64.
        """
        values = self._values(partials, len(groups))
        return values is not None and self._sums.add(groups, places, values)

    def windows(self, closings: Closings) -> Partials | None:
        """What these windows have in all; None where a sum is beyond int64."""
        found = self._sums.sums(closings.partitions, closings.low, closings.high)
        return None if found is None else self._partials(found)

    def drop(self, groups: Ids, places: Ids) -> None:
        """Forgets the cells of each group before its place."""
        self._sums.drop(groups, places)

    def drop_before(self, place: int) -> None:
        """Forgets all cells before a place."""
        self._sums.drop_before(place)

    def all(self) -> tuple[Ids, Ids, Partials]:
        """All cells, for a snapshot, by place: places, groups, sub-aggregates."""
        groups, places, values = self._sums.cells()
        order = np.argsort(places, kind="stable")
        return places[order], groups[order], self._partials(values[:, order])

    def _values(self, partials: Partials, count: int) -> Ids | None:
        """What adds up, a row a column; None where another column has something."""
        columns = [column for partial in partials for column in partial.columns]
        there = [i for i, column in enumerate(columns) if column.null_count < count]
        if not all(self._adds[i] for i in there):
            return None
        if not {*there} <= {*self._seen}:
            self._see(sorted({*there, *self._seen}))
        values = np.zeros((max(1, len(self._seen)), count), np.int64)
        for row, i in enumerate(self._seen):
            if i in there:
                column = columns[i]
                values[row] = (column.fill_null(0) if column.null_count else column).to_numpy()
        return values

    def _see(self, seen: list[int]) -> None:
        """Keeps more columns from now on: a null among the values, say."""
        groups, places, values = self._sums.cells()
        more = np.zeros((len(seen), len(groups)), np.int64)
        more[[seen.index(i) for i in self._seen]] = values[: len(self._seen)]
        self._seen, self._sums = seen, RunningSums(len(seen))
        self._sums.add(groups, places, more)

    def _partials(self, values: Ids) -> Partials:
        nothing = pa.nulls(values.shape[1], pa.int64())
        rows = dict(zip(self._seen, values, strict=False))
        columns = [int64s(rows[i]) if i in rows else nothing for i in range(len(self._adds))]
        made, at = [], 0
        for schema in self._schemas:
            made.append(pa.RecordBatch.from_arrays(columns[at : at + len(schema)], schema=schema))
            at += len(schema)
        return made

    def has(self, groups: Ids) -> Mask:
        """Which groups have a cell."""
        return self._sums.has(groups)

    def __len__(self) -> int:
        return len(self._sums)

    @property
    def nbytes(self) -> int:
        """Bytes of the cells."""
        return int(self._sums.nbytes)

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        try:
            self._sums.validate()
        except RuntimeError as error:
            raise Bug(str(error)) from None
