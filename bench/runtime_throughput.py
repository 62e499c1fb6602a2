"""A job's throughput on this machine, and what merging costs beside a replica.

    journal ends --> 3 replicas --> merger (its journal) --> subscriber sees stable INF
    ^ clock starts before the first append                   ^ clock stops

The job is up before there is anything to read, and warm: it has answered some seconds of flows.
Then all the rest is appended at once and the journal ended, so the appends are counted, too.
Every answer that the subscriber got is compared with numpy's over the whole input; a wrong one ends
the bench.

What merging costs is CPU time of the merger's process over that of one replica's, the mean of all,
during the same time. The processes do everything there: decoding, the output's journal, delivering.
On W1 three flows in four make an answer, so there it is only reported; `talkers` is the query whose
answers are few.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pyarrow as pa

from gapless.actors import cluster
from gapless.actors.handle import Job
from gapless.actors.launch import launch
from gapless.actors.subscription import Subscription
from gapless.bench.engine_expected import ExpectedWindows
from gapless.bench.engine_queries import w1
from gapless.bench.harness import Context, Row
from gapless.bench.journal_files import folder
from gapless.bench.netflow import (
    FLOW_LATENESS_MS,
    FLOW_RATE,
    FLOWS,
    RANGE_MS,
    SLIDE_MS,
    flows,
    generator,
)
from gapless.engine.query import Query
from gapless.journal.disk import LocalDisk
from gapless.journal.layout import Layout
from gapless.journal.writer import Writer
from gapless.protocol.elements import INF
from gapless.protocol.errors import Bug
from gapless.protocol.expr import col
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

REPLICAS = 3
APPEND_ROWS = 65_536
"""Of one append: what a bulk producer does."""
WARM_S = 40
"""Seconds of flows that are answered before the clock starts, one after the other: four windows,
and more questions than a merger has threads for subscribers: each begins with some milliseconds."""
QUIET_S = 0.25
"""Without a frame for that long a second of flows is answered."""
WAIT_S = 120.0
"""How long a run may go without a frame until it has failed."""
MANY = 150
"""Flows in a window that make a source one of the talkers: 65 of 10,000 sources, each second."""


def talkers() -> Query:
    """W1's windows, of the sources that send the most: an answer for 150 flows."""
    return w1().where(col("n") > MANY)


@contextmanager
def cluster_of_one() -> Iterator[None]:
    """A Ray cluster for what is measured within, unless this process has one already."""
    with tempfile.TemporaryDirectory(prefix="gb-") as temp_dir:
        owns = cluster.connect(None, _temp_dir=temp_dir)
        try:
            yield
        finally:
            if owns:
                cluster.disconnect()


def writer(path: Path) -> Writer:
    """Of a journal of flows with one partition."""
    return Writer(
        LocalDisk(path),
        Layout(StreamSchema(FLOWS), "ts", (), 1, FLOW_LATENESS_MS),
        who="bench",
        token=f"bench-{time.monotonic_ns()}",
        now_ms=lambda: time.time_ns() // 1_000_000,
    )


@dataclass
class Cpu:
    """Seconds of CPU that each process of a job has used since it was looked at first."""

    job: Job
    _before: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._before = self._look()

    def used(self) -> dict[str, float]:
        """By slot; "root", and "subscriber" for this process."""
        now = self._look()
        return {slot: seconds - self._before.get(slot, 0.0) for slot, seconds in now.items()}

    def _look(self) -> dict[str, float]:
        view = self.job.status()
        pids = {life.slot: about.pid for life, about in view.hosts.items()}
        pids |= {"root": view.root.pid, "subscriber": psutil.Process().pid}
        return {slot: _cpu_s(pid) for slot, pid in pids.items()}


def _cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


