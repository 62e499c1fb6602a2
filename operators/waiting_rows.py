"""Rows that wait until a stable passes them, given back in order of time.

    add(rows at 7 3 9)   add(rows at 8 4)      runs:  3 7 9     4 8
    take(8)              rows at 3 4 7         runs:  9         8

A run is what one call added, sorted; what is taken is the beginning of each. Streams come nearly in
order, so little is ever sorted. Short runs are merged with their neighbours, each row a logarithmic
number of times, so there are never many.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gapless.kernels.pick import Picker
from gapless.protocol.columns import compact_batch, concat_batches, take_rows
from gapless.protocol.elements import INF
from gapless.protocol.frame import Times
from gapless.protocol.schema import VS

RUNS_MIN = 8
"""So few runs are cheaper to look at than to merge."""
GROWTH = 2
"""A run is at least so many times as long as the next younger one, beyond the first few."""
KEPT_MAX = 2
"""A run holds at most so many times the memory of what is left in it."""


class _Run(NamedTuple):
    times: Times
    rows: pa.RecordBatch
    came: int
    """Rows whose memory it holds."""


class WaitingRows:
    """Rows by time; their time is the column `_vs`."""

    def __init__(self, empty: pa.RecordBatch) -> None:
        """`empty`: a batch of the rows' columns, without rows."""
        self._empty = empty
        self._at = empty.schema.get_field_index(VS)
        self._picker = Picker(empty.schema)
        self._runs: list[_Run] = []

    def add(self, rows: pa.RecordBatch) -> None:
        """Rows that wait."""
        if not rows.num_rows:
            return
        self._runs.append(self._sorted(rows))
        while len(self._runs) > RUNS_MIN:
            old, young = self._runs[-2:]
            if len(old.times) >= GROWTH * len(young.times):
                return
            self._runs[-2:] = [self._sorted(concat_batches([old.rows, young.rows]))]

    def take(self, below: int) -> pa.RecordBatch:
        """Takes out the rows before a time, in order."""
        found, left = [], []
        for run in self._runs:
            n = int(run.times.searchsorted(below))
            if n:
                found.append(run.rows.slice(0, n))
            if n < len(run.times):
                left.append(self._rest(run, n) if n else run)
        self._runs = left
        if not found:
            return self._empty
        if len(found) == 1:
            return found[0]
        return self._sorted(concat_batches(found)).rows

    def _rest(self, run: _Run, start: int) -> _Run:
        """What is left of a run; a copy once that is little, for a view keeps the whole."""
        times = run.times[start:]
        if KEPT_MAX * len(times) >= run.came:
            return _Run(times, run.rows.slice(start), run.came)
        rows = self._picker.take(run.rows, np.arange(start, len(run.times)))
        if rows is None:  # not of columns that the kernel copies, which is faster
            rows = compact_batch(run.rows.slice(start))
        return _Run(times.copy(), rows, len(times))

    @property
    def rows(self) -> pa.RecordBatch:
        """All that wait, in order."""
        if not self._runs:
            return self._empty
        return self._sorted(concat_batches([run.rows for run in self._runs])).rows

    @property
    def first(self) -> int:
        """The earliest time, INF where nothing waits."""
        return min((int(run.times[0]) for run in self._runs), default=INF)

    def _sorted(self, rows: pa.RecordBatch) -> _Run:
        times = rows.column(self._at).to_numpy()
        if np.count_nonzero(times[1:] < times[:-1]):
            order = times.argsort(kind="stable")
            rows, times = take_rows(rows, order), times[order]
        return _Run(times, rows, rows.num_rows)

    def __len__(self) -> int:
        return sum(len(run.times) for run in self._runs)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows, and of what a run still holds of what was."""
        return sum(run.rows.nbytes * run.came // len(run.times) for run in self._runs)
