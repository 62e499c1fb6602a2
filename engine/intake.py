"""Where rows come in: the batches of a source become frames, its promises stables and marks.

    source flows, time="ts", lateness 5          what goes into the graph
    batch   ts 7, 9, 12                          ins(7,8) ins(9,10) ins(12,13) stable(7)
    batch   ts 8, 5                              ins(8,9)             5 is late: it goes aside
    Punctuation.of({"src": 3}, ts=30)            the mark, of ts and of _vs
    the end                                      stable(inf)

A row lives `[ts, ts + 1)`. Stables are thinned: a stable that no operator can make anything of,
because it lies on the same side of every slide as the last one, is kept back, and one that crosses
a slide goes out as that slide's time, which says as much.

What cannot be a row (no time, one too large, a value that does not fit its column) goes aside, and
so does a late one. Which rows those are does not depend on how the input is cut into batches
(`verdicts.py`). Rows from a journal were judged when they were written (`judged.py`): they go in as
they are, with the journal's stables.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from gapless.engine.closed import Closed
from gapless.engine.conform import Conform
from gapless.engine.judged import Judged
from gapless.engine.lateness import Watermarks, lateness_text
from gapless.engine.nodes import Source
from gapless.engine.verdicts import verdict_of
from gapless.operators.aside import Aside
from gapless.operators.operator import Marks
from gapless.protocol.columns import take_rows
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Frame, Mask, Times
from gapless.protocol.nulls import null_rows
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import VS

FRAME_ROWS = 16_384
"""Rows of one frame: what is done once a frame costs nothing any more, and its columns still lie
in a processor's cache."""
FRAME_ROWS_MAX = 1 << 24
"""More rows in one frame only cost memory."""
TIME_MAX = INF - 2
"""The last time of a row: its lifetime ends one later, before INF."""

_INT64 = pa.int64()


class Unread(NamedTuple):
    """Lines of a file that are no rows, all for one reason."""

    reason: str
    lines: pa.RecordBatch
    """Each as it was, and where it is from."""


Item: TypeAlias = pa.RecordBatch | Unread | Punctuation | Judged
"""What an input consists of: rows, lines that should have been some, and what it says of rows that
come later; or, of a journal, rows and promises that are settled."""


