"""What `SketchedHeavy` is to tell, by the book: panes, counters and candidates in Python's numbers.

Slow and plain: all rows at once. Only the places of counters follow from the same formula.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from math import gcd

from gapless.operators.windows import Cumulating, Cut

Row = tuple[int, int]
"""Time and value."""
Told = tuple[int, int, int]
"""Where a window ends, a value, and how often it came, as is estimated."""

_64 = (1 << 64) - 1


def splitmix64(x: int) -> int:
    """Steele, Lea and Flood's finaliser."""
    x = (x + 0x9E3779B97F4A7C15) & _64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _64
    return x ^ (x >> 31)


def places(value: int, width: int) -> list[tuple[int, int]]:
    """The counter of each row that a value has."""
    first = splitmix64(splitmix64(value & _64))
    words = [w for h in (first, splitmix64(first)) for w in (h >> 32, h & 0xFFFFFFFF)]
    return [(row, (word * width) >> 32) for row, word in enumerate(words)]


class Sketch:
    """Rows counted."""

    def __init__(self, values: Sequence[int], width: int) -> None:
        self.rows = len(values)
        self.width = width
        self.counters = Counter(place for v in values for place in places(v, width))

    def estimate(self, value: int) -> int:
        """The least counter."""
        return min(self.counters[place] for place in places(value, self.width))

    def heavy(self, values: set[int], millionths: int) -> set[int]:
        """Those that have the share."""
        return {v for v in values if self.estimate(v) * 1_000_000 >= self.rows * millionths}


def frequent(rows: Sequence[Row], most: int, lot_rows: int) -> set[int]:
    """The candidates of a pane, in order of time, lot by lot."""
    counts, lot = Counter[int](), list[int]()
    by_time = [[v for _, v in same] for _, same in groupby(rows, key=lambda row: row[0])]
    for i, same in enumerate(by_time, 1):
        lot += same
        if len(lot) < lot_rows and i < len(by_time):
            continue
        counts.update(lot)
        lot = []
        taken = sorted(counts.values(), reverse=True)[most] if len(counts) > most else 0
        counts = Counter({v: n - taken for v, n in counts.items() if n > taken})
    return set(counts)


def heavy(rows: Sequence[Row], window: Cut, millionths: int, width: int, lot: int) -> list[Told]:
    """The heavy values of each window, as they are to be told."""
    rows, most = sorted(rows), 1_000_000 // millionths
    cumulates = isinstance(window, Cumulating)
    length = window.slide if isinstance(window, Cumulating) else gcd(window.range, window.slide)
    panes = dict[int, list[Row]]()
    for ts, v in rows:
        start = (ts - window.origin) // length * length + window.origin
        panes.setdefault(start, []).append((ts, v))
    candidates = {
        start: Sketch([v for _, v in there], width).heavy(frequent(there, most, lot), millionths)
        for start, there in panes.items()
    }
    told = []
    for w in sorted({w for ts, _ in rows for w in window.wids(ts)}):
        start, end = window.extent(w)
        found = set[int]()
        for pane in sorted(p for p in panes if start <= p < end):
            found |= candidates[pane]
            if cumulates:  # what is put together holds the candidates that it still has
                upto = [v for ts, v in rows if start <= ts < pane + length]
                found = Sketch(upto, width).heavy(found, millionths)
        sketch = Sketch([v for ts, v in rows if start <= ts < end], width)
        told += [(end, v, sketch.estimate(v)) for v in sketch.heavy(found, millionths)]
    return told


def exact(rows: Sequence[Row], window: Cut, millionths: int) -> dict[tuple[int, int], int]:
    """The heavy values of each window, counted."""
    found = {}
    for w in sorted({w for ts, _ in rows for w in window.wids(ts)}):
        start, end = window.extent(w)
        counts = Counter(v for ts, v in rows if start <= ts < end)
        for v, n in counts.items():
            if n * 1_000_000 >= counts.total() * millionths:
                found[end, v] = n
    return found
