"""The window that is being answered, put together from complete panes (the WLQ of section 6.2).

    panes    p3 {A: 2, B: 1}   p4 {A: 5}   p5 {B: 4}        sub-aggregates of each pane's groups
    window   A: 7, B: 5                                     by group
    slide    p6 enters: added        p3 leaves: subtracted, where the function is differential;
                                     the others are put together by two stacks (`two_stacks.py`)

Panes enter in order and leave in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import takewhile

import numpy as np
import pyarrow as pa

from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids, Mask
from gapless.operators.answers import Answers, Grouping, results_of_windows
from gapless.operators.groups import Groups
from gapless.operators.panes import Panes
from gapless.operators.sparse_cells import Found
from gapless.operators.two_stacks import Pane, TwoStacks
from gapless.protocol.elements import INF
from gapless.protocol.errors import Bug

PaneCells = tuple[Found, list[pa.RecordBatch]]
"""Cells in the order of their panes, and their sub-aggregates, a batch a state."""


class PresentWindow:
    """State by group, and the panes that it was put together from."""

    def __init__(self, grouping: Grouping, groups: Groups, panes: Panes) -> None:
        self._grouping = grouping
        self._groups = groups
        self._of, self._span = panes, panes.span
        self._counts = Column(0)  # by group: panes of the window that it is in
        self._states, _ = grouping.states()
        self._fitted = -1  # the capacity that they have room for
        self._slides = [state.differential for state in self._states]
        others = [i for i, slides in enumerate(self._slides) if not slides]
        self._stacks = (
            TwoStacks(lambda: grouping.states()[0], others, panes.span) if others else None
        )
        self._changed: list[Ids] = []  # groups of which the stacks have something new
        self._panes: deque[Pane] = deque()
        self._pane_bytes = 0
        self._widths = [width_of(state.partial_schema) for state in self._states]
        self._held: PaneCells | None = None  # panes that are yet to enter
        self._flat: PaneCells | None = (
            None  # panes as cells, where they were kept; the first ones may
        )
        self._not_flat: list[Pane] = []  # have left since; those that have entered since

    def slide(self, window: int, arriving: Arriving) -> list[Ids]:
        """Becomes this window: takes in what has arrived of it, and lets go of what is too old; the
        groups that are in no pane of it any more.
        """
        end = self._of.end(window)
        stacks = self._stacks
        turns = stacks is not None and stacks.begins_anew_at(end)
        if stacks is not None and turns:
            stacks.stop()
        self._let_in()
        while arriving and arriving.number < end:
            self._enter(arriving.take())
        first, gone = self._of.first(window), []
        while self._panes and self._panes[0].number < first:
            gone.append(self._leave(self._panes.popleft()))
        if stacks is None:
            return gone
        if not self._panes:
            stacks.forget()
            self._changed = []
        elif turns:
            stacks.turn(end, first, list(self._panes))
            self._changed = [self._live()]
        else:
            self._changed += stacks.leave_below(first, self._panes_below)
        return gone

    def _panes_below(self, end: int) -> list[Pane]:
        return list(takewhile(lambda pane: pane.number < end, self._panes))

    def same_until(self, window: int) -> int:
        """The first window that may have other answers than this one, if no pane enters."""
        another = self._panes[0].number  # the first pane leaves, or what is behind it moves up
        if self._stacks is not None:
            another = min(another, self._stacks.split_of(self._of.end(window)))
        return self._of.windows(another)[1]

    def _enter(self, pane: Pane) -> None:
        """Adds a pane on the right."""
        ids = pane.groups
        capacity = self._groups.capacity
        counts = self._counts.fit(capacity)
        counts[ids] += 1
        self._fit_states(capacity)
        for state, slides, partial in zip(self._states, self._slides, pane.partials, strict=True):
            if slides:
                state.merge(ids, partial)
        if self._stacks is not None:
            self._stacks.enter(pane)
            self._changed.append(ids)
        self._panes.append(pane)
        if self._flat is not None:
            self._not_flat.append(pane)
        self._pane_bytes += self._size(pane)

    def _leave(self, pane: Pane) -> Ids:
        counts = self._counts.values
        counts[pane.groups] -= 1
        self._pane_bytes -= self._size(pane)
        for state, slides, partial in zip(self._states, self._slides, pane.partials, strict=True):
            if slides:
                state.unmerge(pane.groups, partial)
        gone: Ids = pane.groups[counts[pane.groups] == 0]
        if len(gone):
            for state in self._states:
                state.clear(gone)
        return gone

    def hold(self, found: Found, partials: list[pa.RecordBatch]) -> None:
        """Has these panes, as cells in their order, and no others; they enter when needed."""
        if self._panes:
            ids = self._live()
            self._counts.values[ids] = 0
            for state in self._states:
                state.clear(ids)
            self._panes.clear()
            self._pane_bytes = 0
            if self._stacks is not None:
                self._stacks.forget()
                self._changed = []
        self._flat, self._not_flat = None, []
        self._held = (found, partials) if len(found.groups) else None

    def _let_in(self) -> None:
        if self._held is not None:
            held, self._held = self._held, None
            for pane in panes_of(*held):
                self._enter(pane)

    def cells(self) -> PaneCells:
        """The panes as cells, in their order."""
        return self._held or self._joined(None, list(self._panes))

    def kept_cells(self) -> PaneCells:
        """The same for repeated questions: only what entered since is looked at."""
        if self._held is not None:
            return self._held
        panes = list(self._panes) if self._flat is None else self._not_flat
        self._flat, self._not_flat = self._joined(self._flat, panes), []
        return self._flat

    def _joined(self, known: PaneCells | None, panes: Sequence[Pane]) -> PaneCells:
        """Cells that are known, except for those that have left, and those of panes behind them."""
        none = np.empty(0, np.int64)
        batches = [[state.take(none)] for state in self._states]
        places, groups = [none], [none]
        first = self._panes[0].number if self._panes else INF
        if known is not None:
            left = int(np.searchsorted(known[0].places, first))
            places.append(known[0].places[left:])
            groups.append(known[0].groups[left:])
            for of_state, batch in zip(batches, known[1], strict=True):
                of_state.append(batch.slice(left))
        for pane in panes:
            if pane.number >= first:
                places.append(np.full(len(pane.groups), pane.number, np.int64))
                groups.append(pane.groups)
                for of_state, batch in zip(batches, pane.partials, strict=True):
                    of_state.append(batch)
        of = np.concatenate(groups)
        return Found(np.concatenate(places), of, of), [pa.concat_batches(b) for b in batches]

    def fit(self) -> None:
        """Gives room back, after groups were released."""
        capacity = self._groups.capacity
        self._counts.fit(capacity)
        self._fit_states(capacity)

    def _fit_states(self, capacity: int) -> None:
        if capacity != self._fitted:
            self._fitted = capacity
            for state in self._states:
                state.fit(capacity)
            if self._stacks is not None:
                self._stacks.fit(capacity)

    def has(self, groups: Ids) -> Mask:
        """Which groups are in it."""
        counts = self._counts.values
        there = np.zeros(max(len(counts), self._groups.capacity), np.bool_)
        there[: len(counts)] = counts > 0
        if self._held is not None:
            there[self._held[0].groups] = True
        found: Mask = there[groups]
        return found

    def results(self, windows: range) -> Iterator[tuple[Answers, int]]:
        """The answers of all groups, as those of each of these windows, in parts; and below which
        window all answers are then given.
        """
        self._combine()
        columns = self._groups.columns
        return results_of_windows(self._grouping, windows, columns, self._states, self._live())

    def _combine(self) -> None:
        """Puts together what the stacks have of groups that have changed."""
        if self._stacks is not None and self._changed:
            groups = np.unique(np.concatenate(self._changed))
            self._stacks.combine(self._states, groups[self._counts.values[groups] > 0])
            self._changed = []

    def _live(self) -> Ids:
        ids: Ids = (self._counts.values > 0).nonzero()[0]
        return ids

    def panes(self) -> list[Pane]:
        """What it was put together from, in order."""
        return list(self._panes if self._held is None else panes_of(*self._held))

    @property
    def cell_count(self) -> int:
        """Cells of those panes."""
        if self._held is not None:
            return len(self._held[0].groups)
        return int(self._counts.values.sum())

    def __bool__(self) -> bool:
        """Whether a pane is in it."""
        return bool(self._panes) or self._held is not None

    def _size(self, pane: Pane) -> int:
        """Bytes of a pane."""
        n = len(pane.groups)
        return n * 8 + sum(
            partial.nbytes if width is None else n * width
            for partial, width in zip(pane.partials, self._widths, strict=True)
        )

    # -- looking at it ------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of the state by group and of the panes."""
        held = sum(state.nbytes for state in self._states)
        if self._held is not None:
            found, partials = self._held
            held += found.groups.nbytes + sum(p.nbytes for p in partials)
        stacks = 0 if self._stacks is None else self._stacks.nbytes
        if self._flat is not None:
            held += 2 * self._flat[0].places.nbytes + sum(p.nbytes for p in self._flat[1])
        return self._counts.nbytes + held + stacks + self._pane_bytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        for state in self._states:
            state.validate()
        if self._stacks is not None:
            self._stacks.validate()
        numbers = [pane.number for pane in self._panes]
        if numbers != sorted(set(numbers)):
            raise Bug(f"complete panes out of order: {numbers}")
        counts = np.zeros(len(self._counts.values), np.int64)
        for pane in self._panes:
            counts[pane.groups] += 1
        if (counts != self._counts.values).any():
            raise Bug("a group is counted in more or fewer panes than have it")
        if self._pane_bytes != sum(map(self._size, self._panes)):
            raise Bug("the count of bytes of complete panes is wrong")


