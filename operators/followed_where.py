"""Recent and chronicle with a condition: a row follows the last, or the earliest that is free, of
those rows of its key before it with which the condition holds.

    A  weight 5, 9        B that carries at most 6, 9      recent      6 follows 5, 9 follows 9
                                                           chronicle   6 follows 5, 9 follows 9
                          B that carries at most 9, 6      chronicle   9 follows 5, 6 follows none

All pairs of a row and what it may follow are looked at, as a join does. In chronicle every A
prefers the earliest B, so the rows propose: each to the first A that it may follow; of those at one
A the earliest stays, the others go on to their next one, until all stay or have been everywhere.
The same pairs are formed by rows that choose one after the other.

A pair for which the condition raises is none. It goes aside, or stops the query, if it would be
looked at by rows that choose one after the other: then no cut into frames shows in what goes aside.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids, Mask
from gapless.kernels.live_rows import Met
from gapless.operators.join_condition import Condition
from gapless.operators.join_side import PAIR_BYTES, PAIRS_AT_ONCE_MAX
from gapless.operators.memory import UNBOUNDED
from gapless.operators.numbers import unique
from gapless.operators.past_rows import PastRows, until
from gapless.operators.row_bytes import RowBytes
from gapless.protocol.columns import take_rows
from gapless.protocol.frame import Times

_NOBODY = np.iinfo(np.int64).max


class FollowedWhere:
    """Of each key all rows that a later one may yet follow; `once`: in chronicle."""

    by_rank = True
    """Whether those that follow have to come in the order of key, time and payload."""

    def __init__(
        self, payload: pa.Schema, within: int | None, condition: Condition, once: bool
    ) -> None:
        self.past = PastRows(payload)
        self.memory = UNBOUNDED
        """Asked for the pairs that are looked at."""
        self._row_bytes = RowBytes(payload)
        self._within = within
        self._condition = condition
        self._once = once

    def fit(self, keys: int) -> None:
        """Nothing is known of keys."""

    def take_in(self, keys: Ids, vs: Times, payload: pa.RecordBatch) -> None:
        """Rows by key, time and payload, none before one that is known."""
        self.past.add(keys, vs, until(vs, self._within), payload)

    def match(self, keys: Ids, vs: Times, rows: pa.RecordBatch) -> tuple[Ids, Ids]:
        """Which of these rows, by key and rank, follow one, and the ids of those."""
        at, ids = np.zeros(0, np.int64), np.zeros(0, np.int64)
        for found in self._pairs(keys, vs, rows):
            met = found.pick(~np.isin(found.id, ids)) if self._once and len(ids) else found
            chosen = self._chosen(met, rows)
            at = np.concatenate([at, met.asked[chosen]])
            ids = np.concatenate([ids, met.id[chosen]])
        return at, ids

    def _pairs(self, keys: Ids, vs: Times, rows: pa.RecordBatch) -> Iterator[Met]:
        """What each row may follow, some rows at a time; of a row in the order of rank."""
        each = PAIR_BYTES + self._row_bytes.least + rows.nbytes / max(1, rows.num_rows)
        start = 0
        while start < len(keys):
            most = self.memory.rows(each, PAIRS_AT_ONCE_MAX)
            start, met = self.past.before(keys, vs, start, most)
            self.memory.ask(int(len(met.id) * each), "pairs that a condition looks at")
            yield met

    def _chosen(self, met: Met, rows: pa.RecordBatch) -> Ids:
        """The places of the pairs that are formed, one of a row at the most."""
        if not len(met.id):
            return met.id
        left, right = self.past.rows(met.id), take_rows(rows, met.asked)
        holds, answered = self._condition.tried(left, right)
        pairs = holds.nonzero()[0]
        if self._once:
            chosen = pairs[served(met.asked[pairs], met.id[pairs])]
        else:
            asked = met.asked[pairs]
            chosen = pairs[asked != np.append(asked[1:], -1)]  # of each row, the last
        if answered is not None:
            failed = (~answered & self._looked_at(met, chosen)).nonzero()[0]
            if len(failed):
                self._condition.holds(take_rows(left, failed), take_rows(right, failed), None)
        return chosen

    def _looked_at(self, met: Met, chosen: Ids) -> Mask:
        """The pairs that rows which choose one after the other look at."""
        pairs = np.arange(len(met.id))
        places = np.full(int(met.asked.max()) + 1, len(pairs) if self._once else -1)
        places[met.asked[chosen]] = chosen
        if not self._once:
            return pairs > places[met.asked]
        taken = np.full(int(met.id.max()) + 1, _NOBODY)  # by whom
        taken[met.id[chosen]] = met.asked[chosen]
        return (pairs < places[met.asked]) & (taken[met.id] > met.asked)

    def take(self, ids: Ids) -> pa.RecordBatch:
        """The rows that are followed; in chronicle no other row will follow them."""
        rows = self.past.rows(ids)
        if self._once:
            self.past.release(ids)
        return rows

    def purge(self, before: int) -> None:
        """What is yet to come, or waits, is at this time or later."""
        self.past.release(self.past.ended(before))

    def forget_but(self, keys: Ids) -> None:
        """Nothing is known of keys."""

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return self.past.nbytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self.past.validate()


def served(asked: Ids, wanted: Ids) -> Ids:
    """The places of the pairs that are formed where each asks in turn, the smallest first, for the
    first of what it wants that is left; pairs stand in the order of `asked`.
    """
    if not len(asked):
        return asked
    begins = np.append(True, asked[1:] != asked[:-1]).nonzero()[0]
    ends = np.append(begins[1:], len(asked))
    things, thing = np.unique(wanted, return_inverse=True)
    at = begins.copy()  # by place in `begins`, the pair that it proposes
    holder = np.full(len(things), _NOBODY)
    left = np.arange(len(begins))
    while len(left):
        here = thing[at[left]]
        was = holder[here]
        np.minimum.at(holder, here, left)
        now = holder[here]
        moved = was[(was != now) & (was != _NOBODY)]
        left = np.concatenate([left[now != left], unique(moved)])
        at[left] += 1
        left = left[at[left] < ends[left]]
    return np.sort(at[holder[holder != _NOBODY]])
