"""What a window's panes make together, for functions that cannot be subtracted: two stacks.

    window    p3 p4 p5 | p6 p7       of six panes, from p2 on; the split is at a multiple of 6
    front     what p3 p4 p5 make; and what it was before p3 came, before p4, and before p5
    back      what p6 p7 make
    slide     p8 enters: merged into the back    p3 leaves: the front is as it was before p3
    p12       the back begins anew, and p11 ... p7 make the front, the last one first

So a pane is merged twice, however many windows it is in. The answer of a group is what front and
back have of it, put together; it is put together again only when one of them changes.

Splits lie at multiples of the range, and nowhere else. So how panes are put together, which floats
show in their last bits, depends on a window's panes alone, never on when it was asked for.

Of a long range the front is not made at one stroke. Panes are gathered in blocks of about its
square root, absolute as splits are; whole blocks make the front, and a block's own panes replace
it when the window's beginning comes to it. A turn is then some hundred merges for a day of seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isqrt
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids
from gapless.operators.aggregates.function import Accumulator
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug

PANES_AT_ONCE = 256
"""A range of no more panes has no blocks: a turn merges that many at the most."""

_NONE = np.empty(0, np.int64)


class Pane(NamedTuple):
    """A complete pane: what it has of each of its groups."""

    number: int
    groups: Ids
    partials: list[pa.RecordBatch]
    """Sub-aggregates, one batch a state."""


class _Kept(NamedTuple):
    """What the front was before a pane or a block came to it; or what a whole block makes."""

    first: int
    """The number of the pane, or of the block's first one."""
    groups: Ids
    partials: Sequence[pa.RecordBatch]
    nbytes: int


