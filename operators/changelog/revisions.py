"""Revisions: whole lifetimes, given and taken back; the eager changelog of a frame, read again.

    +(A,6,20)                       ins(A,6,20)
    -(A,6,20) +(A,6,30)             adj(A,6,20,30)
    -(A,6,30)                       adj(A,6,30,6)
    +(A,6,9) -(A,6,9)               nothing

A minus names an event of the table exactly. What a batch takes back and what it gives, of one
payload and start, is netted: first an equal event for an equal event, then the i-th end for the
i-th end, which is an adjust, then what is left comes or goes. So the order inside a batch does not
matter, and a new end below a stable that has the start frozen is legal as long as it stands in the
batch of the old one.

The table is the multiset of events that the changes describe, exactly: no event is joined with
another. What is kept are the events that are not settled (`operators/event_counts.py`), to see that
each minus takes back what is there.
"""

from __future__ import annotations

import numpy as np

from gapless.kernels import KeyTable
from gapless.kernels.keys import Ids
from gapless.operators.changelog.reader import LIVE_MAX, ChangelogReader
from gapless.operators.event_counts import EventCounts
from gapless.operators.state import FACTS, State, check_names, facts, read_facts
from gapless.protocol.changelog import Changes
from gapless.protocol.columns import take_rows
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug, ChangeError, DecodeError
from gapless.protocol.frame import Frame, Times
from gapless.protocol.schema import StreamSchema


class Revisions(ChangelogReader):
    """Timed changes."""

    TIMED = True

    def __init__(self, schema: StreamSchema, *, live_max: int = LIVE_MAX) -> None:
        super().__init__(schema, live_max=live_max)
        self._held = EventCounts(schema)

    def _in_time(self, changes: Changes) -> Changes:
        """All: whether a revision is late shows when it is netted."""
        return changes

    def _read(self, changes: Changes) -> Frame:
        table = KeyTable(self.schema.payload)  # of this batch alone
        payloads, _ = table.intern(changes.payload)
        if changes.ends is None:
            raise Bug("the reader lets changes without ends in")
        row, was, ends = _netted(payloads, changes.times, changes.ends, changes.is_plus)
        if not len(row):
            return Frame.empty(self.schema)
        vs = changes.times[row]
        late = (vs < self.stable) & (
            (was == BEGIN) | (ends == vs) | (was < self.stable) | (ends < self.stable)
        )
        if late.any():
            i = int(row[late].min())
            raise self.late_error(changes, i, f"it changes what starts at {changes.times[i]}")
        columns = take_rows(changes.payload, row).columns
        frame = Frame.made(self.schema, vs, ends, columns, was)
        absent = self._held.take_in(frame)
        if absent is not None:
            i = int(row[absent])
            raise ChangeError(
                changes.row(i),
                f"takes back an event that is not there: [{vs[absent]}, {was[absent]})",
                "a minus says the start and end that the event has now",
            )
        return frame

    def _settle(self, t: int) -> None:
        ends = self._held.ve.values
        if t == INF:
            self._held = EventCounts(self.schema)
        else:
            self._held.forget((ends < t).nonzero()[0])

    def snapshot(self) -> State:
        """The events that are not settled."""
        return {FACTS: facts(stable=self.stable), **self._held.snapshot()}

    def restore(self, state: State) -> None:
        """Takes them back."""
        check_names(state, FACTS, "payloads", "events")
        (self.stable,) = read_facts(state, "stable")
        self._held.restore(state)
        try:
            self.validate()
        except Bug as e:
            raise DecodeError("snapshot", str(e), "the state of a reader of revisions") from None

    def __len__(self) -> int:
        """Different events."""
        return len(self._held)

    @property
    def nbytes(self) -> int:
        """Bytes of what is held."""
        return self._held.nbytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._held.validate()
        if (self._held.ve.values < self.stable).any():
            raise Bug("an event is settled and still held")


def _netted(
    payload: Ids, vs: Times, ve: Times, plus: np.typing.NDArray[np.bool_]
) -> tuple[Ids, Times, Times]:
    """Elements that say what the changes say: a row of each, `was` (BEGIN: insert), `ve`.

    Adjusts come first, so whatever they are of is there.
    """
    order = np.lexsort((~plus, ve, vs, payload))
    payload, start, end = payload[order], vs[order], ve[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (payload[1:] != payload[:-1]) | (start[1:] != start[:-1]) | (end[1:] != end[:-1])
    at = begins.nonzero()[0]
    net = np.add.reduceat(np.where(plus[order], 1, -1), at)
    copies = np.repeat(at, np.abs(net))
    gained = np.repeat(net > 0, np.abs(net))
    same = np.zeros(len(at), np.bool_)
    same[1:] = (payload[at[1:]] == payload[at[:-1]]) & (start[at[1:]] == start[at[:-1]])
    group: Ids = np.repeat(np.cumsum(~same), np.abs(net))
    lost_at, gained_at = copies[~gained], copies[gained]
    lost_group, gained_group = group[~gained], group[gained]
    lost_rank, gained_rank = _rank(lost_group), _rank(gained_group)
    # the i-th of a group on one side is paired with the i-th on the other
    size = len(order) + 1
    _, left, right = np.intersect1d(
        lost_group * size + lost_rank,
        gained_group * size + gained_rank,
        assume_unique=True,
        return_indices=True,
    )
    lost_alone = np.delete(lost_at, left)
    gained_alone = np.delete(gained_at, right)
    # a pair is told as the row that gives it
    row = np.concatenate([gained_at[right], lost_alone, gained_alone])
    was = np.concatenate([end[lost_at[left]], end[lost_alone], np.full(len(gained_alone), BEGIN)])
    ends = np.concatenate([end[gained_at[right]], start[lost_alone], end[gained_alone]])
    return order[row], was, ends


def _rank(groups: Ids) -> Ids:
    """How many of its group, in order, came before each."""
    if not len(groups):
        return groups
    first = np.append(True, groups[1:] != groups[:-1]).nonzero()[0]
    rank: Ids = np.arange(len(groups)) - np.repeat(first, np.diff(np.append(first, len(groups))))
    return rank
