"""Expressions mean what they mean in DuckDB, nulls included."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import gapless as gl

ROWS = pa.table(
    {
        "ts": pa.array([f"2024-05-01 12:30:0{s}" for s in range(6)]).cast(pa.timestamp("us")),
        "a": pa.array([7, -7, 0, None, 3, 12], pa.int64()),
        "b": pa.array([2, 2, 5, 4, None, -5], pa.int64()),
        "s": pa.array([" Tcp ", "udp", "", None, "t%p", "ICMP"], pa.string()),
        "f": pa.array([True, False, None, True, False, None], pa.bool_()),
    }
)
FLOWS = gl.source("flows", ROWS.schema, time="ts")
EXPRESSIONS = [
    "a + b * 2 - 1",
    "-a",
    "a / b",
    "a % b",
    "mod(a, 5)",
    "a * 1.5",
    "a = b OR a < b AND NOT f",
    "a <> 7",
    "a BETWEEN 0 AND b",
    "a NOT BETWEEN 0 AND 5",
    "a IN (7, 3)",
    "a NOT IN (7, 3)",
    "NOT (a IN (7, 3))",
    "a IN (7, 3) IS NULL",
    "a IS NULL",
    "a IS NOT NULL",
    "f IS TRUE",
    "f IS NOT TRUE",
    "f IS FALSE",
    "a IS DISTINCT FROM b",
    "a IS NOT DISTINCT FROM b",
    "s LIKE 't%'",
    "s NOT LIKE '%p'",
    "s ILIKE '%TCP%'",
    "s || '-' || CAST(a AS VARCHAR)",
    "concat(s, '-', s)",
    "lower(s)",
    "upper(trim(s))",
    "trim(LEADING ' ' FROM s)",
    "trim(BOTH 'tp' FROM s)",
    "rtrim(s)",
    "substring(s FROM 2 FOR 2)",
    "substring(s, 2)",
    "left(s, 2)",
    "position('p' IN s)",
    "replace(s, 'p', 'q')",
    "length(s)",
    "CASE WHEN a > 5 THEN 'many' WHEN a > 0 THEN 'few' END",
    "CASE WHEN f THEN 1 ELSE 2 END",
    "CASE a WHEN 7 THEN 'seven' WHEN 3 THEN 'three' ELSE 'other' END",
    "coalesce(a, b, 0)",
    "nullif(a, 7)",
    "greatest(a, b)",
    "abs(a)",
    "CAST(a AS DOUBLE)",
    "a::SMALLINT",
    "TRY_CAST(s AS INT)",
    "EXTRACT(second FROM ts)",
    "EXTRACT(hour FROM ts)",
    "EXTRACT(dow FROM ts)",
    "date_trunc('minute', ts)",
    "ts + INTERVAL '90' SECOND",
    "ts - INTERVAL '2 hours'",
    "ts >= TIMESTAMP '2024-05-01 12:30:03'",
    "(a + 1) * (b - 1)",
    "power(a, 2)",
]


@pytest.fixture(scope="module")
def db() -> duckdb.DuckDBPyConnection:
    made = duckdb.connect(":memory:", config={"threads": 1})
    made.register("flows", ROWS)
    return made


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_duckdb_says_the_same(text: str, db: duckdb.DuckDBPyConnection) -> None:
    query = f"SELECT ts, {text} AS x FROM flows"  # noqa: S608  # a test's own
    ours = gl.execute(gl.sql(query, {"flows": FLOWS}), ROWS).to_arrow().column("x").to_pylist()
    theirs = db.execute(f"{query} ORDER BY ts").fetchall()
    assert ours == [float(x) if _is_exact(x) else x for _, x in theirs]


def _is_exact(value: object) -> bool:
    """A decimal, where we compute in float64."""
    return type(value).__name__ == "Decimal"


@pytest.mark.parametrize("text", ["a IN (7, 3)", "a NOT IN (7, 3)", "f", "NOT f", "s LIKE 't%'"])
def test_where_keeps_the_same_rows(text: str, db: duckdb.DuckDBPyConnection) -> None:
    query = f"SELECT ts FROM flows WHERE {text}"  # noqa: S608  # a test's own
    ours = gl.execute(gl.sql(query, {"flows": FLOWS}), ROWS).to_arrow().column("ts").to_pylist()
    assert ours == [ts for (ts,) in db.execute(f"{query} ORDER BY ts").fetchall()]
