"""Settle: holds what may still be taken back, and passes on as inserts what is there for good.

    ins(A,6,9) ins(B,8,12) ins(C,7,9)        nothing
    adj(C,7,9,7)                             nothing: C was never there
    stable(7)                                ins(A,6,9) stable(7)
    adj(A,6,9,20)                            nothing: A stays; when it ends is of no interest
    stable(9)                                ins(B,8,12) stable(9)

For those who read when a row starts and never when it ends: windows, lifetimes, `latest_by`, an
aggregate. Below a stable of the input no event can come or go, so an event passes at the first
stable above its `vs`, with the end that it has then, and what comes out is inserts alone. That end
may still move, so only (vs, payload) is the same for all who tell the same table.

The input's stable is the output's: what passes with it lies below, what is held at it or above. A
mark may forbid a row that is still held; it waits until none is.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gapless.operators.event_counts import EventCounts
from gapless.operators.events import events_of
from gapless.operators.marks import marks_table, read_marks
from gapless.operators.memory import Memory
from gapless.operators.operator import ANSWER_ROWS_MAX, Marks, Operator, Out, check_schema, joined
from gapless.operators.state import FACTS, State, check_names, facts, read_facts
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug, DecodeError
from gapless.protocol.frame import Frame
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import StreamSchema

MARKS_WAITING_MAX = 256
"""Marks that wait for held rows to pass: each looks at what is held whenever that changes. The
oldest are dropped beyond, which is always right."""
_HELD, _WAITING = "held", "waiting"


class Settle(Operator):
    """The events of its input that are there for good, as inserts."""

    def __init__(self, schema: StreamSchema) -> None:
        self.schema = schema
        self._held = EventCounts(schema)
        self._waiting: list[Punctuation] = []
        self._stable = BEGIN

    def limited(self, memory: Memory) -> None:
        """Rows are asked for, too."""
        super().limited(memory)
        self._held.limited(memory)

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """Takes the rows in; gives what the stable settles."""
        return joined(self.schema, self.parts(source, frame, marks))

    def parts(self, source: int, frame: Frame, marks: Marks = ()) -> Iterator[Out]:
        """The same; the stable comes with the last."""
        check_schema(frame, self.schema)
        stable = frame.stable if frame.stable is not None and frame.stable > self._stable else None
        last = Frame.empty(self.schema)
        for settled in self._settled(frame, self._stable if stable is None else stable):
            if len(last):
                yield Out(last)
            last = settled
        if stable is not None:
            self._stable = stable
        if marks or self._waiting:
            marks = self._marks(marks)
        yield Out(last.with_stable(stable), marks)

    def _settled(self, frame: Frame, stable: int) -> Iterator[Frame]:
        """Takes in the rows, and takes out what starts below the stable."""
        if not frame.insert_only:
            frame = frame.take(frame.vs >= self._stable)  # of the rest only ends may move
        passing = Frame.empty(self.schema)
        if frame.insert_only and len(frame):  # what need not wait is not held first
            below = frame.vs < stable
            passing, frame = frame.take(below), frame.take(~below)
        if len(frame):
            self._held.apply(frame)
        if len(passing):
            yield passing
        if stable == self._stable or not len(self._held):
            return
        ids = self._held.starting_before(stable)
        for start in range(0, len(ids), ANSWER_ROWS_MAX):
            yield self._held.rows(ids[start : start + ANSWER_ROWS_MAX])
        self._held.forget(ids)

    def _marks(self, marks: Marks) -> Marks:
        """The marks that no held row contradicts; the others wait."""
        waiting, self._waiting = [*self._waiting, *marks], []
        held = self._held.rows(self._held.starting_before(INF)).batch
        passed = []
        for mark in waiting:
            if held.num_rows and np.count_nonzero(mark.matches(held)):
                self._waiting.append(mark)
            else:
                passed.append(mark)
        del self._waiting[:-MARKS_WAITING_MAX]
        return tuple(passed)

    def fast_forward(self, t: int) -> int:
        """Each row is there for itself alone, so asks for what is asked of it."""
        return t

    # -- the state as data --------------------------------------------------------------------

    def snapshot(self) -> State:
        """The events held, each as often as it is there, the marks that wait, the stable."""
        return {
            FACTS: facts(stable=self._stable),
            _HELD: self._held.rows(self._held.starting_before(INF)).batch,
            _WAITING: marks_table((0, mark) for mark in self._waiting),
        }

    def restore(self, state: State) -> None:
        """Takes them back."""
        check_names(state, FACTS, _HELD, _WAITING)
        (self._stable,) = read_facts(state, "stable")
        held = events_of(state, _HELD, self.schema)
        if len(held):
            if int(held.vs.min()) < self._stable:
                raise DecodeError(f"snapshot.{_HELD}", "holds what is settled")
            self._held.apply(held)
        self._waiting = [mark for _, mark in read_marks(state, _WAITING, 1)]

    # -- looking at it ------------------------------------------------------------------------

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
        if len(self._held.starting_before(self._stable)):
            raise Bug("what is settled is still held")
        if len(self._waiting) > MARKS_WAITING_MAX:
            raise Bug(f"{len(self._waiting)} marks wait")
