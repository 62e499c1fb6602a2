"""Aggregate state by place and group: a place is a pane, or a window.

Where cells are dense, a cell's id is computed; where they are sparse, it is looked up:

    dense     places 7 8 9 have slots 0 1 2; `room` groups a slot
              id = slot * room + group             no hash, but room for what may never come
    sparse    (place, group) -> id                 a KeyTable

It begins dense. When places and groups would need many times the room of the cells that are there
(each group in few of many places), it turns sparse, and dense again once it is empty.

Rows are counted by cell whatever the aggregates are: a cell is there if it has rows.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gapless.kernels.columns import ROOM_MIN, SPARE_SHARE
from gapless.kernels.keys import Ids
from gapless.operators.answers import Grouping
from gapless.operators.sparse_cells import Found, SparseCells
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Times

DENSE_CELLS_MIN = 1 << 17
"""So many cells are never too many: 2 MB of count and sum."""
DENSE_SHARE = 32
"""Dense as long as one cell in so many has rows: a hash costs more time than room costs memory."""
DENSE_PLACES_MAX = 1 << 16
"""From the first place to the last: what is looked up by its distance from the first."""
DENSE_GROWTH = 2
"""What is laid out is judged anew once it has so many times the cells that it was judged with."""
PLACES_AHEAD = 64
"""The look-up reaches so far beyond the last place, and as far again as places go now."""
ROWS_A_PLACE = 8
"""Rows a place, on average, that make a frame long."""


_NO_IDS = np.empty(0, np.int64)
_NONE = Found(_NO_IDS, _NO_IDS, _NO_IDS)


class Cells:
    """State by place and group."""

    def __init__(self, grouping: Grouping) -> None:
        self.states, self._counter = grouping.states()
        self._index: _Dense | SparseCells = _Dense()
        self._fitted = -1  # the capacity that the states have room for

    @property
    def repeat(self) -> bool:
        """Whether the cells of one `merge` may repeat."""
        return all(state.repeats for state in self.states)

    def add(
        self,
        places: Times,
        groups: Ids,
        capacity: int,
        times: Times,
        rows: pa.RecordBatch,
        within: tuple[int, int] | None = None,
    ) -> None:
        """Row i counts at places[i] for groups[i]; groups are below `capacity`.

        A caller that knows the lowest and the highest place says so: `within`.
        """
        ids = self._ids(places, groups, capacity, within)
        for state in self.states:
            state.add(ids, rows, times)

    def _ids(
        self, places: Times, groups: Ids, capacity: int, within: tuple[int, int] | None = None
    ) -> Ids:
        ids = self._index.ids(places, groups, capacity, within)
        if ids is None:
            self._lay_out(places, groups, capacity)
            ids = self._index.ids(places, groups, capacity, within)
            if ids is None:
                raise Bug("cells have no room for rows that they were laid out for")
        self._fit()
        return ids

    def _fit(self) -> None:
        capacity = self._index.capacity
        if capacity != self._fitted:
            self._fitted = capacity
            for state in self.states:
                state.fit(capacity)

    def _lay_out(self, places: Times, groups: Ids, capacity: int) -> None:
        """Makes room for more places or groups, in the layout that suits them."""
        held = self.between(BEGIN, INF)
        partials = [state.take(held.ids) for state in self.states]
        for state in self.states:
            state.clear(held.ids)
        index = _Dense.laid_out(np.concatenate((held.places, places)), capacity)
        cells = 0 if index is None else index.capacity
        most = max(DENSE_CELLS_MIN, DENSE_SHARE * (len(held.ids) + len(places)))
        self._index = SparseCells() if index is None or cells > most else index
        ids = self._index.ids(held.places, held.groups, capacity)
        if ids is None:
            raise Bug("cells have no room for what they were laid out for")
        self._fit()
        for state, partial in zip(self.states, partials, strict=True):
            state.merge(ids, partial)

    def merge(
        self, places: Times, groups: Ids, capacity: int, partials: list[pa.RecordBatch]
    ) -> None:
        """Adds sub-aggregates, no two of one cell unless they may `repeat`."""
        ids = self._ids(places, groups, capacity)
        for state, partial in zip(self.states, partials, strict=True):
            state.merge(ids, partial)

    def between(self, first: int, end: int) -> Found:
        """The cells at places from `first` to below `end`."""
        return self._index.between(max(BEGIN, first), min(end, INF), self._counter.counts.values)

    def places(self, end: int) -> Times:
        """The places below `end` that may have cells, each once."""
        return self._index.places(end)

    def at(self, place: int, groups: Ids) -> Found:
        """The cells of some groups at one place."""
        ids = self._index.find(place, groups)
        there = ids >= 0
        there[there] = self._counter.counts.of(ids[there]) > 0
        groups = groups[there]
        return Found(np.full(len(groups), place, np.int64), groups, ids[there])

    def take(self, found: Found) -> list[pa.RecordBatch]:
        """Their sub-aggregates, one batch a state."""
        return [state.take(found.ids) for state in self.states]

    def counts(self, ids: Ids) -> Ids:
        """How many rows cells have."""
        return self._counter.counts.of(ids)

    def forget(self, found: Found) -> None:
        """Frees them: all cells of the first places."""
        if not len(found.ids):
            return
        for state in self.states:
            state.clear(found.ids)
        if not self._index.free(found):
            self._index = _Dense()
        self._fit()

    @property
    def held(self) -> int:
        """How many there are."""
        return int(np.count_nonzero(self._counter.counts.values))

    def has(self, groups: Ids) -> np.typing.NDArray[np.bool_]:
        """Which groups have a cell."""
        return self._index.has(groups, self._counter.counts.values)

    @property
    def nbytes(self) -> int:
        """Bytes of the state and of what finds it."""
        return sum(state.nbytes for state in self.states) + self._index.nbytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        for state in self.states:
            state.validate()
        self._index.validate(self._counter.counts.values)


def distinct(values: Ids, low: int, high: int) -> Ids:
    """The different values, ascending; all lie within `low` and `high`, best not far apart."""
    if high - low >= DENSE_PLACES_MAX:
        return np.unique(values)
    there = np.zeros(high - low + 1, np.bool_)
    there[values - low] = True
    found: Ids = there.nonzero()[0] + low
    return found


class _Dense:
    """Ids computed from the slot of a place and the group."""

    def __init__(self, room: int = 0) -> None:
        self._room = room
        self._cells_max = DENSE_CELLS_MIN  # the most before the layout is judged anew
        self._places = np.empty(0, np.int64)  # by slot; INF where it is free
        self._first = 0
        self._slots = np.empty(0, np.int64)  # by distance from the first place; -1: none

    @staticmethod
    def laid_out(places: Times, capacity: int) -> _Dense | None:
        """One with slots for these places; None where they are too far apart."""
        if int(places.max()) - int(places.min()) >= DENSE_PLACES_MAX:
            return None
        low, high = int(places.min()), int(places.max())
        index = _Dense(capacity + capacity // SPARE_SHARE)
        index._look_from(low, high)
        index._open(distinct(places, low, high))
        index._cells_max = max(DENSE_CELLS_MIN, DENSE_GROWTH * index.capacity)
        return index

    def _open(self, places: Times) -> None:
        """Gives places a slot each; the look-up reaches them."""
        slots = (self._places == INF).nonzero()[0][: len(places)]
        more = len(places) - len(slots)
        if more:
            known = len(self._places)
            slots = np.concatenate((slots, np.arange(known, known + more)))
            self._places = np.concatenate((self._places, places[-more:]))
        self._places[slots] = places
        self._slots[places - self._first] = slots

    def _look_from(self, first: int, last: int) -> None:
        """Lays the look-up of slots out anew, from the first place to the last and some more."""
        open_ = (self._places < INF).nonzero()[0]
        self._first = first
        self._slots = np.full(2 * (last - first) + PLACES_AHEAD, -1, np.int64)
        self._slots[self._places[open_] - first] = open_

    @property
    def capacity(self) -> int:
        """One above the largest id."""
        return len(self._places) * self._room

    def ids(
        self, places: Times, groups: Ids, capacity: int, within: tuple[int, int] | None = None
    ) -> Ids | None:
        """The cell of each row; None where there is no room for it."""
        if capacity > self._room or self._room > max(ROOM_MIN, SPARE_SHARE * capacity):
            return None
        if not len(places):
            return groups
        low, high = within or (int(places.min()), int(places.max()))
        if not self._reaches(low, high):
            # In a long frame hardly a place between is empty: giving one a slot costs less than
            # looking at all rows.
            full = within is not None and ROWS_A_PLACE * (high - low) < len(places)
            here = np.arange(low, high + 1) if full else distinct(places, low, high)
            if not self._make_slots(here):
                return None
        if self._side_by_side(low, high):  # as places that come in order
            ids: Ids = places - (low - int(self._slots[low - self._first]))
        else:
            ids = self._slots[places - self._first]
        return ids if self._room == 1 else ids * self._room + groups

    def _reaches(self, low: int, high: int) -> bool:
        """Whether every place from `low` to `high` has a slot."""
        first, last = low - self._first, high - self._first
        inside = first >= 0 and last < len(self._slots)
        return inside and int(self._slots[first : last + 1].min()) >= 0

    def _side_by_side(self, low: int, high: int) -> bool:
        """Whether the places from `low` to `high` have slots in the same order, without a gap."""
        slots = self._slots[low - self._first : high + 1 - self._first]
        if int(slots[-1]) - int(slots[0]) != high - low:
            return False
        return int(np.count_nonzero(slots[1:] - slots[:-1] == 1)) == high - low

    def _make_slots(self, here: Times) -> bool:
        """Gives slots to those of these places that have none; False where the layout ought to be
        judged first. Places are ascending.
        """
        low, high = int(here[0]), int(here[-1])
        if low < self._first or high - self._first >= len(self._slots):
            live = self._places[self._places < INF]
            if len(live):
                low, high = min(low, int(live.min())), max(high, int(live.max()))
            if high - low >= DENSE_PLACES_MAX:
                return False
            self._look_from(low, high)
        new = here[self._slots[here - self._first] < 0]
        if len(new):
            if (np.count_nonzero(self._places < INF) + len(new)) * self._room > self._cells_max:
                return False
            self._open(new)
        return True

    def between(self, first: int, end: int, counts: Ids) -> Found:
        """The cells at places from `first` to below `end`, in their order."""
        if end <= self._first or not len(self._places):  # no place is below the first
            return _NONE
        here = self._places < end
        if first > self._first:
            here &= self._places >= first
        slots = here.nonzero()[0]
        if not len(slots):
            return _NONE
        places = self._places[slots]
        if np.count_nonzero(places[1:] < places[:-1]):
            order = np.argsort(places, kind="stable")  # a few runs
            slots, places = slots[order], places[order]
        room = self._room
        flat = (self._by_slot(counts)[slots] > 0).ravel().nonzero()[0]
        if room == 1:
            return Found(places[flat], np.zeros(len(flat), np.int64), slots[flat])
        at = flat // room
        groups = flat - at * room
        return Found(places[at], groups, slots[at] * room + groups)

    def places(self, end: int) -> Times:
        """The places below `end` that have a slot."""
        here: Times = self._places[self._places < end]
        return here

    def find(self, place: int, groups: Ids) -> Ids:
        """Where the cells of groups at a place would be; -1 where there is no room for one."""
        at = place - self._first
        slot = int(self._slots[at]) if 0 <= at < len(self._slots) else -1
        if slot < 0:
            return np.full(len(groups), -1, np.int64)
        return np.where(groups < self._room, slot * self._room + groups, -1)

    def _by_slot(self, counts: Ids) -> Ids:
        return counts[: self.capacity].reshape(len(self._places), self._room)

    def free(self, found: Found) -> bool:
        """Frees the slots of the first places, up to the last of these. True: it serves on."""
        freed = (self._places <= found.places[-1]).nonzero()[0]
        self._slots[self._places[freed] - self._first] = -1
        self._places[freed] = INF
        open_ = (self._places < INF).nonzero()[0]
        self._places = self._places[: int(open_[-1]) + 1 if len(open_) else 0]
        return True

    def has(self, groups: Ids, counts: Ids) -> np.typing.NDArray[np.bool_]:
        """Which groups have a cell."""
        if not self.capacity:
            return np.zeros(len(groups), np.bool_)
        found = self._by_slot(counts).take(groups, axis=1, mode="clip").any(axis=0)
        within: np.typing.NDArray[np.bool_] = groups < self._room
        within &= found
        return within

    @property
    def nbytes(self) -> int:
        """Bytes of the slots."""
        return self._slots.nbytes + self._places.nbytes

    def validate(self, counts: Ids) -> None:
        """Raises `Bug` where an invariant is broken."""
        slots = (self._places < INF).nonzero()[0]
        if (self._slots[self._places[slots] - self._first] != slots).any():
            raise Bug("a slot is not that of its place")
        if int(np.count_nonzero(self._slots >= 0)) != len(slots):
            raise Bug("a place has a slot that is not its own")
        if np.count_nonzero(counts[self.capacity :]):
            raise Bug("rows are counted beyond the last slot")
