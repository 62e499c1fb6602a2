"""The feeder of the runtime bench: a process of its own that appends flows at a steady rate.

    batch  0      1      2      3            50,000 events/s: 500 of them every 10 ms
    due    |------|------|------|---->       whatever became of the batch before: a feeder that was
           due    before after               kept from running makes up for it, as stamps tell

The flows are those of `netflow.py`, 10,000 a second of event time, so at 50,000 events/s event time
runs five times as fast as ours: W1 answers every 200 ms. A million of them come again and again,
each time 100 s later. `id` counts them, so that a result can be traced to the batch it is from.

It reads "go" from its standard input, feeds until that ends, and closes the journal. So it ends
with the process that has started it, however that ends. What it has to tell is in a file of stamps,
on the clock that all processes of a machine share.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.bench.netflow import FLOW_LATENESS_MS, FLOW_RATE, FLOWS, flows, generator
from gapless.engine.query import Query
from gapless.engine.source import source
from gapless.journal.disk import LocalDisk
from gapless.journal.layout import Layout
from gapless.journal.writer import Writer
from gapless.protocol.errors import Misuse
from gapless.protocol.schema import StreamSchema

FEED = FLOWS.append(pa.field("id", pa.int64()))
"""Rows of the feed."""
BATCH_MS = 10
"""Between two batches: what reaches a journal in one piece from a busy collector."""
POOL_ROWS = 1_000_000
"""Different flows; 100 s of event time. Then they come again, later."""
STAMP = np.dtype(
    [("rows", "i8"), ("stable", "i8"), ("due_ns", "i8"), ("before_ns", "i8"), ("after_ns", "i8")]
)
"""Of a batch: rows up to its end, the journal's stable then; when it was due, begun, and done."""
READY_S = 60.0
"""How long the process may take to start and to draw its flows."""
STOP_S = 30.0
"""How long it may take to close its journal."""

Stamps = npt.NDArray[np.void]


def feed_source() -> Query:
    """What queries of the bench read."""
    return source("flows", FEED, time="ts", lateness=FLOW_LATENESS_MS)


class Pool:
    """The flows, in batches; batch `i` is the same in every process."""

    def __init__(self, batch_rows: int, rows: int = POOL_ROWS) -> None:
        if batch_rows < 1 or rows % batch_rows:
            raise Misuse(f"a batch of {batch_rows} rows: {rows:,} rows are no whole number of them")
        self.batch_rows = batch_rows
        self._batches = rows // batch_rows
        self._flows = flows(rows, generator())
        self._lap_ms = rows * 1000 // FLOW_RATE

    def batch(self, i: int) -> pa.RecordBatch:
        """The i-th batch of the feed."""
        lap, place = divmod(i, self._batches)
        part = self._flows.slice(place * self.batch_rows, self.batch_rows)
        ts = part.column(0).to_numpy() + lap * self._lap_ms
        id = np.arange(i * self.batch_rows, (i + 1) * self.batch_rows)
        return pa.record_batch([pa.array(ts), *part.columns[1:], pa.array(id)], schema=FEED)


# -- in the program that measures -----------------------------------------------------------------


@dataclass(frozen=True)
class Fed:
    """What a feeder has told at its end."""

    stamps: Stamps
    batch_rows: int

    def rate(self) -> float:
        """Rows a second, from the first batch to the last."""
        first, last = self.stamps[0], self.stamps[-1]
        return float((last["rows"] - first["rows"]) * 1e9 / (last["after_ns"] - first["after_ns"]))

    def longest_delay_ms(self) -> float:
        """The longest time from when a batch was due until it could be read."""
        return float((self.stamps["after_ns"] - self.stamps["due_ns"]).max() / 1e6)

    def readable_ns(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """By rows, when they could be read: the append of their batch was done."""
        found: npt.NDArray[np.int64] = self.stamps["after_ns"][ids // self.batch_rows]
        return found

    def complete_ns(self, ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """By event times, when a reader could know that nothing before them comes any more."""
        first = np.searchsorted(self.stamps["stable"], ends)
        if len(first) and first.max() >= len(self.stamps):
            raise Misuse("the feed has not come as far as that: ask for times below its stable")
        found: npt.NDArray[np.int64] = self.stamps["after_ns"][first]
        return found


class Feeder:
    """A feeder, from here: a context that ends it."""

    def __init__(self, journal: Path, stamps: Path, rate: int) -> None:
        """Makes the journal, and waits for `go`."""
        self._stamps = stamps
        self.batch_rows = rate * BATCH_MS // 1000
        command = [sys.executable, "-m", __name__, str(journal), str(stamps), str(rate)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        slow = threading.Timer(READY_S, self._process.kill)
        slow.start()
        try:
            if self._line() != "ready":
                raise Misuse(f"the feeder did not start within {READY_S:g} s: see what it said")
        finally:
            slow.cancel()

    def go(self) -> None:
        """Begins to feed."""
        self._tell("go\n")

    def stop(self) -> Fed:
        """Ends the feed, closes the journal."""
        self._end()
        if self._process.returncode:
            raise Misuse(
                f"the feeder has failed, with {self._process.returncode}: see what it said"
            )
        return Fed(np.fromfile(self._stamps, STAMP), self.batch_rows)

    def _line(self) -> str:
        assert self._process.stdout is not None  # noqa: S101  # a pipe, as asked for
        return self._process.stdout.readline().strip()

    def _tell(self, text: str) -> None:
        assert self._process.stdin is not None  # noqa: S101  # a pipe, as asked for
        try:
            self._process.stdin.write(text)
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Misuse("the feeder has ended by itself: see what it said") from None

    def _end(self) -> None:
        try:
            self._process.communicate(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._end()


# -- in the process that feeds --------------------------------------------------------------------


def feed(journal: str, stamps: str, pool: Pool) -> None:
    """Feeds until standard input ends; one batch at least."""
    over = threading.Event()
    writer = Writer(
        LocalDisk(Path(journal)),
        Layout(StreamSchema(FEED), "ts", (), 1, FLOW_LATENESS_MS),
        who="bench",
        token=uuid4().hex,
        now_ms=lambda: time.time_ns() // 1_000_000,
    )
    with closing(writer), Path(stamps).open("wb") as told:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        if not sys.stdin.readline():
            return
        threading.Thread(target=_until_told, args=(over,), daemon=True).start()
        began_ns, i = time.monotonic_ns(), 0
        while i == 0 or not over.is_set():
            due_ns = began_ns + i * BATCH_MS * 1_000_000
            batch = pool.batch(i)
            over.wait(max(0, due_ns - time.monotonic_ns()) / 1e9)
            before_ns = time.monotonic_ns()
            stable = writer.append(batch).stable
            stamp = (writer.rows, stable, due_ns, before_ns, time.monotonic_ns())
            told.write(np.array(stamp, STAMP).tobytes())
            i += 1


def _until_told(over: threading.Event) -> None:
    sys.stdin.read()
    over.set()


def main() -> None:
    """`python -m gapless.bench.runtime_feed JOURNAL STAMPS RATE`."""
    journal, stamps, rate = sys.argv[1:]
    feed(journal, stamps, Pool(int(rate) * BATCH_MS // 1000))


if __name__ == "__main__":
    main()
