"""State of the windows that have closed, a part of them at a time: one id a window and group.

totals    rows [2 5 3]          what windows have in all (`SummedCells`)
pairs     cells [0 2) [1 4)     runs of cells that are yet to be put together (`ranges.py`)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids
from gapless.operators.aggregates.function import Accumulator
from gapless.operators.answer_pairs import AnswerPairs
from gapless.operators.answers import Grouping
from gapless.operators.cell_chains import CellChains
from gapless.operators.ranges import over_ranges

StatesOf = Callable[[slice], Sequence[Accumulator]]
"""State of some of the windows, by ids from 0."""


def of_totals(grouping: Grouping, totals: Sequence[pa.RecordBatch]) -> StatesOf:
    """Of windows that have these sub-aggregates, a batch a state."""

    def states_of(some: slice) -> Sequence[Accumulator]:
        states, _ = grouping.states()
        for state, total in zip(states, totals, strict=True):
            part = total[some]
            state.fit(part.num_rows)
            state.merge(np.arange(part.num_rows), part)
        return states

    return states_of


def of_pairs(grouping: Grouping, cells: CellChains, slots: Ids, pairs: AnswerPairs) -> StatesOf:
    """Of windows that cover runs of the cells in these slots."""

    def states_of(some: slice) -> Sequence[Accumulator]:
        return _of_runs(grouping, cells, slots, pairs.low[some], pairs.high[some])

    return states_of


def added_up(
    grouping: Grouping, cells: CellChains, slots: Ids, low: Ids, high: Ids
) -> list[pa.RecordBatch]:
    """Of runs of these cells the sub-aggregates, a batch a state."""
    ids = np.arange(len(low))
    return [state.take(ids) for state in _of_runs(grouping, cells, slots, low, high)]


def _of_runs(
    grouping: Grouping, cells: CellChains, slots: Ids, low: Ids, high: Ids
) -> Sequence[Accumulator]:
    lowest, highest = int(low.min()), int(high.max())
    partials = cells.take(slots[lowest:highest])
    (states, _), (scratch, _) = grouping.states(), grouping.states()
    over_ranges(states, scratch, partials, low - lowest, high - lowest)
    return states
