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

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Mask
from gapless.operators.ahead import Ahead
from gapless.operators.answers import AnswerLook, AnswerPart, Answers, Grouping, Windowed, results
from gapless.operators.cells import Cells, distinct
from gapless.operators.grouped_tables import read_cells, write_cells
from gapless.operators.groups import Groups
from gapless.operators.operator import ANSWER_ROWS_MAX
from gapless.operators.pick import Picks
from gapless.operators.sparse_cells import Found
from gapless.operators.state import State
from gapless.operators.windows import Cut, Hopping
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug, Misuse
from gapless.protocol.frame import Times

WINDOWS_PER_ROW_MAX = 100_000
"""A day that slides by the second has 86,400. A row counts in each, and each has a cell."""
LAID_OUT_MAX = 1 << 14
"""Rows times their windows that are laid out at once: one call does for a short frame. In a longer
one each row's first window is counted, then its second ones, ...: nothing has to be copied."""


class Wid(Windowed):
    """State by window and group."""

    def __init__(self, window: Cut, grouping: Grouping, ahead: Ahead | None = None) -> None:
        """`ahead`: keeps track of new rows, where answers are looked at before they are final."""
        if window.windows_per_row > WINDOWS_PER_ROW_MAX:
            raise Misuse(
                f"{window}: a row would be in {window.windows_per_row} windows, "
                f'{WINDOWS_PER_ROW_MAX} are the most; implementation="paned" counts it once'
            )
        self._window = window
        self._grouping = grouping
        self._groups = Groups(grouping.rows, grouping.group_by)
        self._cells = Cells(grouping)
        self._picks = Picks(grouping.rows)
        # whether every row is in as many windows
        self._alike = isinstance(window, Hopping) and window.range % window.slide == 0
        self._tumbling = self._alike and window.windows_per_row == 1
        self._ahead = ahead
        self._next = BEGIN  # windows below have been answered or are not wanted

    def add(self, times: Times, rows: pa.RecordBatch, within: tuple[int, int]) -> None:
        """Counts the rows in their windows."""
        first = self._window.first(times)
        lowest = within[0] // self._window.slide
        if self._tumbling and lowest >= self._next:
            self._add_once(first, times, rows, (lowest, within[1] // self._window.slide))
            return
        if self._alike and lowest >= self._next:
            least = most = self._window.windows_per_row
            repeats = np.full(len(times), most)
        else:
            lowest = max(lowest, self._next)
            first, last = np.maximum(first, lowest), self._window.last(times)
            repeats = np.where(last < first, 0, last - first + 1)  # far below, it would overflow
            least, most = int(repeats.min()), int(repeats.max())
        highest = self._window.wids(within[1]).stop - 1
        places: tuple[int, int] | None = (lowest, highest)
        if not least:  # rows of no window have no group either
            kept = repeats.nonzero()[0]
            if not len(kept):
                return
            first, repeats, times = first[kept], repeats[kept], times[kept]
            rows, places = self._picks.take(rows, kept), None
        if most == 1:
            self._add_once(first, times, rows, places)
            return
        groups, capacity = self._groups.of(rows), self._groups.capacity
        if self._ahead is not None:
            self._ahead.touch(first, first + repeats, groups)
        if most * len(times) <= LAID_OUT_MAX:
            at = np.arange(len(times)).repeat(repeats)
            windows = np.arange(len(at)) - (repeats.cumsum() - repeats)[at] + first[at]
            rows = self._picks.take(rows, at)
            self._cells.add(windows, groups[at], capacity, times[at], rows, places)
        else:
            for later in range(most):
                if later >= least:
                    left = (repeats > later).nonzero()[0]
                    first, repeats, groups = first[left], repeats[left], groups[left]
                    times, rows = times[left], self._picks.take(rows, left)
                self._cells.add(first + later, groups, capacity, times, rows)

    def _add_once(
        self, windows: Times, times: Times, rows: pa.RecordBatch, within: tuple[int, int] | None
    ) -> None:
        """Counts rows that are in one window each."""
        groups = self._groups.of(rows)
        if self._ahead is not None:
            self._ahead.touch(windows, windows + 1, groups)
        self._cells.add(windows, groups, self._groups.capacity, times, rows, within)

    def answer(self, complete: int) -> Iterator[AnswerPart]:
        """The results of their cells."""
        found = self._cells.between(BEGIN, complete)
        self._next = max(self._next, complete)
        if not len(found.ids):
            return
        for at in range(0, len(found.ids) - ANSWER_ROWS_MAX, ANSWER_ROWS_MAX):
            cut = slice(at, at + ANSWER_ROWS_MAX)
            some = Found(found.places[cut], found.groups[cut], found.ids[cut])
            yield AnswerPart(self._results(some, final=True), int(found.places[cut.stop]))
        cut = slice((len(found.ids) - 1) // ANSWER_ROWS_MAX * ANSWER_ROWS_MAX, None)
        rest = Found(found.places[cut], found.groups[cut], found.ids[cut])
        answers = self._results(rest, final=True)
        self._forget(found)
        yield AnswerPart(answers, complete)

    def _results(self, found: Found, final: bool) -> Answers:
        groups, states = self._groups.columns(found.groups), self._cells.states
        return results(self._grouping, found.places, groups, states, found.ids, final)

    def _forget(self, found: Found) -> None:
        self._cells.forget(found)
        groups = distinct(found.groups, 0, self._groups.capacity - 1)
        self._groups.release(groups[~self._cells.has(groups)])

    def look(self, limit: int) -> Iterator[AnswerLook]:
        """The results of the cells that have news."""
        if self._ahead is None:
            raise Bug("new rows were not kept track of")
        found = self._cells.between(BEGIN, limit)
        order = np.lexsort((found.groups, found.places))
        places, of, ids = (column[order] for column in found)
        for windows, asked in self._ahead.look(self._next, limit, (places, places + 1, of)):
            start, end = np.searchsorted(places, (windows[0], windows[-1] + 1)).tolist()
            room = self._groups.capacity
            keys = (places[start:end] - windows[0]) * room + of[start:end]
            at = ids[start + np.searchsorted(keys, (windows - windows[0]) * room + asked)]
            columns = self._groups.columns(asked)
            states = self._cells.states
            answers = results(self._grouping, windows, columns, states, at, final=False)
            yield AnswerLook(windows, columns, answers)

    def of_groups(self, limit: int, chosen: Callable[[pa.RecordBatch], Mask]) -> Iterator[Answers]:
        """The results of their cells."""
        found = self._cells.between(BEGIN, limit)
        here = self._groups.choose(found.groups, chosen)
        found = Found(found.places[here], found.groups[here], found.ids[here])
        for at in range(0, len(found.ids), ANSWER_ROWS_MAX):
            cut = slice(at, at + ANSWER_ROWS_MAX)
            part = Found(found.places[cut], found.groups[cut], found.ids[cut])
            yield self._results(part, final=False)

    def has_open(self, limit: int) -> bool:
        """Whether one has a cell."""
        return len(self._cells.between(BEGIN, limit).ids) > 0

    def skip_to(self, window: int) -> None:
        """Forgets the cells of windows below."""
        self._next = max(self._next, window)
        found = self._cells.between(BEGIN, window)
        if len(found.ids):
            self._forget(found)

    def snapshot(self) -> State:
        """The cells."""
        found = self._cells.between(BEGIN, INF)
        partials = self._cells.take(found)
        return dict(write_cells("cells", found.places, found.groups, partials, self._groups))

    def restore(self, state: State) -> None:
        """Takes the cells back."""
        places, groups, partials = read_cells("cells", state, self._cells.states, self._groups)
        if len(places):
            self._cells.merge(places, groups, self._groups.capacity, partials)

    @property
    def nbytes(self) -> int:
        """Bytes of the groups and the cells."""
        ahead = 0 if self._ahead is None else self._ahead.nbytes
        return self._groups.nbytes + self._cells.nbytes + ahead

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._groups.validate()
        self._cells.validate()
        if len(self._cells.between(BEGIN, self._next).ids):
            raise Bug("a window that has been answered, or is not wanted, is still open")
        held = int(np.count_nonzero(self._cells.has(np.arange(self._groups.capacity))))
        if self._grouping.group_by and held != len(self._groups):
            raise Bug(f"{held} groups have cells, {len(self._groups)} are known")
