"""Whether two engines gave the same table: COLUMNS-OF-OURS OURS COLUMNS-OF-THEIRS THEIRS.

OURS and THEIRS are what DuckDB reads from, COLUMNS what it selects; as many rows, the same checksum
and, row by row, the same rows. Runs where DuckDB is.
"""

import json
import sys

import duckdb

connection = duckdb.connect()
columns_of_ours, ours, columns_of_theirs, theirs = sys.argv[1:]
report: dict[str, object] = {}
for name, columns, source in (
    ("ours", columns_of_ours, ours),
    ("theirs", columns_of_theirs, theirs),
):
    connection.execute(f"CREATE TABLE {name} AS SELECT {columns} FROM {source}")
    sums = f"SELECT count(*), sum(hash({name})::HUGEINT)::VARCHAR FROM {name}"
    found = connection.execute(sums).fetchone()
    report[f"{name}_rows"], report[f"{name}_checksum"] = found or (0, "")
for name, a, b in (("missing", "ours", "theirs"), ("extra", "theirs", "ours")):
    only = f"SELECT count(*) FROM (FROM {a} EXCEPT ALL FROM {b})"
    found = connection.execute(only).fetchone()
    report[name] = found[0] if found else 0
sys.stdout.write(json.dumps(report) + "\n")
