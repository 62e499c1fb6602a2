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
from gapless.operators.operator import Operator
from gapless.operators.windows import Hopping
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug, Misuse, SchemaError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

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
        groups = [schema.payload.field(g) for g in group_by]
        self.schema = StreamSchema(
            pa.schema([*groups, pa.field(name, pa.int64(), nullable=False)]), schema.time_unit
        )
        self.reach = window.range + window.slide
        self._window = window
        self._group_by = list(group_by)
        self._key_schema = pa.schema([pa.field(_WINDOW, pa.int64(), nullable=False), *groups])
        self._table = KeyTable(self._key_schema)
        self._windows = Column(INF)  # by id; INF where the id is free
        self._counts = Column(0)
        self._complete = BEGIN  # every window below has been answered
        self._wanted = BEGIN  # no window below is wanted any more

    def push(self, frame: Frame) -> Frame:
        """Counts the rows, then answers the windows that the stable completes."""
        if len(frame):
            self._count(frame)
        if frame.stable is None:
            return Frame.empty(self.schema)
        return self._answer(frame.stable)

    def _count(self, frame: Frame) -> None:
        if not frame.is_insert.all():
            raise Misuse("windows count source rows, which are never adjusted; got an adjust")
        first = np.maximum(self._window.first(frame.vs), max(self._wanted, self._complete))
        times = np.maximum(self._window.last(frame.vs) - first + 1, 0)
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
        self._complete = complete
        ids = np.flatnonzero(self._windows.values < complete)
        if not len(ids):
            return Frame.empty(self.schema, promised)
        windows = self._windows.values[ids]
        starts = (windows + 1) * self._window.slide
        answers = Frame.from_columns(
            self.schema,
            starts,
            starts + self._window.slide,
            [*self._table.rows(ids).columns[1:], pa.array(self._counts.values[ids])],
            stable=promised,
        )
        self._forget(ids)
        return answers

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
