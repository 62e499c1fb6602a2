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

What is held are counts of events (`event_counts.py`).
"""

from __future__ import annotations

import numpy as np

from gapless.operators.event_counts import EventCounts
from gapless.operators.memory import Memory
from gapless.operators.operator import Marks, Operator, Out, check_schema
from gapless.operators.order import by_time_and_payload
from gapless.operators.state import FACTS, State, check_names, facts, read_facts
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug, DecodeError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema


class Cleanse(Operator):
    """The same table as its input, as inserts alone, in the order of (vs, ve, payload).

    Its input is a legal stream; of its promises, only that an adjust changes what is there is
    checked: a frame that breaks it raises `StreamViolation` and changes nothing.
    """

    def __init__(self, schema: StreamSchema) -> None:
        self.schema = schema
        self._held = EventCounts(schema)
        self._input_stable = BEGIN
        self._stable = BEGIN
        self._wanted = BEGIN  # events that end before it may be dropped

    def limited(self, memory: Memory) -> None:
        """Rows are asked for, too."""
        super().limited(memory)
        self._held.limited(memory)

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """Takes the rows in; at a stable, gives what has become final and is next in order."""
        check_schema(frame, self.schema)
        if len(frame):
            self._held.apply(frame)
        if frame.stable is None:
            return Out(Frame.empty(self.schema))
        return Out(self._release(frame.stable))

    def _release(self, t: int) -> Frame:
        vs, ve = self._held.vs.values, self._held.ve.values
        final = vs < INF if t == INF else ve < t
        first = int(np.min(vs, where=~final, initial=t))
        stable = first if first > self._stable else None
        released = (final & (vs <= first)).nonzero()[0]
        frame = _in_order(self._held.rows(released[ve[released] >= self._wanted]))
        self._input_stable, self._stable = t, max(self._stable, first)
        self._held.forget(released)
        return frame.with_stable(stable)

    def fast_forward(self, t: int) -> int:
        """Drops what is final and ends before t; what is not final yet, when it is its turn.

        A row matters for its own event and for no other, so the input is asked for t too. It still
        ends what it has begun: dropping the end of an event that it has sent would hold up all
        that start later.
        """
        self._wanted = max(self._wanted, t)
        ends_before = min(self._wanted, self._input_stable)
        self._held.forget((self._held.ve.values < ends_before).nonzero()[0])
        return t

    def snapshot(self) -> State:
        """The events held, and what has been promised."""
        stables = facts(input_stable=self._input_stable, stable=self._stable, wanted=self._wanted)
        return {FACTS: stables, **self._held.snapshot()}

    def restore(self, state: State) -> None:
        """Takes them back; raises `DecodeError` where they are not what a cleanse holds."""
        check_names(state, FACTS, "payloads", "events")
        self._input_stable, self._stable, self._wanted = read_facts(
            state, "input_stable", "stable", "wanted"
        )
        self._held.restore(state)
        try:
            self.validate()
        except Bug as e:
            raise DecodeError("snapshot", str(e), "the state of a cleanse") from None

    def __len__(self) -> int:
        """Different events held."""
        return len(self._held)

    @property
    def nbytes(self) -> int:
        """Bytes of what is held."""
        return self._held.nbytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._held.validate()
        vs, ve = self._held.vs.values, self._held.ve.values  # INF where nothing is
        if (vs < self._stable).any():
            raise Bug("an event below the promised stable is still held")
        if ((vs == self._stable) & (ve < self._input_stable)).any():
            raise Bug("an event whose turn has come is still held")


def _in_order(events: Frame) -> Frame:
    return events.take(by_time_and_payload(events.vs, events.ve, events.payload))
