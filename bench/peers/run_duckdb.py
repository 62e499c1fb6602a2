"""DuckDB over the Parquet files, as one batch query: WORKLOAD FORMAT DATA OUT CORES."""

import json
import sys
import time

import duckdb

workload, _format, data, out, cores = sys.argv[1:]
flows, left, right = (f"read_parquet('{data}/{name}.parquet')" for name in ("flows", "a", "b"))
QUERIES = {
    # Panes of 1 s first, each then counted in its ten windows: three times as fast as exploding
    # every event into them.
    "w1": f"""
        WITH panes AS (
            SELECT ts // 1000 AS pane, src, count(*) AS cnt, sum(len) AS slen
            FROM {flows} GROUP BY ALL)
        SELECT (pane - i.i) * 1000 AS w, src, sum(cnt)::BIGINT AS cnt, sum(slen)::BIGINT AS slen
        FROM panes, range(10) i(i) GROUP BY ALL""",
    "w2": f"""
        SELECT ts // 1000 * 1000 AS w, src, count(*)::BIGINT AS cnt, sum(len)::BIGINT AS slen
        FROM {flows} GROUP BY ALL""",
    "w3": f"""
        SELECT a.id AS aid, b.id AS bid FROM {left} a JOIN {right} b
        ON a.key = b.key AND a.ts BETWEEN b.ts - 2000 AND b.ts + 2000""",
}

connection = duckdb.connect()
connection.execute(f"SET threads={cores}")
start = time.perf_counter()
connection.execute(f"COPY ({QUERIES[workload]}) TO '{out}/result.parquet' (FORMAT parquet)")
seconds = time.perf_counter() - start
sys.stdout.write(json.dumps({"seconds": seconds, "version": duckdb.__version__}) + "\n")
