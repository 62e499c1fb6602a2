"""Figure 8-7 and table 8-1: the largest rate at which a ring of 64 K rows never overflows.

    Q8-1        packets by source and destination, every minute; 66 K to 520 K pairs
    slots       half as many as pairs, as many, twice as many
    lazy, slow  what leaves the slots as our two_level lets it
    IOP         in order, with slow-flush: every row lets an old one leave, and where two of the
                new window collide, all that is old leaves first, at once

What reads the ring is the lower level, our `Slots`; what leaves goes elsewhere, as it goes to
another process in the thesis. The time of every push is measured. At a rate of R rows a second the
rows of push k are there at (k + 1) n / R, and stay in the ring until their push has ended; so the
largest R at which the ring never has more than 64 K rows follows from the times alone. Beside it is
the share of the time that pushes take at that rate: where it is far below 1, surges decide.

A minute has 4 M rows here, and 42 M in the thesis, at 700 K a second. So the slow one lets an old
sub-aggregate leave for every 32 rows, where the thesis has 160: some 125 K in a minute.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from gapless.bench.engine_runs import Seconds
from gapless.bench.harness import Row
from gapless.bench.netflow import Ints, generator
from gapless.bench.plots import Chart
from gapless.bench.windows_scale import Scale
from gapless.operators.aggregates import count
from gapless.operators.answers import Grouping
from gapless.operators.aside import Aside
from gapless.operators.slots import Leaving, Slots, Through
from gapless.protocol.elements import INF
from gapless.protocol.errors import Bug

RING_ROWS = 1 << 16
FRAME_ROWS = 8_192
MINUTE_MS = 60_000
WARM_MINUTES = 2
"""After these no more is old than was before."""
EVERY, LATE = 32, 2
SLOT_SHARES = (0.5, 1, 2)
MANY, FEW = 260_000, 66_000
MANY_MIN, FEW_MIN = 1.5, 0.9
"""Of the rate in order: with twice as many slots from 260 K pairs on; at 66 K."""

PACKETS = pa.schema([("src", pa.int32()), ("dst", pa.int32())])
Way = Literal["lazy", "slow", "IOP"]
WAYS: tuple[Way, ...] = ("lazy", "slow", "IOP")


class Push(NamedTuple):
    """Rows in order."""

    times: Ints
    rows: pa.RecordBatch


def pushes(pairs: int, minute_rows: int, minutes: int) -> list[Push]:
    """Packets of so many pairs, each as likely."""
    n = minute_rows * minutes
    pair = generator().integers(0, pairs, n)
    times = np.arange(n) * MINUTE_MS // minute_rows
    columns = [pa.array(part.astype(np.int32)) for part in (pair // 256, pair % 256)]
    rows = pa.RecordBatch.from_arrays(columns, schema=PACKETS)
    starts = range(0, n, FRAME_ROWS)
    return [Push(times[i : i + FRAME_ROWS], rows.slice(i, FRAME_ROWS)) for i in starts]


class LowerLevel:
    """Slots, and when what is old leaves them."""

    def __init__(self, slots: int, way: Way) -> None:
        grouping = Grouping(PACKETS, PACKETS.names, [count()], Aside())
        self.slots = Slots(grouping, slots)
        self._way = way
        self._present = 0
        self._due = 0
        self.left: list[Leaving | Through | None] = []
        """What has left, for the upper level."""

    def push(self, times: Ints, rows: pa.RecordBatch) -> None:
        """Counts rows; then what has to leave does."""
        windows = times // MINUTE_MS
        here = len(self.left)
        self.left += self.slots.add(windows, times, rows)
        before, self._present = self._present, int(windows[-1])
        if self._way == "IOP":
            self._in_order(len(times), self.left[here:])
            return
        if self._present > before:
            self.left.append(self.slots.leave(self.slots.below(self._present - LATE)))
        if self._way == "slow":
            leaving, self._due = divmod(self._due + len(times), EVERY)
            self.left.append(self.slots.leave(self.slots.some_below(self._present, leaving)))

    def _in_order(self, rows: int, left: Sequence[Leaving | Through | None]) -> None:
        if self.slots.oldest == self._present:
            return
        collide = any(
            isinstance(out, Through) or (out is not None and int(out.panes.max()) == self._present)
            for out in left
        )
        if collide:
            old = self.slots.below(self._present)
        else:
            old = self.slots.some_below(self._present, rows)
        self.left.append(self.slots.leave(old))

    def packets(self) -> int:
        """All that have left, and that are in slots."""
        self.left.append(self.slots.leave(self.slots.below(INF)))
        through = sum(len(out.times) for out in self.left if isinstance(out, Through))
        leaving = [out.partials[0] for out in self.left if isinstance(out, Leaving)]
        return through + sum(int(np.sum(p.column(0).to_numpy())) for p in leaving)


def push_seconds(lower: LowerLevel, given: Sequence[Push]) -> Seconds:
    """How long each push takes; raises `Bug` unless no packet is lost."""
    took = np.empty(len(given))
    gc.collect()
    for i, (times, rows) in enumerate(given):
        start = time.perf_counter()
        lower.push(times, rows)
        took[i] = time.perf_counter() - start
    packets = sum(len(times) for times, _ in given)
    if (found := lower.packets()) != packets:
        raise Bug(f"{found:,} of {packets:,} packets have left the slots")
    return took


def survives(took: Seconds, rate: float) -> bool:
    """Whether the ring never overflows."""
    pushes_ = np.arange(len(took))
    until = np.cumsum(took)
    there = (pushes_ + 1) * FRAME_ROWS / rate
    ends = until + np.maximum.accumulate(there - (until - took))
    return bool((rate * ends - pushes_ * FRAME_ROWS <= RING_ROWS).all())


def largest_rate(took: Seconds) -> float:
    """Rows a second."""
    low, high = 1.0, len(took) * FRAME_ROWS / float(took.sum()) * 2
    while high / low > 1.001:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if survives(took, middle) else (low, middle)
    return low


def surges(scale: Scale, plot_dir: Path | None) -> Iterator[Row]:
    """Of each number of pairs and slots the rates, and the shares that are busy."""
    shares: dict[str, list[float]] = {}
    for pairs in scale.pairs:
        given = pushes(pairs, scale.minute_rows, WARM_MINUTES + scale.minutes)
        warm = WARM_MINUTES * scale.minute_rows // FRAME_ROWS
        for share in SLOT_SHARES:
            slots = int(share * pairs)
            best = _best(slots, given, scale.repeat_curve)
            rates = {name: largest_rate(took[warm:]) for name, took in best.items()}
            where = f"{pairs // 1_000}K pairs, {share:g} slots each"
            for name, rate in rates.items():
                busy = rate * float(best[name][warm:].mean()) / FRAME_ROWS
                yield Row(f"fig 8-7: {where}, {name}", rate, "rows/s")
                yield Row(f"table 8-1: {where}, {name} busy", busy, "x")
            for name in WAYS[:2]:
                found = rates[name] / rates["IOP"]
                shares.setdefault(f"{name}, {share:g}", []).append(found)
                bar = _bar(pairs, share)
                row = f"fig 8-7: {where}, {name} / IOP", found, "x"
                yield Row(*row) if bar is None else Row(*row, bar, ">=")
    if plot_dir is not None:
        _draw(scale, shares, plot_dir)


def _bar(pairs: int, share: float) -> float | None:
    if pairs <= FEW:
        return FEW_MIN
    return MANY_MIN if pairs >= MANY and share == max(SLOT_SHARES) else None


def _best(slots: int, given: Sequence[Push], repeat: int) -> dict[Way, Seconds]:
    """Each push's best time, the ways in turn: noise only ever makes one slower."""
    best = {way: np.full(len(given), np.inf) for way in WAYS}
    for _ in range(repeat):
        for way in WAYS:
            best[way] = np.minimum(best[way], push_seconds(LowerLevel(slots, way), given))
    return best


def _draw(scale: Scale, shares: dict[str, list[float]], plot_dir: Path) -> None:
    thousands = [pairs / 1_000 for pairs in scale.pairs]
    series = {name: list(zip(thousands, found, strict=True)) for name, found in shares.items()}
    axes = "pairs, thousands", "largest rate over IOP's"
    Chart("Rates that a ring of 64 K rows survives", *axes, series).save(plot_dir / "fig8-7.svg")
