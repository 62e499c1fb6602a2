"""Schemas that are guessed fit the rows that they were guessed from, and are read back."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from gapless.protocol.errors import BadData
from gapless.protocol.schema_file import parse_schema_text
from gapless.spark_sources.schema_guess import likely_time, schema_file

CSV = "id,ts,src,a b\n1,2026-01-01T00:00:00Z,x,2.5\n2,2026-01-01T00:00:01Z,,3\n"
WANTED = """\
# The time is ts: prepare with --time ts. Rows looked at: 2.
id = "int64"
ts = "timestamp[ms, tz=UTC]"
src = "string"  # had null
"a b" = "double"
"""


def test_the_types_of_lines_are_guessed_and_what_had_null_is_marked(tmp_path: Path) -> None:
    path = tmp_path / "flows.csv"
    path.write_text(CSV)
    assert schema_file(str(path), "csv") == WANTED
    assert parse_schema_text(WANTED, "toml").names == ["id", "ts", "src", "a b"]
    lines = tmp_path / "flows.jsonl"
    lines.write_text('{"n": 1, "time": 5}\n{"time": 7}\n')
    assert schema_file(str(lines), "jsonl") == (
        "# The time is time: prepare with --time time. Rows looked at: 2.\n"
        'n = "int64"  # had null\ntime = "int64"\n'
    )


def test_a_parquet_file_says_its_types_and_which_columns_are_never_null(tmp_path: Path) -> None:
    path = tmp_path / "flows.parquet"
    fields = [
        pa.field("at", pa.timestamp("ms"), nullable=False),
        pa.field("n", pa.int16()),
        pa.field("seen", pa.timestamp("us")),
    ]
    parquet.write_table(pa.table([[1, 2], [None, 3], [5, 6]], schema=pa.schema(fields)), path)
    assert schema_file(str(path), "parquet") == (
        "# The time is at: prepare with --time at. Rows looked at: 2.\n"
        'at = "timestamp[ms] not null"\nn = "int16"  # had null\nseen = "timestamp[us]"\n'
    )


def test_the_time_is_a_timestamp_with_the_likeliest_name() -> None:
    stamp = pa.timestamp("s")
    assert likely_time(pa.schema({"seen": stamp, "ts": stamp, "time": pa.int64()})) == "ts"
    assert likely_time(pa.schema({"n": pa.int64(), "seen": stamp})) == "seen"
    assert likely_time(pa.schema({"n": pa.int64(), "name": pa.string()})) is None


def test_an_input_that_says_nothing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "flows.parquet"
    path.write_bytes(b"no parquet")
    with pytest.raises(BadData, match="does not read"):
        schema_file(str(path), "parquet")
