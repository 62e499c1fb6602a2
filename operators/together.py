"""Windows of one stable that are put together at once: many of them, of few cells each.

One window after the other costs so many calls a window, whatever is in it (`present_window.py`).
All together cost a few calls in all, and so many merges. There are three ways:

    by id        each cell is merged into each of its windows, whose ids are computed
    by window    the same with ids of a table, for many groups and windows of which few are there
    by range     each window is a range of the cells (`ranges.py`): merges by the logarithm of the
                 panes of a window, not by their number, for the hundreds that windows may have

All add in another order than sliding does: nothing for floats, whose bits would depend on what is
pushed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids
from gapless.operators.ahead import slices, within
from gapless.operators.answers import Answers, Grouping, results
from gapless.operators.cells import DENSE_CELLS_MIN, Cells
from gapless.operators.groups import Groups
from gapless.operators.pane_answers import PaneAnswers
from gapless.operators.panes import Panes
from gapless.operators.present_window import width_of
from gapless.operators.sparse_cells import Found
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.frame import Times

WINDOWS_MIN = 2
"""Fewer windows than that are answered one after the other."""
CELLS_MAX = 2_000
"""Cells that are put into a window in the time that the calls for one window take, some 100 us."""
ALL_CELLS_MAX = 1 << 17
"""Cells times their windows that are laid out at once, those of panes that are held included: some
ten megabytes, and fewer answers than that. Ranges lay a cell out once or twice."""
NARROW_BYTES = 64
"""Of a sub-aggregate, if ranges of them are to be put together."""


_Merge = tuple[Ids, Sequence[pa.RecordBatch]]
"""Ids of answers, and what is merged into each."""


class Together:
    """Makes the answers of many windows from cells of their panes."""

    def __init__(self, grouping: Grouping, groups: Groups, panes: Panes) -> None:
        self._grouping = grouping
        self._groups = groups
        self._panes = panes
        self._step, self._span = panes.step, panes.span
        self._windows = Cells(grouping)  # of answers; empty between
        self._states = grouping.states()[0]  # the same, where ids are computed
        self._pane_answers = PaneAnswers(grouping, groups, panes)
        self._exact = not any(state.may_diverge for state in self._states)
        widths = [width_of(state.partial_schema) for state in self._states]
        narrow = all(width is not None and width <= NARROW_BYTES for width in widths)
        self.by_range = self._exact and narrow and not (grouping.group_by or panes.cumulate)
        """Whether windows may be put together as ranges."""

    def suits(self, new: Times, held: int, first: int, complete: int) -> bool:
        """Whether there are so many windows of so few cells: `new` are the panes of cells that have
        become complete, so many are `held`; from window `first` to below `complete`.
        """
        if not len(new) or not self._exact:
            return False
        first = max(first, int(new[0]) // self._step)
        windows = min(complete, self._panes.windows(int(new[-1]))[1]) - first
        if windows <= WINDOWS_MIN:
            return False
        cells = self._laid_out(len(new) + held)
        if cells < min(windows * CELLS_MAX, ALL_CELLS_MAX):
            return True
        merges = (len(new) + held + windows) * self._span.bit_length()
        return self.by_range and merges < windows * CELLS_MAX

    def _laid_out(self, cells: int) -> int:
        """How many these cells are in all of their windows."""
        return cells * self._span // self._step

    def answers(
        self, panes: Found, partials: list[pa.RecordBatch], first: int, complete: int
    ) -> Answers:
        """The answers of all windows from `first` to below `complete` that these panes make up."""
        if self._laid_out(len(panes.places)) >= ALL_CELLS_MAX:
            return self._by_range(panes, partials, first, complete)
        low = max(first, int(panes.places[0]) // self._step)
        high = min(complete, self._panes.windows(int(panes.places[-1]))[1])
        if (high - low) * self._groups.capacity > DENSE_CELLS_MIN:
            return self._by_window(panes, partials, first, complete)
        few = len(panes.places) < self._span  # a call for each of them is less than for each place
        apart = self._step > 1 or self._panes.cumulate  # not each in as many windows from it on
        if not apart and not few:
            return self._by_id(self._place_by_place(panes, partials, low, high), low, high)
        if self._windows.repeat:
            return self._by_id(self._all_places(panes, partials, low, high), low, high)
        return self._by_window(panes, partials, first, complete)

    def _by_id(self, merges: Iterator[_Merge], low: int, high: int) -> Answers:
        room, states = self._groups.capacity, self._states
        if not any(state.uses_rows for state in states):  # then they are counted in vain
            states = states[: self._grouping.answers]
        for state in states:
            state.fit((high - low) * room)
        there = np.zeros((high - low) * room, np.bool_)
        for ids, partials in merges:
            there[ids] = True
            for state, partial in zip(states, partials, strict=False):
                state.merge(ids, partial)
        ids = there.nonzero()[0]
        columns = self._groups.columns(ids % room)
        answers = results(self._grouping, ids // room + low, columns, states, ids, final=True)
        for state in states:
            state.clear(ids)
        return answers

    def _place_by_place(
        self, panes: Found, partials: list[pa.RecordBatch], low: int, high: int
    ) -> Iterator[_Merge]:
        """To each cell's first window, then to each one's second, ..."""
        room = self._groups.capacity
        first = (panes.places - low) * room + panes.groups
        for later in range(self._span):  # a pane that so many of its window are behind
            start, end = np.searchsorted(panes.places, (low - later, high - later)).tolist()
            ids = first[start:end] + later * room
            yield ids, [partial.slice(start, end - start) for partial in partials]

    def _all_places(
        self, panes: Found, partials: list[pa.RecordBatch], low: int, high: int
    ) -> Iterator[_Merge]:
        """All of that in one go."""
        at, windows = self._windows_of(panes.places, low, high)
        taken = pa.array(at)
        ids = (windows - low) * self._groups.capacity + panes.groups[at]
        yield ids, [partial.take(taken) for partial in partials]

    def _by_range(
        self, panes: Found, partials: list[pa.RecordBatch], first: int, complete: int
    ) -> Answers:
        self._grouping.memory.ask(2 * sum(partial.nbytes for partial in partials), "many windows")
        stretches = within((*self._panes.windows(panes.places), panes.groups), first, complete)
        parts = [
            self._pane_answers.answers(panes, partials, windows, groups, final=True)
            for windows, groups in slices(*stretches)
        ]
        return Answers.joined(parts)

    def _by_window(
        self, panes: Found, partials: list[pa.RecordBatch], first: int, complete: int
    ) -> Answers:
        windows = self._windows
        at, window = self._windows_of(panes.places, first, complete)
        for some in (None,) if windows.repeat else self._turns(window, panes.groups[at]):
            here, there = (at, window) if some is None else (at[some], window[some])
            taken = [partial.take(pa.array(here)) for partial in partials]
            windows.merge(there, panes.groups[here], self._groups.capacity, taken)
        found = windows.between(BEGIN, INF)
        columns = self._groups.columns(found.groups)
        answers = results(
            self._grouping, found.places, columns, windows.states, found.ids, final=True
        )
        windows.forget(found)
        return answers

    def _windows_of(self, panes: Times, low: int, complete: int) -> tuple[Ids, Times]:
        """Which panes are in which of the windows from `low` on, each pane once for each."""
        first, end = self._panes.windows(panes)
        first, end = np.maximum(first, low), np.minimum(end, complete)
        times = np.maximum(end - first, 0)
        at = np.repeat(np.arange(len(panes)), times)
        return at, np.arange(len(at)) - (np.cumsum(times) - times)[at] + first[at]

    @staticmethod
    def _turns(windows: Times, groups: Ids) -> Iterator[Ids]:
        """The first pane of every window and group, then the second of those that have one, ...

        The first turn has all windows, so room for them is made once.
        """
        order = np.lexsort((groups, windows))  # stable: panes stay in order of time
        starts = np.ones(len(order), np.bool_)
        starts[1:] = (np.diff(windows[order]) != 0) | (np.diff(groups[order]) != 0)
        firsts = starts.nonzero()[0]
        sizes = np.diff(firsts, append=len(order))
        for turn in range(int(sizes.max(initial=0))):
            yield order[firsts[sizes > turn] + turn]
