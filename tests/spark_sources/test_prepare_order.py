"""`prepare --keep-order` and text files, with Spark, against Python that goes row by row."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from gapless.protocol.errors import BadData, GaplessError
from tests.gapless import doors
from tests.spark_sources.by_hand import commits_of, rejects_of
from tests.spark_sources.journal_rows import (
    Row,
    by_partition,
    late_ones,
    parted,
    rows_in,
    values_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from gapless.spark_sources.prepared import Prepared

pytestmark = pytest.mark.spark

Prepare = Callable[..., "Prepared"]
SPLIT_BYTES = 10_000
"""So small that the larger files have several splits, which Spark packs into tasks by their sizes:
each costs a tenth of a second."""
LATENESS = 40
SCHEMA = pa.schema([("ts", pa.timestamp("ms")), ("src", pa.int32()), ("name", pa.string())])
TOML = 'ts = "timestamp[ms]"\nsrc = "int32"\nname = "string"\n'


@pytest.fixture(scope="module")
def spark(shared_spark: SparkSession) -> Iterator[SparkSession]:
    from tests.spark_sources.sparks import session_of

    settings = {
        "spark.sql.files.maxPartitionBytes": str(SPLIT_BYTES),
        "spark.sql.files.openCostInBytes": "10",
        "spark.sql.files.minPartitionNum": "3",
    }
    with session_of(shared_spark, **settings) as session:
        yield session


@pytest.fixture
def prepare(spark: SparkSession) -> Prepare:
    from gapless.spark_sources import prepare as module

    return lambda *inputs, **options: module.prepare(spark, *inputs, **options)


def disordered(rows: int, start: int, seed: int) -> pa.Table:
    """Rows that go on in time, some of them a little back, a few far back."""
    rng = random.Random(seed)
    times = [start + i * 3 - rng.choice([0, 0, 0, 20, 39, 43, 200]) for i in range(rows)]
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("ms")),
            "src": pa.array([rng.randrange(12) for _ in range(rows)], pa.int32()),
            "name": pa.array([f"row {i}" for i in range(rows)]),
        }
    )


def put(table: pa.Table, path: Path) -> None:
    if path.suffix == ".parquet":
        plain: dict[str, Any] = {"compression": "none", "use_dictionary": False}  # as large as text
        parquet.write_table(table, path, row_group_size=100, data_page_size=500, **plain)
        return
    rows = table.to_pylist()
    for row in rows:
        row["ts"] = row["ts"].isoformat(sep=" ", timespec="milliseconds")
    text = io.StringIO()
    if ".csv" in path.suffixes:
        writer = csv.writer(text)
        writer.writerow(table.column_names)
        writer.writerows(row.values() for row in rows)
    else:
        text.writelines(json.dumps(row) + "\n" for row in rows)
    data = text.getvalue().encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def kept_and_late(table: pa.Table, is_bad: Callable[[Row], bool]) -> tuple[pa.Table, list[Row]]:
    rows = values_of(table)
    late = late_ones([None if is_bad(row) else row[0] for row in rows], LATENESS)
    keep = [not is_late and not is_bad(row) for row, is_late in zip(rows, late, strict=True)]
    return table.filter(pa.array(keep)), [
        r for r, is_late in zip(rows, late, strict=True) if is_late
    ]


# -- arrival --------------------------------------------------------------------------------------

SIZES = {"a": 900, "b": 60, "c": 400, "d": 2_000, "e": 1}
"""Rows of files: Spark begins with the largest, so its order is none of arrival."""


@pytest.mark.parametrize("end", ["parquet", "csv", "jsonl", "csv.gz"])
def test_rows_are_kept_and_judged_in_the_order_of_their_arrival(
    end: str, prepare: Prepare, tmp_path: Path
) -> None:
    whole = arrive(tmp_path / "in", end)
    rules = tmp_path / "r.toml"
    rules.write_text('[[rule]]\ndrop = "src = 5"\n[[rule]]\nreject = "src = 7"\nreason = "seven"\n')
    (tmp_path / "s.toml").write_text(TOML)
    done = prepare(
        tmp_path / "in",
        tmp_path / "j",
        time="ts",
        key="src",
        partitions=3,
        lateness=LATENESS,
        schema=tmp_path / "s.toml",
        rules=rules,
        keep_order=True,
    )
    kept, late = kept_and_late(whole, lambda row: row[1] in (5, 7))
    assert len(late) > 20
    assert by_partition(tmp_path / "j") == parted(kept, ["src"], 3)
    told = [line for line in rejects_of(tmp_path / "j") if line["reason"].startswith("late: ")]
    assert sorted((r["row"]["src"], r["row"]["name"]) for r in told) == sorted(r[1:] for r in late)
    assert done.late == len(late) == len(told)
    assert done.rejected == done.late + sum(row[1] == 7 for row in values_of(whole))
    assert done.dropped == sum(row[1] == 5 for row in values_of(whole))
    assert done.rows_in == len(whole)
    one = told[0]
    assert one["origin"].startswith(str(tmp_path / "in"))
    largest = max(row[0] for row in values_of(kept))
    assert commits_of(tmp_path / "j").head.stable == largest - LATENESS


def arrive(folder: Path, end: str) -> pa.Table:
    """Writes files; returns all rows in the order of their arrival."""
    folder.mkdir()
    tables, start = [], 10**9
    for seed, (name, rows) in enumerate(SIZES.items()):
        table = disordered(rows, start, seed)
        put(table, folder / f"{name}.{end}")
        tables.append(table)
        start += rows * 3
    return pa.concat_tables(tables)


def test_the_oracle_sees_splits_in_another_order(
    prepare: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gapless.spark_sources import arrival

    whole = arrive(tmp_path / "in", "csv")
    (tmp_path / "s.toml").write_text(TOML)
    options: dict[str, Any] = {
        "time": "ts", "key": "src", "partitions": 3, "lateness": LATENESS,
        "schema": tmp_path / "s.toml", "keep_order": True,
    }  # fmt: skip
    right = arrival._before_each
    kept, _ = kept_and_late(whole, lambda _: False)
    for i, broken in enumerate(
        (
            lambda splits: [
                (f, -block, n, before)
                for f, block, n, before in right([(f, -block, most) for f, block, most in splits])
            ],
            lambda splits: [(f, block, n, None) for f, block, n, _ in right(splits)],
        )
    ):
        monkeypatch.setattr(arrival, "_before_each", broken)
        with suppress(GaplessError):  # the journal's own check of promises may see it first
            prepare(tmp_path / "in", tmp_path / f"j{i}", **options)
            assert by_partition(tmp_path / f"j{i}") != parted(kept, ["src"], 3)


def test_the_journals_watermark_holds_for_what_arrives_later(
    prepare: Prepare, tmp_path: Path
) -> None:
    first, second = disordered(200, 10**9, 1), disordered(300, 10**9 + 400, 2)
    for name, table in (("a", first), ("b", second)):
        put(table, tmp_path / f"{name}.parquet")
        prepare(
            tmp_path / f"{name}.parquet", tmp_path / "j", time="ts", key="src", partitions=2,
            lateness=LATENESS, keep_order=True,
        )  # fmt: skip
    whole = pa.concat_tables([first, second])
    assert by_partition(tmp_path / "j") == parted(
        kept_and_late(whole, lambda _: False)[0], ["src"], 2
    )


# -- text -----------------------------------------------------------------------------------------

CSV = """ts,src,name,extra
2024-05-01 12:00:00,1,plain,x
2024-05-01T12:00:00.250Z,2,"a ""quoted"", name",x

