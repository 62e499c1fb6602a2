"""`prepare` beside Spark itself, and the memory that preparing and reading take.

Both do the same work on one Spark, alternately: read flows from Parquet, partition them by their
source, sort each partition by time, write. Spark writes Parquet, `prepare` a journal, which then is
ready for replicas. Starting Spark is apart, and each has run once before it counts.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from pyarrow import parquet

from gapless.bench.harness import Context, Row
from gapless.bench.journal_files import folder
from gapless.journal.generate.netflow import Netflow
from gapless.protocol.errors import Bug
from gapless.spark_sources.prepare import prepare
from gapless.spark_sources.session import embedded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 8
LATENESS = "5s"
LATENESS_MS = 5_000
CORES = 2
MEMORY = "1g"
"""Spark's, where memory is compared: little enough that both inputs use it all."""
LARGER = 4
"""How many times as many rows the larger input has, where memory is compared."""
SAMPLE_S = 0.05
"""From one look at the memory of a process and its children to the next."""


def preparing(context: Context) -> Iterator[Row]:
    """Time against Spark's own, memory against an input four times as large."""
    rows = 50_000 if context.quick else 5_000_000
    rounds = 1 if context.quick else 3
    with folder("prepare") as path:
        small, large = path / "small.parquet", path / "large.parquet"
        write_flows(small, rows)
        write_flows(large, LARGER * rows)
        with embedded(cores=CORES) as spark:
            ours, theirs = [], []
            for i in range(rounds + 1):
                theirs.append(_timed(partial(_parquet, spark, small, path / f"parquet-{i}")))
                ours.append(_timed(partial(_journal, spark, small, path / f"journal-{i}", rows)))
            took, their = min(ours[1:]), min(theirs[1:])
            yield Row(f"prepare {rows:,} flows", rows / took, "rows/s")
            yield Row("Spark writes the same as Parquet", rows / their, "rows/s")
            yield Row("time of prepare over Spark's", took / their, "x", bar=1.5, op="<=")
        peaks = []
        for file, count in ((small, rows), (large, LARGER * rows)):
            with embedded(cores=CORES, driver_memory=MEMORY) as spark:
                out = path / f"memory-{file.stem}"
                peaks.append(peak_bytes(partial(_journal, spark, file, out, count)))
        yield Row("memory of prepare, Spark and all", peaks[0], "bytes")
        grown = peaks[1] / peaks[0]
        yield Row(f"the same, {LARGER} times as many rows", grown, "x", bar=1.25, op="<=")
        read = [_reading_bytes(path / f"memory-{name}") for name in ("small", "large")]
        yield Row("memory of reading", read[0], "bytes")
        yield Row(f"the same, {LARGER} times as many", read[1] / read[0], "x", bar=1.25, op="<=")


def write_flows(path: Path, rows: int) -> None:
    """Flows in the order of their arrival, as Parquet."""
    flows = Netflow(events=rows, lateness_ms=LATENESS_MS)
    with parquet.ParquetWriter(path, flows.schema) as writer:
        for batch in flows:
            writer.write_batch(batch)


def _parquet(spark: SparkSession, source: Path, out: Path) -> None:
    frame = spark.read.parquet(str(source)).repartition(PARTITIONS, "src")
    frame.sortWithinPartitions("ts").write.parquet(str(out))


def _journal(spark: SparkSession, source: Path, out: Path, rows: int) -> None:
    done = prepare(
        spark, source, out, time="ts", key=["src"], lateness=LATENESS, partitions=PARTITIONS
    )
    if done.written != rows:
        raise Bug(f"{done.written} of {rows} rows were prepared")


def _timed(run: Callable[[], None]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def peak_bytes(run: Callable[[], None]) -> float:
    """The most that this process and its children have at once while something runs."""
    peak, done = 0, threading.Event()
    me = psutil.Process()

    def look() -> None:
        nonlocal peak
        while not done.wait(SAMPLE_S):
            peak = max(peak, sum(_resident(p) for p in [me, *me.children(recursive=True)]))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        run()
    finally:
        done.set()
        watcher.join()
    return float(peak)


def _resident(process: psutil.Process) -> int:
    """Shared pages, forked workers' above all, count once for each process that has them."""
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


_READ = """
import sys
from pathlib import Path
import gapless as gl
with gl.JournalReader(sys.argv[1]) as reader:
    rows = sum(len(frame) for frame in reader)
status = Path("/proc/self/status").read_text().splitlines()
print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""


def _reading_bytes(path: Path) -> float:
    """The most that a process has had which reads a journal to its end, mapped files included."""
    command = [sys.executable, "-c", _READ, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return 1024 * float(done.stdout)
