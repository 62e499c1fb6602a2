"""Windows beside DuckDB, where that is installed: it has all rows at once, and every core.

    OVER       a source's last 10 s, at every row of it: RANGE BETWEEN .. PRECEDING AND CURRENT ROW
    session    a source's rows that lie 1 s apart at most: gaps and islands
    HOP        W1: the last 10 s, every second, from sub-aggregates of a second

Ours has one core, and rows in the order of their arrival, some late. DuckDB sorts and answers a
table in memory. Before that the numbers of answers are compared, and their sums. A figure counts
rows in a second: the best of several runs in turn. Without DuckDB there are no rows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from gapless.bench.engine_queries import w1
from gapless.bench.engine_runs import made, rows_in, seconds, watched
from gapless.bench.harness import Row
from gapless.bench.netflow import RANGE_MS, SLIDE_MS, flows, generator
from gapless.bench.windows_rates import FRAME_ROWS, GAP_MS, last_time_by_source, sessions
from gapless.bench.windows_scale import Scale
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame

SHARE_MIN = 0.5
"""Of DuckDB's rate with every core."""

TOLD = ("n", "bytes")

OVER = f"""
    SELECT src, ts, any_value(n) AS n, any_value(bytes) AS bytes FROM (
        SELECT src, ts, count(*) OVER w AS n, sum(len) OVER w AS bytes FROM flows
        WINDOW w AS (PARTITION BY src ORDER BY ts
                     RANGE BETWEEN {RANGE_MS - 1} PRECEDING AND CURRENT ROW))
    GROUP BY src, ts"""  # noqa: S608  # numbers of ours
EVERY_ROW = f"""
    SELECT src, ts, count(*) OVER w AS n, sum(len) OVER w AS bytes FROM flows
    WINDOW w AS (PARTITION BY src ORDER BY ts
                 RANGE BETWEEN {RANGE_MS - 1} PRECEDING AND CURRENT ROW)"""  # noqa: S608  # numbers of ours
SESSION = f"""
    WITH marked AS (
        SELECT src, ts, len, coalesce(ts - lag(ts) OVER w > {GAP_MS}, true) AS begins FROM flows
        WINDOW w AS (PARTITION BY src ORDER BY ts)),
    numbered AS (
        SELECT src, ts, len, sum(begins::INTEGER) OVER (
            PARTITION BY src ORDER BY ts, begins DESC ROWS UNBOUNDED PRECEDING) AS session
        FROM marked)
    SELECT src, count(*) AS n, sum(len) AS bytes FROM numbered GROUP BY src, session"""  # noqa: S608  # numbers of ours
HOP = f"""
    WITH panes AS (
        SELECT src, ts // {SLIDE_MS} AS pane, count(*) AS n, sum(len) AS bytes FROM flows
        GROUP BY ALL)
    SELECT src, pane + step AS ends, sum(n) AS n, sum(bytes) AS bytes
    FROM panes, range(1, {RANGE_MS // SLIDE_MS + 1}) AS steps(step) GROUP BY ALL"""  # noqa: S608  # numbers of ours


class Peer(NamedTuple):
    """One kind of window, here and there."""

    query: Callable[[], Query]
    checked: str
    """Its answers in SQL, as ours are."""
    timed: str
    """What DuckDB's users would write."""


PEERS: Mapping[str, Peer] = MappingProxyType(
    {
        "OVER 10 s by src": Peer(last_time_by_source, OVER, EVERY_ROW),
        "session": Peer(sessions, SESSION, SESSION),
        "HOP": Peer(w1, HOP, HOP),
    }
)


def duckdb_peers(scale: Scale, plot_dir: Path | None) -> Iterator[Row]:
    """Of each window our rate over DuckDB's."""
    del plot_dir  # some figures make no curve
    if find_spec("duckdb") is None:
        return
    given = flows(scale.flows, generator())
    database = connected(given)
    for name, peer in PEERS.items():
        plan = Plan(peer.query())
        pushes = made(plan, {"flows": given}, FRAME_ROWS)
        check(name, watched(plan.compile(), pushes).outputs, database, peer.checked)
        ours = theirs = float("inf")
        for _ in range(scale.repeat_curve):
            ours = min(ours, seconds(plan.compile(), pushes))
            theirs = min(theirs, duckdb_seconds(database, peer.timed))
        yield Row(f"peers: {name}, DuckDB", rows_in(pushes) / theirs, "rows/s")
        yield Row(f"peers: {name}, ours / DuckDB", theirs / ours, "x", SHARE_MIN, ">=")


def connected(given: pa.RecordBatch) -> Any:
    """A database in memory that has the flows as a table of its own, and every core."""
    import duckdb

    with _every_core():  # its threads begin here
        database = duckdb.connect(config={"threads": os.cpu_count() or 1})
        database.register("given", pa.table(given))
        database.execute("CREATE TABLE flows AS SELECT ts, src, len FROM given")
    return database


@contextmanager
def _every_core() -> Iterator[None]:
    """While inside, this thread and those it starts have the cores that ours does not use, too."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def duckdb_seconds(database: Any, sql: str) -> float:
    """How long it takes until all answers are Arrow tables in memory."""
    with _every_core():
        start = time.perf_counter()
        database.sql(sql).to_arrow_table()
        return time.perf_counter() - start


def check(name: str, outputs: list[Frame], database: Any, sql: str) -> None:
    """Raises `Bug` unless there are as many answers as DuckDB has, with the same sums."""
    inserts = [frame if frame.insert_only else frame.inserts for frame in outputs]
    mine = [sum(map(len, inserts))]
    mine += [sum(int(np.sum(f.payload.column(c).to_numpy())) for f in inserts) for c in TOLD]
    told = f"SELECT count(*), sum(n)::HUGEINT, sum(bytes)::HUGEINT FROM ({sql})"  # noqa: S608  # SQL of ours
    right = [int(x) for x in database.execute(told).fetchall()[0]]
    if mine != right:
        raise Bug(f"{name}: answers, rows and bytes are {mine}, by DuckDB {right}")
