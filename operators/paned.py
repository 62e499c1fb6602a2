"""Windowed aggregates, implementation Paned-WID: rows count once, windows are made of panes.

A pane is gcd(range, slide) long, so every window is a run of whole panes. The query falls into
two: pane-level (PLQ), over rows, and window-level (WLQ), over panes (section 6.2, figure 6-14):

    range 4, slide 2            panes of 2:  p0 [0,2)  p1 [2,4)  p2 [4,6) ...
    window 1 = [0,4) = p0 p1    window 2 = [2,6) = p1 p2

    rows -> cells (pane, group)      PLQ: sub-aggregates, until the pane is complete
    complete panes -> PresentWindow  WLQ: they enter on the right and leave on the left

What is differential (counts, integer sums) slides: the entering panes are added, the leaving ones
subtracted. The rest recombines the panes of each window. Floating sums never slide: subtraction
would leave rounding behind, so the answer would depend on what has passed by.

Only incomplete panes need a place by group for each row that may come; a complete pane is a list
of the groups that it has, without gaps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import gcd

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids
from gapless.operators.answers import Answers, Cells, Grouping, Windowed
from gapless.operators.present_window import Pane, PresentWindow, panes_of
from gapless.operators.state import State
from gapless.operators.windows import Hopping, Landmark
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug, Misuse
from gapless.protocol.frame import Times


class Paned(Windowed):
    """State by pane and group, and by group for the window that is being answered."""

    def __init__(self, window: Hopping | Landmark, grouping: Grouping) -> None:
        slide = window.slide
        if slide is None:
            raise Misuse("a landmark window without a slide: say how often to answer, slide=")
        self._landmark = isinstance(window, Landmark)
        self._pane = gcd(window.range, slide) if isinstance(window, Hopping) else slide
        self._step = slide // self._pane  # panes from one window to the next
        self._span = window.range // self._pane if isinstance(window, Hopping) else 0
        self._grouping = grouping
        self._cells = Cells(grouping)
        self._present = PresentWindow(grouping, self._landmark)
        self._next = BEGIN  # the next window to answer; those below are answered or unwanted

    def add(self, times: Times, rows: pa.RecordBatch) -> None:
        """Counts the rows in their panes."""
        panes = times // self._pane
        if 0 < self._span < self._step:
            between = panes % self._step < self._step - self._span  # in the gap of two windows
            if np.count_nonzero(between):
                kept = (~between).nonzero()[0]
                panes, times, rows = panes[kept], times[kept], rows.take(pa.array(kept))
        if len(panes):
            self._cells.add(panes, times, rows)

    def answer(self, complete: int) -> list[Answers]:
        """Slides over the windows that have a pane."""
        if complete <= self._next:
            return []
        ids = self._cells.below(complete * self._step)
        arriving = deque(self._panes(ids))
        self._cells.forget(ids)
        if self._landmark and complete == INF:  # time ends with the last row
            last = arriving[-1].number // self._step + 1 if arriving else BEGIN
            complete = max(self._next, last)
        answers = []
        window, present = self._next, self._present
        while window < complete and (present or arriving):
            if not present:
                window = max(window, arriving[0].number // self._step)
            end = (window + 1) * self._step
            while arriving and arriving[0].number < end:  # before any leaves: its groups may stay
                present.enter(arriving.popleft())
            present.leave_below(end - self._span)
            if present:
                answers.append(present.results(window))
            window += 1
        self._next = complete
        return answers

    def _panes(self, ids: Ids) -> list[Pane]:
        """The panes that cells, in the order of panes, make up."""
        if not len(ids):
            return []
        cells = self._cells
        partials = [state.take(ids) for state in cells.states]
        return panes_of(cells.places(ids), cells.groups(ids), partials)

    def provisional(self, window: int) -> Answers:
        """Puts together the panes that are there, complete or not."""
        end = (window + 1) * self._step
        ids = self._cells.below(end)
        ahead = PresentWindow(self._grouping, self._landmark)
        for pane in (*self._present.panes(), *self._panes(ids)):
            if self._landmark or pane.number >= end - self._span:
                ahead.enter(pane)
        return ahead.results(window)

    def open_windows(self, limit: int) -> Sequence[int]:
        """Those that have a pane, complete or not."""
        incomplete = self._cells.places(self._cells.below(INF))
        complete = np.array(self._present.numbers(), np.int64)
        panes = np.unique(np.concatenate((complete, incomplete)))
        if not len(panes):
            return []
        first = panes // self._step
        if self._landmark:
            return range(max(self._next, int(first[0])), min(limit, int(first[-1]) + 1))
        counts = (panes + self._span) // self._step - first
        offsets = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        windows = np.unique(np.repeat(first, counts) + offsets)
        return [w for w in windows.tolist() if self._next <= w < limit]

    def skip_to(self, window: int) -> None:
        """Forgets the panes that no window from this one on has."""
        self._next = max(self._next, window)
        if not self._landmark:
            first = (self._next + 1) * self._step - self._span
            self._cells.forget(self._cells.below(first))

    def snapshot(self) -> State:
        """The cells of incomplete panes, and those of complete ones."""
        present = self._present.snapshot("complete", self._cells.schema)
        return {**self._cells.snapshot("open"), **present}

    def restore(self, state: State) -> None:
        """Takes the cells back, and lets the complete panes enter."""
        self._cells.restore("open", state)
        self._present.restore("complete", self._cells.schema, state)

    @property
    def nbytes(self) -> int:
        """Bytes of incomplete panes and of the present window."""
        return self._cells.nbytes + self._present.nbytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._cells.validate()
        self._present.validate()
        first = (self._next + 1) * self._step - self._span
        if not self._landmark and len(self._cells.below(first)):
            raise Bug("a pane that no window will have again is still open")
