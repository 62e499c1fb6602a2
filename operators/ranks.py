"""Ranks of rows, which decide what windows over rows they are in; and their cells.

    stable(8)       rows of A at 3, 5, 5, 7       after 40 others
    ranks           40   41   42   43             which of the two at 5 is 41 says their payload
    panes of 2      20   20   21   21

A rank is final once the stable has passed its row: nothing comes before it any more. So rows wait
until then, and no answer is ever revised. Rows of one time are ranked by payload, in the order of
`order.py`, all columns of the window's input; rows that are equal are interchangeable. That takes
sorting only where rows of one time lie in different panes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids, Mask
from gapless.operators.answers import Grouping
from gapless.operators.final_cells import FinalCells, NotFinal, parts_of
from gapless.operators.order import by_time_and_payload
from gapless.operators.row_partitions import Partitions
from gapless.operators.row_windows import (
    Closings,
    LastRows,
    RowHopping,
    RowLandmark,
    last_of_each,
)
from gapless.operators.state import State, table
from gapless.operators.waiting_rows import WaitingRows
from gapless.protocol.columns import take_rows
from gapless.protocol.frame import Times
from gapless.protocol.schema import VE, VS, WAS

ENTRIES_MAX = 1 << 16
"""Rows that are ranked at once: some megabytes beside them."""
_ROWS = "rows"
_TIME_COLUMNS = (VS, VE, WAS)


class RankedRows(NotFinal):
    """Rows above the stable; cells by group and pane of ranks."""

    def __init__(
        self,
        empty: pa.RecordBatch,
        window: RowHopping | LastRows | RowLandmark,
        grouping: Grouping,
        partitions: Partitions,
    ) -> None:
        """`empty`: without rows, with `_vs` and all columns of their payload."""
        self._schema = schema = empty.schema
        self._window = window
        self._partitions = partitions
        self._waiting = WaitingRows(empty)
        self._used = [schema.get_field_index(name) for name in grouping.rows.names]
        self._payload = [i for i, name in enumerate(schema.names) if name not in _TIME_COLUMNS]
        self._states, _ = grouping.states()

    def add(self, times: Times, rows: pa.RecordBatch) -> None:
        """Has rows wait."""
        del times  # they are a column
        self._waiting.add(rows)

    def take(self, below: int) -> Iterator[FinalCells]:
        """Ranks the rows before this time."""
        rows = self._waiting.take(below)
        times = rows.column(self._schema.get_field_index(VS)).to_numpy()
        steps = times
        if isinstance(self._window, LastRows):
            steps = times // self._window.slide
        for some in parts_of(steps, ENTRIES_MAX):
            end = below if some.stop == len(times) else int(times[some.stop])
            yield self._ranked(times[some], rows.slice(some.start, some.stop - some.start), end)

    def _ranked(self, times: Times, rows: pa.RecordBatch, below: int) -> FinalCells:
        partitions, groups = self._partitions.of(rows.select(self._used))
        order = stable_order(partitions, self._partitions.capacity)
        partition, time = partitions[order], times[order]
        counts = self._partitions.counts
        first = first_of_each(partition)
        ranks = np.arange(len(order)) - first + counts[partition]
        places = ranks // self._window.pane
        self._break_ties(order, partition, time, places, rows)
        closings = self._window.closed(partition, ranks, time)
        last = last_of_each(partition)
        counts[partition[last]] = ranks[last] + 1
        group = groups[order]
        if isinstance(self._window, LastRows):
            needed = self._needed(partition, ranks, time)
            order, group, places = order[needed], group[needed], places[needed]
        return self._cells(times, rows, order, group, places, closings, below)

    def _break_ties(
        self, order: Ids, partition: Ids, time: Times, places: Ids, rows: pa.RecordBatch
    ) -> None:
        """Sorts rows of one partition and time by payload, where they are in different cells."""
        last = last_of_each(partition, time)
        if last.all():
            return
        ends = last.nonzero()[0]
        starts = np.concatenate(([0], ends[:-1] + 1))
        cut = places[starts] != places[ends]
        if not cut.any():
            return
        run = np.repeat(np.arange(len(ends)), ends - starts + 1)
        at = cut[run].nonzero()[0]
        payload = take_rows(rows.select(self._payload), order[at])
        sorted_ = by_time_and_payload(run[at], np.zeros(len(at), np.int64), payload)
        order[at] = order[at][sorted_]

    def _needed(self, partition: Ids, ranks: Ids, time: Times) -> Mask:
        """The rows that the window which ends next has: of the others nothing is needed."""
        if not isinstance(self._window, LastRows):
            return np.ones(len(ranks), np.bool_)
        last = last_of_each(partition, time // self._window.slide).nonzero()[0]
        sizes = np.diff(last, prepend=-1)
        needed: Mask = ranks > np.repeat(ranks[last], sizes) - self._window.range
        return needed

    def _cells(
        self,
        times: Times,
        rows: pa.RecordBatch,
        order: Ids,
        group: Ids,
        places: Ids,
        closings: Closings,
        below: int,
    ) -> FinalCells:
        """Adds the rows up by group and place; they come by partition and rank."""
        if not self._partitions.groups_are_partitions:
            by_group = stable_order(group, self._partitions.groups.capacity)
            order, group, places = order[by_group], group[by_group], places[by_group]
        last = last_of_each(group, places)
        cell = np.empty(rows.num_rows, np.int64)
        count = int(np.count_nonzero(last))
        cell[order] = np.cumsum(last) - last
        used = rows.select(self._used)
        if len(order) < rows.num_rows:
            used, times, cell = take_rows(used, order), times[order], cell[order]
        partials = []
        for state in self._states:
            state.fit(count)
            state.add(cell, used, times)
        ids = np.arange(count)
        for state in self._states:
            partials.append(state.take(ids))
            state.clear(ids)
        return FinalCells(group[last], places[last], partials, closings, below)

    def has(self, groups: Ids) -> Mask:
        """None: rows that wait have no cell."""
        return np.zeros(len(groups), np.bool_)

    def snapshot(self) -> State:
        """The rows that wait."""
        return {_ROWS: self._waiting.rows}

    def restore(self, state: State) -> None:
        """Takes them back."""
        self._waiting.add(table(state, _ROWS, self._schema))

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that wait."""
        return self._waiting.nbytes

    def validate(self) -> None:
        """Nothing can be wrong: rows wait in any order."""


def stable_order(ids: Ids, capacity: int) -> Ids:
    """The positions of ids in ascending order; equal ones stay as they were."""
    if capacity == 1:
        return np.arange(len(ids))
    small = ids.astype(np.uint16) if capacity <= 1 << 16 else ids  # numpy counts small numbers
    return small.argsort(kind="stable")


def first_of_each(sorted_ids: Ids) -> Ids:
    """By position, where the run of equal ids begins that it is in."""
    new = np.ones(len(sorted_ids), np.bool_)
    new[1:] = sorted_ids[1:] != sorted_ids[:-1]
    first: Ids = np.maximum.accumulate(np.where(new, np.arange(len(sorted_ids)), 0))
    return first
