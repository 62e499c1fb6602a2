"""Feeds a journal as time goes by, on a thread of its own: so many rows a second, then the end."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from gapless.chaos.real_workloads import RealWorkload
from gapless.journals import JournalWriter
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import GaplessError, JobError

BATCH_S = 0.02
"""Between two batches."""
BATCH_ROWS_MAX = 50_000
"""In one, where the disk has been slow and more are due."""
END_S = 10.0
"""How long the thread may take to end."""


class Feeding:
    """The rows of a workload, into a journal that it makes. Rows count from `begin` on."""

    def __init__(self, workload: RealWorkload, path: Path, rate: int) -> None:
        self.path = path
        self.rate = rate
        self._workload = workload
        self._writer = JournalWriter(
            path,
            dict(workload.columns),
            time=workload.time,
            key=workload.key,
            partitions=workload.partitions,
            lateness=f"{workload.lateness_ms}ms",
        )
        self.rows = 0
        """So far."""
        self.stable = BEGIN
        """What the journal promises by now."""
        self._newest = BEGIN
        self._stops = threading.Event()
        self._error: GaplessError | OSError | None = None
        self._thread = threading.Thread(target=self._run, name="feeding", daemon=True)
        self.append(max(1, round(rate * BATCH_S)))  # a job needs something to begin with

    def append(self, count: int) -> None:
        """The next rows."""
        rows = self._workload.rows(self.rows, count, self.rate)
        self._writer.append(rows)
        self.rows += len(rows)
        times = rows.column(rows.schema.get_field_index(self._workload.time))
        newest = int(np.asarray(times.cast("int64", safe=False)).max())
        self._newest = max(self._newest, newest)
        self.stable = max(BEGIN, self._newest - self._workload.lateness_ms)

    def begin(self) -> None:
        """Time goes by from now on."""
        self._thread.start()

    def _run(self) -> None:
        began_s, first = time.monotonic(), self.rows
        last = self._workload.ends_after
        try:
            while not self._stops.wait(BATCH_S):
                due = first + round((time.monotonic() - began_s) * self.rate)
                due = due if last is None else min(due, last)
                if due > self.rows:
                    self.append(min(due - self.rows, BATCH_ROWS_MAX))
        except (GaplessError, OSError) as e:
            self._error = e

    def end(self) -> None:
        """Nothing follows, for good. Raises what has gone wrong meanwhile."""
        self._halt()
        if self._error is not None:
            raise JobError(f"the rows cannot be fed: {self._error}")
        self._writer.end()

    def _halt(self) -> None:
        self._stops.set()
        if self._thread.is_alive():
            self._thread.join(END_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._halt()
        self._writer.close()
