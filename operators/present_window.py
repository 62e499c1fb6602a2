"""The window that is being answered, put together from complete panes (the WLQ of section 6.2).

    panes    p3 {A: 2, B: 1}   p4 {A: 5}   p5 {B: 4}        sub-aggregates of each pane's groups
    window   A: 7, B: 5                                     by group
    slide    p6 enters: added        p3 leaves: subtracted, where the function is differential;
                                     the others are recombined from p4 p5 p6 when asked

Panes enter in order and leave in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids, Mask
from gapless.operators.answers import Answers, Grouping, results
from gapless.operators.cells import Found
from gapless.operators.groups import Groups
from gapless.protocol.errors import Bug


class Pane(NamedTuple):
    """A complete pane: what it has of each of its groups."""

    number: int
    groups: Ids
    partials: list[pa.RecordBatch]
    """Sub-aggregates, one batch a state."""


class PresentWindow:
    """State by group, and the panes that it was put together from."""

    def __init__(self, grouping: Grouping, groups: Groups) -> None:
        self._grouping = grouping
        self._groups = groups
        self._counts = Column(0)  # by group: panes of the window that it is in
        self._states, _ = grouping.states()
        self._fitted = -1  # the capacity that they have room for
        self._slides = [state.differential for state in self._states]
        self._panes: deque[Pane] = deque()
        self._pane_bytes = 0
        self._widths = [_width(state.partial_schema) for state in self._states]
        self._held: tuple[Found, list[pa.RecordBatch]] | None = None  # panes that are yet to enter

    def enter(self, pane: Pane) -> None:
        """Adds a pane on the right."""
        self._let_in()
        ids = pane.groups
        capacity = self._groups.capacity
        counts = self._counts.fit(capacity)
        counts[ids] += 1
        self._fit_states(capacity)
        for state, slides, partial in zip(self._states, self._slides, pane.partials, strict=True):
            if slides:
                state.merge(ids, partial)
        self._panes.append(pane)
        self._pane_bytes += self._size(pane)

    def leave_below(self, number: int) -> list[Ids]:
        """Removes the panes below this one; the groups that are in no other pane of the window."""
        self._let_in()
        gone = []
        while self._panes and self._panes[0].number < number:
            gone.append(self._leave(self._panes.popleft()))
        return gone

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
        self._held = (found, partials) if len(found.groups) else None

    def _let_in(self) -> None:
        if self._held is not None:
            held, self._held = self._held, None
            for pane in panes_of(*held):
                self.enter(pane)

    def cells(self) -> tuple[Found, list[pa.RecordBatch]]:
        """The panes as cells, in their order."""
        if self._held is not None:
            return self._held
        panes = self.panes()
        none = np.empty(0, np.int64)
        numbers = [np.full(len(pane.groups), pane.number, np.int64) for pane in panes]
        places = np.concatenate((none, *numbers))
        groups = np.concatenate((none, *(pane.groups for pane in panes)))
        partials = [
            pa.concat_batches([state.take(none), *(pane.partials[i] for pane in panes)])
            for i, state in enumerate(self._states)
        ]
        return Found(places, groups, groups), partials

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

    def has(self, groups: Ids) -> Mask:
        """Which groups are in it."""
        counts = self._counts.values
        there = np.zeros(max(len(counts), self._groups.capacity), np.bool_)
        there[: len(counts)] = counts > 0
        if self._held is not None:
            there[self._held[0].groups] = True
        found: Mask = there[groups]
        return found

    def results(self, window: int, final: bool = True) -> Answers:
        """The answers of all groups, as those of this window."""
        self._let_in()
        ids = self._live()
        for i, state in enumerate(self._states):
            if not self._slides[i]:
                state.clear(ids)
                for pane in self._panes:
                    state.merge(pane.groups, pane.partials[i])
        windows = np.full(len(ids), window, np.int64)
        groups = self._groups.columns(ids)
        return results(self._grouping, windows, groups, self._states, ids, final)

    def _live(self) -> Ids:
        ids: Ids = (self._counts.values > 0).nonzero()[0]
        return ids

    def panes(self) -> list[Pane]:
        """What it was put together from, in order."""
        self._let_in()
        return list(self._panes)

    def numbers(self) -> list[int]:
        """The numbers of those panes."""
        self._let_in()
        return [pane.number for pane in self._panes]

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
        return self._counts.nbytes + held + self._pane_bytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        for state in self._states:
            state.validate()
        numbers = self.numbers()
        if numbers != sorted(set(numbers)):
            raise Bug(f"complete panes out of order: {numbers}")
        counts = np.zeros(len(self._counts.values), np.int64)
        for pane in self._panes:
            counts[pane.groups] += 1
        if (counts != self._counts.values).any():
            raise Bug("a group is counted in more or fewer panes than have it")
        if self._pane_bytes != sum(map(self._size, self._panes)):
            raise Bug("the count of bytes of complete panes is wrong")


def _width(schema: pa.Schema) -> int | None:
    """Bytes of a row, where every row has as many; asking Arrow costs more than the row."""
    try:
        return sum(-(-int(field.type.bit_width) // 8) for field in schema)
    except ValueError:  # a type of no fixed width
        return None


def panes_of(found: Found, partials: Sequence[pa.RecordBatch]) -> list[Pane]:
    """Cells, in the order of their panes, cut into panes."""
    numbers = found.places
    if not len(numbers):
        return []
    cuts = ((numbers[1:] != numbers[:-1]).nonzero()[0] + 1).tolist()
    return [
        Pane(
            int(numbers[start]),
            found.groups[start:end],
            [p.slice(start, end - start) for p in partials],
        )
        for start, end in zip([0, *cuts], [*cuts, len(numbers)], strict=True)
    ]
