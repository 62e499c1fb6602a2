"""When a group has so many rows that sub-aggregates take less memory: Cond. 6.9 of window-queries.

    winVol  >  aggr * wed / (tup * PANE)

    aggr     bytes of a sub-aggregate, here with the values of its group
    wed      how long a window is open
    tup      bytes of a row that waits
    PANE     of which a group that is eager has a sub-aggregate each, where the thesis's without
             panes has one for each SLIDE

Rows are counted, and by pane. So both sides are taken for one pane, which is open for its length:

    rows of a group in a pane  >=  aggr / tup

Where both take as much, sub-aggregates need not be counted again.
"""

from __future__ import annotations

from gapless.operators.answers import Grouping
from gapless.operators.keyed_cells import KeyedCells
from gapless.operators.lazy_rows import LazyRows
from gapless.operators.present_window import width_of

ROW_BYTES = 16
"""Of a row that waits, as long as none does: a time, and a number."""
VARIABLE_BYTES = 64
"""Of a sub-aggregate without a fixed size, or of a group's values, as long as there is none."""


class EagerThreshold:
    """The condition, from what is held now."""

    def __init__(self, grouping: Grouping) -> None:
        widths = [width_of(state.partial_schema) for state in grouping.states()[0]]
        self._cell_bytes = float(sum(VARIABLE_BYTES if w is None else w for w in widths))
        self._row_bytes = float(ROW_BYTES)

    def waiting(self, rows: LazyRows) -> None:
        """What these rows take, some."""
        self._row_bytes = rows.nbytes / len(rows)

    def spares(self, made: KeyedCells, known: KeyedCells, rows: int) -> bool:
        """Whether cells take less than what they were made of: known ones and so many rows. The
        next ones are thought to be as large as these, some.
        """
        self._cell_bytes = made.cell_bytes
        known_bytes = known.cell_bytes * known.number if known.number else 0.0
        return self._cell_bytes * made.number <= known_bytes + rows * self._row_bytes

    @property
    def rows(self) -> float:
        """With so many rows in a pane a group has a cell there."""
        return self._cell_bytes / self._row_bytes
