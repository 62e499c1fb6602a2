"""Lines as Spark's workers parse them, without a Spark: what other doors say, row by row."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gapless.journal.reasons import kind_of
from gapless.protocol.errors import BadData, SchemaError
from gapless.spark_sources.conform import conformed
from gapless.spark_sources.texts import TEXT, WHY, Lines, field_of, lines_of, parsed
from tests.gapless import doors

HEADER = "ts,name"
SMALL = pa.schema({"ts": pa.timestamp("ms"), "name": pa.string()})


def fields_of(lines: list[bytes], what: Lines) -> dict[str, pa.Array]:
    column = pa.array(lines, pa.binary())
    made = parsed(column, pa.array(["f.csv"] * len(lines)), what)
    assert len(made) == len(lines)
    made.validate(full=True)
    return {field.name: made.field(i) for i, field in enumerate(made.type)}


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_lines_are_what_they_are_through_other_doors(kind: str, tmp_path: Path) -> None:
    data = doors.FILES[kind](doors.ODD, tmp_path).read_bytes()
    header = ",".join(doors.SCHEMA.names) if kind == "csv" else None
    lines = data.split(b"\n")[:-1][kind == "csv" :]
    got = fields_of(lines, lines_of(kind, doors.SCHEMA, header, "utf-8"))
    why = got[WHY].to_pylist()
    good = pa.array([reason is None for reason in why])
    columns = [
        conformed(got[field_of(i)].filter(good), field.type).column
        for i, field in enumerate(doors.SCHEMA)
    ]
    table = pa.table(columns, schema=doors.SCHEMA)
    no_time = table["ts"].is_null()
    bad = Counter(kind_of(reason) for reason in why if reason is not None)
    if any(no_time.to_pylist()):
        bad["ts is null: no time"] += sum(no_time.to_pylist())
    rows = doors.rows_of(table.filter(pa.compute.invert(no_time)))
    wanted = doors.expected(doors.ODD)
    assert doors.comparable(doors.Outcome(rows, bad)) == doors.comparable(wanted)
    texts = [text for text in got[TEXT].to_pylist() if text is not None]
    assert texts == [line.decode() for line, reason in zip(lines, why, strict=True) if reason]


def test_a_time_that_is_finer_than_sparks_says_so() -> None:
    schema = pa.schema({"ts": pa.timestamp("ns")})
    lines = [b"2024-05-01T00:00:00.000001", b"2024-05-01T00:00:00.000000001"]
    got = fields_of(lines, lines_of("csv", schema, "ts", "utf-8"))
    assert got[WHY].to_pylist() == [None, "ts: the value is no timestamp[us]"]
    assert got[field_of(0)].null_count == 1


@pytest.mark.parametrize(
    ("encoding", "line", "name", "why"),
    [
        ("utf-8", "2024-05-01,caf\xe9".encode(), "caf\xe9", None),
        ("utf-8", b"2024-05-01,caf\xe9", None, "the line is no UTF-8 text"),
        ("latin-1", b"2024-05-01,caf\xe9", "caf\xe9", None),
        ("windows-1252", b"2024-05-01,\x80", "\u20ac", None),
        ("windows-1252", b"2024-05-01,\x81", None, "the line is no WINDOWS-1252 text"),
    ],
)
def test_letters_are_those_of_the_encoding_and_no_others(
    encoding: str, line: bytes, name: str | None, why: str | None
) -> None:
    got = fields_of([line], lines_of("csv", SMALL, HEADER, encoding))
    assert [got[field_of(1)][0].as_py(), got[WHY][0].as_py()] == [name, why]


def test_a_file_with_its_columns_in_another_order_is_refused() -> None:
    what = lines_of("csv", SMALL, HEADER, "utf-8")
    for line in (b"name,ts", b"name,ts\r"):
        with pytest.raises(BadData, match=r"f\.csv has another header than ts,name"):
            fields_of([b"2024-05-01,a", line], what)
    assert fields_of([b"ts,tsnam"], what)[WHY].null_count == 0


def test_a_column_that_no_text_means_is_refused_before_spark_begins() -> None:
    nested: Any = pa.struct([("x", pa.int8())])
    with pytest.raises(SchemaError, match="no text means"):
        lines_of("csv", pa.schema({"ts": pa.timestamp("ms"), "at": nested}), "ts,at", "utf-8")
    lines_of("jsonl", pa.schema({"ts": pa.timestamp("ms"), "at": nested}), None, "utf-8")
