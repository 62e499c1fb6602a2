"""OpenClose: one event of a payload at a time, and a later close revises an earlier one.

    open(B,2)   close(B,6)   open(A,1)   close(A,4)   close(B,5)        A [1,4)    B [2,5)

This is stream W of the LMerge paper's Example 2. A close at t is about the event of its payload
that started last before t. Where that has an end already, t is its end from now on, be it sooner or
later. (Where each event is closed once, `Retractions` read the same streams, several events of a
payload at a time, and whatever the order.)

- Of several closes of one event the last in the log counts: that much order is asked for. Between
  opens, and between payloads, none is.
- A close before anything has started is refused, and so is an event that would be open while
  another one of its payload is. An event that closes when it opens cannot be said.
- What a stable t has settled, events with an end below t, cannot be revised.

All events that are not settled are kept, open or closed.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gapless.kernels import Chains, KeyTable
from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.operators.changelog.reader import LIVE_MAX, ChangelogReader, Late
from gapless.operators.events import events_of
from gapless.operators.numbers import numbers_schema, unique
from gapless.operators.payloads import Payloads
from gapless.operators.state import FACTS, State, check_names, facts, read_facts
from gapless.protocol.changelog import Changes
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug, ChangeError, DecodeError
from gapless.protocol.frame import Frame, Times
from gapless.protocol.schema import StreamSchema

_EVENT = numbers_schema("payload", "vs")
_EVENTS = "events"


class OpenClose(ChangelogReader):
    """Pluses open, minuses close or close anew."""

    def __init__(
        self, schema: StreamSchema, *, late: Late = "refuse", live_max: int = LIVE_MAX
    ) -> None:
        super().__init__(schema, late=late, live_max=live_max)
        self._empty()

    def _empty(self) -> None:
        self._payloads = Payloads(self.schema.payload)
        self._events = KeyTable(_EVENT)
        self._of_payload = Chains()  # payload id -> its events
        self._payload = Column(0)  # by id of an event, as are the next two
        self._vs = Column(INF)  # INF where the id is free
        self._ve = Column(INF)

    # -- reading ------------------------------------------------------------------------------

    def _read(self, changes: Changes) -> Frame:
        payloads = self._payloads.intern(changes.payload)
        self._payloads.use(payloads)
        try:
            return self._take_in(changes, payloads)
        finally:
            self._payloads.drop(payloads)  # what is held is used by its event, too

    def _take_in(self, changes: Changes, payloads: Ids) -> Frame:
        plus, times = changes.is_plus, changes.times
        opens, closes = plus.nonzero()[0], (~plus).nonzero()[0]
        _, held = self._of_payload.probe(unique(payloads))
        payload = np.concatenate([self._payload.values[held], payloads[opens]])
        vs = np.concatenate([self._vs.values[held], times[opens]])
        was = np.concatenate([self._ve.values[held], np.full(len(opens), BEGIN)])
        order = np.lexsort((vs, payload))  # of equal starts, the held one first
        place = np.concatenate([held, np.full(len(opens), -1, np.int64)])[order]
        row = np.concatenate([np.full(len(held), -1, np.int64), opens])[order]
        payload, vs, was = payload[order], vs[order], was[order]
        ends = np.where(was == BEGIN, INF, was)
        closer = np.full(len(ends), -1, np.int64)
        closed = self._closed(changes, payloads, closes, payload, vs)
        ends[closed] = times[closes]  # of each event, numpy keeps the last
        closer[closed] = closes
        self._check_overlaps(changes, payload, vs, ends, row, closer)
        out = self._changes(payload, vs, was, ends)
        added = place < 0
        self._hold(payload[added], vs[added], ends[added])
        self._ve.values[place[~added]] = ends[~added]
        return out

    def _closed(self, changes: Changes, payloads: Ids, closes: Ids, payload: Ids, vs: Times) -> Ids:
        """The position of the event that each close is about."""
        who, when = payloads[closes], changes.times[closes]
        both = np.lexsort(
            (
                np.repeat([1, 0], [len(vs), len(when)]),  # at one time, the close comes first
                np.concatenate([vs, when]),
                np.concatenate([payload, who]),
            )
        )
        is_event = both < len(vs)
        last = np.cumsum(is_event) - 1  # events are in this order already
        at = np.empty(len(closes), np.int64)
        at[both[~is_event] - len(vs)] = last[~is_event]
        lost = (at < 0) | (payload[at] != who) if len(vs) else np.ones(len(at), np.bool_)
        if lost.any():
            i = int(closes[int(lost.argmax())])
            raise ChangeError(
                changes.row(i),
                f"closes at {changes.times[i]} what has not been opened before, or is settled",
                "its open comes first, with an earlier time",
            )
        return at

    def _check_overlaps(
        self, changes: Changes, payload: Ids, vs: Times, ends: Times, row: Ids, closer: Ids
    ) -> None:
        overlaps = (payload[1:] == payload[:-1]) & (ends[:-1] > vs[1:])
        if overlaps.any():
            at = int(overlaps.argmax())
            rows = [int(r) for r in (closer[at], row[at + 1], row[at]) if r >= 0]
            raise ChangeError(
                changes.row(rows[0]),
                f"at {vs[at + 1]} one event is opened while another of its payload, since "
                f"{vs[at]}, is open",
                "close that one first, or read with Retractions",
            )

    def _changes(self, payload: Ids, vs: Times, was: Times, ends: Times) -> Frame:
        rows = np.concatenate(
            [((was != BEGIN) & (was != ends)).nonzero()[0], (was == BEGIN).nonzero()[0]]
        )
        if not len(rows):
            return Frame.empty(self.schema)
        columns = self._payloads.rows(payload[rows]).columns
        return Frame.made(self.schema, vs[rows], ends[rows], columns, was[rows])

    def _hold(self, payload: Ids, vs: Times, ve: Times) -> None:
        keys = pa.RecordBatch.from_arrays([pa.array(payload), pa.array(vs)], schema=_EVENT)
        ids, _ = self._events.intern(keys)
        for column, values in zip(self._columns, (payload, vs, ve), strict=True):
            column.fit(self._events.capacity)[ids] = values
        self._payloads.use(payload)
        self._of_payload.add(payload, ids)

    # -- settling -----------------------------------------------------------------------------

    def _settle(self, t: int) -> None:
        if t == INF:
            self._empty()
            return
        settled = ((self._vs.values < INF) & (self._ve.values < t)).nonzero()[0]
        if not len(settled):
            return
        self._of_payload.remove(settled)
        self._events.release(settled)
        self._payloads.drop(self._payload.values[settled])
        for column, free in zip(self._columns, (0, INF, INF), strict=True):
            column.values[settled] = free
            column.fit(self._events.capacity)

    # -- the state as data --------------------------------------------------------------------

    def snapshot(self) -> State:
        """The events that are not settled."""
        live = (self._vs.values < INF).nonzero()[0]
        events = Frame.from_columns(
            self.schema,
            self._vs.values[live],
            self._ve.values[live],
            self._payloads.rows(self._payload.values[live]),
        )
        return {FACTS: facts(stable=self.stable), _EVENTS: events.batch}

    def restore(self, state: State) -> None:
        """Takes them back."""
        check_names(state, FACTS, _EVENTS)
        (self.stable,) = read_facts(state, "stable")
        events = events_of(state, _EVENTS, self.schema)
        if len(events):
            self._hold(self._payloads.intern(events.payload), events.vs, events.ve)
        try:
            self.validate()
        except Bug as e:
            raise DecodeError("snapshot", str(e), "the state of a reader of opens") from None

    # -- looking at it ------------------------------------------------------------------------

    @property
    def _columns(self) -> tuple[Column, Column, Column]:
        return self._payload, self._vs, self._ve

    def __len__(self) -> int:
        """Events held."""
        return len(self._events)

    @property
    def nbytes(self) -> int:
        """Bytes of tables, chains and columns."""
        tables = int(self._events.nbytes) + int(self._of_payload.nbytes) + self._payloads.nbytes
        return tables + sum(column.nbytes for column in self._columns)

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._events.validate()
        self._of_payload.validate()
        live = (self._vs.values < INF).nonzero()[0]
        if not len(live) == len(self._events) == len(self._of_payload):
            raise Bug(f"{len(live)} live starts, {len(self._events)} events held")
        self._payloads.validate(self._payload.values[live])
        live = live[np.lexsort((self._vs.values[live], self._payload.values[live]))]
        payload, vs, ve = (column.values[live] for column in self._columns)
        if ((payload[1:] == payload[:-1]) & (ve[:-1] > vs[1:])).any() or (vs >= ve).any():
            raise Bug("two events of a payload overlap, or one is empty")
        if (ve < self.stable).any():
            raise Bug("an event is settled and still held")
