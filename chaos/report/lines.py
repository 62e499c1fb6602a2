"""Lines of a chart: few enough points that a page opens fast, and no extreme lost on the way.

    samples   . .:. .  '  . .:.         100,000
    buckets  |     |     |     |        of equal time
    kept      . '   . '   . :           of each bucket its lowest and its highest

A line is made of *pieces*: between two of them nothing was seen, so nothing is drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

POINTS_MAX = 600
"""Of one line: about one a pixel."""
CLIP_SHARE = 98.0
"""A scale may end above that percentile, where the highest is many times as high: one peak would
press all the rest to the ground. The peak is marked then, with its value."""
CLIP_ROOM = 1.5
"""Above the percentile then."""


@dataclass(frozen=True)
class Line:
    """Samples in the order of their pieces, and of their moments in each."""

    at_ms: Ints
    value: Floats
    piece: Ints

    def __len__(self) -> int:
        return len(self.at_ms)

    def between(self, begin_ms: int, end_ms: int) -> Line:
        """The part of it in a time."""
        return self.taken(np.flatnonzero((self.at_ms >= begin_ms) & (self.at_ms <= end_ms)))

    def taken(self, indexes: Ints) -> Line:
        """Some of its samples."""
        return Line(self.at_ms[indexes], self.value[indexes], self.piece[indexes])

    def thinned(self, points: int = POINTS_MAX) -> Line:
        """At most so many samples: the first, the last, and of equal times the two extremes."""
        return self if len(self) <= points else self.taken(extremes(self.at_ms, self.value, points))


def extremes(at_ms: Ints, value: Floats, points: int) -> Ints:
    """The indexes of at most `points` samples that keep the lowest and highest of equal times."""
    buckets = max(1, (points - 2) // 2)
    begin, end = int(at_ms.min()), int(at_ms.max())
    bucket = (at_ms - begin) * buckets // (end - begin + 1)
    order = np.lexsort((value, bucket))
    changes = np.diff(bucket[order]) != 0
    lowest = order[np.concatenate(([True], changes))]
    highest = order[np.concatenate((changes, [True]))]
    found: Ints = np.unique(np.concatenate(([0], lowest, highest, [len(at_ms) - 1])))
    return found


def path(x: Floats, y: Floats, piece: Ints) -> str:
    """The `d` of a path through all points, in absolute coordinates, that jumps between pieces.

    Heights are finer than any eye: the cross-hair reads values from them.
    """
    cuts = np.flatnonzero(np.diff(piece)) + 1
    parts = []
    for xs, ys in zip(np.split(x, cuts), np.split(y, cuts), strict=True):
        points = [f"{a:.1f} {b:.2f}" for a, b in zip(xs.tolist(), ys.tolist(), strict=True)]
        # A piece of one point has no length: the round cap of the line makes it a dot.
        parts.append("M" + " ".join(points if len(points) > 1 else 2 * points))
    return "".join(parts)


def steps(edges: Floats, y: Floats, base: float) -> str:
    """The `d` of an area under steps: `y[i]` from `edges[i]` to `edges[i + 1]`, down to `base`."""
    parts = [f"M{edges[0]:.1f} {base:.1f}"]
    for i, height in enumerate(y.tolist()):
        parts.append(f"{edges[i]:.1f} {height:.2f} {edges[i + 1]:.1f} {height:.2f}")
    return " ".join([*parts, f"{edges[-1]:.1f} {base:.1f}"])


STEPS, TOPS = (1, 2, 2.5, 5, 10), (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
"""Times a power of ten: round steps of an axis; round ends of a scale, closer to each other."""


def nice(value: float, steps: tuple[float, ...] = STEPS) -> float:
    """The least round value that is not below one above 0."""
    power = 10.0 ** math.floor(math.log10(value))
    return float(next(m * power for m in steps if m * power >= value * (1 - 1e-9)))


def ticks(begin: float, end: float, count: int) -> list[float]:
    """Round values from one to another, at most about so many."""
    step = nice(max(end - begin, 1e-9) / max(1, count))
    first, last = math.ceil(begin / step - 1e-9), math.floor(end / step + 1e-9)
    return [n * step for n in range(first, last + 1)]


def top_of(lines: list[Floats], least: float, clip_times: float = math.inf) -> float:
    """Where a scale from 0 on ends that all these lines share; `least` or more. What is more than
    so many times the usual is clipped.
    """
    values = np.concatenate([line for line in lines if len(line)] or [np.zeros(1)])
    highest, usual = float(values.max()), float(np.percentile(values, CLIP_SHARE))
    if usual > 0 and highest > clip_times * max(usual, least):
        highest = CLIP_ROOM * usual
    return nice(max(highest, least), TOPS)


def short(value: float) -> str:
    """A figure of three digits: 12.5k, 0.04."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"
