"""Feeds journals as time goes by, on a thread of its own: so many rows a second, then the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import uuid4

from gapless.chaos.drill.workloads import RealSource, RealWorkload
from gapless.journal.disk import LocalDisk
from gapless.journal.writer import Writer
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import GaplessError, JobError

BATCH_S = 0.02
"""Between two batches."""
BATCH_ROWS_MAX = 50_000
"""In one, where the disk has been slow and more are due."""
END_S = 10.0
"""How long the thread may take to end."""


class Feeder:
    """The rows of a workload, into journals that it makes. Time goes by from `begin` on."""

    def __init__(self, workload: RealWorkload, folder: Path, rate: int) -> None:
        """`rate`: rows a second of each source."""
        self._lanes = {
            name: _Lane(source, folder / f"source-{number}", rate * source.share)
            for number, (name, source) in enumerate(workload.sources.items())
        }
        self._stops = threading.Event()
        self._error: GaplessError | OSError | None = None
        self._thread = threading.Thread(target=self._run, name="feeding", daemon=True)
        for lane in self._lanes.values():  # a job needs something to begin with
            lane.append(max(1, round(rate * BATCH_S)))

    @property
    def paths(self) -> Mapping[str, Path]:
        """By source, where its journal lies."""
        return {name: lane.path for name, lane in self._lanes.items()}

    @property
    def rows(self) -> int:
        """So far, of all sources."""
        return sum(lane.rows for lane in self._lanes.values())

    @property
    def stable(self) -> int:
        """What the sources promise by now: as far as the one that promises least."""
        return min(lane.stable for lane in self._lanes.values())

    def begin(self) -> None:
        """Time goes by from now on."""
        self._thread.start()

    def _run(self) -> None:
        began_s = time.monotonic()
        for lane in self._lanes.values():
            lane.begin()
        try:
            while not self._stops.wait(BATCH_S):
                for lane in self._lanes.values():
                    lane.go_on(time.monotonic() - began_s)
        except (GaplessError, OSError) as e:
            self._error = e

    def end(self) -> None:
        """Nothing follows, for good. Raises what has gone wrong meanwhile."""
        self._halt()
        if self._thread.is_alive():
            raise JobError(f"the rows are still being written after {END_S:g} s")
        if self._error is not None:
            raise JobError(f"the rows cannot be fed: {self._error}")
        for lane in self._lanes.values():
            lane.writer.end()

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
        for lane in self._lanes.values():
            lane.writer.close()


class _Lane:
    """One source being fed."""

    def __init__(self, source: RealSource, path: Path, rate: float) -> None:
        self.path = path
        self.rows = 0
        self.stable = BEGIN
        self._source = source
        self._rate = rate
        self._first = 0
        self.writer = Writer(
            LocalDisk(path),
            source.layout,
            who="the feeder of a drill",
            token=uuid4().hex,
            now_ms=lambda: time.time_ns() // 1_000_000,
        )

    def begin(self) -> None:
        self._first = self.rows

    def go_on(self, seconds: float) -> None:
        """Appends what is due."""
        due, last = self._first + round(seconds * self._rate), self._source.ends_after
        due = due if last is None else min(due, last)
        if due > self.rows:
            self.append(min(due - self.rows, BATCH_ROWS_MAX))

    def append(self, count: int) -> None:
        """The next rows."""
        rows = self._source.rows(self.rows, count, round(self._rate))
        if len(rows):
            self.stable = self.writer.append(rows).stable
            self.rows += len(rows)
