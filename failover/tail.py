"""The tail: what a replica has put out and a merger might still need.

A replica's output restricted to events with `ve >= since`, where `since` is the durable stable of
its merger. When the merger dies and comes back it knows its output up to that stable; the folded
tail, sent as inserts of a stream that joins at `since`, is all it needs to go on at once. An ack of
a sequence number says only that a frame has arrived: it never trims the tail.

Kept as the frames that were sent. The oldest go when all their ends lie below `since` (a later row
of the same event says its end again); the rest is folded when it holds over twice the rows of the
last fold. Folding counts: each row adds an event at its end, each adjust takes one away where it
was, so a table in which events repeat is told again as it is.
"""

from __future__ import annotations

from collections import deque

import numpy as np
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

FOLD_ROWS_MIN = 256
"""Below this many rows folding costs more than the rows do."""
FOLD_FACTOR = 2
"""Fold at this many times the rows that the last fold left: the cost stays linear overall."""


class Tail:
    """The part of a stream with `ve >= since`, ready to be told again as inserts."""

    def __init__(self, schema: StreamSchema, since: int = BEGIN) -> None:
        self._schema = schema
        self.since = since
        self.stable = BEGIN
        """The last stable of the stream."""
        self._frames: deque[tuple[int, Frame]] = deque()  # each behind its largest end
        self._rows = 0
        self._folded_rows = 0

    def add(self, frame: Frame) -> None:
        """Takes the next frame of the stream."""
        if len(frame):
            self._append(frame)
        if frame.stable is not None:
            self.stable = frame.stable
        if self._rows > max(FOLD_ROWS_MIN, FOLD_FACTOR * self._folded_rows):
            self._keep(self.fold())
        self._drop_settled()

    def trim(self, since: int) -> None:
        """Forgets, sooner or later, events with `ve < since`."""
        self.since = max(self.since, since)
        self._drop_settled()

    def _drop_settled(self) -> None:
        while self._frames and self._frames[0][0] < self.since:
            self._rows -= len(self._frames.popleft()[1])

    def fold(self) -> Frame:
        """Every event with `ve >= since`, as inserts, followed by the stream's stable."""
        stable = None if self.stable == BEGIN else self.stable
        if not self._frames:
            return Frame.empty(self._schema, stable)
        rows = Frame.concat([frame for _, frame in self._frames])
        columns = rows.batch.columns
        table = KeyTable(pa.schema([*list(self._schema.arrow)[:2], *self._schema.payload]))
        there = np.flatnonzero(rows.ve != rows.vs)
        adjusts = np.flatnonzero(~rows.is_insert)
        after = pa.RecordBatch.from_arrays([*columns[:2], *columns[3:]], schema=table.schema)
        before = pa.RecordBatch.from_arrays([columns[0], *columns[2:]], schema=table.schema)
        added, _ = table.intern(after.take(pa.array(there)))
        taken, _ = table.intern(before.take(pa.array(adjusts)))
        capacity = table.capacity
        count = np.bincount(added, minlength=capacity) - np.bincount(taken, minlength=capacity)
        live = table.rows(np.repeat(np.arange(capacity), np.maximum(count, 0)))
        starts, ends = live.column(0).to_numpy(), live.column(1).to_numpy()
        wanted = ends >= self.since
        events = Frame.from_columns(self._schema, starts, ends, live.columns[2:])
        return events.take(wanted).with_stable(stable)

    def _append(self, frame: Frame) -> None:
        self._frames.append((int(frame.ve.max()), frame.with_stable(None)))
        self._rows += len(frame)

    def _keep(self, folded: Frame) -> None:
        self._frames.clear()
        self._rows = 0
        self._folded_rows = len(folded)
        if len(folded):
            self._append(folded)

    def validate(self) -> None:
        """Raises `Bug` where the rows do not add up, or what is settled is kept in front."""
        if self._rows != sum(len(frame) for _, frame in self._frames):
            raise Bug(f"{self._rows} rows are not those of the frames")
        if self._frames and self._frames[0][0] < self.since:
            raise Bug(f"the oldest frame ends before {self.since}")

    def __len__(self) -> int:
        """Rows held."""
        return self._rows
