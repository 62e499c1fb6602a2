"""A table of many live rows: `latest_by` over so many keys, of which a replica is killed.

    10,000,000 keys, each once       every one of them lives from then on
    100 rows every 10 ms             of keys that are there: their row ends, another one begins
    r0.0, r0.1, r0.2                 killed one after the other: the output goes on, and each is
                                     back with all of it

What lives has no bound of its own, so this is what the bounds on everything else have to leave
alone: tails and snapshots larger than a message, folds and bases larger than a pump may be silent.

Every row that the subscriber gets is counted: in the end each key must have one row that lives,
with the value that was fed last.
"""

from __future__ import annotations

import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa

from gapless.actors.handle import Job
from gapless.actors.host import SWITCH_S
from gapless.actors.launch import launch
from gapless.bench.harness import Context, Row
from gapless.bench.runtime_kills import in_slots
from gapless.bench.runtime_pauses import longest_pause_s, pause_bar_s
from gapless.bench.runtime_run import REPLICAS, is_whole, signals
from gapless.bench.runtime_throughput import cluster_of_one
from gapless.engine.query import Query
from gapless.engine.source import source
from gapless.journal.disk import LocalDisk
from gapless.journal.layout import Layout
from gapless.journal.writer import Writer
from gapless.protocol.elements import INF
from gapless.protocol.errors import JobError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

ROWS, QUICK_ROWS = 10_000_000, 200_000
BACK_S = 20.0
"""The bar of being whole again: some gigabytes are made, written, read and taken over."""
BATCH_ROWS = 65_536
EVERY_S, UPDATES = 0.01, 100
"""Between two batches of updates, and how many those are: so that short pauses show."""
UNDISTURBED_S, QUICK_UNDISTURBED_S = 20.0, 4.0
STRIKES, QUICK_STRIKES = 3, 1
SETTLE_S = 3.0
"""From whole again to the next strike: the spare that was used up is there again."""
LOOK_S = 0.02
"""Between two looks at how the job is."""
WAIT_S = 900.0
"""Until a run has failed: reading ten million keys takes a minute or two on two cores."""
LIMIT_S = 180.0
"""A job that is not whole again by then has failed the bench."""
ROW = pa.schema([pa.field("ts", pa.timestamp("ms")), ("id", pa.int64()), ("v", pa.int64())])


def latest() -> Query:
    """The last value of each key."""
    columns = {"ts": "timestamp[ms]", "id": "int64", "v": "int64"}
    return source("values", columns, time="ts").latest_by("id")


class Feed:
    """Keys, all at once, and then updates at a steady rate, on a thread."""

    def __init__(self, path: Path, rows: int) -> None:
        self.last = np.zeros(rows, np.int64)
        """By key, the value that was fed last."""
        self._rows = rows
        self._writer = Writer(
            LocalDisk(path),
            Layout(StreamSchema(ROW), "ts", (), 1, 0),
            who="bench",
            token=f"bench-{time.monotonic_ns()}",
            now_ms=lambda: time.time_ns() // 1_000_000,
        )
        self._at_ms = 0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    def _append(self, ids: np.ndarray, values: np.ndarray) -> None:
        self._at_ms += 1
        ts = pa.array(np.full(len(ids), self._at_ms), pa.timestamp("ms"))
        self._writer.append(pa.record_batch([ts, pa.array(ids), pa.array(values)], schema=ROW))
        self.last[ids] = values

    def fill(self) -> None:
        """Every key once."""
        for start in range(0, self._rows, BATCH_ROWS):
            ids = np.arange(start, min(start + BATCH_ROWS, self._rows))
            self._append(ids, ids * 7)

    def start(self) -> None:
        """Continues with updates."""
        self._thread.start()

    def _run(self) -> None:
        rng, due = np.random.default_rng(1), time.monotonic()
        while not self._ends.wait(max(0.0, due - time.monotonic())):
            ids = np.unique(rng.integers(0, self._rows, UPDATES))
            self._append(ids, rng.integers(0, 1 << 40, len(ids)))
            due += EVERY_S

    def stop(self) -> None:
        """Writes no more."""
        self._ends.set()
        self._thread.join()
        self._writer.end()


@dataclass
class Seen:
    """What a subscriber got: nothing is kept of it but sums."""

    rows: int
    live: np.ndarray = field(init=False)
    value: np.ndarray = field(init=False)
    results: list[float] = field(default_factory=list)
    inserted: int = 0
    error: BaseException | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.live = np.zeros(self.rows, np.int64)
        self.value = np.zeros(self.rows, np.int64)

    def watch(self, job: Job) -> None:
        """Reads on until the job ends."""
        try:
            for frame in job.subscribe(start="earliest"):
                if len(frame):
                    self.results.append(time.monotonic())
                    self.take(frame)
        except BaseException as e:  # noqa: BLE001  # raised where it is looked at
            self.error = e
        self.ended.set()

    def take(self, frame: Frame) -> None:
        """A row that has no end counts once, and no more once it is given one."""
        ids, values = (frame.payload.column(name).to_numpy() for name in ("id", "v"))
        for rows, by in ((frame.ve == INF, 1), (frame.was == INF, -1)):
            np.add.at(self.live, ids[rows], by)
            np.add.at(self.value, ids[rows], by * values[rows])
        self.inserted += int(frame.is_insert.sum())

    def wrong(self, last: np.ndarray) -> tuple[int, int, int]:
        """Keys whose row was lost, is there twice, or has another value."""
        lost, doubled = self.live < 1, self.live > 1
        others = ~lost & ~doubled & (self.value != last)
        return int(lost.sum()), int(doubled.sum()), int(others.sum())


