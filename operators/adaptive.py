"""Windowed aggregates, implementation AdaptWID: each group is counted at once, or kept as rows.

    group    rows held          kept as
    A          400    eager     sub-aggregates by pane, a row is counted as it comes     H
    B            1    lazy      rows, which are counted once a window closes             B
    C            3    both      sub-aggregates of the panes when it was eager, until     H and B
                                they expire, and rows: in transition

Few rows take less memory than sub-aggregates, many rows more (window-queries, 6.3, figures 6-17
and 6-18). A group turns eager when it has more rows than (Cond. 6.9)

    aggr * wed / (tup * PANE)       bytes of a sub-aggregate, how long a window is open,
                                    bytes of a row, length of a pane

and lazy again below a share of that, so that it does not oscillate. The condition's last term, what
sources that are behind have not sent yet, is in its left side here: rows that are held are counted,
not estimated. And lazy groups have no entry in the table of groups H: with one row each the entry
would be larger than the row. They get one while a window is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids, Mask
from gapless.kernels.scatter import count_at
from gapless.operators.aggregates.function import Accumulator
from gapless.operators.ahead import Ahead, runs, slices, within
from gapless.operators.answers import AnswerLook, AnswerPart, Answers, Grouping, Windowed, results
from gapless.operators.cells import Cells, distinct
from gapless.operators.eager_threshold import EagerThreshold
from gapless.operators.grouped_tables import read_cells, write_cells
from gapless.operators.groups import Groups
from gapless.operators.lazy_rows import LazyRows
from gapless.operators.operator import ANSWER_ROWS_MAX
from gapless.operators.pane_answers import PaneAnswers, cells_of_rows
from gapless.operators.paned import check_windows_at_once
from gapless.operators.panes import panes_of_windows
from gapless.operators.pick import Picks
from gapless.operators.present_window import PaneCells
from gapless.operators.sparse_cells import Found
from gapless.operators.state import FACTS, State, facts, read_facts, table
from gapless.operators.windows import Cut
from gapless.protocol.columns import take_rows
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Times

LOOK_ROWS_MIN = 1024
"""So many rows have come to lazy groups before it is looked which of them have become dense."""
LOOK_SHARE = 4
"""And so is one for so many that wait: each row is looked at a few times in all."""
ONE_BY_ONE_MAX = 4
"""More windows at one stable are put together at once, which costs fewer calls but a sort."""
MERGES_MAX = 64
"""And so are windows of more panes, where each takes a merge."""


class _Named(NamedTuple):
    """Ids that groups have while something is put together: the table is gone after that, which
    costs less than to let go of each.
    """

    groups: Groups
    of_rows: Ids
    """Of each row that waits."""
    known: Ids
    """The groups that have cells, by their own ids."""
    of_known: Ids


class Adaptive(Windowed):
    """Sub-aggregates of eager groups by pane, and the rows of lazy ones."""

    def __init__(self, window: Cut, grouping: Grouping, ahead: Ahead | None = None) -> None:
        """`ahead`: keeps track of new rows, where answers are looked at before they are final."""
        self._panes = panes_of_windows(window)
        self._pane = self._panes.length
        self._grouping = grouping
        self._groups = Groups(grouping.rows, grouping.group_by)  # that have cells
        self._cells = Cells(grouping)
        self._volumes = Column(0)  # by group: rows in its cells
        self._eager = Column(0)  # by group: whether new rows are counted at once
        self._lazy = LazyRows(grouping.rows)
        self._unseen = 0  # lazy rows that have come since it was looked who is dense
        self._threshold = EagerThreshold(grouping, self._panes)
        self._pane_answers = PaneAnswers(grouping, self._groups, self._panes)
        self._picks = Picks(grouping.rows)
        self._ahead = ahead
        self._next = BEGIN  # windows below have been answered or are not wanted

    # -- taking rows in -----------------------------------------------------------------------

    def add(self, times: Times, rows: pa.RecordBatch, within: tuple[int, int]) -> None:
        """Counts the rows of eager groups; the others wait."""
        panes = times // self._pane
        between = self._panes.between(panes)
        if np.count_nonzero(between):
            kept = (~between).nonzero()[0]
            panes, times, rows = panes[kept], times[kept], take_rows(rows, kept)
        if not len(times):
            return
        self._threshold.seen(within[1])
        groups = self._groups.find(rows)
        eager = (groups >= 0) & (self._eager.values[groups] > 0)
        many = int(np.count_nonzero(eager))
        if many == len(times):
            self._count(panes, groups, times, rows)
            return
        if many:
            at = eager.nonzero()[0]
            self._count(panes[at], groups[at], times[at], self._picks.take(rows, at))
        self._lazy.put(times, rows, (~eager).nonzero()[0] if many else None)
        self._unseen += len(times) - many
        if self._unseen >= max(LOOK_ROWS_MIN, len(self._lazy) // LOOK_SHARE):
            self._make_eager()

    def _count(self, panes: Times, groups: Ids, times: Times, rows: pa.RecordBatch) -> None:
        self._cells.add(panes, groups, self._groups.capacity, times, rows)
        count_at(self._volumes.fit(self._groups.capacity), groups)
        if self._ahead is not None:
            self._ahead.touch(*self._panes.windows(panes), groups)

    # -- switching ----------------------------------------------------------------------------

    def _make_eager(self) -> None:
        """Counts the rows that wait of groups that have too many of them."""
        self._unseen = 0
        named = self._named(self._lazy.rows)
        volumes = np.bincount(named.of_rows, minlength=named.groups.capacity)
        volumes[named.of_known] += self._volumes.values[named.known]
        dense = (volumes > self._threshold.rows(self._lazy, self._cells))[named.of_rows]
        if not np.count_nonzero(dense):
            return
        at = dense.nonzero()[0]
        times, rows = self._lazy.times[at], self._picks.take(self._lazy.rows, at)
        groups = self._groups.of(rows)
        self._eager.fit(self._groups.capacity)[groups] = 1
        self._count(times // self._pane, groups, times, rows)
        self._lazy.keep(~dense)

    def _named(self, rows: pa.RecordBatch) -> _Named:
        """All groups that have cells or are among these rows."""
        groups = Groups(self._grouping.rows, self._grouping.group_by)
        known = (self._volumes.values > 0).nonzero()[0]
        of_known = groups.intern(self._groups.columns(known), len(known))
        return _Named(groups, groups.of(rows), known, of_known)

    def _expire(self) -> None:
        """Forgets what no window from the next one on has, once."""
        first = min(self._panes.first(self._next), INF)
        found = self._cells.between(BEGIN, first)
        if len(found.ids):
            np.subtract.at(self._volumes.values, found.groups, self._cells.counts(found.ids))
            self._cells.forget(found)
            groups = distinct(found.groups, 0, self._groups.capacity - 1)
            few = self._volumes.values[groups] < self._threshold.rows_back
            self._eager.values[groups[few]] = 0  # in transition: new rows wait
            self._leave(groups)
        if len(self._lazy):
            self._lazy.keep(self._lazy.times // self._pane >= first)

    def _leave(self, groups: Ids) -> None:
        """Forgets those of these groups that have no cells: they are lazy."""
        if not len(groups):
            return
        groups = distinct(groups, 0, self._groups.capacity - 1)
        gone = groups[~self._cells.has(groups)]
        known = gone[gone < len(self._eager.values)]
        self._eager.values[known] = 0
        self._groups.release(gone)
        self._eager.fit(self._groups.capacity)
        self._volumes.fit(self._groups.capacity)

    # -- answering ----------------------------------------------------------------------------

    def _put_together(self, end: int) -> tuple[PaneCells, Ids]:
        """All cells of panes below `end`, rows that wait made into cells; and the groups of those
        rows, of which `_leave` is to be told.
        """
        end = min(end, INF)
        found = self._cells.between(BEGIN, end)
        partials = self._cells.take(found)
        below = (self._lazy.times // self._pane < end).nonzero()[0]
        if not len(below):
            return (found, partials), below
        times, rows = self._lazy.times, self._lazy.rows
        if len(below) < len(times):
            times, rows = times[below], self._picks.take(rows, below)
        groups = self._groups.of(rows)
        panes = times // self._pane
        places, owners, more = cells_of_rows(self._grouping, panes, groups, times, rows)
        all_groups = np.concatenate((found.groups, owners))
        all_places = np.concatenate((found.places, places))
        both = [pa.concat_batches(batches) for batches in zip(partials, more, strict=True)]
        return (Found(all_places, all_groups, all_groups), both), groups

    def answer(self, complete: int) -> Iterator[AnswerPart]:
        """Counts what waits of each window, and adds the cells of its panes."""
        if complete <= self._next:
            return
        last: Answers | None = None
        for window, answers in self._answers(complete):
            if last is not None:
                yield AnswerPart(last, window)
            last = answers
        self._threshold.closed(min(complete * self._panes.step * self._pane, INF))
        self._next = complete
        self._expire()
        if last is not None:
            yield AnswerPart(last, complete)

    def _answers(self, complete: int) -> Iterator[tuple[int, Answers]]:
        """The answers of windows below `complete`, in parts; and of which window their first is."""
        runs = self._runs(complete)
        windows = sum(end - first for first, end in runs)
        check_windows_at_once(windows)
        if windows <= ONE_BY_ONE_MAX and (self._cells.repeat or self._panes.span <= MERGES_MAX):
            for first, end in runs:
                for window in range(first, end):
                    yield from self._of_window(window)
            return
        (cells, partials), named = self._put_together(complete * self._panes.step)
        there = within((*self._panes.windows(cells.places), cells.groups), self._next, complete)
        for some, groups in slices(*there):
            for at in range(0, len(some), ANSWER_ROWS_MAX):
                cut = slice(at, at + ANSWER_ROWS_MAX)
                found = some[cut], groups[cut]
                yield int(some[at]), self._pane_answers.answers(cells, partials, *found, final=True)
        self._leave(named)

    def _runs(self, complete: int) -> list[tuple[int, int]]:
        """The windows from the next to below `complete` that have rows, as runs."""
        cells = self._cells.places(min(complete * self._panes.step, INF))
        rows = self._lazy.panes(self._pane)
        panes = np.concatenate((cells, rows[rows < complete * self._panes.step]))
        first, end = self._panes.windows(panes)
        return runs(np.maximum(first, self._next), np.minimum(end, complete))

    def _of_window(self, window: int) -> Iterator[tuple[int, Answers]]:
        """The answers of one window, in parts."""
        start, end = self._panes.first(window), self._panes.end(window)
        found = self._cells.between(start, end)
        times, rows = self._lazy.times, self._lazy.rows
        here = (times >= start * self._pane) & (times < end * self._pane)
        if not here.all():
            at = here.nonzero()[0]
            times, rows = times[at], self._picks.take(rows, at)
        named = self._named(rows)
        states, counter = self._grouping.states()
        for state in states:
            state.fit(named.groups.capacity)
            state.add(named.of_rows, rows, times)
        self._merge(states, found, named)
        ids = (counter.counts.values > 0).nonzero()[0]
        for begin in range(0, len(ids), ANSWER_ROWS_MAX):
            some = ids[begin : begin + ANSWER_ROWS_MAX]
            windows, columns = np.full(len(some), window), named.groups.columns(some)
            yield window, results(self._grouping, windows, columns, states, some, final=True)

    def _merge(self, states: Sequence[Accumulator], found: Found, named: _Named) -> None:
        """Adds cells to what their groups have; a group once in each merge, where that matters."""
        if not len(found.ids):
            return
        partials = self._cells.take(found)
        ids = np.empty(self._groups.capacity, np.int64)
        ids[named.known] = named.of_known
        ids = ids[found.groups]
        edges = [0, len(found.ids)]
        if not self._cells.repeat:
            edges = [0, *(np.diff(found.places).nonzero()[0] + 1).tolist(), len(found.ids)]
        for begin, end in pairwise(edges):
            for state, partial in zip(states, partials, strict=True):
                state.merge(ids[begin:end], partial.slice(begin, end - begin))

    def look(self, limit: int) -> Iterator[AnswerLook]:
        """Puts together what has news, complete or not."""
        if self._ahead is None:
            raise Bug("new rows were not kept track of")
        cells, named = self._put_together(INF)
        if self._lazy.fresh:
            panes = self._lazy.times[-self._lazy.fresh :] // self._pane
            windows_of = self._panes.windows(panes)
            self._ahead.touch(*windows_of, named[-self._lazy.fresh :])
            self._lazy.fresh = 0
        there = (*self._panes.windows(cells[0].places), cells[0].groups)
        for windows, groups in self._ahead.look(self._next, limit, there):
            answers = self._pane_answers.answers(*cells, windows, groups, final=False)
            yield AnswerLook(windows, self._groups.columns(groups), answers)
        self._leave(named)

    def of_groups(self, limit: int, chosen: Callable[[pa.RecordBatch], Mask]) -> Iterator[Answers]:
        """Puts those together from cells and rows, complete or not."""
        cells, named = self._put_together(INF)
        places, groups, _ = cells[0]
        here = self._groups.choose(groups, chosen).nonzero()[0]
        there = (*self._panes.windows(places[here]), groups[here])
        for windows, asked in slices(*within(there, self._next, limit)):
            yield self._pane_answers.answers(*cells, windows, asked, final=False)
        self._leave(named)

    def has_open(self, limit: int) -> bool:
        """Whether a cell, or a row that waits, is in one."""
        cells = self._cells.between(BEGIN, INF).places
        panes = np.concatenate((cells, self._lazy.times // self._pane))
        first, end = self._panes.windows(panes)
        return bool((np.maximum(first, self._next) < np.minimum(end, limit)).any())

    def skip_to(self, window: int) -> None:
        """Forgets the panes that no window from this one on has."""
        self._next = max(self._next, window)
        self._expire()

    # -- as data ------------------------------------------------------------------------------

    def snapshot(self) -> State:
        """The cells, which of their groups are eager, and the rows that wait."""
        found = self._cells.between(BEGIN, INF)
        partials = self._cells.take(found)
        eager = (self._eager.values > 0).nonzero()[0]
        none = np.zeros(len(eager), np.int64)
        return {
            FACTS: facts(open=self._threshold.open),
            **write_cells("cells", found.places, found.groups, partials, self._groups),
            **write_cells("eager", none, eager, [], self._groups),
            "lazy.times": pa.record_batch({"time": pa.array(self._lazy.times)}),
            "lazy": self._lazy.rows,
        }

    def restore(self, state: State) -> None:
        """Takes all of it back."""
        (self._threshold.open,) = read_facts(state, "open")
        places, groups, partials = read_cells("cells", state, self._cells.states, self._groups)
        if len(places):
            self._cells.merge(places, groups, self._groups.capacity, partials)
            counts = self._cells.counts(self._cells.between(BEGIN, INF).ids)
            owners = self._cells.between(BEGIN, INF).groups
            np.add.at(self._volumes.fit(self._groups.capacity), owners, counts)
        _, eager, _ = read_cells("eager", state, [], self._groups)
        self._eager.fit(self._groups.capacity)[eager] = 1
        rows = table(state, "lazy", self._grouping.rows)
        times = table(state, "lazy.times", pa.schema([("time", pa.int64())])).column(0)
        self._lazy.put(times.to_numpy(), rows)

    @property
    def nbytes(self) -> int:
        """Bytes of the groups, their cells and the rows that wait."""
        ahead = 0 if self._ahead is None else self._ahead.nbytes
        by_group = self._groups.nbytes + self._volumes.nbytes + self._eager.nbytes
        return by_group + self._cells.nbytes + self._lazy.nbytes + ahead

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._groups.validate()
        self._cells.validate()
        self._lazy.validate()
        found = self._cells.between(BEGIN, INF)
        volumes = np.zeros(len(self._volumes.values), np.int64)
        np.add.at(volumes, found.groups, self._cells.counts(found.ids))
        if (volumes != self._volumes.values).any():
            raise Bug("a group has other rows in its cells than are counted")
        known = int(np.count_nonzero(volumes))
        if self._grouping.group_by and known != len(self._groups):
            raise Bug(f"{known} groups have cells, {len(self._groups)} are known")
        if np.count_nonzero(volumes[self._eager.values[: len(volumes)] > 0] == 0):
            raise Bug("an eager group has no rows")
        waiting = self._groups.find(self._lazy.rows)
        if np.count_nonzero(self._eager.values[waiting[waiting >= 0]]):
            raise Bug("a row of an eager group waits")
        first = min(self._panes.first(self._next), INF)
        panes = np.concatenate((found.places, self._lazy.times // self._pane))
        if len(panes) and int(panes.min()) < first:
            raise Bug("a pane that no window will have again is still open")
