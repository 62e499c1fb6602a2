"""Ids by key and time: who of a key is next to a time, found without a look at the others.

    add(keys [A B A], times [5 1 9], ids [0 1 2])      run 1:   A 5:0   A 9:2   B 1:1
    add(keys [A], times [7], ids [3])                  run 2:   A 7:3
    around(keys [A], times [8])   ->  3 before, 9 after

A run is what one call added, in order. Short runs are merged with their neighbours, each entry a
logarithmic number of times, so there are never many; each is searched by halving. Entries are
never taken out one by one: what they speak of may be gone, which its owner says where it matters,
and they are dropped when runs are merged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gapless.kernels.keys import Ids, Mask
from gapless.protocol.elements import INF
from gapless.protocol.frame import Times

RUNS_MIN = 4
"""So few runs are cheaper to search than to merge."""
GROWTH = 2
"""A run is at least so many times as long as the next younger one, beyond the first few."""


class _Run(NamedTuple):
    keys: Ids
    times: Times
    ids: Ids


class KeyTimes:
    """`is_there` says which entries still hold."""

    def __init__(self, is_there: Callable[[Ids, Times, Ids], Mask]) -> None:
        self._is_there = is_there
        self._runs: list[_Run] = []

    def add(self, keys: Ids, times: Times, ids: Ids) -> None:
        """Enters ids, each under its key at its time."""
        if not len(ids):
            return
        self._runs.append(_sorted(keys, times, ids))
        while len(self._runs) > RUNS_MIN:
            old, young = self._runs[-2:]
            if len(old.ids) >= GROWTH * len(young.ids):
                return
            self._runs[-2:] = self._merged([old, young])

    def keep_few(self, there: int) -> None:
        """Drops what is gone, once that is most of it; `there` entries still hold."""
        if len(self) > GROWTH * there + RUNS_MIN:
            self._runs = self._merged(self._runs)

    def clear(self) -> None:
        """Everything is gone."""
        self._runs = []

    def around(self, keys: Ids, times: Times) -> tuple[Ids, Times]:
        """By key and time asked for: the id with the largest time before it, -1 where there is
        none; and the smallest time of the key after it, INF where there is none.
        """
        before, at = np.full(len(keys), -1), np.full(len(keys), np.iinfo(np.int64).min)
        after = np.full(len(keys), INF)
        for run in self._runs:
            low, high = (run.keys.searchsorted(keys, side) for side in ("left", "right"))
            place = _first(run.times, times, low, high)
            found = (place > low).nonzero()[0]
            here = place[found] - 1
            holds = self._is_there(keys[found], run.times[here], run.ids[here])
            holds &= run.times[here] > at[found]
            found, here = found[holds], here[holds]
            before[found], at[found] = run.ids[here], run.times[here]
            place = _first(run.times, times + 1, place, high)
            found = (place < high).nonzero()[0]
            here = place[found]
            holds = self._is_there(keys[found], run.times[here], run.ids[here])
            after[found[holds]] = np.minimum(after[found[holds]], run.times[here[holds]])
        return before, after

    def _merged(self, runs: list[_Run]) -> list[_Run]:
        keys, times, ids = (np.concatenate(columns) for columns in zip(*runs, strict=True))
        there = self._is_there(keys, times, ids).nonzero()[0]
        return [_sorted(keys[there], times[there], ids[there])] if len(there) else []

    @property
    def ids(self) -> Ids:
        """Those whose entries hold, ascending."""
        found = [run.ids[self._is_there(*run)] for run in self._runs]
        return np.sort(np.concatenate(found)) if found else np.zeros(0, np.int64)

    def __len__(self) -> int:
        return sum(len(run.ids) for run in self._runs)

    @property
    def nbytes(self) -> int:
        """Bytes of the runs."""
        return sum(column.nbytes for run in self._runs for column in run)


def _sorted(keys: Ids, times: Times, ids: Ids) -> _Run:
    order = np.lexsort((times, keys))
    return _Run(keys[order], times[order], ids[order])


def _first(times: Times, wanted: Times, low: Ids, high: Ids) -> Ids:
    """By question, the first place in `[low, high)` whose time is not before `wanted`; `high` where
    there is none. Times rise between the two.
    """
    low, high = low.copy(), high.copy()
    while True:
        left = (low < high).nonzero()[0]
        if not len(left):
            return low
        middle = (low[left] + high[left]) // 2
        earlier = times[middle] < wanted[left]
        low[left[earlier]] = middle[earlier] + 1
        high[left[~earlier]] = middle[~earlier]
