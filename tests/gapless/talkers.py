"""Two queries over flows, and the answer of a run of one: what tests of `gapless.execute` share."""

from __future__ import annotations

from typing import Any

import gapless as gl

COLUMNS = {"ts": "timestamp[ms]", "src": "string", "len": "int32"}

flows = gl.source("flows", COLUMNS, time="ts", lateness="2s")
talkers = (
    flows.where(gl.col("len") > 0)
    .window(range="10s", slide="5s")
    .group_by("src")
    .aggregate(packets=gl.count(), bytes=gl.sum("len"))
)
latest = flows.latest_by("src").select("src", "len")


def answer(query: gl.Query, inputs: Any, **options: Any) -> gl.Tdb:
    """The table that a run over all of the input ends with."""
    execution = gl.execute(query, inputs, **options)
    table = gl.Tdb(execution.schema)
    for frame in execution:
        table.fold(frame)
    assert execution.stable == gl.INF
    return table
