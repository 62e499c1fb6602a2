"""Windowed aggregates, implementation WID: every row counts in each of its windows.

    ins(A,7,8)                       windows 1 and 2 of range 10, slide 5
    cells: (1, A) -> 1, (2, A) -> 1  a count for each window and group
    stable(16)                       windows below 3 are complete: both are answered

Bucket (figure 6-2) gives each row its window-ids, Aggregate (figure 6-4) takes them as one more
group column. The order of rows does not matter: a window is answered once, when the input's stable
says that no row of it can come any more. A row costs range / slide times what it costs in panes;
what speaks for it is that nothing has to be put together at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from gapless.operators.answers import Answers, Cells, Grouping, Windowed, results
from gapless.operators.state import State
from gapless.operators.windows import Hopping
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug, Misuse
from gapless.protocol.frame import Times

WINDOWS_PER_ROW_MAX = 100_000
"""A day that slides by the second has 86,400. A row is counted once in each, and each has a key."""
COUNTED_AT_ONCE_MAX = 1 << 20
"""Rows times their windows that are laid out at once: tens of megabytes, whatever the frame."""


class Wid(Windowed):
    """State by window and group."""

    def __init__(self, window: Hopping, grouping: Grouping) -> None:
        if window.windows_per_row > WINDOWS_PER_ROW_MAX:
            raise Misuse(
                f"window range {window.range}, slide {window.slide}: a row would be in "
                f"{window.windows_per_row} windows, {WINDOWS_PER_ROW_MAX} are the most; "
                'implementation="paned" counts it once'
            )
        self._window = window
        self._grouping = grouping
        self._cells = Cells(grouping)
        self._next = BEGIN  # windows below have been answered or are not wanted

    def add(self, times: Times, rows: pa.RecordBatch) -> None:
        """Counts the rows in their windows, some at a time."""
        at_once = max(1, COUNTED_AT_ONCE_MAX // self._window.windows_per_row)
        for start in range(0, len(times), at_once):
            self._add(times[start : start + at_once], rows.slice(start, at_once))

    def _add(self, times: Times, rows: pa.RecordBatch) -> None:
        first = np.maximum(self._window.first(times), self._next)
        last = self._window.last(times)
        repeats = np.where(last < first, 0, last - first + 1)  # far below, it would overflow
        if len(repeats) and repeats.min() == 1 == repeats.max():
            self._cells.add(first, times, rows)
            return
        at = np.repeat(np.arange(len(times)), repeats)
        if len(at):
            starts = np.cumsum(repeats) - repeats
            windows = np.arange(len(at)) - starts[at] + first[at]
            self._cells.add(windows, times[at], rows.take(pa.array(at)))

    def answer(self, complete: int) -> list[Answers]:
        """The results of their cells."""
        ids = self._cells.below(complete)
        self._next = max(self._next, complete)
        if not len(ids):
            return []
        answers = self._results(ids)
        self._cells.forget(ids)
        return [answers]

    def _results(self, ids: Times) -> Answers:
        cells = self._cells
        return results(self._grouping, cells.places(ids), cells.groups(ids), cells.states, ids)

    def provisional(self, window: int) -> Answers:
        """The results of its cells so far."""
        return self._results(self._cells.at(window))

    def open_windows(self, limit: int) -> Sequence[int]:
        """Those with a cell."""
        places = self._cells.places(self._cells.below(limit))
        return [int(w) for w in np.unique(places)]

    def skip_to(self, window: int) -> None:
        """Forgets the cells of windows below."""
        self._next = max(self._next, window)
        self._cells.forget(self._cells.below(window))

    def snapshot(self) -> State:
        """The cells."""
        return self._cells.snapshot("cells")

    def restore(self, state: State) -> None:
        """Takes the cells back."""
        self._cells.restore("cells", state)

    @property
    def nbytes(self) -> int:
        """Bytes of the cells."""
        return self._cells.nbytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._cells.validate()
        if self._next < INF and len(self._cells.below(self._next)):
            raise Bug("a window that has been answered, or is not wanted, is still open")
