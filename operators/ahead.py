"""Which provisional answers may have changed since they were last told: windows and groups.

    rows        of A at 7, of B at 12       range 10, slide 5: windows 1 to 2 of A, 2 to 3 of B
    look(3)     (1, A) (2, A) (2, B)        and, of windows not looked at before, all groups
    look(4)     (3, A)? no: no row of A     (3, B)

A window that was told is told again only of groups that have new rows. Windows are looked at in
slices, so that what is laid out at once is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gapless.kernels.keys import Ids
from gapless.operators.operator import ANSWER_ROWS_MAX
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Times

EARLY_WINDOWS_MAX = 100_000
"""Windows answered provisionally at once: `early` reaches further than anybody can read."""
TOUCHED_MAX = 1 << 18
"""Stretches of windows kept between two looks: beyond, those that are the same are folded."""


class Ahead:
    """Stretches of windows, by group, that have new rows."""

    def __init__(self) -> None:
        self._touched: list[tuple[Times, Times, Ids]] = []
        self._count = 0
        self._fold_at = TOUCHED_MAX
        self._looked_to = BEGIN

    def touch(self, first: Times, end: Times, groups: Ids) -> None:
        """Rows have come for windows from `first` to below `end` of groups."""
        self._touched.append((first, end, groups))
        self._count += len(groups)
        if self._count > self._fold_at:
            rows = np.unique(np.stack(self._joined()), axis=1)
            self._touched = [(rows[0], rows[1], rows[2])]
            self._count = rows.shape[1]
            self._fold_at = 2 * self._count + TOUCHED_MAX

    def _joined(self) -> tuple[Times, Times, Ids]:
        none = np.empty(0, np.int64)
        first, end, groups = zip((none, none, none), *self._touched, strict=True)
        return np.concatenate(first), np.concatenate(end), np.concatenate(groups)

    def look(
        self, next_: int, limit: int, there: tuple[Times, Times, Ids]
    ) -> Iterator[tuple[Times, Ids]]:
        """Windows and groups to be told anew, of windows from `next_` to below `limit`, ascending.
        `there`: the same of everything that has rows, as stretches.
        """
        if stretch_windows(*within(there, next_, limit)[:2]) > EARLY_WINDOWS_MAX:
            raise Misuse(
                f"early: more than {EARLY_WINDOWS_MAX:,} windows are open, so many are answered "
                "provisionally at most: say early='10s' or so in place of True"
            )
        known = min(limit, self._looked_to)
        parts = (
            within(self._joined(), next_, known),
            within(there, max(next_, self._looked_to), limit),
        )
        first, end, groups = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        self._touched, self._count, self._fold_at = [], 0, TOUCHED_MAX
        self._looked_to = limit
        yield from slices(first, end, groups)

    @property
    def nbytes(self) -> int:
        """Bytes of the stretches."""
        return 24 * self._count


def slices(first: Times, end: Times, groups: Ids) -> Iterator[tuple[Times, Ids]]:
    """The windows and groups of some stretches, each once, in slices by window."""
    known, rank = np.unique(groups, return_inverse=True)
    several = max(1, ANSWER_ROWS_MAX // max(1, len(known)))
    for start, stop in runs(first, end):
        for low in range(start, stop, several):
            high = min(stop, low + several)
            window, place = _covered(first, end, rank, low, high, len(known))
            if len(window):
                yield window + low, known[place]


def within(stretches: tuple[Times, Times, Ids], low: int, high: int) -> tuple[Times, Times, Ids]:
    """The stretches as far as they are of windows from `low` to below `high`."""
    first, end, groups = stretches
    first, end = np.maximum(first, low), np.minimum(end, high)
    some = first < end
    return first[some], end[some], groups[some]


def stretch_windows(first: Times, end: Times) -> int:
    """How many windows some stretches have, each once."""
    return sum(end - first for first, end in runs(first, end))


def runs(first: Times, end: Times) -> list[tuple[int, int]]:
    """The windows of all stretches, as runs without a gap."""
    if not len(first):
        return []
    order = np.argsort(first, kind="stable")
    first, reach = first[order], np.maximum.accumulate(end[order])
    begins = np.concatenate(([0], (first[1:] > reach[:-1]).nonzero()[0] + 1))
    ends = np.concatenate((begins[1:] - 1, [len(first) - 1]))
    return list(zip(first[begins].tolist(), reach[ends].tolist(), strict=True))


def _covered(
    first: Times, end: Times, rank: Ids, low: int, high: int, groups: int
) -> tuple[Ids, Ids]:
    """Which windows, less `low`, of which ranks are in a stretch."""
    here = ((first < high) & (end > low)).nonzero()[0]
    changes = np.zeros((high - low + 1, groups), np.int64)
    np.add.at(changes, (np.maximum(first[here], low) - low, rank[here]), 1)
    np.add.at(changes, (np.minimum(end[here], high) - low, rank[here]), -1)
    window, place = (np.cumsum(changes, axis=0)[:-1] > 0).nonzero()
    return window, place
