"""Rows added up by group and time, for windows that slide by tuple: no row is kept.

    ins(A,3) ins(A,3) ins(B,4)     cells (3, A): 2 rows   (4, B): 1 row
    stable(4)                      (3, A) is final; the window (3 - range, 3] closes

A cell is a bin of figure 6-7 before its neighbours are added: what came at that time. It is there
from its first row on, whatever the stable; once that has passed, no row can join it. Which ticks
close a window follows from how many rows they have: a count, and not who is who among them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids, Mask
from gapless.operators.answers import Grouping
from gapless.operators.cells import Cells
from gapless.operators.final_cells import FinalCells, NotFinal, parts_of
from gapless.operators.grouped_tables import read_cells, write_cells
from gapless.operators.numbers import sorting
from gapless.operators.row_partitions import Partitions
from gapless.operators.row_windows import Closings, SlideByTuple, last_of_each
from gapless.operators.sparse_cells import Found
from gapless.operators.state import State
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.frame import Times

ENTRIES_MAX = 1 << 16
"""Cells that become final at once: some megabytes beside them."""
_OPEN = "open"


class Ticks(NotFinal):
    """State by time and group."""

    def __init__(self, window: SlideByTuple, grouping: Grouping, partitions: Partitions) -> None:
        self._window = window
        self._partitions = partitions
        self._open = Cells(grouping)

    def add(self, times: Times, rows: pa.RecordBatch) -> None:
        """Adds rows up."""
        _, groups = self._partitions.of(rows)
        self._open.add(times, groups, self._partitions.groups.capacity, times, rows)

    def take(self, below: int) -> Iterator[FinalCells]:
        """The cells before this time."""
        found = self._open.between(BEGIN, below)
        for some in parts_of(found.places, ENTRIES_MAX):
            end = below if some.stop == len(found.places) else int(found.places[some.stop])
            part = Found(*(column[some] for column in found))
            final = self._final(part, end)
            self._open.forget(part)
            yield final

    def _final(self, found: Found, below: int) -> FinalCells:
        order = sorting(found.groups, found.places)
        groups, places, ids = found.groups[order], found.places[order], found.ids[order]
        partials = self._open.take(Found(places, groups, ids))
        closings = self._closed(groups, places, self._open.counts(ids))
        return FinalCells(groups, places, partials, closings, below)

    def _closed(self, groups: Ids, times: Times, rows: Ids) -> Closings:
        """Which of these times end a window, of which partition."""
        partitions = self._partitions.of_groups(groups)
        if not self._partitions.groups_are_partitions:  # cells of several groups at one time
            order = np.lexsort((times, partitions))
            partitions, times, rows = partitions[order], times[order], rows[order]
        counts = self._partitions.counts
        total = np.cumsum(rows)
        ends = last_of_each(partitions, times).nonzero()[0]
        partitions, times, total = partitions[ends], times[ends], total[ends]
        last = last_of_each(partitions).nonzero()[0]
        sizes = np.diff(last, prepend=-1)
        earlier = np.repeat(np.concatenate(([0], total[last[:-1]])), sizes)  # of other partitions
        after = counts[partitions] + total - earlier
        before = np.concatenate(([0], after[:-1]))
        first = np.concatenate(([0], last[:-1] + 1))
        before[first] = counts[partitions[first]]
        counts[partitions[last]] = after[last]
        return self._window.closed(partitions, times, before, after)

    def has(self, groups: Ids) -> Mask:
        """Which groups have a cell here."""
        return self._open.has(groups)

    def snapshot(self) -> State:
        """The cells."""
        found = self._open.between(BEGIN, INF)
        groups = self._partitions.groups
        return write_cells(_OPEN, found.places, found.groups, self._open.take(found), groups)

    def restore(self, state: State) -> None:
        """Takes the cells back."""
        groups = self._partitions.groups
        places, ids, partials = read_cells(_OPEN, state, self._open.states, groups)
        if len(places):
            self._open.merge(places, ids, groups.capacity, partials)
        self._partitions.restored(np.unique(ids))

    @property
    def nbytes(self) -> int:
        """Bytes of the cells."""
        return self._open.nbytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._open.validate()
