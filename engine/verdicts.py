"""Which rows of a source are late, and what the source may promise: by row, whatever the batches.

    time-late 5, row by row      ts          7    9   12    8    5   13
                                 largest     7    9   12   12   12   13
                                 stable      2    4    7    7    7    8      largest - 5
                                 late?       no   no   no   no   yes  no     ts < the stable before

One rule for all kinds: a row is late when it is below the stable after the row before it. So the
cut of a stream into batches changes nothing, and whatever is not late keeps every promise made.

`judge` takes the times of the next rows and gives the stable before each, where one is late at all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from gapless.engine.lateness import KLate, Lateness, TimeLate
from gapless.protocol.elements import BEGIN
from gapless.protocol.frame import Times


class Verdict(ABC):
    """Judges the rows of one source, in the order of their arrival."""

    stable: int = BEGIN
    """What may be promised after the last row judged."""
    largest: int = BEGIN
    """The largest time so far."""

    @abstractmethod
    def judge(self, times: Times, least: int, most: int) -> Times | None:
        """The stable before each row, or None where no row is below it.

        There is one row at least; `least` and `most` are the least and the largest time.
        """

    def promise(self, t: int) -> None:
        """The source itself says that no later row has a time below t."""
        self.stable = max(self.stable, t)


class OutOfBound(Verdict):
    """Time-late: `bound` behind the largest time so far; ordered where that is 0."""

    def __init__(self, bound: int) -> None:
        self._bound = bound

    def judge(self, times: Times, least: int, most: int) -> Times | None:
        """Two passes where the rows are within the bound of each other, some more if not."""
        before, said = self.largest, self.stable
        self.largest = max(before, most)
        self.stable = max(said, self._behind(self.largest))
        if least >= self.stable:
            return None
        stables = np.empty_like(times)
        stables[0] = before
        np.maximum.accumulate(times[:-1], out=stables[1:])
        np.maximum(stables, max(before, BEGIN + self._bound), out=stables)
        stables -= self._bound
        np.maximum(stables, said, out=stables)
        return stables if np.count_nonzero(times < stables) else None

    def _behind(self, t: int) -> int:
        return max(BEGIN, t - self._bound)


class OutOfPlace(Verdict):
    """k-late: the largest time except for the last `rows` rows.

    What is remembered is the largest time after each of the last rows, oldest first, in a buffer
    that is moved to its front when it is full: a row costs the same whatever k is.
    """

    def __init__(self, rows: int) -> None:
        self._delay = rows + 1
        self._line = np.full(2 * self._delay, BEGIN, np.int64)
        self._end = self._delay  # the last `delay` entries before it are in use

    def judge(self, times: Times, least: int, most: int) -> Times | None:
        """The stable before row i is the largest time up to row i - k - 1."""
        said = self.stable
        running = np.maximum.accumulate(times)
        np.maximum(running, self.largest, out=running)
        self.largest = max(self.largest, most)
        line = self._room(len(running))
        start, self._end = self._end - self._delay, self._end + len(running)
        line[self._end - len(running) : self._end] = running
        self.stable = max(said, int(line[self._end - self._delay]))
        if least >= self.stable:
            return None
        stables: Times = np.maximum(line[start : start + len(times)], said)
        return stables if np.count_nonzero(times < stables) else None

    def _room(self, rows: int) -> Times:
        """The buffer, with room for so many rows behind its end."""
        if self._end + rows > len(self._line):
            kept = self._line[self._end - self._delay : self._end]
            room = max(2 * self._delay, self._delay + rows)
            if room > len(self._line):
                kept, self._line = kept.copy(), np.empty(room, np.int64)
            self._line[: self._delay] = kept
            self._end = self._delay
        return self._line


class BelowWatermark(Verdict):
    """What the source itself says, and nothing more."""

    def judge(self, times: Times, least: int, most: int) -> Times | None:
        """The same stable before each row."""
        self.largest = max(self.largest, most)
        if least >= self.stable:
            return None
        return np.full(len(times), self.stable)


def verdict_of(lateness: Lateness) -> Verdict:
    """Who judges a source of this lateness."""
    if isinstance(lateness, TimeLate):
        return OutOfBound(lateness.bound)
    if isinstance(lateness, KLate):
        return OutOfPlace(lateness.rows)
    return BelowWatermark()
