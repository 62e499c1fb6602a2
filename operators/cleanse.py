"""Cleanse: holds what may still change, and releases in order what no longer can.

    input                                         output
    ins(B,8,inf) ins(A,6,12) ins(A,6,12)
    ins(C,9,10) stable(11)                        stable(6)     A is half frozen, C waits behind it
    adj(B,8,inf,10) stable(13)                    ins(A,6,12) ins(A,6,12) ins(B,8,10) ins(C,9,10)
                                                  stable(13)

The paper (LMerge, section VI-D) puts one before each input of a merger so that the simplest cases
will do: what comes out are inserts with their final ends, in one fixed order (`order.py`: by vs,
ve, payload), the same for every stream that tells the same table. That is what case r1 asks for.
The price is memory and delay: an event waits until it is *fully* frozen, and every event that
starts later waits behind it.

At stable t of the input, let m be the smallest `vs` of what is not fully frozen (t where that is
less). Then what is fully frozen and has `vs <= m` goes out, and m is promised. Nothing released
later can belong before it: whatever is held has `vs >= m`, and what has `vs == m` ends at t or
later, while what was released ended before t. No smaller m would do: an event at m will come.

Events are numbers: `id -> (payload id, vs, ve)` and how often the event is there. An insert adds
one; an adjust moves one from `was` to `ve`. So provisional ends and removals fold away by
themselves, and equal events are counted.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.operators.numbers import at_places, numbers, numbers_schema, read_numbers
from gapless.operators.operator import Marks, Operator, Out, check_schema
from gapless.operators.order import by_time_and_payload
from gapless.operators.payloads import Payloads
from gapless.operators.state import FACTS, State, check_names, facts, read_facts
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug, DecodeError, StreamViolation
from gapless.protocol.frame import Frame, Times
from gapless.protocol.schema import StreamSchema
from gapless.protocol.text import format_element

_EVENT = numbers_schema("payload", "vs", "ve")
_TABLES = (FACTS, "payloads", "events")


class Cleanse(Operator):
    """The same table as its input, as inserts alone, in the order of (vs, ve, payload).

    Its input is a legal stream; of its promises, only that an adjust changes what is there is
    checked: a frame that breaks it raises `StreamViolation` and changes nothing.
    """

    def __init__(self, schema: StreamSchema) -> None:
        self.schema = schema
        self._payloads = Payloads(schema.payload)
        self._events = KeyTable(_EVENT)
        self._payload = Column(0)  # by id of an event, as are all columns
        self._vs = Column(INF)  # INF where the id is free
        self._ve = Column(INF)
        self._count = Column(0)
        self._input_stable = BEGIN
        self._stable = BEGIN
        self._wanted = BEGIN  # events that end before it may be dropped

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """Takes the rows in; at a stable, gives what has become final and is next in order."""
        check_schema(frame, self.schema)
        if len(frame):
            self._take_in(frame)
        if frame.stable is None:
            return Out(Frame.empty(self.schema))
        return Out(self._release(frame.stable))

    def _take_in(self, frame: Frame) -> None:
        gained, lost = np.flatnonzero(frame.ve > frame.vs), np.flatnonzero(~frame.is_insert)
        rows = np.concatenate([gained, lost])
        by = np.repeat(np.array([1, -1]), [len(gained), len(lost)])
        payloads = self._payloads.intern(frame.payload)[rows]
        vs, ve = frame.vs[rows], np.concatenate([frame.ve[gained], frame.was[lost]])
        ids = self._intern(payloads, vs, ve)
        count = self._count.values
        np.add.at(count, ids, by)
        absent = count[ids] < 0
        if absent.any():
            np.subtract.at(count, ids, by)
        self._forget(np.unique(ids[count[ids] == 0]))
        if absent.any():
            element = frame.slice(int(rows[int(absent.argmax())]), 1).elements()[0]
            rule = "an adjust changes an event that is there, and this one is not"
            raise StreamViolation(format_element(element), rule)

    def _intern(self, payloads: Ids, vs: Times, ve: Times) -> Ids:
        keys = pa.RecordBatch.from_arrays(list(map(pa.array, (payloads, vs, ve))), schema=_EVENT)
        ids, new = self._events.intern(keys)
        for column, values in zip(self._key_columns, (payloads, vs, ve), strict=True):
            column.fit(self._events.capacity)[ids[new]] = values[new]
        self._payloads.use(payloads[new])
        self._count.fit(self._events.capacity)
        return ids

    def _release(self, t: int) -> Frame:
        n = self._events.capacity
        vs, ve = self._vs.values[:n], self._ve.values[:n]
        final = vs < INF if t == INF else ve < t
        first = int(np.min(vs, where=~final, initial=t))
        stable = first if first > self._stable else None
        released = np.flatnonzero(final & (vs <= first))
        frame = self._in_order(released[ve[released] >= self._wanted])
        self._input_stable, self._stable = t, max(self._stable, first)
        self._count.values[released] = 0
        self._forget(released)
        return frame.with_stable(stable)

    def _in_order(self, ids: Ids) -> Frame:
        """The events, each as often as it is there, in the fixed order."""
        if not len(ids):
            return Frame.empty(self.schema)
        payload = self._payloads.rows(self._payload.values[ids])
        frame = Frame.from_columns(self.schema, self._vs.values[ids], self._ve.values[ids], payload)
        order = by_time_and_payload(frame.vs, frame.ve, payload)
        return frame.take(np.repeat(order, self._count.values[ids][order]))

    def fast_forward(self, t: int) -> int:
        """Drops what is final and ends before t; what is not final yet, when it is its turn.

        A row matters for its own event and for no other, so the input is asked for t too. It still
        ends what it has begun: dropping the end of an event that it has sent would hold up all
        that start later.
        """
        self._wanted = max(self._wanted, t)
        dropped = np.flatnonzero(self._ve.values < min(self._wanted, self._input_stable))
        self._count.values[dropped] = 0
        self._forget(dropped)
        return t

    def _forget(self, ids: Ids) -> None:
        """Frees ids whose count has become 0."""
        if not len(ids):
            return
        self._events.release(ids)
        self._payloads.drop(self._payload.values[ids])
        for column, free in zip(self._key_columns, (0, INF, INF), strict=True):
            column.values[ids] = free
            column.fit(self._events.capacity)
        self._count.fit(self._events.capacity)

    @property
    def _key_columns(self) -> tuple[Column, Column, Column]:
        return self._payload, self._vs, self._ve

    def snapshot(self) -> State:
        """The events held, and what has been promised."""
        rows, places = self._payloads.snapshot()
        ids = (self._vs.values < INF).nonzero()[0]
        return {
            FACTS: facts(input_stable=self._input_stable, stable=self._stable, wanted=self._wanted),
            "payloads": rows,
            "events": numbers(
                payload=places[self._payload.values[ids]],
                vs=self._vs.values[ids],
                ve=self._ve.values[ids],
                count=self._count.values[ids],
            ),
        }

    def restore(self, state: State) -> None:
        """Takes them back; raises `DecodeError` where they are not what a cleanse holds."""
        check_names(state, *_TABLES)
        self._input_stable, self._stable, self._wanted = read_facts(
            state, "input_stable", "stable", "wanted"
        )
        places, vs, ve, count = read_numbers(state, "events", "payload", "vs", "ve", "count")
        payloads = self._payloads.restore(state, "payloads")
        ids = self._intern(at_places(payloads, places, "events.payload"), vs, ve)
        self._count.values[ids] = count
        if len(self) < len(ids):
            raise DecodeError("snapshot.events", "repeated events", "each once, with its count")
        try:
            self.validate()
        except Bug as e:
            raise DecodeError("snapshot", str(e), "the state of a cleanse") from None

    def __len__(self) -> int:
        """Different events held."""
        return len(self._events)

    @property
    def nbytes(self) -> int:
        """Bytes of the tables and columns."""
        columns = (*self._key_columns, self._count)
        held = sum(column.nbytes for column in columns)
        return int(self._events.nbytes) + self._payloads.nbytes + held

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._events.validate()
        live = self._vs.values < INF
        if int(live.sum()) != len(self._events):
            raise Bug(f"{int(live.sum())} live starts, {len(self._events)} events held")
        if ((self._count.values > 0) != live).any():
            raise Bug("an event is held no times, or a free id some times")
        self._payloads.validate(self._payload.values[live])
        vs, ve = self._vs.values[live], self._ve.values[live]
        if (vs >= ve).any():
            raise Bug("an event ends before it has started")
        if (vs < self._stable).any():
            raise Bug("an event below the promised stable is still held")
        if ((vs == self._stable) & (ve < self._input_stable)).any():
            raise Bug("an event whose turn has come is still held")
