"""BufferingAggregate: what most engines did before window-ids, and what WID is compared with.

    range 4, slide 2          buffer, in order        a window closes: its extent, aggregated anew
    rows at 3 1 2 5 | 6       1 2 3 5                 [0,4) = 1 2 3     then 1 is of no more use
                              2 3 5 ...               [2,6) = 2 3 5     2 and 3 count again

It needs order, so rows wait until a stable says that none comes before them; then they stay until
the last extent that they belong to has closed. At its end a window's extent is materialised and the
group-by runs over it: each row is grouped and counted once for every window that it is in
(window-queries, section 3.1 and figure 6-10).

It is as vectorised as what it is compared with, and uses the same parts: extents are found by
binary search and are slices without a copy, groups are ids of a `KeyTable`, and the aggregates are
our accumulators. Only columns that the query reads are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from gapless.bench.baselines_order import InOrder
from gapless.kernels import KeyTable
from gapless.operators.aggregates.function import AggregateFunction
from gapless.operators.answers import Answers
from gapless.operators.hopping_aggregate import answer_schema
from gapless.operators.operator import Marks, Operator, Out
from gapless.operators.windows import Hopping
from gapless.protocol.elements import BEGIN
from gapless.protocol.frame import Frame, Times
from gapless.protocol.schema import StreamSchema


class BufferingAggregate(Operator):
    """The answers of a HoppingAggregate of the same arguments, from a buffer in order."""

    def __init__(
        self,
        schema: StreamSchema,
        window: Hopping,
        group_by: Sequence[str],
        aggregates: Sequence[tuple[str, AggregateFunction]],
    ) -> None:
        self.schema = answer_schema(schema, group_by, aggregates)
        functions = [function for _, function in aggregates]
        read = dict.fromkeys([*group_by, *(name for f in functions for name in f.columns)])
        self._columns = list(read) or schema.names[:1]
        payload = pa.schema([schema.payload.field(name) for name in self._columns])
        self._group_by = list(group_by)
        self._keys = pa.schema([payload.field(name) for name in group_by])
        self._states = [function.accumulator(payload) for function in functions]
        self._window = window
        self._waiting = InOrder()
        self._times: Times = np.empty(0, np.int64)  # of the buffer, ascending
        self._buffer = pa.RecordBatch.from_pylist([], schema=payload)
        self._complete = BEGIN

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """Holds the rows; at a stable orders what may go and answers the windows that close."""
        self._waiting.put(frame.vs, frame.payload.select(self._columns))
        if frame.stable is None:
            return Out(Frame.empty(self.schema))
        complete = self._window.complete_below(frame.stable)
        if complete <= self._complete:
            return Out(Frame.empty(self.schema))
        self._append(frame.stable)
        parts = list(self._close(complete))
        self._complete = complete
        self._forget(complete)
        stable = self._window.stable(frame.stable)
        if not parts:
            return Out(Frame.empty(self.schema, stable))
        answers = Answers.joined(parts)
        starts = (answers.windows + 1) * self._window.slide
        ends = starts + self._window.slide
        columns = answers.columns
        return Out(Frame.from_columns(self.schema, starts, ends, columns, stable=stable))

    def _append(self, stable: int) -> None:
        times, rows = self._waiting.before(stable)
        if rows is not None:
            self._times = np.concatenate([self._times, times])
            self._buffer = pa.concat_batches([self._buffer, rows])

    def _close(self, complete: int) -> Iterator[Answers]:
        """The answers of all windows below `complete` that have rows."""
        if not len(self._times):
            return
        slide, length = self._window.slide, self._window.range
        last = min(complete, (int(self._times[-1]) + length) // slide)
        windows = np.arange(max(self._complete, int(self._times[0]) // slide), last)
        ends = (windows + 1) * slide
        begin = np.searchsorted(self._times, ends - length)
        end = np.searchsorted(self._times, ends)
        for w, i, j in zip(windows.tolist(), begin.tolist(), end.tolist(), strict=True):
            if i < j:
                yield self._answer(w, i, j)

    def _answer(self, window: int, begin: int, end: int) -> Answers:
        """The group-by over one extent."""
        rows = self._buffer.slice(begin, end - begin)
        if self._group_by:
            table = KeyTable(self._keys)
            ids, _ = table.intern(rows.select(self._group_by))
            found = np.arange(len(table))
            groups = table.rows(found).columns
        else:
            ids, found, groups = np.zeros(end - begin, np.int64), np.zeros(1, np.int64), []
        times = self._times[begin:end]
        for state in self._states:
            state.fit(len(found))
            state.add(ids, rows, times)
        columns = [*groups, *(state.results(found) for state in self._states)]
        for state in self._states:
            state.clear(found)
        return Answers(np.full(len(found), window, np.int64), columns)

    def _forget(self, complete: int) -> None:
        """Rows that no window to come covers."""
        gone = len(self._times)
        if complete < self._window.windows().stop:
            gone = int(np.searchsorted(self._times, self._window.extent(complete)[0]))
        if gone:
            self._times = self._times[gone:].copy()
            self._buffer = self._buffer.slice(gone)

    def fast_forward(self, t: int) -> int:
        """Drops nothing: a baseline runs from the start."""
        return BEGIN

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that wait, and of those in the buffer."""
        return self._waiting.nbytes + int(self._buffer.nbytes) + self._times.nbytes

    def validate(self) -> None:
        """Holds nothing that could contradict itself."""
