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

RUNS_MIN = 8
"""So few runs are cheaper to look at than to merge."""
KEPT_MAX = 2
"""A run holds at most so many times the memory of what is left in it."""
GROWTH = 2
"""A run is at least so many times as long as the next younger one, beyond the first few."""

_NONE = np.empty(0, np.int64)


class Agenda:
    """Ids with a time each. What it holds is the caller's to keep true: it never looks at an id."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: list[tuple[int, Times, Ids]] = []  # first time, times, ids; none is empty

    def add(self, times: Times, ids: Ids) -> None:
        """Enters ids, each at its time."""
        if not len(ids):
            return
        self._runs.append(_run(times, ids))
        while len(self._runs) > RUNS_MIN:
            (_, old_times, old_ids), (_, times, ids) = self._runs[-2:]
            if len(old_ids) >= GROWTH * len(ids):
                return
            merged = np.concatenate([old_times, times]), np.concatenate([old_ids, ids])
            self._runs[-2:] = [_run(*merged)]

    def due(self, before: int) -> tuple[Times, Ids]:
        """Takes out what has a time below `before`."""
        if not any(first < before for first, _, _ in self._runs):
            return _NONE, _NONE
        found, left = [], []
        for run in self._runs:
            first, times, ids = run
            if first < before:
                n = int(times.searchsorted(before))
                found.append((times[:n], ids[:n]))
                if n < len(ids):
                    left.append(_rest(times[n:], ids[n:]))
            else:
                left.append(run)
        self._runs = left
        return _joined(found)

    def between(self, low: int, high: int) -> tuple[Times, Ids]:
        """What has a time in `[low, high)`; it stays."""
        found = []
        for first, times, ids in self._runs:
            if first < high and times[-1] >= low:
                part = slice(*times.searchsorted((low, high)).tolist())
                found.append((times[part], ids[part]))
        return _joined(found)

    def __len__(self) -> int:
        return sum(len(ids) for _, _, ids in self._runs)

    @property
    def nbytes(self) -> int:
        """Bytes of what is entered, and of what a run still holds of what was."""
        return 2 * sum((t if t.base is None else t.base).nbytes for _, t, _ in self._runs)


def _run(times: Times, ids: Ids) -> tuple[int, Times, Ids]:
    order = times.argsort(kind="stable")
    times = times[order]
    return int(times[0]), times, ids[order]


def _rest(times: Times, ids: Ids) -> tuple[int, Times, Ids]:
    """What is left of a run; a copy once that is little, for a view keeps the whole in memory."""
    if times.base is not None and KEPT_MAX * len(times) < len(times.base):
        times, ids = times.copy(), ids.copy()
    return int(times[0]), times, ids


def _joined(found: list[tuple[Times, Ids]]) -> tuple[Times, Ids]:
    if len(found) == 1:
        return found[0]
    if not found:
        return _NONE, _NONE
    times, ids = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return times, ids
