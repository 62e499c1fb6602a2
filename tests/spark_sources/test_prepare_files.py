"""What `prepare` knows, and refuses, before any Spark: files, columns, journals, the job's name."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import gapless as gl
from gapless.journal.disk import LocalDisk
from gapless.journal.layout import establish
from gapless.protocol.errors import GaplessError
from gapless.spark_sources.job import planned
from gapless.spark_sources.progress import share_done
from gapless.spark_sources.schema_guess import suggestion

TABLE = pa.table(
    {
        "ts": pa.array([1, 2], pa.timestamp("ms")),
        "src": pa.array([1, None], pa.int32()),
        "tags": [["a"], []],
    }
)
KEYED: dict[str, Any] = {"time": "ts", "key": "src", "partitions": 4, "lateness": "5s"}


@pytest.fixture
def flows(tmp_path: Path) -> Path:
    path = tmp_path / "f.parquet"
    parquet.write_table(TABLE.select(["ts", "src"]), path)
    return path


def refused(*arguments: Any, **options: Any) -> str:
    with pytest.raises(GaplessError) as raised:
        planned(*arguments, **{**KEYED, **options})
    return str(raised.value)


# -- files ----------------------------------------------------------------------------------------


def test_a_place_without_files_is_refused_and_says_what_there_is(tmp_path: Path) -> None:
    out = tmp_path / "j"
    assert "there is no file" in refused(tmp_path / "none.parquet", out)
    assert "no file is called" in refused(str(tmp_path / "*.parquet"), out)
    (tmp_path / "in").mkdir()
    assert "has no files that end in .parquet" in refused(tmp_path / "in", out)
    (tmp_path / "in" / "day=1").mkdir()
    assert "it has directories" in refused(tmp_path / "in", out)
    assert "name files" in refused("s3://bucket/flows.parquet", out)
    assert "no input" in refused([], out)


def test_files_of_one_format_are_prepared_together(flows: Path, tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text("ts,src\n")
    (tmp_path / "h.dat").write_bytes(flows.read_bytes())
    out = tmp_path / "j"
    assert "'parquet'" not in refused([flows, tmp_path / "g.csv"], out)
    assert "one format after the other" in refused([flows, tmp_path / "g.csv"], out)
    assert "--format says what it is" in refused(tmp_path / "h.dat", out)
    assert planned(tmp_path / "h.dat", out, format="parquet", **KEYED).files.rows == 2
    chosen = planned(tmp_path, out, format="parquet", **KEYED)
    assert chosen.files.paths == (str(flows),)


def test_files_arrive_in_the_order_of_their_names_each_once(flows: Path, tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / f"{name}.parquet").write_bytes(flows.read_bytes())
    job = planned([flows, tmp_path, str(tmp_path / "?.parquet")], tmp_path / "j", **KEYED)
    assert [Path(path).name for path in job.files.paths] == ["a.parquet", "b.parquet", "f.parquet"]
    assert job.files.rows == 6


def test_what_is_no_parquet_is_named(flows: Path, tmp_path: Path) -> None:
    torn = tmp_path / "torn.parquet"
    torn.write_bytes(flows.read_bytes()[:-20])
    assert "torn.parquet' is no Parquet" in refused([flows, torn], tmp_path / "j")
    torn.write_bytes(b"")
    assert "torn.parquet' is no Parquet" in refused([flows, torn], tmp_path / "j")


def test_files_that_differ_in_a_column_are_not_one_input(flows: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    parquet.write_table(TABLE.select(["ts"]), other)
    said = refused([flows, other], tmp_path / "j")
    assert "other.parquet' has no column 'src'" in said
    parquet.write_table(pa.table({"ts": TABLE["ts"], "src": ["a", "b"]}), other)
    said = refused([flows, other], tmp_path / "j")
    assert "column 'src' as string" in said
    assert "column 'src' as int32" in said
    schema = pa.schema({"ts": pa.timestamp("ms")})
    assert planned([flows, other], tmp_path / "j", time="ts", schema=schema).files.rows == 4


# -- columns --------------------------------------------------------------------------------------


def test_text_needs_a_schema_and_the_error_suggests_one(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("ts,src,net share\n2024-05-01 12:00:00,7,0.5\n")
    said = refused(path, tmp_path / "j")
    assert 'ts = "timestamp[ms]"\nsrc = "int64"\n"net share" = "double"\n' in said
    path = tmp_path / "f.jsonl"
    path.write_text('{"ts": "2024-05-01T12:00:00", "src": 7, "list": [1]}\n')
    assert suggestion(str(path), "jsonl") == (
        'ts = "timestamp[ms]"\nsrc = "int64"\nlist = "list<int64>"\n'
    )
    path.write_text("{")
    assert 'ts = "timestamp[ms]"' in refused(path, tmp_path / "j"), "else an example"


def test_csv_headers_name_the_columns(tmp_path: Path) -> None:
    schema = pa.schema({"ts": pa.timestamp("ms"), "src": pa.int32()})
    for name, text in {"a": "ts,src\n", "b": "src,ts\n", "c": ""}.items():
        (tmp_path / f"{name}.csv").write_text(text)
    a, b, c = (tmp_path / f"{name}.csv" for name in "abc")
    out = tmp_path / "j"
    assert "b.csv' begins with 'src,ts'" in refused([a, b], out, schema=schema)
    assert planned([a, c], out, schema=schema, **KEYED).files.header == "ts,src"
    assert "no CSV file has a header yet" in refused(c, out, schema=schema)
    (tmp_path / "a.csv").write_text("ts,len\n")
    assert "column 'src' of the schema is not in the files" in refused(a, out, schema=schema)
    (tmp_path / "a.csv").write_text("ts,src,ts\n")
    assert "a name twice" in refused(a, out, schema=schema)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"time": "at"}, "--time 'at' is none of the columns ts, src"),
        ({"time": None}, "is not a journal yet: --time"),
        ({"time": "src"}, "time 'src' is int32"),
        ({"time_unit": "us"}, "--time-unit us is for integers"),
        ({"key": "dst"}, "key column 'dst' is not there"),
        ({"key": ()}, "partitions need key="),
        ({"partitions": 2_000}, "partitions 2000: 1 to 1024"),
        ({"lateness": "-5s"}, "lateness '-5s'"),
        ({"lateness": timedelta(seconds=-1)}, "it is not negative"),
        ({"lateness": timedelta(microseconds=1)}, "not a whole number of ms"),
        ({"durability": "none"}, '"process" or "machine"'),
        ({"schema": Path("s.yaml")}, "its name is to end in .toml or .json"),
        ({"schema": Path("s.toml")}, "--schema 's.toml' does not read"),
        ({"schema": pa.schema({"at": pa.int64()})}, "'at' of the schema is not in the files"),
        ({"rules": Path("r.toml")}, "--rules 'r.toml' does not read"),
        ({"format": "orc"}, "format 'orc': one of parquet, csv, jsonl"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    options: dict[str, Any], said: str, flows: Path, tmp_path: Path
) -> None:
    assert said in refused(flows, tmp_path / "j", **options)
    assert not (tmp_path / "j").exists()


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pa.array([[1], [2]], pa.list_(pa.duration("ms"))), "list"),
        (pa.array([1, 2], pa.duration("ms")), "duration"),
        (pa.array([1, 2], pa.time32("ms")), "time32"),
    ],
)
def test_columns_that_no_stream_carries_are_to_be_left_out(
    column: pa.Array, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "f.parquet"
    parquet.write_table(pa.table({"ts": TABLE["ts"], "c": column}), path)
    refusal = refused(path, tmp_path / "j", key=(), partitions=1)
    assert said in refusal
    assert "--schema" in refusal
    planned(path, tmp_path / "j", time="ts", schema=pa.schema({"ts": pa.timestamp("ms")}))


# -- journals -------------------------------------------------------------------------------------


def test_a_journal_is_a_directory_of_its_own(flows: Path, tmp_path: Path) -> None:
    assert "POSIX" in refused(flows, "s3://bucket/j")
    assert "is a file" in refused(flows, flows)
    assert "not empty (it has 'f.parquet')" in refused(flows, tmp_path)
    (tmp_path / "j").mkdir()
    assert planned(flows, tmp_path / "j", **KEYED).is_new


def test_a_journal_that_is_there_says_what_it_is(flows: Path, tmp_path: Path) -> None:
    job = planned(flows, tmp_path / "j", **KEYED)
    establish(LocalDisk(job.out), job.layout, "test")
    again = planned(flows, tmp_path / "j")
    assert (again.layout, again.query, again.is_new) == (job.layout, job.query, False)
    assert "has partitions 4, not 8" in refused(flows, job.out, partitions=8)
    assert "lateness 5000, not 4000" in refused(flows, job.out, lateness="4s")
    frames = tmp_path / "frames"
    with gl.JournalWriter(frames, {"a": "int32"}):
        pass
    assert "frames" in refused(flows, frames)


# -- the job's name -------------------------------------------------------------------------------


def test_a_job_is_the_same_until_a_file_or_an_option_changes(flows: Path, tmp_path: Path) -> None:
    def query(**options: Any) -> str:
        return planned(flows, tmp_path / "j", **{**KEYED, **options}).query

    (tmp_path / "r.toml").write_text('[[rule]]\ndrop = "src = 1"\n')
    known = [
        query(),
        query(lateness="4s"),
        query(key=("src", "ts")),
        query(partitions=5),
        query(keep_order=True),
        query(rules=tmp_path / "r.toml"),
        query(schema=pa.schema({"ts": pa.timestamp("ms"), "src": pa.int64()})),
    ]
    assert len(set(known)) == len(known)
    assert query() == known[0]
    assert query(durability="machine", end=True) == known[0], "how safe, not what"
    os.utime(flows, ns=(0, 0))
    assert query() not in known


# -- progress -------------------------------------------------------------------------------------


def test_progress_is_the_share_of_the_tasks_of_the_stages_that_there_will_be() -> None:
    tasks = {1: (4, 4), 2: (8, 2), 3: (0, 0)}  # the third stage is not there yet
    tracker = SimpleNamespace(
        getJobIdsForGroup=lambda group: [7, 8, 9] if group == "ours" else [],
        getJobInfo=lambda job: None if job == 9 else SimpleNamespace(stageIds=[1, job - 5, 99]),
        getStageInfo=lambda stage: (
            SimpleNamespace(numTasks=tasks[stage][0], numCompletedTasks=tasks[stage][1])
            if stage in tasks
            else None
        ),
    )
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))
    assert share_done(spark, "ours", 2) == (4 / 4 + 2 / 8) / 2
    assert share_done(spark, "others", 2) == 0
    tasks[2] = (8, 8)
    assert share_done(spark, "ours", 1) == 1
