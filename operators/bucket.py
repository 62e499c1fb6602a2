"""Bucket: a row once for each window that it belongs to (figure 6-2 of window-queries).

    window(10, slide 5)      ins(A,10,20)                 A is in the windows that end at 10 and 15
    bucket(end=...)          ins((A,10),10,15) ins((A,15),15,20)

Its input has the lifetimes that a hopping window gives (`windows.py`): a row lives while answers
see it. So each slide that it lives through is a window that it is in, and becomes an event of its
own, that lives as the answer of that window does. A removal takes all of them back. What is
promised stays true.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids
from gapless.operators.aggregates.window_bounds import Bounds, WindowBound, before
from gapless.operators.aside import Aside
from gapless.operators.operator import ANSWER_ROWS_MAX, Marks, Operator, Out, check_schema, joined
from gapless.operators.row_bytes import RowBytes, cuts
from gapless.operators.windows import Cut
from gapless.protocol.columns import take
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema


def bucket_schema(schema: StreamSchema, bounds: Sequence[tuple[str, WindowBound]]) -> StreamSchema:
    """The columns of rows, then what is asked of their windows."""
    fields = [pa.field(name, bound.result(schema.payload)) for name, bound in bounds]
    return StreamSchema(pa.schema([*schema.payload, *fields]), schema.time_unit)


class Bucket(Operator):
    """Cuts lifetimes at the ends of windows."""

    def __init__(
        self,
        schema: StreamSchema,
        window: Cut,
        bounds: Sequence[tuple[str, WindowBound]],
        aside: Aside | None = None,
    ) -> None:
        self.schema = bucket_schema(schema, bounds)
        self._input = schema
        self._window = window
        self._bounds = Bounds(len(schema.payload), bounds)
        self._row_bytes = RowBytes(schema.arrow)
        self._bounds_bytes = RowBytes(
            pa.schema(list(self.schema.payload)[len(schema.payload) :])
        ).least
        self._aside = aside or Aside()

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """The rows, once for each of their windows."""
        return joined(self.schema, self.parts(source, frame, marks))

    def parts(self, source: int, frame: Frame, marks: Marks = ()) -> Iterator[Out]:
        """The same; stable and marks come with the last."""
        check_schema(frame, self._input)
        rows = self._ending(frame)
        ends = np.where(rows.is_insert, rows.ve, rows.was)
        windows = (ends - rows.vs) // self._window.slide
        for part in cuts(windows, len(rows), ANSWER_ROWS_MAX):
            some = rows.slice(part.start, part.stop - part.start)
            for cut in self._in_room(some, windows[part]):
                yield Out(cut)
        yield Out(Frame.empty(self.schema, frame.stable), marks)

    def _in_room(self, rows: Frame, windows: Ids) -> Iterator[Frame]:
        """The pieces of these rows, as many at a time as there is room for."""
        row_bytes = windows * (self._row_bytes.of(rows.batch) + self._bounds_bytes)
        for part in cuts(row_bytes, len(rows), self.memory.part_bytes):
            self.memory.ask(int(row_bytes[part].sum()), "rows of windows")
            yield self._cut(rows.slice(part.start, part.stop - part.start), windows[part])

    def _ending(self, frame: Frame) -> Frame:
        """The rows that are in a number of windows; others go aside."""
        endless = (frame.ve == INF) | (frame.was == INF)
        if not np.count_nonzero(endless):
            return frame
        last = f"these windows take rows up to {self._window.latest}: answers end before inf"
        self._aside.put("bucket", frame.take(endless).batch, last)
        return frame.take(~endless)

    def _cut(self, rows: Frame, windows: Ids) -> Frame:
        slide = self._window.slide
        at = np.arange(len(rows)).repeat(windows)
        number = np.arange(len(at)) - (np.cumsum(windows) - windows)[at]
        starts = rows.vs[at] + number * slide
        there = pa.array(at)
        columns = [take(column, there) for column in rows.payload.columns]
        filled = self._bounds.filled(columns, before(starts, self._window.spans(starts)), starts)
        if rows.insert_only:
            return Frame.made(self.schema, starts, starts + slide, filled)
        inserts = rows.is_insert[at]
        ends = np.where(inserts, starts + slide, starts)
        return Frame.made(
            self.schema, starts, ends, filled, np.where(inserts, BEGIN, starts + slide)
        )

    def fast_forward(self, t: int) -> int:
        """Each row is there for itself alone."""
        return t

    def validate(self) -> None:
        """It holds nothing."""
