"""Events that an operator holds, and how often each is there.

    ins(A,6,9) ins(A,6,9)      (A,6,9): 2
    adj(A,6,9,12)              (A,6,9): 1   (A,6,12): 1
    adj(A,6,12,6)              (A,6,9): 1

Events are a multiset, so an adjust moves one from its old end to the new one, or takes it away.
So provisional ends and removals fold away by themselves. Counts know no order inside a frame. An
event is a number, `id -> (payload id, vs, ve)`; ids are dense and used again, and a payload is
stored once however many events share it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.operators.memory import Memory
from gapless.operators.numbers import at_places, numbers, numbers_schema, read_numbers
from gapless.operators.payloads import Payloads
from gapless.operators.state import State
from gapless.protocol.elements import INF
from gapless.protocol.errors import Bug, DecodeError, StreamViolation
from gapless.protocol.frame import Frame, Times
from gapless.protocol.schema import StreamSchema
from gapless.protocol.text import format_element

_EVENT = numbers_schema("payload", "vs", "ve")


class EventCounts:
    """A multiset of events of one schema."""

    def __init__(self, schema: StreamSchema) -> None:
        self._schema = schema
        self._payloads = Payloads(schema.payload)
        self._events = KeyTable(_EVENT)
        self.payload = Column(0)  # by id, as are all columns
        self.vs = Column(INF)  # INF where the id is free
        self.ve = Column(INF)
        self.count = Column(0)

    def limited(self, memory: Memory) -> None:
        """Rows are asked for from now on."""
        self._payloads.memory = memory

    def apply(self, frame: Frame) -> None:
        """Takes the rows in; a frame that adjusts what is not there raises and changes nothing."""
        absent = self.take_in(frame)
        if absent is not None:
            element = frame.slice(absent, 1).elements()[0]
            rule = "an adjust changes an event that is there, and this one is not"
            raise StreamViolation(format_element(element), rule)

    def take_in(self, frame: Frame) -> int | None:
        """The same for a caller that knows better what to say: gives the row that adjusts what is
        not there, and then nothing was changed; None where all is well.
        """
        gained, lost = (frame.ve > frame.vs).nonzero()[0], (~frame.is_insert).nonzero()[0]
        rows = np.concatenate([gained, lost])
        by = np.repeat(np.array([1, -1]), [len(gained), len(lost)])
        payloads = self._payloads.intern(frame.payload)[rows]
        vs, ve = frame.vs[rows], np.concatenate([frame.ve[gained], frame.was[lost]])
        ids = self._intern(payloads, vs, ve)
        count = self.count.values
        np.add.at(count, ids, by)
        absent = count[ids] < 0
        if absent.any():
            np.subtract.at(count, ids, by)
        self._free(np.unique(ids[count[ids] == 0]))
        return int(rows[int(absent.argmax())]) if absent.any() else None

    def _intern(self, payloads: Ids, vs: Times, ve: Times) -> Ids:
        """The ids of events, as yet without a count where they are new."""
        keys = pa.RecordBatch.from_arrays(list(map(pa.array, (payloads, vs, ve))), schema=_EVENT)
        ids, new = self._events.intern(keys)
        for column, values in zip(self._key_columns, (payloads, vs, ve), strict=True):
            column.fit(self._events.capacity)[ids[new]] = values[new]
        self._payloads.use(payloads[new])
        self.count.fit(self._events.capacity)
        return ids

    def starting_before(self, t: int) -> Ids:
        """The ids of events with `vs < t`, in the order of ids."""
        ids: Ids = (self.vs.values < t).nonzero()[0]
        return ids

    def rows(self, ids: Ids) -> Frame:
        """The events as inserts, each as often as it is there."""
        ids = np.repeat(ids, self.count.values[ids])
        if not len(ids):
            return Frame.empty(self._schema)
        payload = self._payloads.rows(self.payload.values[ids])
        return Frame.from_columns(self._schema, self.vs.values[ids], self.ve.values[ids], payload)

    def payloads_of(self, ids: Ids) -> pa.RecordBatch:
        """The payload of each event."""
        return self._payloads.rows(self.payload.values[ids])

    def forget(self, ids: Ids) -> None:
        """Drops events, however often they are there."""
        self.count.values[ids] = 0
        self._free(ids)

    def _free(self, ids: Ids) -> None:
        if not len(ids):
            return
        self._events.release(ids)
        self._payloads.drop(self.payload.values[ids])
        for column, free in zip(self._key_columns, (0, INF, INF), strict=True):
            column.values[ids] = free
            column.fit(self._events.capacity)
        self.count.fit(self._events.capacity)

    @property
    def _key_columns(self) -> tuple[Column, Column, Column]:
        return self.payload, self.vs, self.ve

    def snapshot(self) -> State:
        """The payloads, and the events with their counts."""
        rows, places = self._payloads.snapshot()
        ids = self.starting_before(INF)
        return {
            "payloads": rows,
            "events": numbers(
                payload=places[self.payload.values[ids]],
                vs=self.vs.values[ids],
                ve=self.ve.values[ids],
                count=self.count.values[ids],
            ),
        }

    def restore(self, state: State) -> None:
        """Takes them back into an empty one; the caller validates."""
        places, vs, ve, count = read_numbers(state, "events", "payload", "vs", "ve", "count")
        payloads = self._payloads.restore(state, "payloads")
        ids = self._intern(at_places(payloads, places, "events.payload"), vs, ve)
        self.count.values[ids] = count
        if len(self) < len(ids):
            raise DecodeError("snapshot.events", "repeated events", "each once, with its count")

    def __len__(self) -> int:
        """Different events."""
        return len(self._events)

    @property
    def nbytes(self) -> int:
        """Bytes of the tables and columns."""
        held = sum(column.nbytes for column in (*self._key_columns, self.count))
        return int(self._events.nbytes) + self._payloads.nbytes + held

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._events.validate()
        live = self.vs.values < INF
        if int(live.sum()) != len(self._events):
            raise Bug(f"{int(live.sum())} live starts, {len(self._events)} events held")
        if ((self.count.values > 0) != live).any():
            raise Bug("an event is held no times, or a free id some times")
        if (self.vs.values[live] >= self.ve.values[live]).any():
            raise Bug("an event ends before it has started")
        self._payloads.validate(self.payload.values[live])
