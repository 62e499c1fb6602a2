"""The tail: what a replica has put out and a merger might still need, as frames and as a table.

    number   0      1      2      3      4            end = 5
             [f0]   [f1]   [f2]   [f3]   [f4]
           first=0                         ^ every link has a cursor: the number of its next frame

It is the replica's output restricted to events with `ve >= since`, where `since` is the durable
stable of the slowest of its mergers. A merger that dies and comes back knows its output up to its
own durable stable; the folded tail, sent as inserts of a stream that joins at `since`, is all it
needs to go on at once. An ack of a sequence number says only that a frame has arrived: it never
trims the tail.

It is the send buffer, too. The oldest frames go as soon as all their ends are *settled*: below
`since`, and below the stream's own stable, so that no later row can say otherwise. When it holds
over twice the rows of the last fold, those in front are folded into one frame. A link whose frames
went unsent can ask what they were (`first`, `compacted`, `lost_adjusts`, `lost_end`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gapless.failover.fold import folded
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

FOLD_ROWS_MIN = 256
"""Below this many rows folding costs more than the rows do."""
FOLD_FACTOR = 2
"""Fold at this many times what the last fold left: the cost stays linear overall."""


class Entry(NamedTuple):
    """A frame of the tail, as it is sent."""

    frame: Frame
    end: int
    """The largest of its ends; BEGIN where it has no rows."""
    was: int
    """The smallest end that it takes back; INF where it takes back none."""
    low: int
    """The smallest of its ends; INF where it has no rows."""
    before: int
    """Rows that the stream had put out before it."""


class Tail:
    """The part of a stream with `ve >= since`, in its frames, and ready to be told as inserts."""

    def __init__(self, schema: StreamSchema, since: int = BEGIN) -> None:
        self._schema = schema
        self.since = since
        self.stable = BEGIN
        """The last stable of the stream."""
        self.first = 0
        """The number of the oldest frame."""
        self.compacted = 0
        """Frames with smaller numbers are not there one by one any more."""
        self.lost_adjusts = -1
        """The number of the last frame with adjusts that was dropped as settled."""
        self.lost_end = BEGIN
        """The largest end in the frames that were dropped as settled."""
        self._gone_end = BEGIN  # the largest end of what was dropped or left out by a fold
        self.folded_since = since
        """What `since` was when frames were folded last."""
        self.put_out = 0
        """Rows that the stream has put out here: what was told as a table are none of them."""
        self._entries: deque[Entry] = deque()
        self._rows = 0
        self._heavy = FOLD_ROWS_MIN
        self._folding: int | None = None  # frames with smaller numbers are being folded

    @staticmethod
    def of(table: Frame, since: int, stable: int) -> Tail:
        """One that was told as a table of inserts. Nothing of it is left to be sent."""
        return Tail.of_parts([table], since, stable)

    @staticmethod
    def of_parts(table: Sequence[Frame], since: int, stable: int) -> Tail:
        """One that was told as a table in parts, one at least."""
        tail = Tail(table[0].schema, since)
        for part in table:
            if len(part):
                tail._append(part.with_stable(None))
        tail.put_out = 0
        tail.compacted = tail.end
        tail.stable = stable
        tail._drop_settled()
        return tail

    @property
    def end(self) -> int:
        """The number of the next frame."""
        return self.first + len(self._entries)

    @property
    def floor(self) -> int:
        """Events that end before it are settled: nobody needs them, and they will not change."""
        return min(self.since, self.stable)

    @property
    def is_torn(self) -> bool:
        """Whether some frame may take back what is not there any more, as its end is settled by
        now: then only a fold tells what is left.
        """
        return any(entry.was <= self._gone_end for entry in self._entries)

    @property
    def is_heavy(self) -> bool:
        """Whether it is time to `compact`. Frames count as a row: those without one cost, too."""
        return self._folding is None and self._rows + len(self._entries) > self._heavy

    @property
    def is_folding(self) -> bool:
        """Whether somebody folds it beside."""
        return self._folding is not None

    def add(self, frame: Frame) -> None:
        """Takes the next frame of the stream, which says something."""
        self._append(frame)
        if frame.stable is not None:
            self.stable = frame.stable
            self._drop_settled()

    def trim(self, since: int) -> None:
        """Forgets, sooner or later, events with `ve < since`."""
        if since > self.since:
            self.since = since
            self._drop_settled()

    def __getitem__(self, number: int) -> Entry:
        """The frame of this number, which must not be before `first`, nor before `compacted`."""
        return self._entries[number - self.first]

    def before(self, number: int) -> int:
        """Rows that the stream had put out before the frame of this number."""
        return self[number].before if self.first <= number < self.end else self.put_out

    def run(self, number: int, rows_max: int, above: int) -> tuple[Frame, int]:
        """Frames from this number on as one, and the number behind them: as many as have no more
        than so many rows and take back no end that is not `above`; one at least.
        """
        frames: list[Frame] = []
        rows, stable = 0, None
        while number < self.end:
            frame, was = self[number].frame, self[number].was
            rows += len(frame)
            if frames and (rows > rows_max or was <= above):
                break
            frames.append(frame.with_stable(None))
            stable = frame.stable if frame.stable is not None else stable
            number += 1
        return Frame.concat(frames).with_stable(stable), number

    def rows_within(self, number: int, rows_max: int, bytes_max: int, frames_max: int) -> int:
        """How many rows a `run` from this number on may have, so that it has no more than so many
        rows, bytes and frames; the first frame's at least.
        """
        rows = size = 0
        for each in range(number, min(self.end, number + frames_max)):
            frame = self[each].frame
            size += frame.nbytes
            if each > number and (size > bytes_max or rows + len(frame) > rows_max):
                break
            rows += len(frame)
        return rows

    def compact(self, before: int) -> None:
        """Folds the frames with numbers below `before` into one."""
        count = min(before, self.end) - self.first
        if count > 0:
            folded = self._folded([self._entries.popleft() for _ in range(count)])
            self.first += count
            self.compacted = self.first
            if len(folded):
                self.first -= 1
                ends, before = folded.ve, self.before(self.first + 1)
                entry = Entry(folded, int(ends.max()), INF, int(ends.min()), before)
                self._entries.appendleft(entry)
            self._rows = sum(len(entry.frame) for entry in self._entries)
            self._gone_end = max(self._gone_end, self.floor)
        self._folded_now()

    def _folded_now(self) -> None:
        self.folded_since = self.since
        self._heavy = max(FOLD_ROWS_MIN, FOLD_FACTOR * (self._rows + len(self._entries)))

    def begin_fold(self, before: int) -> list[Frame]:
        """What `folded_parts` takes, with `floor`, to fold the frames with numbers below `before`
        somewhere else; the tail goes on meanwhile. Nothing where there is nothing to fold.
        """
        count = max(0, min(before, self.end) - self.first)
        if not count:
            self._folded_now()
            return []
        self._folding = self.first + count
        self._gone_end = max(self._gone_end, self.floor)
        return [self._entries[i].frame for i in range(count)]

    def end_fold(self, made: Sequence[Frame]) -> None:
        """Takes back what `begin_fold` gave, folded."""
        if self._folding is None:
            raise Bug("a tail was folded that nobody had begun to fold")
        before, self._folding = self._folding, None
        count = before - self.first
        if count > 0:  # else all of it was settled meanwhile
            put_out = self.before(before)
            for _ in range(count):
                self._entries.popleft()
            made = list(made)
            while len(made) > count:  # no frame may get the number of one that was dropped
                last = made.pop()
                made[-1] = Frame.concat([made[-1], last])
            self.first, self.compacted = before - len(made), before
            for part in reversed(made):
                ends = part.ve
                low, high = int(np.minimum.reduce(ends)), int(np.maximum.reduce(ends))
                self._entries.appendleft(Entry(part, high, INF, low, put_out))
            self._rows = sum(len(entry.frame) for entry in self._entries)
            self._drop_settled()
        self._folded_now()

    def fold(self) -> Frame:
        """Every event with `ve >= since`, as inserts, followed by the stream's stable. While that
        is behind `since`, events that end between them are told as well: they can still change.
        """
        stable = None if self.stable == BEGIN else self.stable
        return self._folded(self._entries).with_stable(stable)

    def frames(self) -> list[Frame]:
        """The same, as the frames that say it: nothing is copied. Unless it `is_torn` they tell a
        stream that joins at `since`; the stable comes behind the last. One frame at least.

        Where nothing takes back anything, what is settled is left out row by row: who merges such
        streams may count on having all events of a start, or none.
        """
        floor, inserts = self.floor, all(entry.frame.insert_only for entry in self._entries)
        frames = []
        for entry in self._entries:
            frame = entry.frame
            if inserts and entry.low < floor:
                frame = frame.take(frame.ve >= floor)
            if len(frame):
                frames.append(frame.with_stable(None))
        last = frames.pop() if frames else Frame.empty(self._schema)
        return [*frames, last.with_stable(None if self.stable == BEGIN else self.stable)]

    def _folded(self, entries: deque[Entry] | list[Entry]) -> Frame:
        """The events of some frames that are not settled, as inserts."""
        frames = [entry.frame.with_stable(None) for entry in entries if len(entry.frame)]
        if not frames:
            return Frame.empty(self._schema)
        rows = folded(self._schema, frames)
        return rows.take(rows.ve >= self.floor)

    def _append(self, frame: Frame) -> None:
        if not len(frame):
            self._entries.append(Entry(frame, BEGIN, INF, INF, self.put_out))
            return
        was = INF if frame.insert_only else int(frame.was[~frame.is_insert].min())
        ends = frame.ve
        end, low = int(np.maximum.reduce(ends)), int(np.minimum.reduce(ends))
        self._entries.append(Entry(frame, end, was, low, self.put_out))
        self._rows += len(frame)
        self.put_out += len(frame)

    def _drop_settled(self) -> None:
        entries, floor = self._entries, self.floor
        while entries and entries[0].end < floor:
            entry = entries.popleft()
            self._rows -= len(entry.frame)
            if not entry.frame.insert_only:
                self.lost_adjusts = self.first
            if entry.end > self.lost_end:
                self.lost_end = entry.end
            self._gone_end = max(self._gone_end, entry.end)
            self.first += 1

    def validate(self) -> None:
        """Raises `Bug` where the rows do not add up, or what is settled is kept in front."""
        if self._rows != sum(len(entry.frame) for entry in self._entries):
            raise Bug(f"{self._rows} rows are not those of the frames")
        if self._entries and self._entries[0].end < self.floor:
            raise Bug(f"the oldest frame ends before {self.floor}")
        if self.compacted > self.end or self.lost_adjusts >= self.first:
            raise Bug(f"frames before {self.first} are kept, folded before {self.compacted}")

    def __len__(self) -> int:
        """Rows held."""
        return self._rows