@dataclass(frozen=True)
class Run:
    """One run of a query over flows that are all there at once."""

    seconds: float
    rows: int
    """Flows while the clock ran."""
    frames: list[Frame]
    """Everything that the subscriber got."""
    cpu: dict[str, float]

    @property
    def merging(self) -> float:
        """CPU of the merger over that of a replica."""
        replicas = [s for slot, s in self.cpu.items() if slot.startswith("r0.")]
        return self.cpu["m0.0"] / (sum(replicas) / len(replicas))


def run(query: Query, given: pa.RecordBatch, path: Path, name: str) -> Run:
    """A job over all of `given`, from its start to the subscriber's last frame."""
    out = writer(path / f"{name}-journal")
    warm = WARM_S * FLOW_RATE
    with launch(
        query,
        journal=path / f"{name}-journal",
        dir=path / f"{name}-job",
        replicas=REPLICAS,
        checkpoint_s=3600,
    ) as job:
        wait_for_all(job)
        subscription = job.subscribe(start="earliest")
        frames: list[Frame] = []
        for second in range(WARM_S):
            _append(out, given.slice(second * FLOW_RATE, FLOW_RATE))
            while (frame := subscription.next(QUIET_S)) is not None:
                frames.append(frame)
        cpu = Cpu(job)
        start = time.perf_counter()
        _append(out, given.slice(warm))
        out.end()
        take_up_to(INF, subscription, frames)
        took = time.perf_counter() - start
        used = cpu.used()
        job.validate()
        subscription.close()
        return Run(took, given.num_rows - warm, frames, used)


def take_up_to(stable: int, subscription: Subscription, frames: list[Frame]) -> None:
    """Takes frames until the last says so much."""
    while not frames or frames[-1].stable is None or frames[-1].stable < stable:
        frame = subscription.next(WAIT_S)
        if frame is None:
            raise Bug(f"no frame for {WAIT_S:g} s before {stable}")
        frames.append(frame)


def wait_for_all(job: Job) -> None:
    """Waits until all of a job's processes run, not only the first replica."""
    until = time.monotonic() + WAIT_S
    while any(slot.state != "running" for slot in job.status().state.slots):
        if time.monotonic() > until:
            raise Bug(f"{job.name}: not all of its processes run after {WAIT_S:g} s")
        time.sleep(0.05)


def _append(out: Writer, rows: pa.RecordBatch) -> None:
    for start in range(0, rows.num_rows, APPEND_ROWS):
        out.append(rows.slice(start, APPEND_ROWS))


def measure_throughput(context: Context) -> Iterator[Row]:
    """W1 and the talkers through three replicas and a merger."""
    given = flows(600_000 if context.quick else 12_000_000, generator())
    with cluster_of_one(), folder("runtime") as path:
        found = run(w1(), given, path, "w1")
        ExpectedWindows(given, RANGE_MS, SLIDE_MS).check(found.frames)
        rate = found.rows / found.seconds
        yield Row("W1, 3 replicas and a merger", rate, "events/s", 1.5e6, ">=")
        answers = sum(map(len, found.frames))
        yield Row("W1, answers of a flow", answers / given.num_rows, "x")
        yield from _cpu_rows("W1", found)
        few = run(talkers(), given, path, "talkers")
        yield Row("talkers, 3 replicas and a merger", few.rows / few.seconds, "events/s")
        answers = sum(map(len, few.frames))
        yield Row("talkers, answers of a flow", answers / given.num_rows, "x", 0.01, "<=")
        yield from _cpu_rows("talkers", few, 0.1)


def _cpu_rows(name: str, found: Run, bar: float | None = None) -> Iterator[Row]:
    for slot, seconds in sorted(found.cpu.items()):
        yield Row(f"{name}, CPU of {slot}", seconds / found.rows * 1e6, "us an event")
    what = f"{name}, CPU of merging / of a replica"
    yield Row(what, found.merging, "x", bar, None if bar is None else "<=")


if __name__ == "__main__":
    for row in measure_throughput(Context(quick="--quick" in sys.argv, plot_dir=None)):
        print(f"{row.name:45} {row.value:14.4f} {row.unit}")  # noqa: T201  # a bench by itself
