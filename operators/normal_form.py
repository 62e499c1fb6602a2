"""The normal form of a table, kept as sums: what `Normalise` and the per-instant operators share.

For each payload alone: gather all starts and all ends, with repeats. Where a start and an end
meet, both go. Sort both; the i-th start is paired with the i-th end.

    A [0,10)   A [5,15)   A [10,20)        starts 0 5 10      ends 10 15 20
                                            without the pair at 10:
    A [0,15)   A [5,20)                    starts 0 5         ends 15 20

What is kept is one number a payload and time, starts minus ends:

    A lives in [0,10)        A: +1 at 0, -1 at 10
    and in [10,20)           A: +1 at 0,  0 at 10, -1 at 20
    and no longer in [5,10)  A: +1 at 0, -1 at 5, +1 at 10, -1 at 20

Sums know no order. After each revision the payloads whose sums have changed are paired again, and
the difference to what they were is what goes out: the i-th event that starts at vs keeps its place
and has its end adjusted, the rest are inserts and removals. That costs time in proportion to the
live boundaries of those payloads, not of all.

At stable t no sum below t can change. So all starts below t are there already. The ends below t,
k of them, belong to the first k starts, and events that are settled; the other starts have ends at
t or later, and so will they always. The settled pairs are then forgotten; a start that is still
open is kept, as an end at t or later may yet be met by another start and move on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gapless.kernels import Chains, KeyTable
from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.operators.numbers import (
    at_places,
    numbers,
    numbers_schema,
    read_numbers,
    sorting,
    unique,
)
from gapless.operators.payloads import Payloads
from gapless.operators.state import State
from gapless.protocol.elements import BEGIN, INF, format_time
from gapless.protocol.errors import Bug, DecodeError
from gapless.protocol.frame import Frame, Times
from gapless.protocol.schema import StreamSchema

_BOUNDARY = numbers_schema("payload", "time")
_TABLE = "boundaries"


@dataclass(slots=True)
class _Change:
    """Events as they were and as they are now; an end equal to vs: not there."""

    payload: Ids
    vs: Times
    was: Times
    ve: Times


class NormalForm:
    """Boundaries of payloads, which it counts as used while it holds a boundary of theirs.

    The `Payloads` are its owner's: others may use them too.
    """

    def __init__(self, schema: StreamSchema, payloads: Payloads) -> None:
        self._schema = schema
        self._payloads = payloads
        self._boundaries = KeyTable(_BOUNDARY)
        self._payload = Column(0)  # by id of a boundary, as are all columns
        self._time = Column(INF)
        self._sum = Column(0)  # starts minus ends; 0 where the id is free
        self._of_payload = Chains()  # payload id -> its boundaries

    # -- revising -----------------------------------------------------------------------------

    def revise(
        self,
        payloads: Ids,
        up: Times,
        down: Times,
        copies: Ids | None = None,
        unwanted_below: int = BEGIN,
    ) -> Frame | None:
        """Each payload is there once (or `copies` times) more from `up` on, and less from `down`.

        `up` may be after `down`. Returns what that changes, without new events that end before
        `unwanted_below`. None, and nothing is changed, where a payload would be alive less than no
        times.
        """
        ids = self._intern(np.concatenate([payloads, payloads]), np.concatenate([up, down]))
        one = np.ones(len(payloads), np.int64) if copies is None else copies
        by = np.concatenate([one, -one])
        _, live = self._of_payload.probe(unique(payloads))
        live = live[sorting(self._payload.values[live], self._time.values[live])]
        sums = self._sum.values
        before = sums[live]
        np.add.at(sums, ids, by)
        change = _compare(self._payload.values[live], self._time.values[live], before, sums[live])
        if change is None:
            np.subtract.at(sums, ids, by)
            frame = None
        else:
            frame = self._frame(change, unwanted_below)
        self._forget(live[sums[live] == 0])
        return frame

    def _intern(self, payloads: Ids, times: Times) -> Ids:
        keys = pa.RecordBatch.from_arrays([pa.array(payloads), pa.array(times)], schema=_BOUNDARY)
        ids, new = self._boundaries.intern(keys)
        capacity = self._boundaries.capacity
        self._payload.fit(capacity)[ids[new]] = payloads[new]
        self._time.fit(capacity)[ids[new]] = times[new]
        self._sum.fit(capacity)
        self._payloads.use(payloads[new])
        self._of_payload.add(payloads[new], ids[new])
        return ids

    def _frame(self, change: _Change, unwanted_below: int) -> Frame:
        """The change as elements, without those that nobody wants."""
        absent = change.was == change.vs
        goes_out = change.was != change.ve
        goes_out &= ~(absent & (change.ve < unwanted_below))
        rows = goes_out.nonzero()[0]
        if not len(rows):
            return Frame.empty(self._schema)
        return Frame.from_columns(
            self._schema,
            change.vs[rows],
            change.ve[rows],
            self._payloads.rows(change.payload[rows]),
            np.where(absent, BEGIN, change.was)[rows],
        )

    # -- settling -----------------------------------------------------------------------------

    def settle(self, t: int) -> None:
        """Forgets the ends below t, and the starts that they are paired with; INF: everything."""
        sums = self._sum.values
        if t == INF:
            self._forget(sums.nonzero()[0])
            return
        ids = (self._time.values < t).nonzero()[0]
        if not np.count_nonzero(sums[ids] < 0):
            return
        ids = ids[sorting(self._payload.values[ids], self._time.values[ids])]
        group = np.cumsum(np.diff(self._payload.values[ids], prepend=-1) != 0) - 1
        starts = np.maximum(sums[ids], 0)
        up_to_here = np.cumsum(starts) - _before_group(starts, group)
        ended = np.zeros(len(ids), np.int64)
        np.add.at(ended, group, starts - sums[ids])
        sums[ids] = np.clip(up_to_here - ended[group], 0, starts)
        self._forget(ids[sums[ids] == 0])

    def _forget(self, ids: Ids) -> None:
        """Frees boundaries; whatever their sums were, they are 0 now."""
        if not len(ids):
            return
        self._of_payload.remove(ids)
        self._boundaries.release(ids)
        self._payloads.drop(self._payload.values[ids])
        capacity = self._boundaries.capacity
        for column, free in ((self._payload, 0), (self._time, INF), (self._sum, 0)):
            column.values[ids] = free
            column.fit(capacity)

    # -- snapshots ----------------------------------------------------------------------------

    def snapshot(self, places: Ids) -> State:
        """Its table; `places` says where each payload stands in that of the owner."""
        ids = self._sum.values.nonzero()[0]
        payload, time = places[self._payload.values[ids]], self._time.values[ids]
        return {_TABLE: numbers(payload=payload, time=time, sum=self._sum.values[ids])}

    def restore(self, state: State, payloads: Ids) -> None:
        """Takes it back into an empty one; `payloads` are the ids by place."""
        places, times, sums = read_numbers(state, _TABLE, "payload", "time", "sum")
        ids = self._intern(at_places(payloads, places, f"{_TABLE}.payload"), times)
        if len(self._boundaries) < len(ids) or np.count_nonzero(sums) < len(sums):
            raise DecodeError(f"snapshot.{_TABLE}", "a repeated boundary, or a sum of 0", "neither")
        self._sum.values[ids] = sums

    # -- looking at it ------------------------------------------------------------------------

    def __len__(self) -> int:
        """Boundaries held."""
        return len(self._boundaries)

    @property
    def nbytes(self) -> int:
        """Bytes of its table, chains and columns, without the payloads."""
        columns = self._payload.nbytes + self._time.nbytes + self._sum.nbytes
        return int(self._boundaries.nbytes) + int(self._of_payload.nbytes) + columns

    @property
    def used(self) -> Ids:
        """The payloads in use, each as often as there are boundaries of it."""
        used: Ids = self._payload.values[self._sum.values.nonzero()[0]]
        return used

    def sums_at(self, payloads: Ids, times: Times) -> Ids:
        """Starts minus ends of each payload at a time."""
        keys = pa.RecordBatch.from_arrays([pa.array(payloads), pa.array(times)], schema=_BOUNDARY)
        ids = self._boundaries.find(keys)
        return np.where(ids < 0, 0, self._sum.values[ids])

    def of(self, payloads: Ids) -> tuple[Ids, Times, Ids]:
        """The boundaries of these payloads, each named once: payload, time, starts minus ends."""
        _, ids = self._of_payload.probe(payloads)
        return self._payload.values[ids], self._time.values[ids], self._sum.values[ids]

    def validate(self, stable: int) -> None:
        """Raises `Bug` where an invariant is broken; all below `stable` is settled."""
        self._boundaries.validate()
        self._of_payload.validate()
        sums, times = self._sum.values, self._time.values
        live = sums.nonzero()[0]
        if not len(live) == len(self._boundaries) == len(self._of_payload):
            raise Bug(
                f"{len(live)} boundaries with a sum, {len(self._boundaries)} in the table, "
                f"{len(self._of_payload)} in chains"
            )
        live = live[np.lexsort((times[live], self._payload.values[live]))]
        payload = self._payload.values[live]
        if np.count_nonzero(np.bincount(payload, sums[live]) if len(live) else live):
            raise Bug("a payload starts more or less often than it ends")
        if _compare(payload, times[live], sums[live], sums[live]) is None:
            raise Bug("a payload ends more often than it has started")
        if np.count_nonzero(sums[live][times[live] < stable] < 0):
            raise Bug(f"an end below {format_time(stable)} was not forgotten")


def _compare(payload: Ids, time: Times, before: Times, after: Times) -> _Change | None:
    """Pairs boundaries, sorted by payload and time, under two sums, and sets events side by side.

    None where some i-th start does not come before its i-th end. The sums of each payload add up
    to nothing, so the i-th start of all is of the payload of the i-th end of all.
    """
    slots = np.maximum(np.maximum(before, after), 0)
    starts = np.repeat(np.arange(len(slots)), slots)
    vs = time[starts]
    first = np.cumsum(slots) - slots
    ends = []
    for sums in (before, after):
        present = np.maximum(sums, 0)
        at = np.repeat(first - (np.cumsum(present) - present), present) + np.arange(present.sum())
        end = vs.copy()
        end[at] = np.repeat(time, np.maximum(-sums, 0))
        if np.count_nonzero(end[at] <= vs[at]):
            return None
        ends.append(end)
    return _Change(payload[starts], vs, *ends)


def _before_group(values: Times, group: Ids) -> Times:
    """For each row of sorted groups, what `values` add up to before its group begins."""
    total = np.cumsum(values) - values
    begins = np.diff(group, prepend=-1).nonzero()[0]
    before: Times = total[begins][group]
    return before
