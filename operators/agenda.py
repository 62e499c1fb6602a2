"""What is due when: ids by time, so that what falls due is found without looking at the rest.

    add([7, 3, 9], ids [0, 1, 2])     run 1:  3:1  7:0  9:2
    add([8, 4], ids [3, 4])           run 2:  4:4  8:3
    due(5) -> ids 1, 4                run 1:  7:0  9:2         run 2:  8:3

A run is what one call added, in order of time; its beginning falls due first. Streams come nearly
in order, and nearly sorted rows are sorted in little more than one pass. Short runs are merged with
their neighbours, each entry a logarithmic number of times, so there are never many.

Windows end many rows at one time. A run of few times has each once, and where its ids begin:

    add([8, 4, 8, 4], ids [0, 1, 2, 3])     times 4 8    begins 0 2 4    ids 1 3 0 2
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gapless.kernels.keys import Ids
from gapless.protocol.frame import Times

RUNS_MIN = 8
"""So few runs are cheaper to look at than to merge."""
KEPT_MAX = 2
"""A run holds at most so many times the memory of what is left in it."""
GROWTH = 2
"""A run is at least so many times as long as the next younger one, beyond the first few."""
SHARED_MIN = 4
"""Entries of one time, on average, from which on each time of a run is held once."""

_NONE = np.empty(0, np.int64)
_Stored = npt.NDArray[np.int32] | Ids
"""Ids, in half the room where all fit: nearly always."""
_INT32_MAX = np.iinfo(np.int32).max


class _Run(NamedTuple):
    first: int
    times: Times
    """Ascending; none is empty."""
    ids: _Stored
    begins: Ids | None
    """Where the ids of each time begin, and where the last one's end, from a first number on; None
    where each id has a time of its own."""

    @staticmethod
    def of(times: Times, ids: Ids) -> _Run:
        if (times[1:] < times[:-1]).any():
            order = times.argsort(kind="stable")
            times, ids = times[order], ids[order]
        else:  # the caller's
            times = times.copy()
        stored: _Stored = ids.astype(np.int32) if ids.max() <= _INT32_MAX else ids.copy()
        first = int(times[0])
        changes = (times[1:] != times[:-1]).nonzero()[0]
        if SHARED_MIN * (len(changes) + 1) > len(times):
            return _Run(first, times, stored, None)
        begins = np.concatenate(([0], changes + 1, [len(times)]))
        return _Run(first, times[begins[:-1]], stored, begins)

    def part(self, low: int, high: int) -> _Run:
        """The entries of these times, by their places."""
        if self.begins is None:
            return _Run(self.first, self.times[low:high], self.ids[low:high], None)
        begins = self.begins[low : high + 1]
        start = int(self.begins[0])
        ids = self.ids[int(begins[0]) - start : int(begins[-1]) - start]
        return _Run(self.first, self.times[low:high], ids, begins)

    def rest(self, place: int) -> _Run:
        """The entries from that time on; a copy once that is little, as a view keeps the whole."""
        left = self.part(place, len(self.times))._replace(first=int(self.times[place]))
        base = left.ids.base
        if base is not None and KEPT_MAX * len(left.ids) < len(base):
            begins = None if left.begins is None else left.begins.copy()
            return _Run(left.first, left.times.copy(), left.ids.copy(), begins)
        return left

    def entries(self) -> tuple[Times, Ids]:
        """Each id with its time."""
        ids = self.ids.astype(np.int64)
        if self.begins is None:
            return self.times, ids
        return np.repeat(self.times, np.diff(self.begins)), ids

    @property
    def nbytes(self) -> int:
        """Also of what was there, as long as it is held."""
        held = (self.times, self.ids, _NONE if self.begins is None else self.begins)
        return sum((each if each.base is None else each.base).nbytes for each in held)


class Agenda:
    """Ids with a time each. What it holds is the caller's to keep true: it never looks at an id."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: list[_Run] = []

    def add(self, times: Times, ids: Ids) -> None:
        """Enters ids, each at its time."""
        if not len(ids):
            return
        self._runs.append(_Run.of(times, ids))
        while len(self._runs) > RUNS_MIN:
            old, young = self._runs[-2:]
            if len(old.ids) >= GROWTH * len(young.ids):
                return
            self._runs[-2:] = [_Run.of(*_joined((old, young)))]

    def due(self, before: int) -> tuple[Times, Ids]:
        """Takes out what has a time below `before`."""
        if not any(run.first < before for run in self._runs):
            return _NONE, _NONE
        found, left = [], []
        for run in self._runs:
            if run.first < before:
                n = int(run.times.searchsorted(before))
                found.append(run.part(0, n))
                if n < len(run.times):
                    left.append(run.rest(n))
            else:
                left.append(run)
        self._runs = left
        return _joined(found)

    def between(self, low: int, high: int) -> tuple[Times, Ids]:
        """What has a time in `[low, high)`; it stays."""
        near = (run for run in self._runs if run.first < high and run.times[-1] >= low)
        return _joined([run.part(*run.times.searchsorted((low, high)).tolist()) for run in near])

    def __len__(self) -> int:
        return sum(len(run.ids) for run in self._runs)

    @property
    def nbytes(self) -> int:
        """Bytes of what is entered, and of what a run still holds of what was."""
        return sum(run.nbytes for run in self._runs)


def _joined(runs: Sequence[_Run]) -> tuple[Times, Ids]:
    """All entries, one run behind the other."""
    if not runs:
        return _NONE, _NONE
    if len(runs) == 1:
        return runs[0].entries()
    times, ids = (np.concatenate(parts) for parts in zip(*(r.entries() for r in runs), strict=True))
    return times, ids
