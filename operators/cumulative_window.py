"""The cumulating window that is being answered, put together from complete panes.

    panes of 2, restart every 3 of them    p3 {A: 2, B: 1}   p4 {A: 5}        p6 {B: 4}
    window                                 A: 2, B: 1        A: 7, B: 1       B: 4

Panes only enter until the window begins anew, and then all of them leave at once. So nothing is
subtracted, no pane is kept, and what the window has so far stands for the panes that have entered:
one cell a group, numbered by the last of them. They enter in order, which is what the last bits of
floats depend on.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids, Mask
from gapless.operators.answers import Answers, Grouping, results_of_windows
from gapless.operators.groups import Groups
from gapless.operators.panes import Panes
from gapless.operators.present_window import Arriving, PaneCells, panes_of
from gapless.operators.sparse_cells import Found
from gapless.operators.two_stacks import Pane
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Bug


class CumulativeWindow:
    """State by group, of the panes since the window began anew."""

    def __init__(self, grouping: Grouping, groups: Groups, panes: Panes) -> None:
        self._grouping, self._groups, self._of = grouping, groups, panes
        self._there = Column(0)  # by group: whether it is in a pane of the window
        self._states, _ = grouping.states()
        self._fitted = -1  # the capacity that they have room for
        self._last = BEGIN  # the pane that entered last; BEGIN: there is none

    def slide(self, window: int, arriving: Arriving) -> list[Ids]:
        """Becomes this window: takes in what has arrived of it, having let go of all that an
        earlier restart had; the groups of that.
        """
        gone = [self._clear()] if self and self._last < self._of.first(window) else []
        while arriving and arriving.number < self._of.end(window):
            self._enter(arriving.take())
        return gone

    def same_until(self, window: int) -> int:
        """The first window that has other answers than this one, if no pane enters."""
        return self._of.windows(window)[1]

    def _enter(self, pane: Pane) -> None:
        self.fit()
        self._there.values[pane.groups] = 1
        for state, partial in zip(self._states, pane.partials, strict=True):
            state.merge(pane.groups, partial)
        self._last = pane.number

    def _clear(self) -> Ids:
        ids = self._live()
        self._there.values[ids] = 0
        for state in self._states:
            state.clear(ids)
        self._last = BEGIN
        return ids

    def hold(self, found: Found, partials: list[pa.RecordBatch]) -> None:
        """Has these panes of one window, as cells in their order, and no others."""
        self._clear()
        for pane in panes_of(found, partials):
            self._enter(pane)

    def cells(self) -> PaneCells:
        """What has entered, as cells of one pane."""
        ids = self._live()
        return Found(np.full(len(ids), self._last), ids, ids), [s.take(ids) for s in self._states]

    kept_cells = cells

    def fit(self) -> None:
        """Makes room for all groups, or gives it back."""
        capacity = self._groups.capacity
        if capacity != self._fitted:
            self._fitted = capacity
            self._there.fit(capacity)
            for state in self._states:
                state.fit(capacity)

    def has(self, groups: Ids) -> Mask:
        """Which groups are in it."""
        there = np.zeros(max(len(self._there.values), self._groups.capacity), np.bool_)
        there[self._live()] = True
        found: Mask = there[groups]
        return found

    def results(self, windows: range) -> Iterator[tuple[Answers, int]]:
        """The answers of all groups, as those of each of these windows, in parts; and below which
        window all answers are then given.
        """
        columns = self._groups.columns
        return results_of_windows(self._grouping, windows, columns, self._states, self._live())

    def _live(self) -> Ids:
        ids: Ids = self._there.values.nonzero()[0]
        return ids

    @property
    def cell_count(self) -> int:
        """Groups that are in it."""
        return len(self._live())

    def __bool__(self) -> bool:
        """Whether a pane is in it."""
        return self._last > BEGIN

    @property
    def nbytes(self) -> int:
        """Bytes of the state by group."""
        return self._there.nbytes + sum(state.nbytes for state in self._states)

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        for state in self._states:
            state.validate()
        if bool(self.cell_count) != bool(self):
            raise Bug("groups are in a window without panes, or panes have no groups")
