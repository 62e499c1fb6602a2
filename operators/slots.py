"""A fixed number of sub-aggregates: what the lower of two levels keeps (window-queries, 8.3.3).

    slot     0: (p7, A) 2     1: (p7, C) 5     2: -          (pane, group) and its sub-aggregate
    row      of C in p7       its slot is 1: counted there
    row      of D in p7       its slot is 1, too: (p7, C) 5 leaves, and D begins with 1
    rows     of C and of D    in one call: C is counted, and D's row goes through

A pane and group have one slot, found by hash, and share it with others: on collision the one that
is there leaves. So what is kept has a bound that no number of groups moves, and nothing is laid
out while rows come. Old ones leave by collision, or because they are asked to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids, Mask
from gapless.operators.aggregates.hashing import Hashes, hash_column, splitmix64
from gapless.operators.answers import Grouping
from gapless.operators.groups import Groups
from gapless.operators.pick import Picks
from gapless.protocol.elements import INF
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Times

LOOKED_AT_ONCE = 1 << 12
"""Slots that are looked through for one that is old."""
KNOWN_SHARE = 2
"""So many groups are known for each slot at most, between calls."""

_APART = np.int64(0x2545F4914F6CDD1D)
"""Panes of one group are in slots far apart."""


class Leaving(NamedTuple):
    """Sub-aggregates that leave, no two of one pane and group."""

    panes: Times
    groups: list[pa.Array]
    """Group columns."""
    partials: list[pa.RecordBatch]
    """A batch a state."""


class Through(NamedTuple):
    """Rows that find no slot."""

    times: Times
    rows: pa.RecordBatch


class Slots:
    """State by slot."""

    def __init__(self, grouping: Grouping, count: int) -> None:
        self._keyed = grouping.group_by
        self.groups = Groups(grouping.rows, grouping.group_by)
        self.states, self._counter = grouping.states()
        for state in self.states:
            state.fit(count + 1)
        self._nowhere = count  # what is counted there is forgotten
        self.panes: Times = np.full(count, INF, np.int64)
        """By slot; INF where it is empty."""
        self._of_pane: dict[int, int] = {}  # how many slots each pane has
        self._looked = 0  # before this slot `some_below` has looked
        self._owner: Ids = np.full(count, -1, np.int64)
        self._last: Ids = np.zeros(count, np.int64)  # by slot, for one call
        self._uses = Column(0)  # by group, in how many slots it is
        self._hashes = Column(0)  # by group, 0 where it is not known yet
        self._picks = Picks(grouping.rows)
        self._mask = count - 1 if count & (count - 1) == 0 else None

    def add(self, panes: Times, times: Times, rows: pa.RecordBatch) -> Iterator[Leaving | Through]:
        """Counts rows in their slots; what has to make room, and what finds none."""
        groups = self.groups.of(rows)
        where = self._slots_of(panes, groups)
        is_missed = self._is_missed(where, panes, groups)
        missed = is_missed.nonzero()[0]
        if len(missed):
            missed_slots = where[missed]
            self._last[missed_slots] = missed
            self._last[where[(~is_missed).nonzero()[0]]] = -1  # theirs stay
            first = missed[self._last[missed_slots] == missed]
            wanted = where[first]
            taken = wanted[self.panes[wanted] != INF]
            if len(taken):
                yield self._leave(taken)
            self._settle(wanted, panes[first], groups[first])
            missed = missed[self._is_missed(missed_slots, panes[missed], groups[missed])]
        if len(missed):
            where[missed] = self._nowhere
            yield Through(times[missed], self._picks.take(rows, missed))
        for state in self.states:
            state.add(where, rows, times)
        if len(missed):
            for state in self.states:
                state.clear(np.array([self._nowhere]))
        self._release()

    def _is_missed(self, where: Ids, panes: Times, groups: Ids) -> Mask:
        """Of which rows the slot is not theirs."""
        missed: Mask = self.panes.take(where) != panes
        missed |= self._owner.take(where) != groups
        return missed

    def _one_each(self, slots: Ids) -> Ids:
        """The positions of some, each slot once."""
        at = np.arange(len(slots))
        self._last[slots] = at
        chosen: Ids = (self._last[slots] == at).nonzero()[0]
        return chosen

    def _slots_of(self, panes: Times, groups: Ids) -> Ids:
        """By the values of groups, not by their ids, which are others after a restart."""
        hashes = self._hashes.fit(self.groups.capacity)
        self._uses.fit(self.groups.capacity)
        mixed = hashes.take(groups)
        new = (mixed == 0).nonzero()[0]
        if len(new):
            columns = self.groups.columns(groups[new])
            mixed[new] = (_hash(columns, len(new)) | np.uint64(1)).view(np.int64)
            hashes[groups[new]] = mixed[new]
        mixed += panes * _APART
        if self._mask is not None:
            return mixed & self._mask
        upper = mixed.view(np.uint64) >> np.uint64(32)  # a share of all slots: no division
        where: Ids = (upper * np.uint64(len(self.panes)) >> np.uint64(32)).view(np.int64)
        return where

    def _settle(self, slots: Ids, panes: Times, groups: Ids) -> None:
        self.panes[slots] = panes
        self._owner[slots] = groups
        self._tally(panes, 1)
        np.add.at(self._uses.values, groups, 1)

    def _tally(self, panes: Times, by: int) -> None:
        if not len(panes):
            return
        first = int(panes.min())
        if int(panes.max()) - first >= len(panes):  # few of many panes
            known, counts = np.unique(panes, return_counts=True)
        else:
            counts = np.bincount(panes - first)
            known = np.arange(first, first + len(counts))
        of_pane = zip(known.tolist(), counts.tolist(), strict=True)
        for pane, count in of_pane:
            now = self._of_pane.get(pane, 0) + by * count
            if now:
                self._of_pane[pane] = now
            else:
                self._of_pane.pop(pane, None)

    def _leave(self, slots: Ids) -> Leaving:
        """Empties slots."""
        groups = self._owner[slots]
        partials = [state.take(slots) for state in self.states]
        self._tally(self.panes[slots], -1)
        left = Leaving(self.panes[slots], self.groups.columns(groups), partials)
        for state in self.states:
            state.clear(slots)
        self.panes[slots] = INF
        self._owner[slots] = -1
        np.subtract.at(self._uses.values, groups, 1)
        return left

    def leave(self, slots: Ids) -> Leaving | None:
        """Empties slots that are taken; None for no slots."""
        if not len(slots):
            return None
        left = self._leave(slots)
        self._release()
        return left

    def below(self, pane: int) -> Ids:
        """The slots of panes below this one.

        Never an empty one, whose pane is INF: after the last window the bound is beyond INF.
        """
        if self.oldest >= pane:
            return np.empty(0, np.int64)
        slots: Ids = (self.panes < min(pane, INF)).nonzero()[0]
        return slots

    def some_below(self, pane: int, most: int) -> Ids:
        """At most so many slots of panes below this one. All slots are looked at in turn, from call
        to call: a few cost little however many slots there are.
        """
        found: list[Ids] = []
        end = self._looked + (len(self.panes) if self.oldest < pane else 0)
        while most > 0 and self._looked < end:
            at = self._looked % len(self.panes)
            here = self.panes[at : at + min(LOOKED_AT_ONCE, end - self._looked)]
            slots = at + (here < pane).nonzero()[0][:most]
            most -= len(slots)
            self._looked += int(slots[-1]) + 1 - at if most <= 0 else len(here)
            found.append(slots)
        self._looked %= len(self.panes)
        return np.concatenate(found) if found else np.empty(0, np.int64)

    @property
    def oldest(self) -> int:
        """The first pane that has a slot; INF where none has."""
        return min(self._of_pane, default=INF)

    def forget(self, slots: Ids) -> None:
        """Empties slots of which nobody wants what is there."""
        self.leave(slots)

    def _release(self) -> None:
        """Forgets groups that have no slot, once they are many: most of them come again soon."""
        if len(self.groups) > KNOWN_SHARE * len(self.panes):
            free = ((self._hashes.values != 0) & (self._uses.values == 0)).nonzero()[0]
            self._hashes.values[free] = 0
            self.groups.release(free)

    # -- as data ------------------------------------------------------------------------------

    def held(self) -> tuple[Times, Ids, list[pa.RecordBatch]]:
        """Panes, ascending, groups and sub-aggregates."""
        slots = self.below(INF)
        slots = slots[np.argsort(self.panes[slots], kind="stable")]
        return self.panes[slots], self._owner[slots], [s.take(slots) for s in self.states]

    def hold(self, panes: Times, groups: Ids, partials: list[pa.RecordBatch]) -> Ids:
        """Takes them back into empty slots; the positions of those that have none."""
        where = self._slots_of(panes, groups)
        first = self._one_each(where)
        slots = where[first]
        self._settle(slots, panes[first], groups[first])
        for state, partial in zip(self.states, partials, strict=True):
            state.merge(slots, partial.take(pa.array(first)))
        return np.setdiff1d(np.arange(len(where)), first)

    @property
    def nbytes(self) -> int:
        """Bytes of the slots, of their state and of the groups in them."""
        own = 3 * self.panes.nbytes + self._uses.nbytes + self._hashes.nbytes
        return own + self.groups.nbytes + sum(state.nbytes for state in self.states)

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self.groups.validate()
        for state in self.states:
            state.validate()
        taken = self.panes < INF
        counts = self._counter.counts.values[: len(self.panes)]
        if not ((self._owner >= 0) == taken).all() or not ((counts > 0) == taken).all():
            raise Bug("a slot is taken and empty")
        uses = np.bincount(self._owner[taken], minlength=len(self._uses.values))
        if (uses != self._uses.values).any():
            raise Bug("a group is in other slots than was counted")
        panes, counts = np.unique(self.panes[taken], return_counts=True)
        if self._of_pane != dict(zip(panes.tolist(), counts.tolist(), strict=True)):
            raise Bug("panes have more or fewer slots than were counted")
        known = len(self.groups)
        if len(self._keyed) and not np.count_nonzero(uses) <= known <= KNOWN_SHARE * len(taken):
            raise Bug(f"{np.count_nonzero(uses)} groups have slots, {known} are known")


def _hash(columns: list[pa.Array], rows: int) -> Hashes:
    hashes = np.zeros(rows, np.uint64)
    for column in columns:
        hashes = splitmix64(hashes + hash_column(column))
    return hashes
