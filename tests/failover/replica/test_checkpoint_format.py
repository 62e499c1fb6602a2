"""A checkpoint's number says what the tables of operators look like: who lays any of them out
otherwise raises it, so that no release takes up what another one has meant.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import gapless as gl
from gapless.engine.graph import Graph
from gapless.engine.plan import Plan
from gapless.failover.replica import checkpoint
from gapless.protocol.frame import Frame
from tests.actors.random_jobs import KINDS, drawn

LAYOUTS = {2: "045dae77"}
"""By format, the digest of what is laid out below. It may change until a release goes out with that
number: put the new one here. After that raise `checkpoint.FORMAT`."""
COLUMNS = {"ts": "int64", "src": "int32", "len": "int32"}


def queries() -> Iterator[gl.Query]:
    """That have every operator with a state."""
    flows = gl.source("flows", COLUMNS, time="ts", time_unit="ms")
    pings = gl.source("pings", COLUMNS, time="ts", time_unit="ms").lifetime(duration=7)
    alive = flows.lifetime(duration=9)
    yield from (drawn(seed).way.query for seed in range(len(KINDS)))
    for window in (flows.window(range="all", slide=5), flows.window(range=10, slide=5)):
        grouped = window.group_by("src")
        yield grouped.aggregate(n=gl.count(), s=gl.sum("len"), most=gl.max("len"))
        yield grouped.aggregate(early=True, n=gl.count())
    yield alive.group_by("src").aggregate(n=gl.count(), mean=gl.mean("len"))
    yield alive.difference(pings)
    yield alive.union(pings).normalise()
    yield alive.join(pings.select("src", size=gl.col("len")), on="src", how="left")


def taken(graph: Graph) -> Iterator[str]:
    """The tables of a graph's snapshot, with their columns, once it has seen some rows."""
    times = np.arange(0, 60, 3, dtype=np.int64)
    for name, schema in graph.sources.items():
        columns = [pa.array(times % 4, field.type) for field in schema.payload]
        graph.push(name, Frame.from_columns(schema, times, times + 1, columns, stable=30))
    for name, table in sorted(graph.snapshot().items()):
        yield f"{name}: {table.schema.to_string(show_schema_metadata=False)}"


def digest() -> str:
    layouts = "\n\n".join("\n".join(taken(Plan(query).compile())) for query in queries())
    return f"{zlib.crc32(layouts.encode()):08x}"


def test_a_layout_that_is_another_has_another_number() -> None:
    now = digest()
    what = f"laid out otherwise: LAYOUTS[{checkpoint.FORMAT}] = {now!r}, or another FORMAT"
    assert LAYOUTS.get(checkpoint.FORMAT) == now, what


def test_a_table_that_gets_a_column_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest()
    snapshot = Graph.snapshot

    def wider(self: Graph) -> dict[str, pa.RecordBatch]:
        return {
            name: table.append_column("more", pa.nulls(len(table)))
            for name, table in snapshot(self).items()
        }

    monkeypatch.setattr(Graph, "snapshot", wider)
    assert digest() != before
