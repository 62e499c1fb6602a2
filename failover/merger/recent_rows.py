"""The last durable rows of an output, kept in memory by the life that wrote them.

    table at 900 | 900..912 | 912..940 | 940..941 stable 31 |  941: the end
      live         frames, each behind its offset

Nearly all subscribers are at the end of the output, and nearly all that is asked for has just been
written: decoding it from the journal again costs more than merging it. What is here was synced, and
nobody had taken the journal over then, so it lies before every cut, as what a reader finds does.

While nothing has been forgotten, the first table and the rows since give any later table.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict

from gapless.failover.fold import Fold
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame

ROWS_MAX = 65_536
"""Rows kept: a few frames of a busy output, hours of a slow one; some megabytes."""
FRAMES_MAX = 4096
"""Frames kept: small ones weigh more than their rows."""
READ_ROWS = 16_384
"""Rows given at once, as the journal's reader does; a single larger frame is given whole."""

KEPT_READS_MAX = 16
"""Reads that are kept for the next subscriber at the same place: those behind one append."""


class Recent:
    """The last rows, and what is promised behind them."""

    def __init__(self, live: Frame, offset: int) -> None:
        """`live` is what is not settled of the output at `offset`, and its stable."""
        self._live: Frame | None = live
        self._starts: list[int] = []
        self._frames: list[Frame] = []
        self._end = offset
        self._stable = BEGIN if live.stable is None else live.stable
        self._since = self._stable
        self._reads: OrderedDict[tuple[int, int], Frame | None] = OrderedDict()

    @property
    def _first(self) -> int:
        return self._starts[0] if self._starts else self._end

    def add(self, frame: Frame) -> None:
        """A frame is durable."""
        self._reads.clear()  # there is more behind all of them
        if frame.stable is not None:
            self._stable = frame.stable
        if len(frame):
            self._starts.append(self._end)
            self._frames.append(frame)
            self._end += len(frame)
            if self._end - self._first > ROWS_MAX or len(self._frames) > FRAMES_MAX:
                self._forget()
        elif self._frames:
            self._frames[-1] = self._frames[-1].with_stable(frame.stable)

    def _forget(self) -> None:
        """Lets go of the older half, but never of the last frame."""
        kept = bisect_right(self._starts, self._end - ROWS_MAX // 2)
        kept = min(max(kept, len(self._frames) // 2), len(self._frames) - 1)
        del self._starts[:kept], self._frames[:kept]
        self._live = None

    def has(self, offset: int) -> bool:
        """Whether it knows what comes behind this offset."""
        return self._first <= offset <= self._end

    def read(self, offset: int, stable: int) -> Frame | None:
        """The rows behind an offset that it has, and what is promised after them; None where
        nothing is new to one that has them up to `stable`.
        """
        place = offset, stable
        if place in self._reads:
            return self._reads[place]
        frame = self._reads[place] = self._read(offset, stable)
        if len(self._reads) > KEPT_READS_MAX:
            self._reads.popitem(last=False)
        return frame

    def _read(self, offset: int, stable: int) -> Frame | None:
        if offset == self._end:
            if self._stable <= stable:
                return None
            schema = (self._frames[-1] if self._live is None else self._live).schema
            return Frame.empty(schema, self._stable)
        at = bisect_right(self._starts, offset) - 1
        first, promised = self._frames[at], self._frames[at].stable
        if offset > self._starts[at]:
            first = first.slice(offset - self._starts[at])
        rows, count = [first.with_stable(None)], len(first)
        for frame in self._frames[at + 1 :]:
            if count + len(frame) > READ_ROWS:
                break
            rows.append(frame.with_stable(None))
            count += len(frame)
            promised = promised if frame.stable is None else frame.stable
        whole = rows[0] if len(rows) == 1 else Frame.concat(rows)
        return whole if promised is None or promised <= stable else whole.with_stable(promised)

    def table(self, since: int) -> tuple[Frame, int] | None:
        """Every event with `ve >= since` as inserts, the stable, and the offset; None where that
        needs what it has not. The output is stable up to `since`.
        """
        if self._live is None or since < self._since or since > self._stable:
            return None
        fold = Fold(self._live.schema, since)
        for frame in (self._live, *self._frames):
            fold.add(frame)
        if self._stable > BEGIN:
            fold.add(Frame.empty(self._live.schema, self._stable))
        return fold.table(), self._end

    def validate(self) -> None:
        """Raises `Bug` where the rows do not add up."""
        at = self._first
        for start, frame in zip(self._starts, self._frames, strict=True):
            if start != at:
                raise Bug(f"a frame begins at {start}, the one before it ends at {at}")
            at += len(frame)
        if at != self._end:
            raise Bug(f"the frames end at {at}, the output at {self._end}")
