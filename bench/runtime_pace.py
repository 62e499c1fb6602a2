"""The pace of a plan that costs by call: what a replica makes of it, and of a stop half-way.

    a frame of n rows costs     call + n * 1 us        a model that answers a batch, say
    best rate                   the most rows at once: a frame of a journal's reader

    rows  |        ___________/         a replica begins with small frames, for it knows nothing of
          |     /'           stopped    its plan; the rate counts from WARM_S on, and again from
          |___/                         WARM_S behind a stop of the whole process

What a call costs is slept, not computed: so the figures are those of the pace, and not of cores
that other processes of this machine want as well.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gapless.actors.launch import launch
from gapless.bench.harness import Context, Row
from gapless.bench.journal_files import folder
from gapless.bench.runtime_throughput import WAIT_S, cluster_of_one, wait_for_all
from gapless.engine.functions import function
from gapless.engine.query import Query
from gapless.engine.source import source
from gapless.journal.disk import LocalDisk
from gapless.journal.layout import Layout
from gapless.journal.reader import FRAME_ROWS
from gapless.journal.writer import Writer
from gapless.protocol.errors import Bug
from gapless.protocol.expr import col
from gapless.protocol.schema import StreamSchema

ROW_S = 1e-6
"""Of each row."""
SHARE = 0.8
"""Of the best rate, that is to be reached."""
STOP_S = 0.4
"""How long the replica is stopped: less than it takes to be suspected."""
WARM_S, QUICK_WARM_S = 3.0, 1.0
"""Of a run, and behind a stop, that do not count."""
COUNTED_S, QUICK_COUNTED_S = 6.0, 1.0
"""What counts, before the stop and behind it."""
ONE_IN = 100
"""Rows that make a result: few, as it is the reading that is measured."""
APPEND_ROWS = 65_536

SCHEMA = StreamSchema({"ts": "int64", "id": "int64"})

Arrivals = Sequence[tuple[float, int]]
"""When a result came, and of which row it is."""


def _costs(call_s: float, rows: pa.Array) -> pa.Array:
    time.sleep(call_s + len(rows) * ROW_S)
    return rows


def call_5(rows: pa.Array) -> pa.Array:
    """Takes 5 ms a call."""
    return _costs(0.005, rows)


def call_30(rows: pa.Array) -> pa.Array:
    """Takes 30 ms a call."""
    return _costs(0.030, rows)


def call_60(rows: pa.Array) -> pa.Array:
    """Takes 60 ms a call."""
    return _costs(0.060, rows)


def call_200(rows: pa.Array) -> pa.Array:
    """Takes 200 ms a call."""
    return _costs(0.200, rows)


CALLS: dict[int, Callable[..., Any]] = {5: call_5, 30: call_30, 60: call_60, 200: call_200}
"""By milliseconds a call."""


def query(call: Callable[..., Any]) -> Query:
    """All rows through the call, one in a hundred into the output."""
    read = source("rows", SCHEMA.payload, time="ts")
    return read.map(seen=function(call, "id", returns="int64")).where(col("id") % ONE_IN == 0)


def best_rate(call_ms: int) -> float:
    """Rows a second with the largest frames, and nothing else to do."""
    return FRAME_ROWS / (call_ms / 1000 + FRAME_ROWS * ROW_S)


def rate(arrivals: Arrivals, since_s: float, until_s: float) -> float:
    """Rows a second between two moments. Raises `Bug` where fewer than two results came."""
    within = [(at, row) for at, row in arrivals if since_s <= at <= until_s]
    if len(within) < 2 or within[-1][0] == within[0][0]:
        raise Bug(f"{len(within)} results in {until_s - since_s:.1f} s: no rate")
    (first_s, first), (last_s, last) = within[0], within[-1]
    return (last - first) / (last_s - first_s)


def measure_pace(context: Context) -> Iterator[Row]:
    """Each call's share of its best rate, undisturbed and behind a stop."""
    warm_s = QUICK_WARM_S if context.quick else WARM_S
    counted_s = QUICK_COUNTED_S if context.quick else COUNTED_S
    with cluster_of_one(), folder("pace") as path:
        for call_ms, call in CALLS.items():
            best = best_rate(call_ms)
            rows = int(best * (2 * (warm_s + counted_s) + STOP_S))
            before, after = _rates(call, rows, path / str(call_ms), warm_s, counted_s)
            name = f"{call_ms} ms a call, at best {best:,.0f} rows/s"
            yield Row(f"{name}: share", before / best, "x", SHARE, ">=")
            what = f"{name}: share after a stop of {STOP_S:g} s"
            yield Row(what, after / best, "x", SHARE, ">=")


def _rates(
    call: Callable[..., Any], rows: int, path: Path, warm_s: float, counted_s: float
) -> tuple[float, float]:
    """Before a stop, and after it."""
    _write(path / "journal", rows)
    with launch(
        query(call), journal=path / "journal", dir=path / "job", replicas=1, spares=0
    ) as job:
        wait_for_all(job)
        pids = [about.pid for life, about in job.status().hosts.items() if life.slot == "r0.0"]
        arrivals: list[tuple[float, int]] = []
        stop_at = time.monotonic() + warm_s + counted_s
        timer = threading.Timer(warm_s + counted_s, _stop, pids)
        timer.start()
        try:
            with job.subscribe(start="earliest") as subscription:
                until = stop_at + STOP_S + warm_s + counted_s
                while time.monotonic() < until:
                    frame = subscription.next(WAIT_S)
                    if frame is None:
                        raise Bug(f"no result for {WAIT_S:g} s")
                    if len(frame):
                        ids = frame.payload.column("id").to_numpy()
                        arrivals.append((time.monotonic(), int(ids.max())))
                    if arrivals and arrivals[-1][1] >= rows - ONE_IN:
                        break  # all was read: no slower than was hoped for
        finally:
            timer.join()
        begin_s = stop_at - counted_s
        behind_s = stop_at + STOP_S + warm_s
        return rate(arrivals, begin_s, stop_at), rate(arrivals, behind_s, behind_s + counted_s)


def _stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    time.sleep(STOP_S)
    os.kill(pid, signal.SIGCONT)


def _write(path: Path, rows: int) -> None:
    """A journal of so many rows, in order, and no end: a job that is done has no pace."""
    writer = Writer(
        LocalDisk(path),
        Layout(SCHEMA, "ts", (), 1, 0),
        who="bench",
        token=f"bench-{time.monotonic_ns()}",
        now_ms=lambda: time.time_ns() // 1_000_000,
    )
    for start in range(0, rows, APPEND_ROWS):
        ids = np.arange(start, min(start + APPEND_ROWS, rows))
        writer.append(pa.record_batch([pa.array(ids), pa.array(ids)], schema=SCHEMA.payload))
    writer.close()
