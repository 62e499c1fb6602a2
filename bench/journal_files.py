"""Appending to a journal and reading it back, on this machine's disk.

The disk's own rate is measured beside: the same bytes appended to a plain file, with fdatasync
after each. What a follower sees is measured from another process, by the clock that both share.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.bench.harness import Context, Row, best_of
from gapless.bench.netflow import flows, generator
from gapless.journal.commit import Commits
from gapless.journal.disk import LocalDisk, Mapped
from gapless.journal.layout import Layout
from gapless.journal.reader import Reader
from gapless.journal.segment import SEGMENT_BYTES
from gapless.journal.writer import Writer
from gapless.journal.written import Durability
from gapless.protocol.errors import Bug
from gapless.protocol.schema import StreamSchema

SCHEMA = StreamSchema({"ts": "int64", "src": "int32", "len": "int32", "link": "int32"})
"""Four narrow columns: 20 bytes a row."""
FRAME_ROWS = 1_000
LIVE_ROWS = 20
"""Of a record that is small: a batch every 20 ms of a thousand rows a second."""
LATENESS_MS = 5_000


@contextmanager
def folder(name: str) -> Iterator[Path]:
    """A directory on the disk that holds the working directory, which goes afterwards."""
    with tempfile.TemporaryDirectory(prefix=f"gapless-bench-{name}-", dir=Path.cwd()) as path:
        yield Path(path)


def batches(rows: int, each: int) -> list[pa.RecordBatch]:
    """Flows in the order of their arrival, in batches of a size."""
    table = flows(rows, generator())
    link = pa.array(np.arange(rows, dtype=np.int32) % 4)
    whole = pa.RecordBatch.from_arrays([*table.columns, link], schema=SCHEMA.payload)
    return [whole.slice(start, each) for start in range(0, rows, each)]


def writer(
    path: Path, durability: Durability = "process", segment_bytes: int = SEGMENT_BYTES
) -> Writer:
    """A journal of one partition, as the bars have it."""
    return Writer(
        LocalDisk(path),
        Layout(SCHEMA, "ts", (), 1, LATENESS_MS),
        who="bench",
        token=f"bench-{time.monotonic_ns()}",
        now_ms=lambda: time.time_ns() // 1_000_000,
        durability=durability,
        segment_bytes=segment_bytes,
    )


def appending(context: Context) -> Iterator[Row]:
    """Appends of one frame, each durable before the next."""
    count = 300 if context.quick else 20_000
    frames = batches(FRAME_ROWS * count, FRAME_ROWS)
    with folder("process") as path:
        rate = best_of(lambda: _appended(path, frames, "process"), 1 if context.quick else 3)
        yield Row("append 1,000 rows, process-durable", rate, "frames/s", bar=20_000, op=">=")
        files = list(path.rglob("segments/*"))
        full = sum(file.stat().st_size for file in files) / len(files) / SEGMENT_BYTES
        yield Row("bytes of a file over a segment's bound, mean", full, "x")
    few = frames[: 50 if context.quick else 2_000]
    with folder("machine") as path:
        # In turn, for a disk's rate changes from one second to the next.
        runs = [
            (_synced(path / f"raw-{i}", few), _appended(path, few, "machine"))
            for i in range(1 if context.quick else 5)
        ]
        alone, ours = (float(np.median(rates)) for rates in zip(*runs, strict=True))
        yield Row("fdatasync after as many bytes, the disk alone", alone, "/s")
        yield Row("append 1,000 rows, machine-durable", ours, "frames/s")
        ratio = float(np.median([ours / alone for alone, ours in runs]))
        yield Row("machine-durable over the disk alone", ratio, "x", bar=0.5, op=">=")


def _appended(path: Path, frames: list[pa.RecordBatch], durability: Durability) -> float:
    out = writer(path / f"{durability}-{time.monotonic_ns()}", durability)
    start = time.perf_counter()
    for frame in frames:
        out.append(frame)
    seconds = time.perf_counter() - start
    out.close()
    return len(frames) / seconds


def _synced(path: Path, frames: list[pa.RecordBatch]) -> float:
    data = bytes(frames[0].nbytes)
    with path.open("ab", buffering=0) as file:
        start = time.perf_counter()
        for _ in frames:
            file.write(data)
            os.fdatasync(file.fileno())
        return len(frames) / (time.perf_counter() - start)


def reading(context: Context) -> Iterator[Row]:
    """Everything back, checksums and all; and from a time on in a journal of many segments."""
    rows = 400_000 if context.quick else 20_000_000
    with folder("read") as path:
        out = writer(path / "j")
        for batch in batches(rows, 65_536):
            out.append(batch)
        out.close()
        rate = best_of(lambda: _read(path / "j", rows), 1 if context.quick else 5)
        yield Row("read back, 4 narrow columns, checksums on", rate, "rows/s", bar=100e6, op=">=")
    count = 300 if context.quick else 10_000
    with folder("seek") as path:
        out = writer(path / "j", segment_bytes=1)
        for batch in batches(FRAME_ROWS * count, FRAME_ROWS):
            out.append(batch)
        out.close()
        since = out.stable - 10_000
        touched: list[str] = []
        took = best_of(lambda: _sought(path / "j", since, touched), 5, min)
        name = f"open and read from a time on, {count:,} segments"
        yield Row(name, took * 1e3, "ms", bar=50, op="<=")
        facts = Commits(LocalDisk(path / "j"), out.layout).facts
        old = set(
            facts.filter(pc.less(facts.column("largest"), since)).column("segment").to_pylist()
        )
        read = len(old.intersection(touched))
        yield Row("segments before that time that were read", read, "files", bar=0, op="<=")
        yield Row("segments before that time", len(old), "files")
    yield from _late_in_a_live_segment(1_000 if context.quick else 50_000)


def _late_in_a_live_segment(count: int) -> Iterator[Row]:
    """Small records of which only the last few are needed: what a replica that comes back finds."""
    with folder("live") as path:
        out = writer(path / "j")
        for batch in batches(LIVE_ROWS * count, LIVE_ROWS):
            out.append(batch)
        took = best_of(lambda: _sought(path / "j", out.stable - LATENESS_MS, []), 3, min)
        whole = best_of(lambda: LIVE_ROWS * count / _read(path / "j", LIVE_ROWS * count), 1, min)
        out.close()
    name = f"open and read from a time on, a live segment of {count:,} records"
    yield Row(name, took * 1e3, "ms", bar=1_000, op="<=")
    yield Row("that, over reading all of it", took / whole, "x", bar=0.25, op="<=")


def _read(path: Path, rows: int) -> float:
    start = time.perf_counter()
    reader = Reader(LocalDisk(path))
    got = 0
    while (frame := reader.read()) is not None:
        got += len(frame)
    seconds = time.perf_counter() - start
    if got != rows:
        raise Bug("the journal gives back other rows than it was given")
    return got / seconds


class _Watched(LocalDisk):
    """Notes the segments that are mapped."""

    def __init__(self, root: Path, mapped: list[str]) -> None:
        super().__init__(root)
        self._mapped = mapped

    def map(self, name: str, length: int) -> Mapped:
        self._mapped.append(name)
        return super().map(name, length)


def _sought(path: Path, since: int, touched: list[str]) -> float:
    start = time.perf_counter()
    reader = Reader(_Watched(path, touched), since=since)
    if reader.read() is None:
        raise Bug("the journal gives back other rows than it was given")
    return time.perf_counter() - start


_FOLLOW = """
import sys, time
import gapless as gl
with gl.JournalReader(sys.argv[1]) as reader:
    print("ready", flush=True)
    for frame in reader.follow():
        if len(frame):
            print(int(frame.payload.column("src")[0].as_py()), time.monotonic_ns(), flush=True)
"""


def following(context: Context) -> Iterator[Row]:
    """From `append` to a reader in another process that follows the journal."""
    count = 20 if context.quick else 500
    with folder("follow") as path:
        out = writer(path / "j")
        command = [sys.executable, "-c", _FOLLOW, str(path / "j")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as follower:
            try:
                lines = follower.stdout
                if lines is None or lines.readline() != "ready\n":
                    raise Bug("the journal gives back other rows than it was given")
                waits = []
                for i in range(count):
                    time.sleep((i % 23 + 1) / 1e3)
                    row = [[i], [i], [0], [0]]
                    arrays = [pa.array(c, f.type) for c, f in zip(row, SCHEMA.payload, strict=True)]
                    appended = time.monotonic_ns()
                    out.append(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA.payload))
                    number, seen = lines.readline().split()
                    if int(number) != i:
                        raise Bug("the journal gives back other rows than it was given")
                    waits.append((int(seen) - appended) / 1e6)
            finally:
                follower.kill()
        out.close()
    yield Row("a follower sees a batch after, median", float(np.median(waits)), "ms")
    yield Row("a follower sees a batch after, worst", max(waits), "ms", bar=20, op="<=")
