"""Normalise: one table for all tables that say the same at every instant.

Relational rewrites keep what holds at each instant, not how lifetimes are cut: one plan puts out
A [0,10) and A [10,20), another A [0,20). The two are snapshot-equivalent and unequal as tables, and
a merger needs equal ones. So plans that differ in this race only behind this operator.

The normal form, for each payload alone: gather all starts and all ends, with repeats. Where a start
and an end meet, both go. Sort both; the i-th start is paired with the i-th end.

    A [0,10)   A [5,15)   A [10,20)        starts 0 5 10      ends 10 15 20
                                            without the pair at 10:
    A [0,15)   A [5,20)                    starts 0 5         ends 15 20

At each instant as many events are alive as before: that number rises at starts, falls at ends, and
an end that meets a start changes nothing. And it has no other choice: after cancelling, the starts
are where the number of copies rises and the ends are where it falls, so they, and with them their
pairs, are decided by the snapshots alone. Where no instant has a payload twice, lifetimes come out
as long as they can be and (vs, payload) is a key.

What it keeps is therefore one number a payload and time, starts minus ends:

    ins(A,0,10)        A: +1 at 0, -1 at 10         an insert adds one at vs, takes one at ve
    ins(A,10,20)       A: +1 at 0,  0 at 10, -1 at 20
    adj(A,10,20,25)    A: +1 at 0, -1 at 25         an adjust adds one at was, takes one at ve

Sums know no order, so neither arrival nor the way of telling shows. After each frame the payloads
whose sums have changed are paired again, and the difference to what was put out for them goes out:
the i-th event that starts at vs keeps its place and has its end adjusted, the rest are inserts and
removals. That costs time in proportion to the live boundaries of those payloads, not of all.

Its stable is its input's. At stable t no sum below t can change. So all starts below t are there
already. The ends below t, k of them, belong to the first k starts and end events that are settled;
the other starts have ends at t or later, and so will they always. More cannot be promised, for the
input may still insert at t. The settled pairs are then forgotten; a start that is still open is
kept, as an end at t or later may yet be met by another start and move on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gapless.kernels import Chains, KeyTable
from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.operators.operator import Marks, Operator, Out, check_schema
from gapless.operators.payloads import Payloads
from gapless.protocol.elements import BEGIN, INF, format_time
from gapless.protocol.errors import Bug, StreamViolation
from gapless.protocol.frame import Frame, Times
from gapless.protocol.schema import StreamSchema
from gapless.protocol.text import format_element

_BOUNDARY = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in ("payload", "time")])


@dataclass(slots=True)
class _Change:
    """Events as they were put out and as they are now; an end equal to vs: not there."""

    payload: Ids
    vs: Times
    was: Times
    ve: Times


class Normalise(Operator):
    """The normal form of its input's table, revised with it.

    Its input is a legal stream; of its promises, only that an adjust changes what is there is
    checked, and that as far as the snapshots show it: a frame after which some payload would be
    alive less than no times raises `StreamViolation` and changes nothing.
    """

    reach = INF  # a piece that ended long ago may be what a piece at t continues

    def __init__(self, schema: StreamSchema) -> None:
        self.schema = schema
        self._payloads = Payloads(schema.payload)
        self._boundaries = KeyTable(_BOUNDARY)
        self._payload = Column(0)  # by id of a boundary, as are all columns
        self._time = Column(INF)
        self._sum = Column(0)  # starts minus ends; 0 where the id is free
        self._of_payload = Chains()  # payload id -> its boundaries
        self._stable = BEGIN
        self._wanted = BEGIN  # events that end before it need not be put out

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """Takes the rows in and gives what they change; passes the stable on."""
        check_schema(frame, self.schema)
        stable = frame.stable
        out = self._revise(frame) if len(frame) else None
        if stable is not None and stable > self._stable:
            self._settle(stable)
        if out is None:
            return Out(Frame.empty(self.schema, stable))
        return Out(out.with_stable(stable))

    # -- revising -----------------------------------------------------------------------------

    def _revise(self, frame: Frame) -> Frame | None:
        ids = self._intern(frame)
        changed, place = np.unique(ids, return_inverse=True)
        by = np.zeros(len(changed), np.int64)
        np.add.at(by, place, np.repeat(np.array([1, -1]), len(frame)))
        sums = self._sum.values
        touched = np.unique(self._payload.values[changed[by != 0]])
        _, live = self._of_payload.probe(touched)
        live = live[np.lexsort((self._time.values[live], self._payload.values[live]))]
        before = sums[live]
        sums[changed] += by
        change = _compare(self._payload.values[live], self._time.values[live], before, sums[live])
        if change is None:
            sums[changed] -= by
            out = None
        else:
            out = self._frame(change, BEGIN if frame.stable is None else frame.stable)
        self._forget(changed[sums[changed] == 0])
        if change is None:
            raise _violation(frame)
        return out

    def _intern(self, frame: Frame) -> Ids:
        """Ids of the boundaries of each row: all that gain one, then all that lose one."""
        payloads = np.tile(self._payloads.intern(frame.payload), 2)
        times = np.concatenate([np.where(frame.is_insert, frame.vs, frame.was), frame.ve])
        keys = pa.RecordBatch.from_arrays([pa.array(payloads), pa.array(times)], schema=_BOUNDARY)
        ids, new = self._boundaries.intern(keys)
        capacity = self._boundaries.capacity
        self._payload.fit(capacity)[ids[new]] = payloads[new]
        self._time.fit(capacity)[ids[new]] = times[new]
        self._sum.fit(capacity)
        self._payloads.use(payloads[new])
        self._of_payload.add(payloads[new], ids[new])
        return ids

    def _frame(self, change: _Change, stable: int) -> Frame | None:
        """The change as elements, without inserts that are settled and unwanted at once."""
        absent = change.was == change.vs
        goes_out = change.was != change.ve
        goes_out &= ~(absent & (change.ve < min(stable, self._wanted)))
        rows = np.flatnonzero(goes_out)
        if not len(rows):
            return None
        return Frame.from_columns(
            self.schema,
            change.vs[rows],
            change.ve[rows],
            self._payloads.rows(change.payload[rows]),
            np.where(absent, BEGIN, change.was)[rows],
        )

    # -- settling -----------------------------------------------------------------------------

    def _settle(self, t: int) -> None:
        """Forgets the ends below t, and the starts that they are paired with."""
        self._stable = t
        sums = self._sum.values
        if t == INF:
            self._forget(np.flatnonzero(sums))
            return
        ids = np.flatnonzero(self._time.values < t)
        if not (sums[ids] < 0).any():
            return
        ids = ids[np.lexsort((self._time.values[ids], self._payload.values[ids]))]
        _, group = np.unique(self._payload.values[ids], return_inverse=True)
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

    def fast_forward(self, t: int) -> int:
        """Asks nothing of its input, as a skipped early piece would change a later event's start.

        Spares only the output: events that come and are settled in one frame, and end before t.
        """
        self._wanted = max(self._wanted, t)
        return BEGIN

    # -- looking at it ------------------------------------------------------------------------

    def __len__(self) -> int:
        """Boundaries held."""
        return len(self._boundaries)

    @property
    def nbytes(self) -> int:
        """Bytes of the tables, chains and columns."""
        columns = self._payload.nbytes + self._time.nbytes + self._sum.nbytes
        tables = int(self._boundaries.nbytes) + self._payloads.nbytes
        return tables + int(self._of_payload.nbytes) + columns

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._boundaries.validate()
        self._of_payload.validate()
        sums, times = self._sum.values, self._time.values
        live = np.flatnonzero(sums)
        if not len(live) == len(self._boundaries) == len(self._of_payload):
            raise Bug(
                f"{len(live)} boundaries with a sum, {len(self._boundaries)} in the table, "
                f"{len(self._of_payload)} in chains"
            )
        self._payloads.validate(self._payload.values[live])
        live = live[np.lexsort((times[live], self._payload.values[live]))]
        if _compare(self._payload.values[live], times[live], sums[live], sums[live]) is None:
            raise Bug("a payload ends more often than it has started")
        if (sums[live][times[live] < self._stable] < 0).any():
            raise Bug(f"an end below {format_time(self._stable)} was not forgotten")


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
        if (end[at] <= vs[at]).any():
            return None
        ends.append(end)
    return _Change(payload[starts], vs, *ends)


def _before_group(values: Times, group: Ids) -> Times:
    """For each row of sorted groups, what `values` add up to before its group begins."""
    total = np.cumsum(values) - values
    begins = np.flatnonzero(np.diff(group, prepend=-1))
    before: Times = total[begins][group]
    return before


def _violation(frame: Frame) -> StreamViolation:
    """Names the first adjust; which one it was cannot be told from sums."""
    adjusts = np.flatnonzero(~frame.is_insert)
    element = frame.slice(int(adjusts[0]), 1).elements()[0]
    return StreamViolation(
        format_element(element),
        "an adjust changes an event that is there; after this one, or one that follows it in "
        "its frame, a payload ends more often than it has started",
    )