class TwoStacks:
    """State by group of the panes from the window's beginning to the split, and from there on."""

    def __init__(
        self, make: Callable[[], Sequence[Accumulator]], chosen: Sequence[int], span: int
    ) -> None:
        """`chosen`: which of the states that `make` gives; a window has `span` panes."""
        self._chosen = list(chosen)
        self._span = span
        self._block = span if span <= PANES_AT_ONCE else isqrt(span - 1) + 1
        self._front, self._back, self._gathered = (
            [states[i] for i in self._chosen] for states in (make(), make(), make())
        )
        self._split = INF  # no pane is merged before a turn
        self._backed: list[Ids] = []  # those that the back may have
        self._undo: list[_Kept] = []  # by pane, the first one last
        self._blocks: list[_Kept] = []  # the same by whole blocks, all later than those
        self._in_block: list[Ids] = []  # groups of the block that is being gathered
        self._at_block = BEGIN
        self._whole: dict[int, _Kept] = {}  # blocks by first pane
        self.merges = 0
        """Panes and blocks merged or taken back so far, each as often as it was."""

    def split_of(self, end: int) -> int:
        """Where a window that ends with pane `end - 1` is split."""
        return (end - 1) // self._span * self._span

    def begins_anew_at(self, end: int) -> bool:
        """Whether a window with that end is split elsewhere than the last one."""
        return self.split_of(end) != self._split

    # -- panes --------------------------------------------------------------------------------

    def stop(self) -> None:
        """Gives front and back up: a turn follows once all panes have entered."""
        _clear(self._front, _distinct([b.groups for b in (*self._undo, *self._blocks)]))
        _clear(self._back, _distinct(self._backed))
        self._split = INF
        self._undo, self._blocks, self._backed = [], [], []

    def enter(self, pane: Pane) -> None:
        """Adds a pane on the right."""
        if self._block < self._span:
            self._gather(pane)
        if pane.number >= self._split:
            self._back_up(pane)

    def turn(self, end: int, first: int, panes: Sequence[Pane]) -> None:
        """Begins anew, with a window of these panes: from `first` to below `end`."""
        self._split = self.split_of(end)
        if self._at_block < self._split:
            self._close_block()
        for pane in reversed(panes):
            if pane.number >= self._split:
                continue
            block = self._block_of(pane.number)
            if first > block or block not in self._whole:
                self._push(self._undo, pane.number, pane.groups, self._parts(pane))
            elif not self._blocks or self._blocks[-1].first != block:
                self._push(self._blocks, block, *self._whole[block][1:3])
        for pane in panes:
            if pane.number >= self._split:
                self._back_up(pane)

    def leave_below(self, first: int, panes: Callable[[int], Sequence[Pane]]) -> list[Ids]:
        """Takes back what is below `first`; the groups of that. `panes(n)`: those left below n."""
        gone = []
        while self._undo and self._undo[-1].first < first:
            gone.append(self._take_back(self._undo.pop()))
        while not self._undo and self._blocks and self._blocks[-1].first < first:
            block = self._blocks.pop()
            gone.append(self._take_back(block))
            for pane in reversed(panes(min(block.first + self._block, self._split))):
                self._push(self._undo, pane.number, pane.groups, self._parts(pane))
        while self._whole and (oldest := next(iter(self._whole))) < first:
            del self._whole[oldest]
        if self._at_block < first:
            self._drop_block()
        return gone

    def combine(self, states: Sequence[Accumulator], groups: Ids) -> None:
        """Puts front and back together, in those of `states` that are chosen."""
        for i, front, back in zip(self._chosen, self._front, self._back, strict=True):
            states[i].clear(groups)
            states[i].merge(groups, front.take(groups))
            states[i].merge(groups, back.take(groups))

    def forget(self) -> None:
        """Has no panes."""
        self.stop()
        self._drop_block()
        self._whole = {}

    # -- front and blocks ---------------------------------------------------------------------

    def _parts(self, pane: Pane) -> list[pa.RecordBatch]:
        return [pane.partials[i] for i in self._chosen]

    def _merge(
        self, states: Sequence[Accumulator], groups: Ids, partials: Sequence[pa.RecordBatch]
    ) -> None:
        self.merges += 1
        for state, partial in zip(states, partials, strict=True):
            state.merge(groups, partial)

    def _back_up(self, pane: Pane) -> None:
        self._merge(self._back, pane.groups, self._parts(pane))
        self._backed.append(pane.groups)

    def _push(
        self, stack: list[_Kept], first: int, groups: Ids, partials: Sequence[pa.RecordBatch]
    ) -> None:
        stack.append(_kept(first, groups, self._front))
        self._merge(self._front, groups, partials)

    def _take_back(self, before: _Kept) -> Ids:
        _clear(self._front, before.groups)
        self._merge(self._front, before.groups, before.partials)
        return before.groups

    def _block_of(self, pane: int) -> int:
        """The first pane of its block."""
        within = pane % self._span
        return pane - within % self._block

    def _gather(self, pane: Pane) -> None:
        """Adds a pane to its block; the block before it is then whole."""
        block = self._block_of(pane.number)
        if block != self._at_block:
            self._close_block()
            self._at_block = block
        self._merge(self._gathered, pane.groups, self._parts(pane))
        self._in_block.append(pane.groups)

    def _close_block(self) -> None:
        if self._in_block:
            groups = _distinct(self._in_block)
            self._whole[self._at_block] = _kept(self._at_block, groups, self._gathered)
            self._drop_block()

    def _drop_block(self) -> None:
        _clear(self._gathered, _distinct(self._in_block))
        self._in_block = []

    # -- looking at it ------------------------------------------------------------------------

    def fit(self, capacity: int) -> None:
        """Makes room for groups below `capacity`."""
        for state in (*self._front, *self._back, *self._gathered):
            state.fit(capacity)

    @property
    def nbytes(self) -> int:
        """Bytes of state, and of what the front was."""
        states = sum(state.nbytes for state in (*self._front, *self._back, *self._gathered))
        kept = (*self._undo, *self._blocks, *self._whole.values())
        return states + sum(each.nbytes for each in kept)

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        for state in (*self._front, *self._back, *self._gathered):
            state.validate()
        order = [before.first for before in (*self._blocks, *self._undo)]
        if order != sorted(set(order), reverse=True) or (order and order[0] >= self._split):
            raise Bug(f"the front was made of {order}, the split is at {self._split}")


def _kept(first: int, groups: Ids, states: Sequence[Accumulator]) -> _Kept:
    partials = [state.take(groups) for state in states]
    return _Kept(first, groups, partials, groups.nbytes + sum(p.nbytes for p in partials))


def _distinct(groups: Sequence[Ids]) -> Ids:
    return np.unique(np.concatenate(groups)) if len(groups) else _NONE


def _clear(states: Sequence[Accumulator], groups: Ids) -> None:
    if len(groups):
        for state in states:
            state.clear(groups)
