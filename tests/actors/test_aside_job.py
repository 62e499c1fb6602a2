"""A whole job on real Ray some of whose rows its query cannot process: all else is as usual."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import gapless as gl
from tests.actors.rays import (
    BATCH_ROWS,
    SCHEMA,
    Feed,
    batch,
    end,
    follow,
    goes_on,
    judged,
    replaced,
    started,
    until,
    wait_whole,
)

pytestmark = [pytest.mark.ray, pytest.mark.cluster]

BAD_SRC = 7


def share(src: pa.Array) -> pa.Array:
    """What a person writes: it raises for the whole frame."""
    return pa.array([100 // (each - BAD_SRC) for each in src.to_pylist()])


def a_query(*, leaves_out: bool = False) -> gl.Query:
    """Counts rows and a share, which one source has none of; `leaves_out`: those are left out."""
    flows = gl.source("flows", SCHEMA, time="ts", lateness="1s")
    if leaves_out:
        flows = flows.where(gl.col("src") != BAD_SRC)
    shared = flows.map(share=gl.function(share, "src", returns="int64"))
    grouped = shared.window(range="1s", slide="200ms").group_by("src")
    return grouped.aggregate(packets=gl.count(), most=gl.max("share")).on_error("aside")


def kept(path: Path) -> list[str]:
    """The times of the rows of a file of rejects."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert all("ZeroDivisionError" in line["reason"] for line in lines)
    assert {line["row"]["src"] for line in lines} == {BAD_SRC}
    return sorted(str(line["row"]["_vs"]) for line in lines)


def bad_rows(batches: int) -> list[str]:
    """Those that were written, by the batches of the feed."""
    found = []
    for number in range(batches):
        rows = batch(number)
        columns = (rows.column("ts").cast("int64"), rows.column("src"))
        pairs = zip(*(column.to_pylist() for column in columns), strict=True)
        found += [str(ts) for ts, src in pairs if src == BAD_SRC]
    return sorted(found)


def test_rows_that_cannot_be_processed_are_the_same_in_each_replica_and_cost_no_other(
    tmp_path: Path,
) -> None:
    with started(), Feed(tmp_path / "flows") as feed:
        job = gl.launch(
            a_query(),
            journal=feed.path,
            dir=tmp_path / "job",
            replicas=2,
            mergers=1,
            checkpoint_s=1,
        )
        wait_whole(job)
        recording = follow(job, start="earliest")
        replaced(job, "r0.1")
        goes_on(recording)
        feed.stop()
        judged(job, [recording])
        view = job.status()
        said = [alarm.what for alarm in view.alarms if "set aside" in alarm.what]
        assert any("rejects/r0.0.jsonl" in what and "ZeroDivisionError" in what for what in said)
        counts = {slot.slot: slot.aside_rows for slot in view.state.slots if slot.slot[0] == "r"}
        assert all(count > BATCH_ROWS / 20 for count in counts.values()), counts
        until(lambda: job.table(at_end(feed)) == expected(feed), "the table is that of the others")
        end(job)
        written = bad_rows(feed.batches)
        assert kept(tmp_path / "job/rejects/r0.0.jsonl") == written, "each once"
        struck = kept(tmp_path / "job/rejects/r0.1.jsonl")
        assert set(struck) <= set(written), "not what lies before the state that a life began with"
        assert max(map(int, struck)) == max(map(int, written))


def at_end(feed: Feed) -> int:
    """A time of which all is known."""
    return (feed.stable - 1_000) // 200 * 200


def expected(feed: Feed) -> pa.Table:
    """What the query says that leaves the bad rows out from the beginning."""
    return gl.table(a_query(leaves_out=True), feed.path, at_end(feed))
