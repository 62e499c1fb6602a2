"""What engines do that need order: hold rows until those before them have come.

    OrderedUnion   IOP's Merge: of several ordered inputs one ordered stream. While one input is
                   behind, the rows of the others wait (window-queries, chapter 8).

                   M1  1 2 3 4 5        out  1 1 2 2         3 4 5 wait for M2
                   M2  1 2

    SortedOutput   OPOB-Join is our join and this behind it: join results in the order of one
                   column, once its marks say that no smaller one comes (section 7.4).

    InputBuffered  OPIB-Join: the left rows wait, in order, until all that they can be joined with
                   is there; then they are joined, and the results come by themselves in the order
                   of the left rows. The right rows have to wait for them.

    InStep         a join that takes both inputs in one order of time: the rows of the one that is
                   ahead wait until the other is as far, and stored ones are purged that much later.

Each composes public parts, and `InOrder`, which sorts the rows of a frame as they come and then
merges the beginnings of these runs: a row is moved twice, however long it waits. So a figure shows
the cost of waiting for order, not of a slow loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gapless.operators.operator import Marks, Operator, Out
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug, Misuse
from gapless.protocol.frame import Frame, Times
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import StreamSchema


class _Run(NamedTuple):
    times: Times  # ascending
    rows: pa.RecordBatch


class InOrder:
    """Rows that wait for their turn."""

    def __init__(self) -> None:
        self._runs: list[_Run] = []
        self._rows = 0
        self._row_bytes = 0.0

    def put(self, times: Times, rows: pa.RecordBatch) -> None:
        """Takes rows, in any order."""
        if not len(times):
            return
        if (times[1:] < times[:-1]).any():
            order = np.argsort(times, kind="stable")
            times, rows = times[order], rows.take(pa.array(order))
        self._runs.append(_Run(times, rows))
        self._rows += len(times)
        self._row_bytes = (int(rows.nbytes) + times.nbytes) / len(times)

    def before(self, t: int) -> tuple[Times, pa.RecordBatch | None]:
        """Gives up the rows with a time before t, in order, and their times."""
        ready: list[_Run] = []
        left: list[_Run] = []
        for run in self._runs:
            if run.times[-1] < t:
                ready.append(run)
            elif run.times[0] >= t:
                left.append(run)
            else:
                n = int(np.searchsorted(run.times, t))
                ready.append(_Run(run.times[:n], run.rows.slice(0, n)))
                left.append(_Run(run.times[n:], run.rows.slice(n)))
        self._runs = left
        if not ready:
            return np.empty(0, np.int64), None
        if len(ready) == 1:
            times, rows = ready[0]
        else:
            times = np.concatenate([run.times for run in ready])
            order = np.argsort(times, kind="stable")  # which merges runs
            rows = pa.concat_batches([run.rows for run in ready]).take(pa.array(order))
            times = times[order]
        self._rows -= len(times)
        return times, rows

    def __len__(self) -> int:
        return self._rows

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that are left, and their times."""
        return round(self._rows * self._row_bytes)


