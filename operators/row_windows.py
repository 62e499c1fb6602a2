"""Windows that count rows, and when they close: `range`, `slide`, or both are numbers of rows.

Rows have ranks, from 0, in each partition: by time, rows of one time by payload (`order.py`), never
by arrival, so that replicas agree. Every `slide`-th row closes a window:

    RowHopping(4, 2)      rank   0  1  2  3  4  5       closes with ranks 1, 3, 5
    extent(1)                    |--------|             of ranks; its answer lives from the time
    extent(2)                          |--------|       of rank 3 to that of rank 5

                    range     slide    a window ends with          its rows
    RowHopping      rows      rows     every slide-th row          the last `range` ranks
    SlideByTuple    time      rows     every slide-th row, at w    those at w - range < ts <= w
    LastRows        rows      time     multiples e of the slide    the last `range` ranks before e
    RowLandmark     all       rows     every slide-th row          all ranks so far

An answer lives until the partition's next window ends, the last one for ever; of windows that end
at one time only the last is answered. `windows()`, `extent(w)` and `wids()` are those of section
5.1 of the thesis, over ranks; where a window is known by the rows alone (Eqs. 5.10 to 5.18), they
are given the times of the partition's rows, in the order of their ranks. Which windows a row is in
follows from the row alone (CF), from it and those before it (FCF, as it takes counting a
partition's rows), or also from rows that come later (FCA); section 6.1.2.

Operators keep rows by *place*: the number of a pane of ranks, or a time. `Closings` are windows
that have closed, each with the places that it covers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import Literal, NamedTuple

import numpy as np

from gapless.kernels.keys import Ids, Mask
from gapless.operators.windows import WindowIds
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Times

ROWS_MAX = 1 << 40
"""Of a range or a slide: sums of ranks stay far below what an int64 holds."""

Context = Literal["CF", "FCF", "FCA"]


class Closings(NamedTuple):
    """Windows that have closed, by partition and then time; no two of one partition at one time."""

    partitions: Ids
    at: Times
    """When each ends, and its answer begins."""
    low: Ids
    """Its places: from this one, or of a landmark those that no window before it has,"""
    high: Ids
    """to below this one. Neither goes back in a partition."""

    @property
    def until(self) -> Times:
        """When the next one of the partition ends; INF for its last."""
        until = np.full(len(self.at), INF)
        same = (self.partitions[1:] == self.partitions[:-1]).nonzero()[0]
        until[same] = self.at[same + 1]
        return until


def last_of_each(*columns: Ids) -> Mask:
    """Of runs of rows that are equal in all columns, the last row of each."""
    last = np.ones(len(columns[0]), np.bool_)
    if len(last):
        last[:-1] = False
        for column in columns:
            last[:-1] |= column[1:] != column[:-1]
    return last


def _firsts(ids: Ids) -> Ids:
    """Where runs of equal ids begin."""
    last = last_of_each(ids)
    found: Ids = np.concatenate(([0], last[:-1].nonzero()[0] + 1))[: np.count_nonzero(last)]
    return found


class _ByRank:
    """What windows over ranks have in common."""

    __slots__ = ()

    @property
    def latest(self) -> int:
        """The last time of a row that it takes."""
        return INF - 1

    def ready(self, stable: int) -> int:
        """Rows before this time are all there, and make windows close."""
        return stable

    def stable(self, stable: int) -> int:
        """What an input's stable promises of the answers."""
        return stable


