"""OVER, and aggregates of all rows so far, answer what DuckDB answers."""

from __future__ import annotations

import random

import duckdb
import pyarrow as pa
import pytest

import gapless as gl

COUNT = 60


def rows() -> pa.Table:
    """Rows of distinct times, in no order."""
    rng = random.Random(5)
    times = rng.sample(range(0, 100_000, 500), COUNT)
    return pa.table(
        {
            "ts": pa.array(times).cast(pa.timestamp("ms")),
            "src": pa.array([rng.choice("abc") for _ in times]),
            "len": pa.array([rng.choice((None, rng.randrange(99))) for _ in times], pa.int64()),
        }
    )


ROWS = rows()
FLOWS = gl.source("flows", ROWS.schema, time="ts")
FRAMES = [
    "PARTITION BY src ORDER BY ts",
    "PARTITION BY src ORDER BY ts ROWS BETWEEN 4 PRECEDING AND CURRENT ROW",
    "PARTITION BY src ORDER BY ts RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW",
    "PARTITION BY src ORDER BY ts ROWS UNBOUNDED PRECEDING",
]


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("aggregate", ["sum(len)", "count(*)", "max(len)", "count(len)"])
def test_each_row_is_answered_as_duckdb_does(frame: str, aggregate: str) -> None:
    text = f"SELECT src, ts, {aggregate} OVER ({frame}) AS x FROM flows"  # noqa: S608  # a test's
    ours = gl.execute(gl.sql(text, {"flows": FLOWS}), ROWS).to_arrow().select(["src", "ts", "x"])
    with duckdb.connect(":memory:", config={"threads": 1}) as db:
        db.register("flows", ROWS)
        theirs = db.execute(text).fetchall()
    assert sorted(map(tuple, (row.values() for row in ours.to_pylist())), key=repr) == sorted(
        theirs, key=repr
    )


def test_without_a_window_all_rows_so_far_count() -> None:
    text = (
        "SELECT src, count(*) AS n, sum(len) AS bytes FROM flows GROUP BY src HAVING count(*) > 1"
    )
    ours = gl.table(gl.sql(text, {"flows": FLOWS}), ROWS).to_pylist()
    with duckdb.connect(":memory:", config={"threads": 1}) as db:
        db.register("flows", ROWS)
        theirs = db.execute(text).fetchall()
    assert sorted(tuple(row.values()) for row in ours) == sorted(theirs)
