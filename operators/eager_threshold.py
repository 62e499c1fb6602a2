"""When a group has so many rows that sub-aggregates take less memory: Cond. 6.9 of window-queries.

    winVol  >  aggr * wed / (tup * PANE)

    aggr     bytes of a sub-aggregate: 8 of a count; of those whose size rows decide, what one
             takes now
    wed      how long a window is open, from its start to when it is complete: RANGE in order, more
             if the stable is behind the latest row
    tup      bytes of a row that waits
    PANE     of which a group that is eager has a sub-aggregate each, where the thesis's without
             panes has one for each SLIDE

There are two thresholds: a group that is eager turns lazy again below `BACK_SHARE` of it.
"""

from __future__ import annotations

from gapless.operators.answers import Grouping
from gapless.operators.cells import Cells
from gapless.operators.lazy_rows import LazyRows
from gapless.operators.panes import Panes
from gapless.operators.present_window import width_of
from gapless.protocol.elements import BEGIN, INF

BACK_SHARE = 0.75
"""Of the rows from which on a group is eager: with fewer it is lazy again."""
ROW_BYTES = 16
"""Of a row that waits, as long as none does: a time, and a number."""
VARIABLE_BYTES = 64
"""Of a sub-aggregate without a fixed size, as long as there is none."""


class EagerThreshold:
    """The condition, from what is held now."""

    def __init__(self, grouping: Grouping, panes: Panes) -> None:
        widths = [width_of(state.partial_schema) for state in grouping.states()[0]]
        self._fixed = sum(width for width in widths if width is not None)
        self._variable = [i for i, width in enumerate(widths) if width is None]
        self._pane = panes.length
        self._range = panes.length * panes.span
        self._latest = BEGIN
        self._rows = 0.0  # as it was last said
        self.open = self._range
        """How long the last window was open, `wed`."""

    def seen(self, latest: int) -> None:
        """Rows have come, the latest of this time."""
        self._latest = max(self._latest, latest)

    def closed(self, end: int) -> None:
        """The windows that end before or at this time are complete."""
        if self._latest > BEGIN and end < INF:
            self.open = max(self._range, self._latest - end + self._range)

    def rows(self, lazy: LazyRows, cells: Cells) -> float:
        """With more rows than that a group is eager from now on."""
        aggregate = self._fixed
        if self._variable:
            held = cells.held
            taken = sum(cells.states[i].nbytes for i in self._variable)
            aggregate += taken // held if held else VARIABLE_BYTES * len(self._variable)
        row = lazy.nbytes / len(lazy) if len(lazy) else ROW_BYTES
        self._rows = aggregate * self.open / (row * self._pane)
        return self._rows

    @property
    def rows_back(self) -> float:
        """With fewer rows than that an eager group is lazy from now on."""
        return self._rows * BACK_SHARE
