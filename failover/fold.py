"""Adding up the frames of a stream: the table that they describe, as columns.

    ins(A,6,20) stable(11) adj(A,6,20,30) ins(B,12,15)    -->    (A,[6,30)) 1x   (B,[12,15)) 1x

Each row adds an event at its end, each adjust takes one away where it was; so the order within a
frame does not matter, and a table in which events repeat is told again as it is. What is settled
and not asked for is dropped on the way: the memory is that of the answer, not of the stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from gapless.failover import parts
from gapless.failover.parts import grouped, joined
from gapless.kernels import KeyTable
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

FOLD_ROWS_MIN = 4096
"""Below this many rows folding costs more than the rows do."""
FOLD_FACTOR = 2
"""Fold at this many times the rows that the last fold left: the cost stays linear overall."""

SHARE_ROWS = 1 << 18
"""Rows that are folded at a time: some tens of milliseconds, in which no other thread of the
process waits for long."""
TOUCHED_SHARE = 4
"""Of so many rows one may take something back, where what it speaks of is folded apart: finding
that costs a look at each row, a third of what folding it does."""


class Fold:
    """The events of a stream with `ve >= since`; without `since`, those that are not settled."""

    def __init__(self, schema: StreamSchema, since: int | None = None) -> None:
        self._schema = schema
        self._since = since
        self._frames: list[Frame] = []
        self._rows = 0
        self._folded_rows = 0
        self.stable = BEGIN
        """The last stable of the stream."""

    def add(self, frame: Frame) -> None:
        """Takes the next frame of the stream."""
        if len(frame):
            self._frames.append(frame.with_stable(None))
            self._rows += len(frame)
        if frame.stable is not None:
            self.stable = max(self.stable, frame.stable)
        if self._rows > max(FOLD_ROWS_MIN, FOLD_FACTOR * self._folded_rows):
            self._fold()

    def table(self) -> Frame:
        """The events as inserts, and the stable; None where there was none."""
        self._fold()
        stable = None if self.stable == BEGIN else self.stable
        if not self._frames or (self._since is None and stable == INF):
            return Frame.empty(self._schema, stable)
        rows, since = self._frames[0], self.stable if self._since is None else self._since
        ends = rows.ve
        if since > BEGIN and len(rows) and int(ends.min()) < since:
            rows = rows.take(ends >= since)
        return rows.with_stable(stable)

    def _fold(self) -> None:
        """Leaves one frame of inserts, without what is settled and not asked for."""
        if not self._frames:
            return
        rows = folded(self._schema, self._frames)
        floor = self.stable if self._since is None else min(self.stable, self._since)
        if floor > BEGIN and len(rows):
            rows = rows.take(rows.ve >= floor)
        self._frames = [rows]
        self._rows = self._folded_rows = len(rows)


def folded_parts(schema: StreamSchema, frames: Sequence[Frame], floor: int) -> list[Frame]:
    """The events with `ve >= floor` that rows of a stream leave, as inserts, in parts; none where
    there are none. Where nothing is taken back, rows keep their order and are not copied.

    Where few rows take anything back, only what they speak of is folded, and whole frames go on as
    they are. Else, as an event and what becomes of it have one start, starts are dealt out into
    shares that are folded one after the other: beside the rows only one share is in memory twice.
    """
    size = sum(map(len, frames))
    count = -(-size // SHARE_ROWS)
    adjusts = [frame.adjusts for frame in frames if not frame.insert_only]
    if not adjusts:
        shares = [[frame] for frame in frames]
    elif TOUCHED_SHARE * sum(map(len, adjusts)) <= size:
        shares = _untouched_apart(schema, frames, adjusts)
    elif count <= 1:
        shares = [list(frames)]
    else:
        shares = [[] for _ in range(count)]
        for frame in frames:
            for number, rows in _dealt(frame, count):
                shares[number].append(rows)
    made = []
    for share in filter(None, shares):
        rows = folded(schema, [frame.with_stable(None) for frame in share])
        share.clear()
        if floor > BEGIN and len(rows) and int(rows.ve.min()) < floor:
            rows = rows.take(rows.ve >= floor)
        made.append(rows)
    return [cut for group in grouped(made) for cut in parts.cut(joined(group))]


def _untouched_apart(
    schema: StreamSchema, frames: Sequence[Frame], adjusts: Sequence[Frame]
) -> list[list[Frame]]:
    """What the adjusts speak of as one share, and each other row with its frame."""
    taken_back = KeyTable(pa.schema([*list(schema.arrow)[:2], *schema.payload]))
    for frame in adjusts:
        taken_back.intern(_before(frame, taken_back.schema))
    touched: list[Frame] = list(adjusts)
    shares = []
    for frame in frames:
        inserts = frame if frame.insert_only else frame.inserts
        spoken_of = taken_back.find(_after(inserts, taken_back.schema)) >= 0
        if spoken_of.any():
            touched.append(inserts.take(spoken_of))
            inserts = inserts.take(~spoken_of)
        shares.append([inserts])
    return [*shares, touched]


def _dealt(frame: Frame, count: int) -> Iterator[tuple[int, Frame]]:
    """The rows of a frame by share."""
    mixed = frame.vs.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # starts have a grid
    share = (mixed >> np.uint64(32)) % np.uint64(count)
    order = np.argsort(share, kind="stable")
    ends = np.cumsum(np.bincount(share.astype(np.int64), minlength=count))
    sorted_rows, start = frame.take(order), 0
    for number, end in enumerate(ends.tolist()):
        if end > start:
            yield number, sorted_rows.slice(start, end - start)
        start = end


def folded(schema: StreamSchema, frames: Sequence[Frame]) -> Frame:
    """The events that rows of a stream leave, as inserts. The frames carry no stable."""
    rows = frames[0] if len(frames) == 1 else Frame.concat(frames)
    if rows.insert_only:
        return rows
    table = KeyTable(pa.schema([*list(schema.arrow)[:2], *schema.payload]))
    there = np.flatnonzero(rows.ve != rows.vs)
    adjusts = np.flatnonzero(~rows.is_insert)
    added, _ = table.intern(_after(rows, table.schema).take(pa.array(there)))
    taken, _ = table.intern(_before(rows, table.schema).take(pa.array(adjusts)))
    capacity = table.capacity
    count = np.bincount(added, minlength=capacity) - np.bincount(taken, minlength=capacity)
    live = table.rows(np.repeat(np.arange(capacity), np.maximum(count, 0)))
    starts, ends = live.column(0).to_numpy(), live.column(1).to_numpy()
    return Frame.made(schema, starts, ends, live.columns[2:])


def _after(frame: Frame, schema: pa.Schema) -> pa.RecordBatch:
    """The events that rows make: start, end, payload."""
    columns = frame.batch.columns
    return pa.RecordBatch.from_arrays([*columns[:2], *columns[3:]], schema=schema)


def _before(frame: Frame, schema: pa.Schema) -> pa.RecordBatch:
    """The events that adjusts take back."""
    columns = frame.batch.columns
    return pa.RecordBatch.from_arrays([columns[0], *columns[2:]], schema=schema)
