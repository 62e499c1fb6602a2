"""Answers of windows from the cells of panes, any windows at once: each window is a run of panes.

    cells      (A, p3) (A, p4) (A, p6) (B, p4)      in order of groups, then panes
    window     panes 3 to 5 of A: the first two     a range of the list (`ranges.py`)

For windows that do not slide one after the other: provisional ones, those of single groups, and
those of cells that are not kept by pane.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids
from gapless.operators.answers import Answers, Grouping, results
from gapless.operators.groups import Groups
from gapless.operators.panes import Panes
from gapless.operators.ranges import over_ranges
from gapless.operators.sparse_cells import Found
from gapless.protocol.frame import Times


class PaneAnswers:
    """What cells make of windows of these panes."""

    def __init__(self, grouping: Grouping, groups: Groups, panes: Panes) -> None:
        self._grouping = grouping
        self._groups = groups
        self._panes = panes

    def answers(
        self,
        cells: Found,
        partials: Sequence[pa.RecordBatch],
        windows: Times,
        groups: Ids,
        final: bool,
    ) -> Answers:
        """Of windows, ascending, each with a group. A pane's group may have several cells."""
        start, end = self._panes.first(windows), self._panes.end(windows)
        first = int(start[0])
        of = np.zeros(self._groups.capacity, np.bool_)
        of[groups] = True
        here = of[cells.groups] & (cells.places >= first) & (cells.places < int(end[-1]))
        at = here.nonzero()[0]
        at = at[np.lexsort((cells.places[at], cells.groups[at]))]
        width = int(end[-1]) - first + 1  # a group's places, and the end of the last window
        keys = cells.groups[at] * width + cells.places[at] - first
        before = groups * width - first
        low, high = np.searchsorted(keys, (before + start, before + end))
        states, scratch = self._grouping.states()[0], self._grouping.states()[0]
        chosen = pa.array(at)
        over_ranges(states, scratch, [partial.take(chosen) for partial in partials], low, high)
        columns, ids = self._groups.columns(groups), np.arange(len(groups))
        return results(self._grouping, windows, columns, states, ids, final)


def cells_of_rows(
    grouping: Grouping, panes: Times, groups: Ids, times: Times, rows: pa.RecordBatch
) -> tuple[Times, Ids, list[pa.RecordBatch]]:
    """Rows by pane and group: panes, groups, sub-aggregates."""
    order = np.lexsort((panes, groups))
    panes, groups = panes[order], groups[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (panes[1:] != panes[:-1]) | (groups[1:] != groups[:-1])
    ids = np.empty(len(order), np.int64)
    ids[order] = np.cumsum(begins) - 1
    firsts = begins.nonzero()[0]
    partials = []
    for state in grouping.states()[0]:
        state.fit(len(firsts))
        state.add(ids, rows, times)
        partials.append(state.take(np.arange(len(firsts))))
    return panes[firsts], groups[firsts], partials