def width_of(schema: pa.Schema) -> int | None:
    """Bytes of a row, where every row has as many; asking Arrow costs more than the row."""
    try:
        return sum(-(-int(field.type.bit_width) // 8) for field in schema)
    except ValueError:  # a type of no fixed width
        return None


class Arriving:
    """Cells in the order of their panes, handed out pane after pane."""

    def __init__(self, found: Found, partials: Sequence[pa.RecordBatch]) -> None:
        self._found, self._partials = found, partials
        numbers = found.places
        cuts = (numbers[1:] != numbers[:-1]).nonzero()[0] + 1
        self._edges = np.concatenate(([0], cuts, [len(numbers)])) if len(numbers) else cuts
        self._at = 0

    def __bool__(self) -> bool:
        """Whether a pane is left."""
        return self._at < len(self._edges) - 1

    @property
    def number(self) -> int:
        """Of the next pane; there is one."""
        return int(self._found.places[self._edges[self._at]])

    def take(self) -> Pane:
        """The next pane; there is one."""
        start, end = int(self._edges[self._at]), int(self._edges[self._at + 1])
        partials = [p.slice(start, end - start) for p in self._partials]
        pane = Pane(self.number, self._found.groups[start:end], partials)
        self._at += 1
        return pane


def panes_of(found: Found, partials: Sequence[pa.RecordBatch]) -> Iterator[Pane]:
    """Cells, in the order of their panes, cut into panes."""
    arriving = Arriving(found, partials)
    while arriving:
        yield arriving.take()