class Intake:
    """Makes frames of one source's batches. Times and promises only ever go forward."""

    def __init__(
        self, source: Source, aside: Aside, grid: int = 1, frame_rows: int = FRAME_ROWS
    ) -> None:
        if type(frame_rows) is not int or not 1 <= frame_rows <= FRAME_ROWS_MAX:
            raise Misuse(f"frame_rows {frame_rows!r}: a number of rows, 1 to {FRAME_ROWS_MAX:,}")
        if grid < 1:
            raise Misuse(f"grid {grid}: it is 1 at least")
        self.source = source
        self.rows = 0
        """Rows that came, bad and late ones included."""
        self.late = 0
        """Rows that came too late."""
        self._schema = source.schema
        self._where = f"source {source.name}"
        self._aside = aside
        self._grid = grid
        self._frame_rows = frame_rows
        self._time = source.schema.payload.get_field_index(source.time)
        self._conform = Conform(source.schema.payload, self._where)
        self._required = source.schema.required
        required = dict(source.schema.required_fields)
        required[self._time] = source.schema.payload.field(self._time).with_nullable(False)
        self._needed = tuple(sorted(required.items(), key=lambda each: each[0] != self._time))
        self._counts = source.schema.payload.field(self._time).type == _INT64
        self._verdict = verdict_of(source.lateness)
        # Groups that close early come out before others: a plan must know (`Properties.ordered`).
        self._closes_groups = isinstance(source.lateness, Watermarks)
        self._closed = Closed(source.schema.payload, source.time)
        self._given = BEGIN
        self._nothing = Frame.empty(source.schema)
        self._empty = pa.RecordBatch.from_arrays(
            self._nothing.batch.columns[3:], schema=source.schema.payload
        )

    @property
    def stable(self) -> int:
        """What the source promises after what came: maybe more than has been given."""
        return self._verdict.stable

    @property
    def progress(self) -> tuple[int, int]:
        """How far the source has come: of several, the least is to be read next."""
        return self._verdict.stable, self._verdict.largest

    def take(self, item: Item) -> Iterator[tuple[Frame, Marks]]:
        """What goes into the graph; to be read to its end before the next item is taken."""
        if isinstance(item, Judged):
            frame = self._passed_on(item.frame)
            if frame:
                yield frame, ()
            return
        if isinstance(item, Punctuation):
            yield from self._said(item)
            return
        if isinstance(item, Unread):
            self.rows += item.lines.num_rows
            self._aside.put(self._where, item.lines, item.reason)
            return
        if not isinstance(item, pa.RecordBatch):
            raise Misuse(_no_item(self._where, item))
        rows = item.num_rows
        if not rows:
            self._conform(item)  # columns that do not fit are wrong in an empty batch, too
        for start in range(0, rows, self._frame_rows):
            part = item if rows <= self._frame_rows else item.slice(start, self._frame_rows)
            frame = self._frame(part)
            if frame:
                yield frame, ()

    def finish(self) -> Frame:
        """The end of the input: nothing comes any more."""
        self._verdict.promise(INF)
        return self._nothing.with_stable(self._promise())

    # -- rows ---------------------------------------------------------------------------------

    def _passed_on(self, frame: Frame) -> Frame:
        """Rows that a journal has judged, with its promise, thinned."""
        if len(frame):
            self.rows += len(frame)
            self._verdict.largest = max(self._verdict.largest, int(frame.vs.max()))
        if frame.stable is None:
            return frame
        self._verdict.promise(frame.stable)
        return frame.with_stable(self._promise())

    def _frame(self, raw: pa.RecordBatch) -> Frame:
        self.rows += raw.num_rows
        columns = self._usable(raw)
        ticks = self._ticks(columns)
        times = ticks.to_numpy()
        rows = len(times)
        if rows:
            left = self._in_time(columns, times)
            if left is not None:
                columns = self._batch(columns, left).columns
                ticks = self._ticks(columns)
                times = ticks.to_numpy()
                rows = len(times)
        stable = self._promise()
        if not rows:
            return self._nothing.with_stable(stable)
        if self._required:  # columns that allow no null, maybe inside structs: the frame looks
            return Frame.from_columns(self._schema, times, times + 1, columns, stable=stable)
        return Frame.made(self._schema, times, times + 1, columns, stable=stable)

    def _ticks(self, columns: list[pa.Array]) -> pa.Array:
        """The times, none of them null, as int64."""
        column = columns[self._time]
        return column if self._counts else column.view(_INT64)

    def _usable(self, raw: pa.RecordBatch) -> list[pa.Array]:
        """The columns of the rows that have a time, and a value that fits wherever one must be."""
        columns, problems = self._conform(raw)
        for place, field in self._needed:
            if columns[place].null_count or pa.types.is_nested(field.type):
                missing = null_rows(field, columns[place]).to_numpy(zero_copy_only=False)
                if missing.any():
                    no_time = ": no time" if place == self._time else ""
                    problems.append((f"{field.name} is null{no_time}", missing))
        if not problems:
            return columns
        left = np.ones(raw.num_rows, np.bool_)
        for reason, bad in problems:
            self._aside.put(self._where, take_rows(raw, bad & left), reason)
            left &= ~bad
        usable: list[pa.Array] = self._batch(columns, left).columns
        return usable

    def _in_time(self, columns: list[pa.Array], times: Times) -> Mask | None:
        """The rows that are in time, None where all are; their source promises what it can."""
        least, most = int(times.min()), int(times.max())
        if most > TIME_MAX or least == BEGIN:
            return self._within_time(columns, times)
        stables = self._verdict.judge(times, least, most)
        late: Mask | None = None
        if stables is not None:
            late = times < stables
            self._set_late(columns, late, self._how_late(stables[late] - times[late]))
        if self._closed:
            closed = self._closed.late(self._batch(columns), times)
            if closed is not None:
                new = closed if late is None else closed & ~late
                reason = "late: the source had said that no such row would come"
                self._set_late(columns, new, reason)
                late = closed if late is None else closed | late
        return None if late is None else ~late

    def _within_time(self, columns: list[pa.Array], times: Times) -> Mask:
        """The same where some rows are at times that no row can have."""
        left = (times > BEGIN) & (times <= TIME_MAX)
        reason = f"{self.source.time} is beyond the times of rows"
        self._aside.put(self._where, self._batch(columns, ~left), reason)
        if left.any():
            in_time = self._in_time(self._batch(columns, left).columns, times[left])
            if in_time is not None:
                left[left] = in_time
        return left

    def _how_late(self, by: Times) -> str:
        unit = self._schema.time_unit
        least = int(by[0]) if self._aside.mode == "stop" else int(by.min())
        most = least if self._aside.mode == "stop" else int(by.max())
        much = f"{least} {unit}" if least == most else f"{least} to {most} {unit}"
        allowed = lateness_text(self.source.lateness, unit)
        return f"late by {much}; the source was declared: {allowed}"

    def _set_late(self, columns: list[pa.Array], late: Mask, reason: str) -> None:
        self.late += int(np.count_nonzero(late))
        self._aside.put(self._where, self._batch(columns, late), reason)

    def _batch(self, columns: list[pa.Array], mask: Mask | None = None) -> pa.RecordBatch:
        """Those rows, or all."""
        batch = pa.RecordBatch.from_arrays(columns, schema=self._conform.schema)
        return batch if mask is None else take_rows(batch, mask)

    # -- promises -----------------------------------------------------------------------------

    def _promise(self) -> int | None:
        """The stable to give, where there is a new one."""
        t = self._verdict.stable
        if t <= self._given:
            return None
        t = INF if t == INF else t // self._grid * self._grid
        if t <= self._given:
            return None
        self._given = t
        if self._closed:
            self._closed.forget_before(self._verdict.stable)
        return t

    def _said(self, said: Punctuation) -> Iterator[tuple[Frame, Marks]]:
        """What the input says of the rows to come, checked against the source's columns."""
        said.matches(self._empty)
        t = said.as_stable(self.source.time)
        if t is not None:
            self._verdict.promise(t)
            stable = self._promise()
            if stable is not None:
                yield self._nothing.with_stable(stable), ()
            return
        self._closed.note(said)
        if not self._closes_groups:
            return
        bounds = dict(said.bounds)
        if self.source.time not in bounds:
            yield self._nothing, (said,)
            return
        bounds[VS] = bounds.pop(self.source.time)
        yield self._nothing, (said, Punctuation(tuple(bounds.items()), said.group))


def _no_item(where: str, given: object) -> str:
    """What is wrong with something that is not an item."""
    said = f"{where}: its input gives {type(given).__name__}"
    if isinstance(given, Frame):
        return (
            f"{said}, and nobody has judged which of its rows are late: give a journal's path, or "
            "the frames' payloads as record batches, their stables as Punctuation.of(...)"
        )
    return f"{said}, and not record batches and punctuations"