@dataclass(frozen=True, slots=True)
class RowHopping(_ByRank):
    """Windows of `range` rows, one every `slide` rows."""

    range: int
    slide: int

    def __post_init__(self) -> None:
        _check_rows("range", self.range)
        _check_rows("slide", self.slide)

    def context(self, partitioned: bool) -> Context:
        """What a row's windows follow from."""
        return "FCF" if partitioned else "CF"

    def windows(self) -> WindowIds:
        """All of a partition; the first ones have fewer rows."""
        return range((1 << 62) // self.slide)

    def extent(self, w: int) -> tuple[int, int]:
        """The ranks [from, to) of window w."""
        end = (w + 1) * self.slide
        return max(0, end - self.range), end

    def wids(self, rank: int) -> WindowIds:
        """The windows that have this rank."""
        return range(rank // self.slide, (rank + self.range) // self.slide)

    @property
    def pane(self) -> int:
        """Ranks of one place."""
        return gcd(self.range, self.slide)

    def closed(self, partitions: Ids, ranks: Ids, times: Times) -> Closings:
        """The windows that these rows close; they come by partition and rank."""
        at = (ranks % self.slide == self.slide - 1).nonzero()[0]
        at = at[last_of_each(partitions[at], times[at])]
        high = (ranks[at] + 1) // self.pane
        return Closings(partitions[at], times[at], high - self.range // self.pane, high)

    def needed_from(self, counts: Ids) -> Ids:
        """The first place that a partition of so many rows still needs."""
        return ((counts // self.slide + 1) * self.slide - self.range) // self.pane


@dataclass(frozen=True, slots=True)
class LastRows(_ByRank):
    """The last `range` rows, at every multiple of `slide` before which new ones came."""

    range: int
    slide: int

    def __post_init__(self) -> None:
        _check_rows("range", self.range)
        if not 1 <= self.slide < INF:
            raise Misuse(f"window slide {self.slide}: it is at least 1, and less than all of time")

    def context(self, partitioned: bool) -> Context:
        """Which windows have a row depends on how many follow it."""
        del partitioned
        return "FCA"

    def windows(self, times: Sequence[int]) -> list[int]:
        """Those before whose end new rows came."""
        return sorted({ts // self.slide for ts in times})

    def extent(self, w: int, times: Sequence[int]) -> tuple[int, int]:
        """The ranks [from, to) of window w."""
        high = sum(ts < (w + 1) * self.slide for ts in times)
        return max(0, high - self.range), high

    def wids(self, rank: int, times: Sequence[int]) -> list[int]:
        """The windows that have this rank."""
        before = {w: sum(ts // self.slide <= w for ts in times) for w in self.windows(times)}
        return [w for w, n in before.items() if rank < n <= rank + self.range]

    @property
    def latest(self) -> int:
        """The last time of a row that it takes."""
        return INF - 1 - self.slide

    pane = 1
    """Ranks of one place: a window may end anywhere."""

    def ready(self, stable: int) -> int:
        """Rows before this time are all there, and make windows close."""
        return stable if stable in (BEGIN, INF) else stable // self.slide * self.slide

    def stable(self, stable: int) -> int:
        """What an input's stable promises of the answers."""
        return INF if stable == INF else min((stable // self.slide + 1) * self.slide, INF - 1)

    def closed(self, partitions: Ids, ranks: Ids, times: Times) -> Closings:
        """The windows that these rows close; they come by partition and rank."""
        ends = (times // self.slide + 1) * self.slide
        at = last_of_each(partitions, ends).nonzero()[0]
        high = ranks[at] + 1
        return Closings(partitions[at], ends[at], high - self.range, high)

    def needed_from(self, counts: Ids) -> Ids:
        """The first place that a partition of so many rows still needs."""
        return counts - self.range


@dataclass(frozen=True, slots=True)
class RowLandmark(_ByRank):
    """All rows so far, every `slide` rows."""

    slide: int

    def __post_init__(self) -> None:
        _check_rows("slide", self.slide)

    def context(self, partitioned: bool) -> Context:
        """What a row's windows follow from."""
        return "FCF" if partitioned else "CF"

    def windows(self) -> WindowIds:
        """All of a partition."""
        return range((1 << 62) // self.slide)

    def extent(self, w: int) -> tuple[int, int]:
        """The ranks [from, to) of window w."""
        return 0, (w + 1) * self.slide

    def wids(self, rank: int) -> WindowIds:
        """The windows that have this rank: all from its first on."""
        return range(rank // self.slide, self.windows().stop)

    @property
    def pane(self) -> int:
        """Ranks of one place."""
        return self.slide

    def closed(self, partitions: Ids, ranks: Ids, times: Times) -> Closings:
        """The windows that these rows close; they come by partition and rank."""
        first = ranks[_firsts(partitions)] // self.slide
        at = (ranks % self.slide == self.slide - 1).nonzero()[0]
        at = at[last_of_each(partitions[at], times[at])]
        closed, high = partitions[at], (ranks[at] + 1) // self.slide
        starts = _firsts(closed)
        low = np.empty(len(at), np.int64)
        low[1:] = high[:-1]
        low[starts] = first[np.searchsorted(partitions[_firsts(partitions)], closed[starts])]
        return Closings(closed, times[at], low, high)


@dataclass(frozen=True, slots=True)
class SlideByTuple:
    """Windows of a `range` of time, each ended by a row: by every `slide`-th of them."""

    range: int
    slide: int

    latest = INF - 1
    """The last time of a row that it takes."""

    def __post_init__(self) -> None:
        if not 1 <= self.range < INF:
            raise Misuse(f"window range {self.range}: it is at least 1, and less than all of time")
        _check_rows("slide", self.slide)

    def context(self, partitioned: bool) -> Context:
        """Which windows have a row depends on the rows that follow it."""
        del partitioned
        return "FCA"

    def windows(self, times: Sequence[int]) -> list[int]:
        """The times of every slide-th row (Eqs. 5.10, 5.13 and 5.16)."""
        return sorted(set(times[self.slide - 1 :: self.slide]))

    def extent(self, w: int) -> tuple[int, int]:
        """The times [from, to) of window w (Eq. 5.11)."""
        return w - self.range + 1, w + 1

    def wids(self, ts: int, times: Sequence[int]) -> list[int]:
        """The windows that have this time (Eq. 5.12)."""
        return [w for w in self.windows(times) if ts <= w < ts + self.range]

    def ready(self, stable: int) -> int:
        """Rows before this time are all there, and make windows close."""
        return stable

    def stable(self, stable: int) -> int:
        """What an input's stable promises of the answers."""
        return stable

    def closed(self, partitions: Ids, times: Times, before: Ids, after: Ids) -> Closings:
        """The windows that end at these times of partitions: each has counted so many rows before
        that time, and behind it.
        """
        at = (before // self.slide != after // self.slide).nonzero()[0]
        ends = times[at]
        low = np.maximum(ends, BEGIN + self.range) - self.range + 1  # open below, as in Eq. 5.11
        return Closings(partitions[at], ends, low, ends + 1)

    def needed_from(self, time: int) -> int:
        """The first time that windows which end at `time` or later need."""
        return max(BEGIN, time - self.range + 1)


RowWindow = RowHopping | LastRows | RowLandmark | SlideByTuple
"""Any of them."""


def _check_rows(what: str, rows: int) -> None:
    if type(rows) is not int or not 1 <= rows <= ROWS_MAX:
        raise Misuse(f"window {what} {rows!r} rows: a number of rows, 1 to {ROWS_MAX}")
