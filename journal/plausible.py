"""Which times of a batch are believed: one row dated 2262 is not to be the journal's watermark.

    newest so far   Mon 17:00      reach: a day
    batch           Mon 17:01  Tue 09:00  2262-04-11        the last is *ahead*: rejected
    batch           Fri 09:00  Fri 09:01  Fri 09:02  ...    a gap, of which enough rows say the same

Sorted by time, a row is believed that lies no more than `reach` beyond the one before it, or beyond
the newest that the journal has. A wider gap is crossed where the rows beyond it are more than all
others of the batch, and those next behind the gap are as many as the gap is times the reach,
`WITNESSES_MAX` at most: three rows for a weekend where the reach is a day. What is rejected until
then counts, as long as nothing that is believed comes between: so a program that appends row by row
comes across, too. What is doubted is kept with the journal's commits (`Head.doubted`), so programs
that append a row each come across as well, and Spark's micro-batches, each in tasks of its own.
Where fewer rows lie beyond the gap than before it, it has to be no longer than
the time that the believed rows of the batch span, too: a month of files crosses its last weekend,
and a few seconds of rows follow no wrong clock.

A first batch has nothing before it, and the majority alone decides: of one row, that row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gapless.journal.layout import Layout
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Times

TIME_MAX = INF - 2
"""The last time of a row: its lifetime ends one later, before INF."""
WITNESSES_MAX = 1_000
"""Consecutive rows that are asked for the widest gap. More than a device with a wrong clock sends
while no other says anything; few enough that a journal which began with a row of 1970 is lost
for so many rows, and not for good."""
DOUBTED_MAX = 16
"""Runs of doubted rows that are kept, those with the most rows, and of these the earliest: rows
behind a gap are of one run soon, and clocks that are wrong each in its own way are few.
"""
DAY_TICKS = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
"""A day, which is the reach if nobody says another, of a column that is a timestamp."""


class Run(NamedTuple):
    """Rows of which each is within reach of the one before."""

    least: int
    largest: int
    rows: int


def reach_of(layout: Layout, given: int | None = None, *, is_off: bool = False) -> int | None:
    """How far ahead a row may be, in ticks; None: as far as it likes. `given` is what was said.

    Integers are no dates as long as nobody says so: of them nothing is too far.
    """
    if is_off or not layout.has_rows:
        return None
    if given is not None:
        if given < 1:
            raise Misuse(f"ahead {given}: 1 at least, or none")
        return given
    t = layout.schema.payload.field(layout.time).type
    return None if str(t) == "int64" else DAY_TICKS[layout.schema.time_unit]


def reach_text(reach: int, kind: pa.DataType) -> str:
    """A reach for people, of a column of some type."""
    if not pa.types.is_timestamp(kind):
        return str(reach)
    days, rest = divmod(reach, DAY_TICKS[kind.unit])
    if rest:
        return f"{reach} {kind.unit}"
    return "a day" if days == 1 else f"{days} days"


def newest_of(layout: Layout, watermark: int) -> int | None:
    """The largest time that a journal has, by its watermark; None where it has none."""
    return None if watermark == BEGIN else min(watermark + layout.lateness, TIME_MAX)


def runs_of(times: Times, reach: int) -> list[Run]:
    """The runs of some times, the earliest first."""
    if not len(times):
        return []
    ordered = np.sort(times)
    gaps = ordered[1:].view(np.uint64) - ordered[:-1].view(np.uint64)  # exact, however far apart
    starts = np.flatnonzero(gaps > np.uint64(reach)) + 1
    found = []
    for start, end in zip([0, *starts.tolist()], [*starts.tolist(), len(ordered)], strict=True):
        found.append(Run(int(ordered[start]), int(ordered[end - 1]), end - start))
    return found


def runs_of_buckets(buckets: Sequence[Run], reach: int) -> list[Run]:
    """The same of times that somebody else has counted, in any buckets no wider than the reach."""
    found: list[Run] = []
    for run in sorted(buckets):
        if found and run.least - found[-1].largest <= reach:
            last = found.pop()
            run = Run(last.least, max(last.largest, run.largest), last.rows + run.rows)  # noqa: PLW2901  # joined
        found.append(run)
    return found


def believed(runs: Sequence[Run], newest: int | None, reach: int) -> int:
    """The largest time that is believed of a batch; what lies beyond it is ahead."""
    beyond = sum(run.rows for run in runs)
    if newest is None:
        if not runs:
            return TIME_MAX
        top, behind, first = runs[0].largest, runs[0].rows, 1
        spanned = runs[0].largest - runs[0].least
        beyond -= behind
    else:
        top, behind, first, spanned = newest, 0, 0, 0
    for run in runs[first:]:
        gap = run.least - top
        needed = -(-gap // reach)
        if gap <= reach:
            is_believed = True
        elif beyond > behind:
            is_believed = newest is None or run.rows >= min(needed, WITNESSES_MAX)
        else:
            is_believed = gap <= spanned and run.rows >= needed
        if is_believed:
            top = max(top, run.largest)
            spanned += run.largest - run.least
        behind += run.rows
        beyond -= run.rows
    return top


class Doubts(NamedTuple):
    """Rows that were ahead, and nothing that was believed between them."""

    runs: tuple[Run, ...] = ()
    """Of the judge."""
    before: tuple[Run, ...] = ()
    """Of those who wrote before."""
    has_believed: bool = False
    """Whether the judge has believed any row: then what was doubted before says nothing."""

    @property
    def all(self) -> tuple[Run, ...]:
        """For the next writer."""
        return (*self.before, *self.runs)


NO_DOUBTS = Doubts()


def doubted_after(doubts: Sequence[Doubts], reach: int | None) -> tuple[Run, ...]:
    """What is doubted once all these have judged, side by side, each with the same before it."""
    if reach is None or not doubts:
        return ()
    runs = [run for each in doubts for run in each.runs]
    if not any(each.has_believed for each in doubts):
        runs += doubts[0].before
    return _kept(runs, reach)


def _kept(runs: Sequence[Run], reach: int) -> tuple[Run, ...]:
    """Joined where they meet, and bounded."""
    joined = runs_of_buckets(runs, reach)
    most = sorted(joined, key=lambda run: (-run.rows, run.least))[:DOUBTED_MAX]
    return tuple(sorted(run._replace(rows=min(run.rows, WITNESSES_MAX)) for run in most))


class Plausible:
    """Judges the batches of one writer, one after another."""

    def __init__(self, layout: Layout, reach: int | None, before: Sequence[Run] = ()) -> None:
        """`before`: what the journal's last commit says was doubted."""
        self.layout = layout
        self.reach = reach
        """See `reach_of`."""
        self.doubts = Doubts(before=tuple(before))
        """A writer that does not write a judged batch puts back what it was."""

    def top(self, times: Times, watermark: int) -> int:
        """The largest time that is believed of a batch whose times are these, of rows that have
        one; `watermark` is the journal's, before it.
        """
        newest = newest_of(self.layout, watermark)
        if self.reach is None or not len(times):
            return TIME_MAX
        if newest is not None and int(times.max()) <= newest + self.reach:
            return self._believes_all()
        own = runs_of(times, self.reach)
        top = believed(runs_of_buckets([*self.doubts.all, *own], self.reach), newest, self.reach)
        ahead = times[times > top]
        if not len(ahead):
            return self._believes_all()
        runs = runs_of(ahead, self.reach)
        if len(ahead) == len(times):
            runs += self.doubts.runs
            self.doubts = self.doubts._replace(runs=_kept(runs, self.reach))
        else:
            self.doubts = Doubts(_kept(runs, self.reach), has_believed=True)
        return top

    def _believes_all(self) -> int:
        self.doubts = _BELIEVED
        return TIME_MAX


_BELIEVED = Doubts(has_believed=True)
