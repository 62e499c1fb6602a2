"""What is due when: ids by time, so that what falls due is found without looking at the rest.

    add([7, 3, 9], ids [0, 1, 2])     run 1:  3:1  7:0  9:2
    add([8, 4], ids [3, 4])           run 2:  4:4  8:3
    due(5) -> ids 1, 4                run 1:  7:0  9:2         run 2:  8:3

A run is what one call added, in order of time; its beginning falls due first. Streams come nearly
in order, and nearly sorted rows are sorted in little more than one pass. Short runs are merged with
their neighbours, each entry a logarithmic number of times, so there are never many.
"""

from __future__ import annotations

import numpy as np

from gapless.kernels.keys import Ids
from gapless.protocol.frame import Times

RUNS_MIN = 4
"""So few runs are cheaper to look at than to merge."""
GROWTH = 2
"""A run is at least so many times as long as the next younger one, beyond the first few."""

_NONE = np.empty(0, np.int64)


class Agenda:
    """Ids with a time each. What it holds is the caller's to keep true: it never looks at an id."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: list[tuple[Times, Ids]] = []

    def add(self, times: Times, ids: Ids) -> None:
        """Enters ids, each at its time."""
        if not len(ids):
            return
        order = np.argsort(times, kind="stable")
        runs = self._runs
        runs.append((times[order], ids[order]))
        while len(runs) > RUNS_MIN and len(runs[-2][1]) < GROWTH * len(runs[-1][1]):
            young, old = runs.pop(), runs.pop()
            times, ids = (np.concatenate(pair) for pair in zip(old, young, strict=True))
            order = np.argsort(times, kind="stable")
            runs.append((times[order], ids[order]))

    def due(self, before: int) -> tuple[Times, Ids]:
        """Takes out what has a time below `before`."""
        found = []
        for i, (times, ids) in enumerate(self._runs):
            if times[0] >= before:
                continue
            n = int(np.searchsorted(times, before))
            found.append((times[:n], ids[:n]))
            # A copy once little is left: a view would keep the whole run in memory.
            rest = (times[n:], ids[n:])
            short = 2 * len(rest[0]) < len(times)
            self._runs[i] = (rest[0].copy(), rest[1].copy()) if short else rest
        if not found:
            return _NONE, _NONE
        self._runs = [run for run in self._runs if len(run[1])]
        return _joined(found)

    def between(self, low: int, high: int) -> tuple[Times, Ids]:
        """What has a time in `[low, high)`; it stays."""
        found = []
        for times, ids in self._runs:
            if times[0] < high and times[-1] >= low:
                part = slice(*np.searchsorted(times, (low, high)).tolist())
                found.append((times[part], ids[part]))
        return _joined(found)

    def __len__(self) -> int:
        return sum(len(ids) for _, ids in self._runs)

    @property
    def nbytes(self) -> int:
        """Bytes of what is entered."""
        return 2 * 8 * len(self)


def _joined(found: list[tuple[Times, Ids]]) -> tuple[Times, Ids]:
    if len(found) == 1:
        return found[0]
    if not found:
        return _NONE, _NONE
    times, ids = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return times, ids