class _Ordering(Operator):
    """Holds frames' rows in order of a time."""

    def __init__(self, schema: StreamSchema) -> None:
        self.schema = schema
        self._held = InOrder()

    def _released(self, t: int) -> Frame:
        """The rows with a time before t, in order."""
        _, batch = self._held.before(t)
        return Frame.empty(self.schema) if batch is None else Frame(batch, None, self.schema)

    def fast_forward(self, t: int) -> int:
        """Drops nothing: a baseline runs from the start."""
        return BEGIN

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that wait."""
        return self._held.nbytes

    def validate(self) -> None:
        """Holds nothing that could contradict itself."""


class OrderedUnion(_Ordering):
    """The rows of all inputs in the order of `_vs`."""

    def __init__(self, schema: StreamSchema, inputs: int) -> None:
        super().__init__(schema)
        self.inputs = inputs
        self._stables = [BEGIN] * inputs

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """Holds the rows; releases what no input can come before any more."""
        self._held.put(frame.vs, frame.batch)
        behind = min(self._stables)
        if frame.stable is not None:
            self._stables[source] = frame.stable
        t = min(self._stables)
        if t <= behind:
            return Out(Frame.empty(self.schema))
        return Out(self._released(t).with_stable(t))


class SortedOutput(_Ordering):
    """Its input in the order of the column `on`, as far as marks on it promise.

    It gives no stable before the end: readers of the column go by the marks.
    """

    def __init__(self, schema: StreamSchema, on: str) -> None:
        super().__init__(schema)
        self._on = 3 + schema.names.index(on)
        self._name = on
        self._bound = BEGIN

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """Holds the rows; releases those below what the marks say."""
        self._held.put(frame.batch.column(self._on).to_numpy(), frame.batch)
        says = [t for mark in marks if (t := mark.as_stable(self._name)) is not None]
        bound = INF if frame.stable == INF else max(says, default=BEGIN)
        if bound <= self._bound:
            return Out(Frame.empty(self.schema))
        self._bound = bound
        return Out(self._released(bound).with_stable(INF if bound == INF else None), marks)


class InputBuffered(Operator):
    """A join of which no result of a push has an earlier left row than those of pushes before."""

    inputs = 2

    def __init__(self, left: StreamSchema, join: Operator, time: str) -> None:
        """`join` is new. Left rows live equally long, from the time in their column `time` on."""
        self.schema = join.schema
        self._left = left
        self._join = join
        self._time = time
        self._held = InOrder()
        self._length: int | None = None
        self._stables = [BEGIN, BEGIN]
        self._said = BEGIN  # the stable that the join has of the left

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """Right rows go to the join at once, left ones when the right has passed their end."""
        if frame.stable is not None:
            self._stables[source] = frame.stable
        outs: list[Out] = []
        if source == 1:
            outs.append(self._join.push(1, frame, marks))
        elif len(frame):  # marks of the left are not true of it when it is held back
            self._hold(frame)
        outs += self._release()
        return _one(self.schema, outs)

    def _hold(self, frame: Frame) -> None:
        lengths = frame.ve - frame.vs
        length = int(lengths[0])
        if (lengths != length).any() or self._length not in (None, length):
            raise Misuse("left rows with lifetimes of different lengths do not end in their order")
        self._length = length
        self._held.put(frame.vs, frame.batch)

    def _release(self) -> list[Out]:
        """Left rows that all their partners have come for, which end no later than T: in order."""
        own, other = self._stables
        t = min(own, INF if other == INF else other - (self._length or 0) + 1)
        if t <= self._said or (self._length is None and own < INF):
            return []
        self._said = t
        marks = (Punctuation(((self._time, t),)),)
        _, batch = self._held.before(t)
        frame = Frame.empty(self._left) if batch is None else Frame(batch, None, self._left)
        return [self._join.push(0, frame.with_stable(t), marks)]

    def fast_forward(self, t: int) -> int:
        """Drops nothing: a baseline runs from the start."""
        return BEGIN

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that wait, and of the join."""
        return self._held.nbytes + self._join.nbytes

    def validate(self) -> None:
        """The join's own, and that nothing waits whose turn has come."""
        self._join.validate()
        if self._stables == [INF, INF] and len(self._held):
            raise Bug("left rows wait after the end of both inputs")


class InStep(Operator):
    """A join of windows both of whose inputs are as far as the one that is behind."""

    inputs = 2

    def __init__(self, windows: Sequence[Operator], join: Operator) -> None:
        """`windows` set the lifetimes of each input's rows; all are new."""
        self.schema = join.schema
        self._windows = tuple(windows)
        self._join = join
        self._held = (InOrder(), InOrder())
        self._stables = [BEGIN, BEGIN]

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """Holds the rows; gives the join those that both inputs have passed."""
        self._held[source].put(frame.vs, frame.batch)
        behind = min(self._stables)
        if frame.stable is not None:
            self._stables[source] = frame.stable
        t = min(self._stables)
        if t <= behind:
            return Out(Frame.empty(self.schema))
        return _one(self.schema, [self._taken(side, t) for side in (0, 1)])

    def _taken(self, side: int, t: int) -> Out:
        window = self._windows[side]
        _, batch = self._held[side].before(t)
        rows = Frame.empty(window.schema) if batch is None else Frame(batch, None, window.schema)
        return self._join.push(side, *window.push(0, rows.with_stable(t)))

    def fast_forward(self, t: int) -> int:
        """Drops nothing: a baseline runs from the start."""
        return BEGIN

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that wait, and of the join."""
        return sum(held.nbytes for held in self._held) + self._join.nbytes

    def validate(self) -> None:
        """The join's own."""
        self._join.validate()


def _one(schema: StreamSchema, outs: list[Out]) -> Out:
    """What several pushes put out, as one."""
    frames = [out.frame for out in outs]
    stable = max((f.stable for f in frames if f.stable is not None), default=None)
    rows = [f.with_stable(None) for f in frames if len(f)]
    frame = Frame.concat(rows) if rows else Frame.empty(schema)
    return Out(frame.with_stable(stable), tuple(mark for out in outs for mark in out.marks))
