"""What users of other systems write, against DuckDB where both mean the same.

Windows are DuckDB's groups by `time_bucket`; a window ends where its answer begins to hold.
"""

from __future__ import annotations

import random

import duckdb
import pyarrow as pa
import pytest

import gapless as gl

SEED = 5
BEGIN_MS = 1_700_000_040_000
"""The beginning of a minute."""


def flows() -> pa.Table:
    rng = random.Random(SEED)
    times = sorted(BEGIN_MS + rng.randrange(300_000) for _ in range(200))
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("ms")),
            "src": pa.array([rng.choice((1, 2, 3, None)) for _ in times], pa.int32()),
            "len": pa.array([rng.choice((0, 7, 40, 1_500, None)) for _ in times], pa.int64()),
            "proto": [rng.choice(("tcp", "udp", "icmp")) for _ in times],
        }
    )


ROWS = flows()
FLOWS = gl.source("flows", ROWS.schema, time="ts")
WORDS = {
    "@per": "SELECT window_start AS w, src, count(*) AS n FROM @tumble GROUP BY window_start, src",
    "@tumble": "TUMBLE(flows, ts, INTERVAL '1' MINUTE)",
    "@bucket": "time_bucket(INTERVAL '1 minute', ts)",
}
"""What comes often."""
ASKED = {
    "SELECT window_start AS w, src, count(*) AS n, sum(len) AS s FROM @tumble"
    " GROUP BY window_start, window_end, src": (
        "SELECT @bucket AS w, src, count(*) AS n, sum(len) AS s FROM flows GROUP BY ALL"
    ),
    "SELECT window_start AS w, count(*) AS n FROM HOP(flows, ts, INTERVAL '1' MINUTE, INTERVAL '2'"
    " MINUTE) GROUP BY window_start": (
        "SELECT b - INTERVAL '1 minute' * i AS w, count(*) AS n FROM (SELECT @bucket AS b FROM"
        " flows), range(2) r(i) GROUP BY ALL"
    ),
    "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY w ORDER BY n DESC, src NULLS FIRST)"
    " AS r FROM (@per)) WHERE r <= 2": (
        "FROM (SELECT @bucket AS w, src, count(*) AS n FROM flows GROUP BY ALL) SELECT *,"
        " row_number() OVER (PARTITION BY w ORDER BY n DESC, src NULLS FIRST) AS r QUALIFY r <= 2"
    ),
    "SELECT window_start AS w, sum(CASE WHEN len <> 0 THEN 1000 / len ELSE 0 END) AS s,"
    " count(*) FILTER (WHERE len > 9 AND proto = 'tcp') AS big FROM @tumble"
    " GROUP BY window_start HAVING count(*) > 3": (
        "SELECT @bucket AS w, sum(CASE WHEN len <> 0 THEN 1000 / len ELSE 0 END) AS s, count(*)"
        " FILTER (WHERE len > 9 AND proto = 'tcp') AS big FROM flows GROUP BY w HAVING count(*) > 3"
    ),
    "SELECT ts, upper(proto) || '-' || CAST(src AS VARCHAR) AS p, substring(proto, 1, 2) AS s,"
    " EXTRACT(minute FROM ts) AS m, coalesce(len, -1) AS l FROM flows WHERE proto ~ 'c.?p'"
    " AND src NOT IN (3)": (
        "SELECT ts, upper(proto) || '-' || CAST(src AS VARCHAR) AS p, substring(proto, 1, 2) AS s,"
        " extract(minute FROM ts) AS m, coalesce(len, -1) AS l FROM flows WHERE"
        " regexp_matches(proto, 'c.?p') AND src NOT IN (3)"
    ),
    "SELECT src, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY src ORDER BY ts) AS r FROM"
    " flows) WHERE r = 1": (
        "SELECT src, ts FROM (SELECT *, row_number() OVER (PARTITION BY src ORDER BY ts) AS r FROM"
        " flows) WHERE r = 1"
    ),
    "SELECT window_start AS w, src, count(*) AS n FROM @tumble GROUP BY window_start, src"
    " HAVING n > 9 ORDER BY sum(len) DESC NULLS LAST, src NULLS FIRST LIMIT 2": (
        "FROM (SELECT @bucket AS w, src, count(*) AS n, sum(len) AS s FROM flows GROUP BY ALL"
        " HAVING n > 9) SELECT w, src, n QUALIFY row_number() OVER (PARTITION BY w ORDER BY s DESC"
        " NULLS LAST, src NULLS FIRST) <= 2"
    ),
    "SELECT DISTINCT proto, src FROM flows": "SELECT DISTINCT proto, src FROM flows",
    "SELECT ts, max(len) OVER (ORDER BY ts RANGE INTERVAL '10' SECOND PRECEDING) AS m FROM flows": (
        "SELECT ts, max(len) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '10 seconds' PRECEDING AND"
        " CURRENT ROW) AS m FROM flows"
    ),
    "SELECT a.ts, b.ts AS other FROM flows a JOIN flows2 b ON a.src = b.src AND b.ts BETWEEN a.ts"
    " - INTERVAL '2' SECOND AND a.ts": (
        "SELECT a.ts, b.ts AS other FROM flows a JOIN flows b ON a.src = b.src AND b.ts BETWEEN"
        " a.ts - INTERVAL '2 seconds' AND a.ts"
    ),
}


def whole(text: str) -> str:
    for word, meant in WORDS.items():
        text = text.replace(word, meant)
    return text


@pytest.mark.parametrize("text", ASKED)
def test_duckdb_says_the_same(text: str) -> None:
    other = gl.source("flows2", ROWS.schema, time="ts")
    query = gl.sql(whole(text), {"flows": FLOWS, "flows2": other})
    answer = gl.execute(query, dict.fromkeys(query.sources, ROWS)).to_arrow()
    with duckdb.connect() as db:
        db.register("flows", ROWS)
        wanted = db.sql(whole(ASKED[text])).to_arrow_table()
    found = answer.select(wanted.column_names).cast(wanted.schema)
    assert wanted.num_rows
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, wanted.to_pylist()))