def measure_large(context: Context) -> Iterator[Row]:
    """A job of many live rows, whose replicas are killed one after the other."""
    rows = context.rows or (QUICK_ROWS if context.quick else ROWS)
    strikes = min(context.kills, QUICK_STRIKES if context.quick else STRIKES)
    name = f"{rows:,} live rows"
    switch_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        with tempfile.TemporaryDirectory(prefix="gapless-bench-") as folder, cluster_of_one():
            feed = Feed(Path(folder, "journal"), rows)
            feed.fill()
            with launch(
                latest(),
                journal=Path(folder, "journal"),
                dir=Path(folder, "job"),
                name="large",
                replicas=REPLICAS,
                mergers=1,
                memory_limit=6 << 30,
            ) as job:
                yield from _struck(context, job, feed, Seen(rows), strikes, name)
    finally:
        sys.setswitchinterval(switch_s)


def _struck(
    context: Context, job: Job, feed: Feed, seen: Seen, strikes: int, name: str
) -> Iterator[Row]:
    begin = time.monotonic()
    threading.Thread(target=seen.watch, args=(job,), name="watch", daemon=True).start()
    _until(seen, job, lambda: seen.inserted >= seen.rows, WAIT_S, "not all keys have come")
    yield Row(f"{name}: until all have come", time.monotonic() - begin, "s")
    _until(seen, job, lambda: is_whole(job.status()), LIMIT_S, "the job is not whole")
    yield Row(f"{name}: memory of the largest process", _largest_mb(job), "MB")
    feed.start()
    quiet_s = QUICK_UNDISTURBED_S if context.quick else UNDISTURBED_S
    begin = _after(seen, SETTLE_S)
    time.sleep(quiet_s)
    quiet = longest_pause_s(np.array(seen.results), begin, time.monotonic())
    yield Row(f"{name}: longest pause undisturbed", 1000 * quiet, "ms")
    pauses, backs = [], []
    for i in range(strikes):
        view = job.status()
        target = signals(view, in_slots(view, [f"r0.{i % REPLICAS}"]), signal.SIGKILL)
        begin = time.monotonic()
        target.act()
        gone = target.lives
        _until(seen, job, lambda: is_whole(job.status(), gone), LIMIT_S, "not whole again")  # noqa: B023  # at once
        backs.append(time.monotonic() - begin)
        time.sleep(SETTLE_S)
        pauses.append(longest_pause_s(np.array(seen.results), begin, time.monotonic()))
        context.say(f"{name}: strike {i}: pause {pauses[-1]:.3f} s, whole after {backs[-1]:.1f} s")
    bar = 1000 * pause_bar_s(quiet)
    yield Row(f"{name}: replica killed, longest pause", 1000 * max(pauses), "ms", bar, "<=")
    yield Row(f"{name}: replica killed, full redundancy", max(backs), "s", BACK_S, "<=")
    feed.stop()
    if not seen.ended.wait(LIMIT_S):
        raise JobError(f"the subscription has not ended {LIMIT_S:g} s after the feed has")
    if seen.error is not None:
        raise seen.error
    for what, count in zip(
        ("lost", "doubled", "contradicting"), seen.wrong(feed.last), strict=True
    ):
        yield Row(f"{name}: rows {what}", count, "rows", 0, "<=")


def _until(seen: Seen, job: Job, is_so: Callable[[], bool], limit_s: float, what: str) -> None:
    limit = time.monotonic() + limit_s
    while not is_so():
        if seen.error is not None:
            raise seen.error
        if time.monotonic() > limit:
            slots = "; ".join(f"{s.slot} {s.state} {s.reason}" for s in job.status().state.slots)
            raise JobError(f"{what} after {limit_s:g} s ({seen.inserted:,} rows): {slots}")
        time.sleep(LOOK_S)


def _after(seen: Seen, seconds: float) -> float:
    """Lets updates flow for a while; the moment behind that."""
    time.sleep(seconds)
    if not seen.results:
        raise JobError(f"no result has come within {seconds:g} s of updates")
    return time.monotonic()


def _largest_mb(job: Job) -> float:
    sizes = [psutil.Process(about.pid).memory_info().rss for about in job.status().hosts.values()]
    return max(sizes) / 1e6
