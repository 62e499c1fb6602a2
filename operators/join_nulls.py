"""The parts of lifetimes in which an event meets nobody: an outer join's null rows.

    event   [0,            20)
    meets        [3, 8)
               [2, 5)     [12,14)
    pieces  [0,2)   [8,12)   [14,20)

Each event has its own pieces, as long as they can be. For events of one payload and one start that
is the normal form: they meet the same others, so their pieces start alike and differ in their last
end only, and the i-th start belongs to the i-th end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gapless.kernels.keys import Ids, Mask
from gapless.protocol.frame import Times


class Pieces(NamedTuple):
    """Parts of lifetimes, in any order."""

    owner: Ids
    vs: Times
    ve: Times

    def pick(self, mask: Mask) -> Pieces:
        """Those that a mask picks."""
        return Pieces(self.owner[mask], self.vs[mask], self.ve[mask])

    @staticmethod
    def all_of(parts: list[Pieces]) -> Pieces:
        """Several as one."""
        if len(parts) == 1:
            return parts[0]
        return Pieces(*map(np.concatenate, zip(*parts, strict=True))) if parts else NO_PIECES


class Revised(NamedTuple):
    """Pieces before and after; an end equal to the start: not there."""

    owner: Ids
    vs: Times
    was: Times
    ve: Times

    def part(self, part: slice) -> Revised:
        """Those that stand there."""
        return Revised(*(column[part] for column in self))


NO_PIECES = Pieces(*(np.empty(0, np.int64) for _ in range(3)))


def uncovered(low: Times, high: Times, intervals: tuple[Ids, Times, Times], before: int) -> Pieces:
    """What is left of `[low, high)` of each owner without its intervals, and starts before a time.

    Intervals are owners, which are positions in `low`, starts and ends. An empty `[low, high)` has
    no pieces.
    """
    wanted = (low < high) & (low < before)
    owner, vs, ve = intervals
    vs, ve = np.maximum(vs, low[owner]), np.minimum(ve, high[owner])
    inside = (vs < ve) & wanted[owner]
    owner, vs, ve = owner[inside], vs[inside], ve[inside]
    covered = np.zeros(len(low), np.bool_)
    covered[owner] = True
    alone = (wanted & ~covered).nonzero()[0]
    whole = Pieces(alone, low[alone], high[alone])
    if not len(owner):
        return whole
    cut = _cut(covered.nonzero()[0], low, high, Pieces(owner, vs, ve))
    return Pieces.all_of([whole, cut.pick(cut.vs < before)])


def _cut(owners: Ids, low: Times, high: Times, intervals: Pieces) -> Pieces:
    """The same for owners that have intervals, all inside their `[low, high)`."""
    owner, vs, ve = intervals
    who = np.concatenate([owners, owner, owner, owners])
    times = np.concatenate([low[owners], vs, ve, high[owners]])
    by = np.zeros(len(who), np.int64)
    by[len(owners) : len(owners) + len(owner)] = 1
    by[len(owners) + len(owner) : len(owners) + 2 * len(owner)] = -1
    order = np.lexsort((times, who))
    who, times = who[order], times[order]
    # An owner's intervals all end within it, so one running sum serves all owners.
    open_now = np.cumsum(by[order])
    free = (who[1:] == who[:-1]) & (times[1:] > times[:-1]) & (open_now[:-1] == 0)
    at = free.nonzero()[0]
    return Pieces(who[at], times[at], times[at + 1])


def revised(before: Pieces, after: Pieces) -> Revised:
    """What has to be said so that the pieces before become those after."""
    if not len(before.owner):
        return Revised(after.owner, after.vs, after.vs, after.ve)
    owner = np.concatenate([before.owner, after.owner])
    vs = np.concatenate([before.vs, after.vs])
    order = np.lexsort((vs, owner))  # stable: of two with one start the one before comes first
    owner, vs = owner[order], vs[order]
    ve = np.concatenate([before.ve, after.ve])[order]
    is_new = order >= len(before.owner)
    pair = np.zeros(len(owner), np.bool_)  # this one, and the next is the same piece later
    pair[:-1] = (owner[1:] == owner[:-1]) & (vs[1:] == vs[:-1])
    followed = pair.nonzero()[0]
    was = np.where(is_new, vs, ve)
    ends = np.where(is_new, ve, vs)
    ends[followed] = ve[followed + 1]
    said = was != ends
    said[followed + 1] = False
    return Revised(owner[said], vs[said], was[said], ends[said])
