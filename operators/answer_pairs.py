"""Which groups a closed window answers, and which of their cells it covers.

    cells of A at places   1  2  5           closed windows  w0 [0, 3)   w1 [2, 5)   w2 [4, 7)
    pairs                  (w0, A): 1 2      (w1, A): 2      (w2, A): 5

A pair is found once, at the first of its cells: the cell that is in the window and whose
predecessor is not. Windows of a partition go forward at both ends, so those that have a cell are a
run of them, and the run's part that the cell before it does not have is what is new with the cell.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gapless.kernels.keys import Ids
from gapless.operators.row_windows import Closings
from gapless.protocol.elements import INF
from gapless.protocol.frame import Times


class AnswerPairs(NamedTuple):
    """Windows and groups that have rows in them, by group and then window."""

    windows: Ids
    """Which of the closings."""
    groups: Ids
    """Which of the groups."""
    low: Ids
    """Of the cells, from this one"""
    high: Ids
    """to below this one."""


def answer_pairs(closings: Closings, partitions: Ids, group: Ids, places: Ids) -> AnswerPairs:
    """The pairs of these windows and of groups of their partitions.

    `partitions`: of each group; `group`, `places`: of each cell, by group and place.
    """
    lines, line = np.unique(closings.partitions, return_inverse=True)
    low, high, places, span = _numbered(closings, places, max(len(lines), len(partitions)))
    of_cell = np.searchsorted(lines, partitions)[group] * span + places
    first = np.searchsorted(line * span + high, of_cell, "right")
    end = np.searchsorted(line * span + low, of_cell, "right")
    start = first.copy()  # of the windows that have the cell, those that have not the one before
    same = (group[1:] == group[:-1]).nonzero()[0]
    start[same + 1] = np.maximum(first[same + 1], end[same])
    counts = np.maximum(end - start, 0)
    cell = np.repeat(np.arange(len(group)), counts)
    windows = np.arange(len(cell)) - (np.cumsum(counts) - counts)[cell] + start[cell]
    groups = group[cell]
    until = np.searchsorted(group * span + places, groups * span + high[windows])
    return AnswerPairs(windows, groups, cell, until)


def _numbered(closings: Closings, places: Ids, lines: int) -> tuple[Ids, Ids, Ids, int]:
    """The places of windows and cells as numbers from 0, and one above the largest: so small that a
    line and a place make one number.
    """
    lowest, highest = int(places.min(initial=0)), int(places.max(initial=0)) + 1
    low, high = (np.clip(ends, lowest, highest) for ends in (closings.low, closings.high))
    span = highest - lowest + 1
    if (lines + 1) * span < INF:
        return low - lowest, high - lowest, places - lowest, span
    known = np.unique(np.concatenate((low, high, places)))
    low, high, places = (np.searchsorted(known, column) for column in (low, high, places))
    return low, high, places, len(known) + 1


def next_of_group(pairs: AnswerPairs, closings: Closings) -> Times:
    """When the next answer of the same group begins; INF for its last."""
    until = np.full(len(pairs.windows), INF)
    same = (pairs.groups[1:] == pairs.groups[:-1]).nonzero()[0]
    until[same] = closings.at[pairs.windows[same + 1]]
    return until
