"""Windowed aggregates, implementation AdaptWID: rows wait, and become sub-aggregates where that
takes less memory.

    group    rows in a pane          held as
    A          400         eager     a sub-aggregate                                     H
    B            1         lazy      the row, which is counted as often as a window      B
                                     closes that has it
    C           10         both      a sub-aggregate, and the rows that have come since
                                     it was looked: in transition                        H and B

Few rows take less memory than sub-aggregates, many rows more (window-queries, 6.3, figures 6-17
and 6-18; Cond. 6.9 is in `eager_threshold.py`). Rows come to the buffer B. Now and then it is
looked which groups have too many there, in the panes that have new rows; those are counted.

H is no table: no group has an entry there, neither a lazy nor an eager one, for an entry is larger
than a row or a count. Groups get ids while a window is put together (`keyed_cells.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids, Mask
from gapless.operators.aggregates.function import Accumulator
from gapless.operators.ahead import Ahead, runs, slices, within
from gapless.operators.answers import AnswerLook, AnswerPart, Answers, Grouping, Windowed, results
from gapless.operators.cells import Cells
from gapless.operators.eager_threshold import EagerThreshold
from gapless.operators.grouped_tables import read_cells, write_cells
from gapless.operators.groups import Groups
from gapless.operators.keyed_cells import KeyedCells
from gapless.operators.lazy_rows import LazyRows
from gapless.operators.numbers import numbers, read_numbers
from gapless.operators.operator import ANSWER_ROWS_MAX
from gapless.operators.pane_answers import PaneAnswers
from gapless.operators.paned import check_windows_at_once
from gapless.operators.panes import panes_of_windows
from gapless.operators.pick import Picks
from gapless.operators.present_window import PaneCells
from gapless.operators.sparse_cells import Found
from gapless.operators.state import State, table
from gapless.operators.windows import Cut
from gapless.protocol.columns import concat_batches, take_rows
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Times

LOOK_ROWS_MIN = 1 << 14
"""So many rows have come before it is looked which groups have too many of them, and as many as
cells and rows were held: each row is looked at a few times in all."""
AGAIN_ROWS_MIN = 1 << 12
"""So many, where windows overlap and one closes: with the next one they would be counted again."""
TALLIED_MAX = 1 << 16
"""Panes times groups that are counted in an array. Beyond, and beyond some times the rows, by a
sort."""
ONE_BY_ONE_MAX = 4
"""More windows at one stable are put together at once, which costs fewer calls but a sort."""
MERGES_MAX = 64
"""And so are windows of more panes, where each takes a merge."""


class _Held(NamedTuple):
    """Cells and rows, and ids that their groups have while something is put together."""

    groups: Groups
    cells: KeyedCells
    of_cells: Ids
    times: Times
    rows: pa.RecordBatch
    of_rows: Ids


class Adaptive(Windowed):
    """Sub-aggregates of groups with many rows by pane, and the rows of the others."""

    def __init__(self, window: Cut, grouping: Grouping, ahead: Ahead | None = None) -> None:
        """`ahead`: keeps track of new rows, where answers are looked at before they are final."""
        self._panes = panes_of_windows(window)
        self._pane = self._panes.length
        self._grouping = grouping
        self._new = LazyRows(grouping.rows)  # that have come since it was looked
        self._lazy = LazyRows(grouping.rows)  # of groups that had few when it was
        self._cells = self._no_cells()
        self._threshold = EagerThreshold(grouping)
        self._repeats = all(state.repeats for state in grouping.states()[0])
        self._picks = Picks(grouping.rows)
        self._ahead = ahead
        self._news = self._new_groups()  # those that `ahead` has heard of
        self._next = BEGIN  # windows below have been answered or are not wanted

    def _new_groups(self) -> Groups:
        return Groups(self._grouping.rows, self._grouping.group_by)

    def _no_cells(self) -> KeyedCells:
        none, groups = np.empty(0, np.int64), self._new_groups()
        partials = [state.take(none) for state in self._grouping.states()[0]]
        return KeyedCells.of(none, _keys(groups, none), partials)

    # -- taking rows in -----------------------------------------------------------------------

    def add(self, times: Times, rows: pa.RecordBatch, within: tuple[int, int]) -> None:
        """The rows wait."""
        if self._panes.span < self._panes.step:
            between = self._panes.between(times // self._pane)
            if np.count_nonzero(between):
                kept = (~between).nonzero()[0]
                if not len(kept):
                    return
                times, rows = times[kept], take_rows(rows, kept)
                within = int(times.min()), int(times.max())
        if len(self._new) >= max(LOOK_ROWS_MIN, self._cells.number + len(self._lazy)):
            self._make_eager(INF)
        self._new.put(times, rows, within)
        if self._ahead is not None:
            self._ahead.touch(*self._panes.windows(times // self._pane), self._news.of(rows))

    # -- switching ----------------------------------------------------------------------------

    def _make_eager(self, end: int) -> None:
        """Counts the rows that wait of groups that have too many of them in a pane. It looks at the
        new rows before `end`, and at all that is held of their panes.
        """
        self._threshold.waiting(self._new)
        times, rows = self._new.take(BEGIN, end)
        if not len(times):
            return
        low, high = int(times.min()) // self._pane, int(times.max()) // self._pane
        few, few_rows = self._lazy.take(low * self._pane, (high + 1) * self._pane)
        if len(few):
            times = np.concatenate((few, times))
            rows = concat_batches([few_rows, rows])
        again = (self._cells.panes >= low) & (self._cells.panes <= high)
        held = self._held(self._cells.of_panes(again), times, rows)
        dense = self._dense(held)
        many = int(np.count_nonzero(dense))
        if many:
            made = self._counted(held, None if many == len(times) else dense.nonzero()[0])
            if self._threshold.spares(made, held.cells, many):  # as was expected
                self._cells = self._cells.of_panes(~again).joined(made)
                at = (~dense).nonzero()[0]
                times, rows = times[at], self._picks.take(rows, at)
        self._lazy.put(times, rows)

    def _dense(self, held: _Held) -> Mask:
        """Which rows are of groups that have so many in their pane, or a cell."""
        most = self._threshold.rows
        if most <= 1:
            return np.ones(len(held.times), np.bool_)
        panes = held.times // self._pane
        low, room = int(panes.min()), held.groups.capacity
        at = (panes - low) * room + held.of_rows
        of_cells = (held.cells.places - low) * room + held.of_cells
        if (int(panes.max()) + 1 - low) * room > max(TALLIED_MAX, 4 * len(at)):
            _, at = np.unique(np.concatenate((at, of_cells)), return_inverse=True)
            at, of_cells = at[: len(panes)], at[len(panes) :]
        tally = np.bincount(at, minlength=int(of_cells.max(initial=0)) + 1).astype(np.float64)
        tally[of_cells] = np.inf
        dense: Mask = tally[at] >= most
        return dense

    def _counted(self, held: _Held, chosen: Ids | None = None) -> KeyedCells:
        """The cells, and the rows, or some of them, counted into them."""
        cells, capacity = Cells(self._grouping), held.groups.capacity
        if held.cells.number:
            cells.merge(held.cells.places, held.of_cells, capacity, held.cells.partials)
        times, rows, groups = held.times, held.rows, held.of_rows
        if chosen is not None:
            times, rows, groups = times[chosen], self._picks.take(rows, chosen), groups[chosen]
        if len(times):
            cells.add(times // self._pane, groups, capacity, times, rows)
        found = cells.between(BEGIN, INF)
        return KeyedCells.of(found.places, _keys(held.groups, found.groups), cells.take(found))

    def _held(
        self, cells: KeyedCells, times: Times, rows: pa.RecordBatch, groups: Groups | None = None
    ) -> _Held:
        """These cells and rows, with ids of their groups."""
        groups = groups or self._new_groups()
        of_cells = groups.intern(cells.keys.columns, cells.number)
        return _Held(groups, cells, of_cells, times, rows, groups.of(rows))

    def _between(self, first: int, end: int, groups: Groups | None = None) -> _Held:
        """What is held of the panes from `first` to below `end`."""
        panes = self._cells.panes
        cells = self._cells.of_panes((panes >= max(first, BEGIN)) & (panes < min(end, INF)))
        low, high = max(first * self._pane, BEGIN), min(end * self._pane, INF)
        times, rows = self._new.between(low, high)
        if len(self._lazy):
            few, few_rows = self._lazy.between(low, high)
            times, rows = np.concatenate((few, times)), concat_batches([few_rows, rows])
        return self._held(cells, times, rows, groups)

    def _expire(self) -> None:
        """Forgets what no window from the next one on has, once."""
        first = self._panes.first(self._next)
        self._cells = self._cells.of_panes(self._cells.panes >= min(max(first, BEGIN), INF))
        for rows in (self._new, self._lazy):
            rows.forget_below(min(max(first * self._pane, BEGIN), INF))

    # -- answering ----------------------------------------------------------------------------

    def answer(self, complete: int) -> Iterator[AnswerPart]:
        """Counts what waits of each window, and adds the cells of its panes."""
        if complete <= self._next:
            return
        if self._panes.span > self._panes.step and len(self._new) >= AGAIN_ROWS_MIN:
            self._make_eager(min(self._panes.end(complete - 1) * self._pane, INF))
        last: Answers | None = None
        for window, answers in self._answers(complete):
            if last is not None:
                yield AnswerPart(last, window)
            last = answers
        self._next = complete
        self._expire()
        if last is not None:
            yield AnswerPart(last, complete)

    def _answers(self, complete: int) -> Iterator[tuple[int, Answers]]:
        """The answers of windows below `complete`, in parts; and of which window their first is."""
        one_by_one = self._repeats or self._panes.span <= MERGES_MAX
        if one_by_one and complete - self._next <= ONE_BY_ONE_MAX:
            for window in range(self._next, complete):
                yield from self._of_window(window)
            return
        runs = self._runs(complete)
        windows = sum(end - first for first, end in runs)
        check_windows_at_once(windows)
        if one_by_one and windows <= ONE_BY_ONE_MAX:
            for first, end in runs:
                for window in range(first, end):
                    yield from self._of_window(window)
            return
        (cells, partials), groups = self._put_together(complete * self._panes.step)
        there = within((*self._panes.windows(cells.places), cells.groups), self._next, complete)
        put = PaneAnswers(self._grouping, groups, self._panes)
        for some, of in slices(*there):
            for at in range(0, len(some), ANSWER_ROWS_MAX):
                cut = slice(at, at + ANSWER_ROWS_MAX)
                yield int(some[at]), put.answers(cells, partials, some[cut], of[cut], final=True)

    def _runs(self, complete: int) -> list[tuple[int, int]]:
        """The windows from the next to below `complete` that have rows, as runs."""
        first, end = self._panes.windows(self._held_panes())
        here = first < complete
        return runs(np.maximum(first[here], self._next), np.minimum(end[here], complete))

    def _held_panes(self) -> Times:
        """The panes that have cells or rows; those of rows maybe more than once."""
        panes = [self._cells.panes]
        for rows in (self._new, self._lazy):
            stretches = np.array(rows.stretches(), np.int64).reshape(-1, 2) // self._pane
            low, high = stretches[:, 0], stretches[:, 1]
            if np.count_nonzero(high - low > 1):
                panes.append(rows.times // self._pane)
            else:
                panes += [low, high]
        return np.concatenate(panes)

    def _of_window(self, window: int) -> Iterator[tuple[int, Answers]]:
        """The answers of one window, in parts."""
        held = self._between(self._panes.first(window), self._panes.end(window))
        if not held.cells.number and not len(held.times):
            return
        states = self._grouping.states()[0]
        for state in states:
            state.fit(held.groups.capacity)
            state.add(held.of_rows, held.rows, held.times)
        _merge(states, held)
        ids = np.arange(len(held.groups))
        for begin in range(0, len(ids), ANSWER_ROWS_MAX):
            some = ids[begin : begin + ANSWER_ROWS_MAX]
            windows, columns = np.full(len(some), window), held.groups.columns(some)
            yield window, results(self._grouping, windows, columns, states, some, final=True)

    def _put_together(self, end: int, groups: Groups | None = None) -> tuple[PaneCells, Groups]:
        """All cells of panes below `end`, rows that wait made into cells; and their groups."""
        held = self._between(BEGIN, end, groups)
        cells = self._counted(held)
        of = held.groups.intern(cells.keys.columns, cells.number)
        return (Found(cells.places, of, of), cells.partials), held.groups

    def look(self, limit: int) -> Iterator[AnswerLook]:
        """Puts together what has news, complete or not."""
        if self._ahead is None:
            raise Bug("new rows were not kept track of")
        cells, groups = self._put_together(INF, self._news)
        put = PaneAnswers(self._grouping, groups, self._panes)
        there = (*self._panes.windows(cells[0].places), cells[0].groups)
        for windows, of in self._ahead.look(self._next, limit, there):
            answers = put.answers(*cells, windows, of, final=False)
            yield AnswerLook(windows, groups.columns(of), answers)
        self._news = self._new_groups()

    def of_groups(self, limit: int, chosen: Callable[[pa.RecordBatch], Mask]) -> Iterator[Answers]:
        """Puts those together from cells and rows, complete or not."""
        cells, known = self._put_together(INF)
        places, groups, _ = cells[0]
        here = known.choose(groups, chosen).nonzero()[0]
        put = PaneAnswers(self._grouping, known, self._panes)
        there = (*self._panes.windows(places[here]), groups[here])
        for windows, asked in slices(*within(there, self._next, limit)):
            yield put.answers(*cells, windows, asked, final=False)

    def has_open(self, limit: int) -> bool:
        """Whether a cell, or a row that waits, is in one."""
        first, end = self._panes.windows(self._held_panes())
        return bool((np.maximum(first, self._next) < np.minimum(end, limit)).any())

    def skip_to(self, window: int) -> None:
        """Forgets the panes that no window from this one on has."""
        self._next = max(self._next, window)
        self._expire()

    # -- as data ------------------------------------------------------------------------------

    def snapshot(self) -> State:
        """The cells, and the rows that wait."""
        groups, cells = self._new_groups(), self._cells.ordered()
        of = groups.intern(cells.keys.columns, cells.number)
        state = dict(write_cells("cells", cells.places, of, cells.partials, groups))
        for name, rows in (("new", self._new), ("lazy", self._lazy)):
            times, state[name] = rows.between()
            state[f"{name}.times"] = numbers(time=times)
        return state

    def restore(self, state: State) -> None:
        """Takes all of it back."""
        groups = self._new_groups()
        places, of, partials = read_cells("cells", state, self._grouping.states()[0], groups)
        self._cells = KeyedCells.of(places, _keys(groups, of), partials)
        for name, rows in (("new", self._new), ("lazy", self._lazy)):
            (times,) = read_numbers(state, f"{name}.times", "time")
            rows.put(times, table(state, name, self._grouping.rows))

    @property
    def nbytes(self) -> int:
        """Bytes of the cells and the rows that wait."""
        news = 0 if self._ahead is None else self._ahead.nbytes + self._news.nbytes
        return self._cells.nbytes + self._new.nbytes + self._lazy.nbytes + news

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        for part in (self._new, self._lazy, self._cells):
            part.validate()
        of = self._new_groups().intern(self._cells.keys.columns, self._cells.number)
        if np.unique(np.stack((self._cells.places, of)), axis=1).shape[1] < len(of):
            raise Bug("a group has two cells in a pane")
        panes = self._held_panes()
        if len(panes) and int(panes.min()) < min(self._panes.first(self._next), INF):
            raise Bug("a pane that no window will have again is still open")


def _keys(groups: Groups, ids: Ids) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(groups.columns(ids), schema=groups.schema)


def _merge(states: Sequence[Accumulator], held: _Held) -> None:
    """Adds cells to what their groups have; a group once in each merge, where that matters."""
    if not held.cells.number:
        return
    partials = held.cells.partials
    sizes = [held.cells.number]
    if not all(state.repeats for state in states):
        sizes = held.cells.sizes.tolist()
    at = 0
    for n in sizes:
        for state, partial in zip(states, partials, strict=True):
            state.merge(held.of_cells[at : at + n], partial.slice(at, n))
        at += n
