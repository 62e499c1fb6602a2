"""The parts of events in which they meet nobody, found among the rows that both sides have stored.

    stored   [0,20) key k            comes     other side: ins [4,9) key k
    before   [0,20)                  after     [0,4) [9,20)         adj [0,20) to [0,4), ins [9,20)

Who meets whom after a change is known before it is stored: of those that met before the ones that
do not change, and of the changed those that are still there. So both are looked at together, some
events at a time, and what is laid out is bounded however many events one change concerns.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gapless.kernels.keys import Ids
from gapless.kernels.live_rows import Lives, Met
from gapless.operators import join_side
from gapless.operators.join_changes import Changes
from gapless.operators.join_condition import Condition
from gapless.operators.join_nulls import NO_PIECES, Pieces, Revised, revised, uncovered
from gapless.operators.join_pairs import Pairs
from gapless.operators.join_side import PAIR_BYTES, Side
from gapless.operators.memory import Memory
from gapless.operators.operator import ANSWER_ROWS_MAX
from gapless.operators.row_bytes import cuts
from gapless.protocol.columns import take_rows
from gapless.protocol.frame import Times


def judged(row_bytes: Ids, memory: Memory) -> Iterator[slice]:
    """Which of pairs that take so many bytes each are laid out at a time to be judged."""
    for part in cuts(row_bytes, ANSWER_ROWS_MAX, memory.part_bytes):
        memory.ask(int(row_bytes[part].sum()), "pairs that the where of a join judges")
        yield part


class Unmatched:
    """Looks at both sides, and changes nothing."""

    def __init__(self, sides: tuple[Side, ...], where: Condition | None) -> None:
        self._sides = sides
        self._where = where

    def of_changes(
        self, source: int, changes: Changes, part: slice, ids: Ids, pairs: Pairs
    ) -> Revised:
        """How the null rows of changed events change; `part` are those that `pairs` name, `ids`
        the stored events behind those that are not new.
        """
        mine, frontier = self._sides[source], self._sides[1 - source].stable
        low = changes.vs[part].copy()
        old = mine.settled.values[ids[part]]
        low[: len(old)] = old
        asked = pairs.asked - part.start
        before = NO_PIECES
        if changes.old:
            before = uncovered(low, changes.was[part], (asked, pairs.vs, pairs.was), frontier)
        now = uncovered(low, changes.ve[part], (asked, pairs.vs, pairs.ve), frontier)
        lost = revised(before, now)
        return lost._replace(owner=lost.owner + part.start)

    def of_stored(self, side: int, ids: Ids, frontier: int, memory: Memory) -> Iterator[Pieces]:
        """The null rows of stored events, as far as they are known at `frontier`."""
        other = self._sides[1 - side]
        lives, low = self._whole(side, ids)
        for start, end, met in other.meet(*lives, memory):
            by = self.matching(side, ids, met, other, memory)
            yield _pieces(lives, low, slice(start, end), by, frontier)

    def revised_by(
        self, source: int, change: tuple[Ids, Ids, Changes], touched: Ids, memory: Memory
    ) -> Iterator[Revised]:
        """How the null rows of `touched` events of the other side change, before a change is
        stored: the ids of those of its events that are not new, its keys, and itself.
        """
        if not len(touched):
            return
        ids, keys, changes = change
        mine, side = self._sides[source], 1 - source
        lives, low = self._whole(side, touched)
        changed = np.zeros(mine.rows.capacity, np.bool_)
        changed[ids] = True
        there = (changes.ve > changes.vs).nonzero()[0]
        payload = take_rows(changes.payload, there)
        new = mine.beside(payload, keys[there], changes.vs[there], changes.ve[there])
        start = 0
        while start < len(touched):
            most = memory.rows(PAIR_BYTES, join_side.PAIRS_AT_ONCE_MAX)
            end, was = mine.rows.meet(*lives, start, most)
            asked = Lives(*(column[:end] for column in lives))
            end, gained = new.rows.meet(*asked, start, most)
            was = was.pick(was.asked < end)
            memory.ask(2 * PAIR_BYTES * (len(was.id) + len(gained.id)), "null rows of a join")
            was = self.matching(side, touched, was, mine, memory)
            gained = self.matching(side, touched, gained, new, memory)
            now = was.pick(~changed[was.id]).and_also(gained)
            part = slice(start, end)
            before = _pieces(lives, low, part, was, mine.stable)
            yield revised(before, _pieces(lives, low, part, now, mine.stable))
            start = end

    def matching(self, side: int, ids: Ids, met: Met, theirs: Side, memory: Memory) -> Met:
        """Of the rows that stored rows of a side meet, those for which `where` holds."""
        if self._where is None or not len(met.id):
            return met
        mine = self._sides[side]
        holds = np.empty(len(met.id), np.bool_)
        row_bytes = mine.bytes_of(ids[met.asked]) + theirs.bytes_of(met.id)
        for part in judged(row_bytes, memory):
            left, right = mine.payloads(ids[met.asked[part]]), theirs.payloads(met.id[part])
            if side:
                left, right = right, left
            holds[part] = self._where.holds(left, right, np.zeros(left.num_rows, np.bool_))
        return met.pick(holds)

    def _whole(self, side: int, ids: Ids) -> tuple[Lives, Times]:
        """Keys and lifetimes of stored events, and from when on a part of each may be unmatched."""
        mine = self._sides[side]
        return mine.rows.lives(ids), mine.settled.values[ids]


def _pieces(lives: Lives, low: Times, part: slice, by: Met, frontier: int) -> Pieces:
    """The unmatched parts of the events of a part, which these match."""
    intervals = by.asked - part.start, by.vs, by.ve
    cut = uncovered(low[part], lives.ve[part], intervals, frontier)
    return cut._replace(owner=cut.owner + part.start)