2024-05-01 14:00:01+02:00,3,,x
2024-05-01 12:00:02,4,"not closed,x
and on",x
2024-05-01 12:00:03,5,too few
2024-05-01 12:00:04,6,too,many,x
2024-05-01 12:00:05,seven,name,x
noon,8,name,x
ts,src,name,extra
,9,name,x
2024-05-01 12:00:06,10,"",x
1714564806000,12,a count,x
2024-05-01 12:00:07,11,"last, not closed
"""

JSON = """{"ts": "2024-05-01 12:00:00", "src": 1, "name": "plain"}
{"src": 2, "ts": "2024-05-01T12:00:00.250Z", "more": [1, 2], "name": "é \\n \\"x\\""}

{"ts": 1714564801000, "src": 3}
{"ts": "2024-05-01 12:00:02", "src": 4.5, "name": "half"}
{"ts": "2024-05-01 12:00:03", "src": "5", "name": {"is": ["nested"]}}
{"ts": "2024-05-01 12:00:04", "src": 6} {"ts": "2024-05-01 12:00:04", "src": 7}
{"ts": "2024-05-01 12:00:04", "src": 6}, {"ts": "2024-05-01 12:00:04", "src": 7}
{"ts": "2024-05-01 12:00:05", "src": 99999999999}
not json
[1, 2]
null
{"src": 8}
{"ts": "2024-05-01 12:00:06", "src": 9
"""

NOON = 1_714_564_800_000


def prepared_text(prepare: Prepare, tmp_path: Path, name: str, text: str) -> Prepared:
    (tmp_path / name).write_text(text)
    (tmp_path / "s.toml").write_text(TOML)
    return prepare(tmp_path / name, tmp_path / "j", time="ts", schema=tmp_path / "s.toml")


def test_each_line_of_csv_is_a_row_or_says_why_not(prepare: Prepare, tmp_path: Path) -> None:
    done = prepared_text(prepare, tmp_path, "in.csv", CSV)
    assert rows_in(tmp_path / "j") == [
        (NOON, 1, "plain"),
        (NOON + 250, 2, 'a "quoted", name'),
        (NOON + 1_000, 3, None),
        (NOON + 6_000, 10, ""),
    ]
    told = {line["row"].split(",")[0][-8:]: line["reason"] for line in rejects_of(tmp_path / "j")}
    assert {line["origin"] for line in rejects_of(tmp_path / "j")} == {str(tmp_path / "in.csv")}
    assert told == {
        "12:00:02": "a quote in the line has no end: a row is one line",
        'and on"': "a quote in the line has no end: a row is one line",
        "12:00:03": "it has 3 values, the first line 4 names",
        "12:00:04": "it has 5 values, the first line 4 names",
        "12:00:05": "src: 'seven' is no int32",
        "noon": "ts: 'noon' is no timestamp[ms]",
        "": "ts is null: no time",
        "64806000": "ts: '1714564806000' is no timestamp[ms]",
        "12:00:07": "a quote in the line has no end: a row is one line",
    }
    assert (done.rows_in, done.rejected) == (13, 9)


def test_each_line_of_json_is_a_row_or_says_why_not(prepare: Prepare, tmp_path: Path) -> None:
    done = prepared_text(prepare, tmp_path, "in.jsonl", JSON)
    assert rows_in(tmp_path / "j") == [
        (NOON, 1, "plain"),
        (NOON + 250, 2, 'é \n "x"'),
    ]
    why = ["ts: 1714564801000 is no timestamp[ms]", "src: 4.5 is no int32", "src: '5' is no int32"]
    why += ["it has several values"] * 2
    why += ["src: 99999999999 is no int32", *["the line is no JSON object"] * 3]
    why += ["ts is null: no time", "the line is no JSON object"]
    expected = dict(zip(JSON.splitlines()[3:14], why, strict=True))
    assert {line["row"]: line["reason"] for line in rejects_of(tmp_path / "j")} == expected
    assert (done.rows_in, done.rejected) == (13, 11)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_rows_of_text_are_the_same_table_and_the_same_rejects_as_through_other_doors(
    kind: str, prepare: Prepare, tmp_path: Path
) -> None:
    path = doors.FILES[kind](doors.ODD, tmp_path)
    prepare(path, tmp_path / "j", time="ts", schema=doors.SCHEMA, ahead="none")
    got = doors.Outcome(doors.executed(tmp_path / "j").rows, doors.rejects_in(tmp_path / "j"))
    assert doors.comparable(got) == doors.comparable(doors.expected(doors.ODD))


def test_bytes_that_are_no_text_are_a_bad_line_and_other_encodings_are_read(
    prepare: Prepare, tmp_path: Path
) -> None:
    schema = pa.schema({"ts": pa.timestamp("ms"), "name": pa.string()})
    text = "ts,name\n2024-05-01,caf\xe9\n2024-05-01,caf\xe8\n2024-05-01,x\n"
    (tmp_path / "in.csv").write_bytes(text.encode("latin-1"))
    prepare(tmp_path / "in.csv", tmp_path / "j", time="ts", schema=schema)
    assert [name for _, name in rows_in(tmp_path / "j")] == ["x"]
    assert [line["reason"] for line in rejects_of(tmp_path / "j")] == (
        ["the line is no UTF-8 text"] * 2
    )
    given = {"time": "ts", "schema": schema, "encoding": "latin-1"}
    prepare(tmp_path / "in.csv", tmp_path / "k", **given)
    assert sorted(name for _, name in rows_in(tmp_path / "k")) == ["caf\xe8", "caf\xe9", "x"]


def test_columns_of_csv_go_by_their_names(prepare: Prepare, tmp_path: Path) -> None:
    text = "\ufeffname,src,ts\r\nx,1,2024-05-01 12:00:00\r\n"
    prepared_text(prepare, tmp_path, "in.csv", text)
    assert rows_in(tmp_path / "j") == [(NOON, 1, "x")]


def test_a_file_that_changes_while_it_is_prepared_is_no_journal(
    spark: SparkSession, tmp_path: Path
) -> None:
    from gapless.spark_sources.job import planned
    from gapless.spark_sources.prepare import run

    put(disordered(100, 10**9, 1), tmp_path / "f.parquet")
    job = planned(tmp_path / "f.parquet", tmp_path / "j", time="ts", key="src", partitions=2)
    (tmp_path / "f.parquet").unlink()
    with pytest.raises(BadData, match=r"f\.parquet"):
        run(spark, job)
    assert not (tmp_path / "j").exists()


# -- lists ----------------------------------------------------------------------------------------


def test_lists_come_out_of_parquet_and_json_and_one_that_does_not_fit_is_rejected(
    prepare: Prepare, tmp_path: Path
) -> None:
    toml = tmp_path / "s.toml"
    toml.write_text('ts = "int64"\ntags = "list<string>"\nn = "list<int16>"\n')
    tags = [["a", None], [], None, ["b"]]
    n = [[1, -7], None, [None], [70_000]]
    table = pa.table({"ts": [1, 2, 3, 4], "tags": tags, "n": n})
    parquet.write_table(table, tmp_path / "f.parquet")
    lines = map(json.dumps, table.to_pylist())
    (tmp_path / "f.jsonl").write_text("".join(f"{line}\n" for line in lines))
    for kind in ("parquet", "jsonl"):
        done = prepare(tmp_path / f"f.{kind}", tmp_path / kind, time="ts", schema=toml)
        assert (done.written, done.rejected) == (3, 1)
        assert rows_in(tmp_path / kind) == values_of(table.slice(0, 3))
        assert "n: " in rejects_of(tmp_path / kind)[0]["reason"]
    (tmp_path / "f.csv").write_text('ts,tags,n\n1,"[]","[]"\n')
    with pytest.raises(GaplessError, match=r"list<item: string>"):
        prepare(tmp_path / "f.csv", tmp_path / "k", time="ts", schema=toml)
