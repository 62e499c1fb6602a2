"""Windowed aggregates, implementation Paned-WID: rows count once, windows are made of panes.

Panes are cut so that every window is a run of whole ones (`panes.py`). The query
falls into two: pane-level (PLQ), over rows, and window-level (WLQ), over panes (section 6.2, figure
6-14):

    range 4, slide 2            panes of 2:  p0 [0,2)  p1 [2,4)  p2 [4,6) ...
    window 1 = [0,4) = p0 p1    window 2 = [2,6) = p1 p2

    rows -> cells (pane, group)      PLQ: sub-aggregates, until the pane is complete
    complete panes -> PresentWindow  WLQ: they enter on the right and leave on the left

What is differential (counts, integer sums) slides: the entering panes are added, the leaving ones
subtracted. The rest is put together by two stacks. Floating sums never slide: subtraction would
leave rounding behind, so the answer would depend on what has passed by. Many windows of one stable
are put together at once (`together.py`). Windows that cumulate lose no pane before they begin anew,
and then all: theirs are added up (`cumulative_window.py`).

A stable may complete any number of windows: their answers come in parts. Windows between which no
pane enters or leaves have the same answers, which are made once.

Only incomplete panes need a place by group for each row that may come; a complete pane is a list
of the groups that it has, without gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids, Mask
from gapless.operators.ahead import Ahead, slices, within
from gapless.operators.answers import AnswerLook, AnswerPart, Answers, Grouping, Windowed
from gapless.operators.cells import Cells, distinct
from gapless.operators.cumulative_window import CumulativeWindow
from gapless.operators.grouped_tables import read_cells, write_cells
from gapless.operators.groups import Groups
from gapless.operators.operator import ANSWER_ROWS_MAX
from gapless.operators.pane_answers import PaneAnswers
from gapless.operators.panes import pairs_of_windows
from gapless.operators.present_window import Arriving, PaneCells, PresentWindow
from gapless.operators.sparse_cells import Found
from gapless.operators.state import State
from gapless.operators.together import Together
from gapless.operators.windows import Cut
from gapless.protocol.columns import take_rows
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug, MemoryLimit
from gapless.protocol.frame import Times

TURN_WINDOWS_MAX = 1 << 15
"""Windows without groups that are answered in one turn, so that they are put together at once
however many have become complete."""
WINDOWS_OF_PART_MAX = 64
"""Windows of few answers that are slid over for one part: tens of milliseconds, or with sketches a
hundred."""
WINDOWS_AT_ONCE_MAX = 1_000_000
"""Windows answered in one push. Time that jumps further over a window that has rows makes more
answers than anybody can read: some row is far in the future, or the slide far too small."""

_NO_GROUPS = np.empty(0, np.int64)


class Paned(Windowed):
    """State by pane and group, and by group for the window that is being answered."""

    def __init__(self, window: Cut, grouping: Grouping, ahead: Ahead | None = None) -> None:
        """`ahead`: keeps track of new rows, where answers are looked at before they are final."""
        self._panes = pairs_of_windows(window)
        self._step, self._span = self._panes.step, self._panes.span
        self._grouping = grouping
        self._groups = Groups(grouping.rows, grouping.group_by)
        self._pane_answers = PaneAnswers(grouping, self._groups, self._panes)
        self._cells = Cells(grouping)
        present = CumulativeWindow if self._panes.cumulate else PresentWindow
        self._present = present(grouping, self._groups, self._panes)
        self._together = Together(grouping, self._groups, self._panes)
        self._ahead = ahead
        self._next = BEGIN  # the next window to answer; those below are answered or unwanted

    def add(self, times: Times, rows: pa.RecordBatch, within: tuple[int, int]) -> None:
        """Counts the rows in their panes."""
        panes = self._panes.of(times)
        ends: tuple[int, int] | None = (self._panes.of(within[0]), self._panes.of(within[1]))
        if self._span < self._step:
            between = self._panes.between(panes)
            if np.count_nonzero(between):
                kept = (~between).nonzero()[0]
                panes, times, rows, ends = panes[kept], times[kept], take_rows(rows, kept), None
        if len(panes):
            groups = self._groups.of(rows)
            self._cells.add(panes, groups, self._groups.capacity, times, rows, ends)
            if self._ahead is not None:
                self._ahead.touch(*self._panes.windows(panes), groups)

    def take_in(
        self, panes: Times, groups: Sequence[pa.Array], partials: list[pa.RecordBatch]
    ) -> None:
        """Takes sub-aggregates in, by pane and the values of their groups, each pair once."""
        ids = self._groups.intern(groups, len(panes))
        self._cells.merge(panes, ids, self._groups.capacity, partials)
        if self._ahead is not None:
            self._ahead.touch(*self._panes.windows(panes), ids)

    def answer(self, complete: int) -> Iterator[AnswerPart]:
        """Answers turn after turn."""
        answered = 0
        while self._next < complete:
            for part in self._turn(self._turn_end(complete)):
                yield part
                answered += 0 if self._grouping.group_by else len(part.answers.windows)
                check_windows_at_once(answered)

    def _turn_end(self, complete: int) -> int:
        """Below which window all are answered next: not too many at once where that matters."""
        if not self._together.by_range:
            return complete
        places = self._cells.between(BEGIN, complete * self._step).places
        if not (len(places) or self._present):
            return complete
        first, last = self._next, self._next + self._span  # of what is held
        if len(places):
            last = self._panes.windows(int(places[-1]))[1]
            if not self._present:
                first = max(first, int(places[0]) // self._step)
        end = first + TURN_WINDOWS_MAX
        return complete if last <= end else min(complete, end)

    def _turn(self, complete: int) -> Iterator[AnswerPart]:
        """Slides over the windows that have a pane, or puts them together at once."""
        found = self._cells.between(BEGIN, complete * self._step)
        partials = self._cells.take(found) if len(found.ids) else []
        self._cells.forget(found)
        if self._together.suits(found.places, self._present.cell_count, self._next, complete):
            yield self._answer_together(found, partials, complete)
            return
        gone: list[Ids] = []
        part, rows, windows = [], 0, 0
        for answers, below in self._slide(Arriving(found, partials), complete, gone):
            part.append(answers)
            rows, windows = rows + len(answers.windows), windows + 1
            if rows >= ANSWER_ROWS_MAX or windows >= WINDOWS_OF_PART_MAX:
                yield AnswerPart(Answers.joined(part), below)
                part, rows, windows = [], 0, 0
        self._next = complete
        self._forget(gone)
        if part:
            yield AnswerPart(Answers.joined(part), complete)

    def _slide(
        self, arriving: Arriving, complete: int, gone: list[Ids]
    ) -> Iterator[tuple[Answers, int]]:
        """The answers, and below which window all are given; groups without panes are `gone`."""
        window, present, answered = self._next, self._present, 0
        while window < complete and (present or arriving):
            if not present:
                window = max(window, arriving.number // self._step)
            gone += present.slide(window, arriving)
            until = window + 1
            if present:
                until = self._same_until(window, arriving, complete)
                answered += until - window
                check_windows_at_once(answered)
                yield from present.results(range(window, until))
            window = until

    def _same_until(self, window: int, arriving: Arriving, complete: int) -> int:
        """The first window after this one that may have other answers."""
        another = min(complete, self._present.same_until(window))
        return min(another, self._panes.windows(arriving.number)[0]) if arriving else another

    def _answer_together(
        self, found: Found, partials: list[pa.RecordBatch], complete: int
    ) -> AnswerPart:
        """Puts all of these windows together at once, from the panes that are there."""
        held, held_partials = self._present.cells()
        places = np.concatenate((held.places, found.places))
        groups = np.concatenate((held.groups, found.groups))
        if len(held.groups):
            both = zip(held_partials, partials, strict=True)
            partials = [pa.concat_batches(batches) for batches in both]
        panes = Found(places, groups, groups)
        answers = self._together.answers(panes, partials, self._next, complete)
        self._next = complete
        first = self._panes.first(complete) if complete < INF else INF
        stay = slice(int(np.searchsorted(places, min(first, INF))), None)
        kept = Found(places[stay], groups[stay], groups[stay])
        self._present.hold(kept, [partial[stay] for partial in partials])
        self._forget([groups])
        return AnswerPart(answers, complete)

    def _forget(self, gone: list[Ids]) -> None:
        """Releases those of some groups that nothing is held of."""
        groups = np.concatenate((_NO_GROUPS, *gone))
        if not len(groups) or not self._grouping.group_by:
            return
        groups = distinct(groups, 0, self._groups.capacity - 1)
        held = self._present.has(groups)
        groups = groups[~held]
        self._groups.release(groups[~self._cells.has(groups)])
        self._present.fit()

    def look(self, limit: int) -> Iterator[AnswerLook]:
        """Puts together what has news from the panes that are there, complete or not."""
        if self._ahead is None:
            raise Bug("new rows were not kept track of")
        cells = self._all_cells(self._present.kept_cells())
        there = (*self._panes.windows(cells[0].places), cells[0].groups)
        for windows, groups in self._ahead.look(self._next, limit, there):
            answers = self._pane_answers.answers(*cells, windows, groups, final=False)
            yield AnswerLook(windows, self._groups.columns(groups), answers)

    def of_groups(self, limit: int, chosen: Callable[[pa.RecordBatch], Mask]) -> Iterator[Answers]:
        """Puts those together from the panes that are there, complete or not."""
        cells = self._all_cells(self._present.cells())
        places, groups, _ = cells[0]
        here = self._groups.choose(groups, chosen).nonzero()[0]
        there = (*self._panes.windows(places[here]), groups[here])
        for windows, asked in slices(*within(there, self._next, limit)):
            yield self._pane_answers.answers(*cells, windows, asked, final=False)

    def _all_cells(self, present: PaneCells) -> PaneCells:
        """Those of all panes, complete or not."""
        held, complete = present
        found = self._cells.between(BEGIN, INF)
        places = np.concatenate((held.places, found.places))
        groups = np.concatenate((held.groups, found.groups))
        both = zip(complete, self._cells.take(found), strict=True)
        return Found(places, groups, groups), [pa.concat_batches(batches) for batches in both]

    def has_open(self, limit: int) -> bool:
        """Whether a pane, complete or not, is in one."""
        held, _ = self._present.cells()
        places = np.concatenate((held.places, self._cells.between(BEGIN, INF).places))
        first, end = self._panes.windows(places)
        return bool((np.maximum(first, self._next) < np.minimum(end, limit)).any())

    def skip_to(self, window: int) -> None:
        """Forgets the panes that no window from this one on has."""
        self._next = max(self._next, window)
        found = self._cells.between(BEGIN, self._panes.first(self._next))
        if len(found.ids):
            self._cells.forget(found)
            self._forget([found.groups])

    def snapshot(self) -> State:
        """The cells of incomplete panes, and those of complete ones."""
        found = self._cells.between(BEGIN, INF)
        partials = self._cells.take(found)
        held, complete = self._present.cells()
        return {
            **write_cells("incomplete", found.places, found.groups, partials, self._groups),
            **write_cells("complete", held.places, held.groups, complete, self._groups),
        }

    def restore(self, state: State) -> None:
        """Takes the cells back, and lets the complete panes enter."""
        places, groups, partials = read_cells("complete", state, self._cells.states, self._groups)
        self._present.hold(Found(places, groups, groups), partials)
        places, groups, partials = read_cells("incomplete", state, self._cells.states, self._groups)
        if len(places):
            self._cells.merge(places, groups, self._groups.capacity, partials)
        self._present.fit()

    @property
    def nbytes(self) -> int:
        """Bytes of the groups, of incomplete panes and of the present window."""
        ahead = 0 if self._ahead is None else self._ahead.nbytes
        return self._groups.nbytes + self._cells.nbytes + self._present.nbytes + ahead

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._groups.validate()
        self._cells.validate()
        self._present.validate()
        first = self._panes.first(self._next)
        if len(self._cells.between(BEGIN, first).ids):
            raise Bug("a pane that no window will have again is still open")
        known = np.arange(self._groups.capacity)
        held = self._present.has(known) | self._cells.has(known)
        if self._grouping.group_by and int(np.count_nonzero(held)) != len(self._groups):
            raise Bug(f"{np.count_nonzero(held)} groups are held, {len(self._groups)} are known")


def check_windows_at_once(windows: int) -> None:
    """Raises `MemoryLimit` where so many are to be answered that nobody reads them."""
    if windows > WINDOWS_AT_ONCE_MAX:
        raise MemoryLimit(
            f"more than {WINDOWS_AT_ONCE_MAX:,} windows would be answered at once: is some row far "
            "in the future? Else answer less often: a longer slide"
        )
