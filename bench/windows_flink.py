"""Windows beside Flink, end to end: HOP, which is W1, and sessions.

    gapless bench windows --only peers --with-peers

Files go in and files come out, as in the engine bench (`engine_peers.py`): ours has one core and
Parquet on both sides, Flink all cores, and the faster one of CSV and Arrow. The first result of
each is compared with ours, row by row.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType

from gapless.bench.engine_peers import Entry, best_seconds
from gapless.bench.harness import Context, Row
from gapless.bench.peers import workload
from gapless.bench.peers.environments import Environments, work_dir
from gapless.bench.windows_scale import Scale

OVER_FLINK_MIN = 10.0
WINDOWS = MappingProxyType({"HOP": "w1", "session": "session"})
JOINED_ROWS = 1_000
"""Of the tables to join, which nobody reads here."""


def flink_peers(scale: Scale, context: Context) -> Iterator[Row]:
    """Of each window our rate over Flink's."""
    root = work_dir()
    environments = Environments(root, context.say)
    for engine in ("duckdb", "flink"):  # DuckDB compares
        environments.python(engine)
    data = workload.files(root, scale.flows, JOINED_ROWS, context.say)
    for name, each in WINDOWS.items():
        ours = Entry("gapless", each, "parquet")
        theirs = [Entry("flink", each, form) for form in ("csv", "arrow")]
        best = best_seconds([ours, *theirs], environments, data, context)
        fastest = min(best[entry] for entry in theirs)
        yield Row(f"peers: {name}, Flink", scale.flows / fastest, "rows/s")
        yield Row(f"peers: {name}, ours / Flink", fastest / best[ours], "x", OVER_FLINK_MIN, ">=")
