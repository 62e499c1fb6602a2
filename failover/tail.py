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
        self.folded_since = since
        """What `since` was when frames were folded last."""
        self._entries: deque[Entry] = deque()
        self._rows = 0
        self._heavy = FOLD_ROWS_MIN

    @staticmethod
    def of(table: Frame, since: int, stable: int) -> Tail:
        """One that was told as a table of inserts. Nothing of it is left to be sent."""
        tail = Tail(table.schema, since)
        if len(table):
            tail._append(table.with_stable(None))
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
    def is_heavy(self) -> bool:
        """Whether it is time to `compact`. Frames count as a row: those without one cost, too."""
        return self._rows + len(self._entries) > self._heavy

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

    def run(self, number: int, rows_max: int, above: int) -> tuple[Frame, int]:
        """Frames from this number on as one, and the number behind them: as many as have no more
        than so many rows and take back no end that is not `above`; one at least.
        """
        frames: list[Frame] = []
        rows, stable = 0, None
        while number < self.end:
            frame, _, was = self[number]
            rows += len(frame)
            if frames and (rows > rows_max or was <= above):
                break
            frames.append(frame.with_stable(None))
            stable = frame.stable if frame.stable is not None else stable
            number += 1
        return Frame.concat(frames).with_stable(stable), number

    def compact(self, before: int) -> None:
        """Folds the frames with numbers below `before` into one."""
        count = min(before, self.end) - self.first
        if count > 0:
            folded = self._folded([self._entries.popleft() for _ in range(count)])
            self.first += count
            self.compacted = self.first
            if len(folded):
                self.first -= 1
                self._entries.appendleft(Entry(folded, int(folded.ve.max()), INF))
            self._rows = sum(len(entry.frame) for entry in self._entries)
        self.folded_since = self.since
        self._heavy = max(FOLD_ROWS_MIN, FOLD_FACTOR * (self._rows + len(self._entries)))

    def fold(self) -> Frame:
        """Every event with `ve >= since`, as inserts, followed by the stream's stable. While that
        is behind `since`, events that end between them are told as well: they can still change.
        """
        stable = None if self.stable == BEGIN else self.stable
        return self._folded(self._entries).with_stable(stable)

    def _folded(self, entries: deque[Entry] | list[Entry]) -> Frame:
        """The events of some frames that are not settled, as inserts."""
        frames = [entry.frame.with_stable(None) for entry in entries if len(entry.frame)]
        if not frames:
            return Frame.empty(self._schema)
        rows = folded(self._schema, frames)
        return rows.take(rows.ve >= self.floor)

    def _append(self, frame: Frame) -> None:
        if not len(frame):
            self._entries.append(Entry(frame, BEGIN, INF))
            return
        was = INF if frame.insert_only else int(frame.was[~frame.is_insert].min())
        self._entries.append(Entry(frame, int(np.maximum.reduce(frame.ve)), was))
        self._rows += len(frame)

    def _drop_settled(self) -> None:
        entries, floor = self._entries, self.floor
        while entries and entries[0].end < floor:
            entry = entries.popleft()
            self._rows -= len(entry.frame)
            if not entry.frame.insert_only:
                self.lost_adjusts = self.first
            if entry.end > self.lost_end:
                self.lost_end = entry.end
            self.first += 1

    def validate(self) -> None:
        """Raises `Bug` where the rows do not add up, or what is settled is kept in front."""
        if self._rows != sum(len(entry.frame) for entry in self._entries):
            raise Bug(f"{self._rows} rows are not those of the frames")
        if self._entries and self._entries[0].end < self.floor:
            raise Bug(f"the oldest frame ends before {self.floor}")
        if self.compacted > self.first + 1 or self.lost_adjusts >= self.first:
            raise Bug(f"frames before {self.first} are kept, folded before {self.compacted}")

    def __len__(self) -> int:
        """Rows held."""
        return self._rows
