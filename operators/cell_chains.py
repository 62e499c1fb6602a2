"""Final cells that windows still need, linked by group in the order of their places.

    extend(groups [A B], places [3 3])     A: 3        B: 3
    extend(groups [A A], places [3 4])     A: 3 4      B: 3        place 3 of A has more rows now
    of([A])                                places 3 4, where their sub-aggregates are

A stable looks at the groups whose windows have closed, and at no other's cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gapless.kernels import Chains
from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.operators.answers import Grouping
from gapless.operators.numbers import unique
from gapless.protocol.errors import Bug

ROOM_MIN = 256
"""So many slots are not worth laying out anew."""
USED_SHARE = 4
"""Slots are laid out anew once fewer than one in so many holds a cell."""


class Chained(NamedTuple):
    """Cells of some groups, one group after the other, each by place."""

    at: Ids
    """Which of the groups asked for."""
    places: Ids
    slots: Ids


class CellChains:
    """State by slot; which slots a group has."""

    def __init__(self, grouping: Grouping) -> None:
        self._states, _ = grouping.states()
        self._chains = Chains()
        self._group = Column(-1)  # by slot, -1 where it is free
        self._place = Column(0)
        self._last = Column(-1)  # by group, its last slot
        self._free = np.empty(0, np.int64)
        self._end = 0  # slots from here on were never used

    def extend(
        self, groups: Ids, places: Ids, partials: Sequence[pa.RecordBatch], capacity: int
    ) -> None:
        """Adds cells, by group and place; none lies before a group's last one. Groups are below
        `capacity`.
        """
        if not len(groups):
            return
        last = self._last.fit(capacity)[groups]
        joins = (last >= 0) & (self._place.values[last] == places)
        slots = np.where(joins, last, -1)
        new = (~joins).nonzero()[0]
        slots[new] = self._slots(len(new))
        self._group.values[slots[new]] = groups[new]
        self._place.values[slots[new]] = places[new]
        self._last.values[groups] = slots  # of one group the last is kept
        self._chains.add(groups[new], slots[new])
        for state, partial in zip(self._states, partials, strict=True):
            state.merge(slots, partial)

    def _slots(self, count: int) -> Ids:
        """Takes so many free slots."""
        left = max(0, len(self._free) - count)
        reused, self._free = self._free[left:], self._free[:left]
        fresh = np.arange(self._end, self._end + count - len(reused))
        self._end += len(fresh)
        self._fit()
        return np.concatenate((reused, fresh))

    def _fit(self) -> None:
        for column in (self._group, self._place):
            column.fit(self._end)
        for state in self._states:
            state.fit(self._end)

    def of(self, groups: Ids) -> Chained:
        """The cells of these groups."""
        at, slots = self._chains.probe(groups)
        return Chained(at, self._place.values[slots], slots)

    def take(self, slots: Ids) -> list[pa.RecordBatch]:
        """Sub-aggregates of cells, a batch a state."""
        return [state.take(slots) for state in self._states]

    def drop(self, slots: Ids) -> None:
        """Forgets cells: the first ones of their groups."""
        if not len(slots):
            return
        groups = self._group.values[slots]
        gone = self._last.values[groups] == slots
        self._last.values[groups[gone]] = -1
        self._chains.remove(slots)
        for state in self._states:
            state.clear(slots)
        self._group.values[slots] = -1
        self._free = np.concatenate((self._free, slots))
        if self._end > ROOM_MIN and len(self) * USED_SHARE < self._end:
            self._lay_out()

    def replace(self, slots: Ids, partials: Sequence[pa.RecordBatch]) -> None:
        """Has cells say something else."""
        for state, partial in zip(self._states, partials, strict=True):
            state.clear(slots)
            state.merge(slots, partial)

    def _lay_out(self) -> None:
        """Puts what there is into the first slots: memory after a peak comes back."""
        old = self._in_order()
        groups, places, partials = self._group.values[old], self._place.values[old], self.take(old)
        self._chains.remove(old)
        for state in self._states:
            state.clear(old)
        self._last.values[groups] = -1
        self._group, self._place = Column(-1), Column(0)
        self._free, self._end = self._free[:0], 0
        if len(old):
            self.extend(groups, places, partials, len(self._last.values))
        else:
            self._fit()

    def _in_order(self) -> Ids:
        slots = (self._group.values[: self._end] >= 0).nonzero()[0]
        return slots[np.lexsort((self._place.values[slots], self._group.values[slots]))]

    def before(self, place: int) -> Ids:
        """All cells whose place lies before this one."""
        group, places = self._group.values[: self._end], self._place.values[: self._end]
        found: Ids = ((group >= 0) & (places < place)).nonzero()[0]
        return found

    def groups_of(self, slots: Ids) -> Ids:
        """The different groups of these cells."""
        return unique(self._group.values[slots])

    @property
    def groups(self) -> Ids:
        """All groups that have a cell."""
        found: Ids = (self._last.values >= 0).nonzero()[0]
        return found

    def has(self, groups: Ids) -> np.typing.NDArray[np.bool_]:
        """Which groups have a cell."""
        last = self._last.values
        found: np.typing.NDArray[np.bool_] = last[np.minimum(groups, len(last) - 1)] >= 0
        found &= groups < len(last)
        return found

    def __len__(self) -> int:
        return self._end - len(self._free)

    @property
    def nbytes(self) -> int:
        """Bytes of the cells and what finds them."""
        columns = self._group.nbytes + self._place.nbytes + self._last.nbytes + self._free.nbytes
        return columns + int(self._chains.nbytes) + sum(state.nbytes for state in self._states)

    def all(self) -> tuple[Ids, Ids, list[pa.RecordBatch]]:
        """All cells, for a snapshot, by place: places, groups, sub-aggregates."""
        slots = self._in_order()
        slots = slots[np.argsort(self._place.values[slots], kind="stable")]
        return self._place.values[slots], self._group.values[slots], self.take(slots)

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        for state in self._states:
            state.validate()
        live = int(np.count_nonzero(self._group.values >= 0))
        if live != len(self):
            raise Bug(f"{live} slots have a cell, {len(self)} are said to")
        found = self.of(self.groups)
        if len(found.slots) != live:
            raise Bug(f"{live} cells, {len(found.slots)} are linked")
        same = found.at[1:] == found.at[:-1]
        if (same & (found.places[1:] <= found.places[:-1])).any():
            raise Bug("cells of a group are out of order")
