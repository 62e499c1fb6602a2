"""The tail: what a replica has put out and a merger might still need.

A replica's output restricted to events with `ve >= since`, where `since` is the durable stable of
its merger. When the merger dies and comes back it knows its output up to that stable;
the folded tail, sent as inserts of a stream that joins at `since`, is all it needs to go on at
once. An ack of a sequence number says only that a frame has arrived: it never trims the tail.

Kept as the frames that were sent. The oldest go when all their ends lie below `since` (a later row
of the same event says its end again); the rest is folded when it holds over twice the rows of the
last fold. Folding takes (vs, payload) for a key, as case r3 does: of two events that share one, the
last told stays.
"""

from __future__ import annotations

from collections import deque

import numpy as np
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.protocol.elements import BEGIN
from gapless.protocol.frame import Frame
from gapless.protocol.schema import VS, StreamSchema

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

    def trim(self, since: int) -> None:
        """Forgets, sooner or later, events with `ve < since`."""
        self.since = max(self.since, since)
        while self._frames and self._frames[0][0] < self.since:
            self._rows -= len(self._frames.popleft()[1])

    def fold(self) -> Frame:
        """Every event with `ve >= since`, as inserts, followed by the stream's stable."""
        stable = None if self.stable == BEGIN else self.stable
        if not self._frames:
            return Frame.empty(self._schema, stable)
        rows = Frame.concat([frame for _, frame in self._frames])
        columns = rows.batch.columns
        table = KeyTable(pa.schema([self._schema.arrow.field(VS), *self._schema.payload]))
        keys = pa.RecordBatch.from_arrays([columns[0], *columns[3:]], schema=table.schema)
        ids, first = table.intern(keys)
        ends = np.empty(table.capacity, np.int64)
        ends[ids] = rows.ve  # of a key that stands there more than once, numpy keeps the last
        starts = np.flatnonzero(first)
        final = ends[ids[starts]]
        kept = starts[(final > rows.vs[starts]) & (final >= self.since)]
        live = rows.take(kept)
        return Frame.from_columns(
            self._schema, live.vs, ends[ids[kept]], live.payload, stable=stable
        )

    def _append(self, frame: Frame) -> None:
        self._frames.append((int(frame.ve.max()), frame.with_stable(None)))
        self._rows += len(frame)

    def _keep(self, folded: Frame) -> None:
        self._frames.clear()
        self._rows = 0
        self._folded_rows = len(folded)
        if len(folded):
            self._append(folded)

    def __len__(self) -> int:
        """Rows held."""
        return self._rows
