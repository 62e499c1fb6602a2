"""Windowed aggregates, implementation WID: every row counts in each of its windows.

    ins(A,7,8)                       windows 1 and 2 of range 10, slide 5
    state: (1, A) -> 1, (2, A) -> 1  ids of a KeyTable over (window, group), a count each
    stable(16)                       windows below 3 are complete:
    -> ins((A,1),10,15) ins((A,1),15,20) stable(20)

Order does not matter: a window is answered once, when the input's stable says that no row of it
can come any more (window-queries, chapter 6). Counting is the one aggregate so far.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.operators.operator import Marks, Operator, Out, check_schema
from gapless.operators.windows import Hopping
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug, Misuse, SchemaError, StreamViolation
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.text import format_element

WINDOWS_PER_ROW_MAX = 100_000
"""A day that slides by the second has 86,400. A row is counted once in each, and each has a key."""
COUNTED_AT_ONCE_MAX = 1 << 20
"""Rows times their windows that are laid out at once: tens of megabytes, whatever the frame."""

_WINDOW = "_window"


class CountByWindow(Operator):
    """Rows per window and group, as one event per window, group columns first, then the count.

    Its input is a stream of source rows: inserts only. A window or group without rows gives no
    event.
    """

    def __init__(
        self,
        schema: StreamSchema,
        window: Hopping,
        group_by: Sequence[str],
        name: str = "count",
    ) -> None:
        missing = [g for g in group_by if g not in schema.names]
        if missing:
            raise SchemaError(f"group_by {missing[0]!r}: the columns are {', '.join(schema.names)}")
        if window.windows_per_row > WINDOWS_PER_ROW_MAX:
            raise Misuse(
                f"window range {window.range}, slide {window.slide}: a row would be in "
                f"{window.windows_per_row} windows, {WINDOWS_PER_ROW_MAX} are the most"
            )
        groups = [schema.payload.field(g) for g in group_by]
        self.schema = StreamSchema(
            pa.schema([*groups, pa.field(name, pa.int64(), nullable=False)]), schema.time_unit
        )
        self.reach = window.range + window.slide
        self._input = schema
        self._window = window
        self._group_by = list(group_by)
        self._key_schema = pa.schema([pa.field(_WINDOW, pa.int64(), nullable=False), *groups])
        self._table = KeyTable(self._key_schema)
        self._windows = Column(INF)  # by id; INF where the id is free
        self._counts = Column(0)
        self._complete = BEGIN  # every window below has been answered
        self._wanted = BEGIN  # no window below is wanted any more

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """Counts the rows, then answers the windows that the stable completes."""
        self._check(frame)
        rows_at_once = max(1, COUNTED_AT_ONCE_MAX // self._window.windows_per_row)
        for start in range(0, len(frame), rows_at_once):
            self._count(frame.slice(start, rows_at_once))
        if frame.stable is None:
            return Out(Frame.empty(self.schema))
        return Out(self._answer(frame.stable))

    def _check(self, frame: Frame) -> None:
        check_schema(frame, self._input)
        if not frame.is_insert.all():
            raise Misuse("windows count source rows, which are never adjusted; got an adjust")
        latest = self._window.latest
        if len(frame) and int(frame.vs.max()) > latest:
            element = frame.slice(int(frame.vs.argmax()), 1).elements()[0]
            rule = f"these windows take rows up to {latest}, whose answers end before inf"
            raise StreamViolation(format_element(element), rule)

    def _count(self, frame: Frame) -> None:
        first = np.maximum(self._window.first(frame.vs), max(self._wanted, self._complete))
        last = self._window.last(frame.vs)
        times = np.where(last < first, 0, last - first + 1)  # far below, the difference overflows
        rows = np.repeat(np.arange(len(frame)), times)
        if not len(rows):
            return
        starts = np.cumsum(times) - times
        windows = np.arange(len(rows)) - starts[rows] + first[rows]
        groups = frame.payload.select(self._group_by)
        if len(rows) != len(frame) or times.max() > 1:
            groups = groups.take(pa.array(rows))
        keys = pa.RecordBatch.from_arrays(
            [pa.array(windows), *groups.columns], schema=self._key_schema
        )
        ids, new = self._table.intern(keys)
        capacity = self._table.capacity
        self._windows.fit(capacity)[ids[new]] = windows[new]
        self._counts.fit(capacity)[:capacity] += np.bincount(ids, minlength=capacity)

    def _answer(self, stable: int) -> Frame:
        complete = self._window.complete_below(stable)
        promised = self._window.stable(stable)
        if complete <= self._complete:
            return Frame.empty(self.schema, promised)
        ids = np.flatnonzero(self._windows.values < complete)
        answers = self._answers(ids) if len(ids) else Frame.empty(self.schema)
        self._complete = complete
        self._forget(ids)
        return answers.with_stable(promised)

    def _answers(self, ids: Ids) -> Frame:
        starts = (self._windows.values[ids] + 1) * self._window.slide
        return Frame.from_columns(
            self.schema,
            starts,
            starts + self._window.slide,
            [*self._table.rows(ids).columns[1:], pa.array(self._counts.values[ids])],
        )

    def fast_forward(self, t: int) -> int:
        """Drops the windows whose answers end before t, counted or not."""
        if t in (BEGIN, INF):
            return t
        self._wanted = max(self._wanted, self._window.first_wanted(t))
        self._forget(np.flatnonzero(self._windows.values < self._wanted))
        return self._window.rows_needed_from(t)

    def _forget(self, ids: Ids) -> None:
        if not len(ids):
            return
        self._table.release(ids)
        self._windows.values[ids] = INF
        self._counts.values[ids] = 0
        capacity = self._table.capacity
        self._windows.fit(capacity)
        self._counts.fit(capacity)

    @property
    def nbytes(self) -> int:
        """Bytes of the table and its columns."""
        return int(self._table.nbytes) + self._windows.nbytes + self._counts.nbytes

    def validate(self) -> None:
        """Every live id has an open window and a count."""
        self._table.validate()
        live = self._windows.values < INF
        if int(live.sum()) != len(self._table):
            raise Bug(f"{int(live.sum())} open windows, {len(self._table)} live keys")
        if ((self._counts.values > 0) != live).any():
            raise Bug("a live window without rows, or a free one with rows")
        if (self._windows.values < max(self._complete, self._wanted)).any():
            raise Bug("an answered or unwanted window is still open")
