import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyarrow import csv, feather, parquet

import gapless as gl
from gapless.io import input_files as files
from gapless.io import parquet_sink, reject_file
from gapless.operators.aside import Aside
from tests.gapless.talkers import answer, flows, latest, talkers


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    rng = np.random.default_rng(1)
    ts = np.arange(20_000) * 5 - rng.integers(0, 1500, 20_000)
    src = [f"host{n}" for n in rng.integers(0, 20, 20_000)]
    columns: list[Any] = [
        pa.array(np.maximum(ts, 0)).cast(pa.timestamp("ms")),
        src,
        rng.integers(-9, 99, 20_000),
    ]
    return pa.table(columns, names=["ts", "src", "len"]).cast(flows.schema.payload)


# -- files ------------------------------------------------------------------------------------


def write_parquet(table: pa.Table, folder: Path) -> Path:
    parquet.write_table(table, folder / "flows.parquet", row_group_size=3000)
    return folder / "flows.parquet"


def write_arrow_file(table: pa.Table, folder: Path) -> Path:
    feather.write_feather(table, folder / "flows.feather", compression="uncompressed")
    return folder / "flows.feather"


def write_arrow_stream(table: pa.Table, folder: Path) -> Path:
    with pa.ipc.new_stream(folder / "flows.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=777)
    return folder / "flows.arrow"


def write_csv(table: pa.Table, folder: Path) -> Path:
    csv.write_csv(table.select(["len", "ts", "src"]), folder / "flows.csv")
    return folder / "flows.csv"


def write_json(table: pa.Table, folder: Path) -> Path:
    lines = (json.dumps({**row, "ts": row["ts"].isoformat()}) for row in table.to_pylist())
    (folder / "flows.jsonl").write_text("\n".join(lines))
    return folder / "flows.jsonl"


@pytest.mark.parametrize(
    "write", [write_parquet, write_arrow_file, write_arrow_stream, write_csv, write_json]
)
def test_a_file_gives_what_its_rows_give(
    rows: pa.Table, tmp_path: Path, write: Callable[[pa.Table, Path], Path]
) -> None:
    path = write(rows, tmp_path)
    wanted = answer(talkers, rows)
    assert len(wanted.events) > 300
    assert answer(talkers, path) == answer(talkers, str(path)) == wanted
    assert answer(talkers, {"flows": path}, frame_rows=100, implementation="wid") == wanted


def test_several_files_are_read_in_their_order_a_folder_in_that_of_names(
    rows: pa.Table, tmp_path: Path
) -> None:
    wanted = answer(talkers, rows)
    paths = []
    for i in range(4):
        (tmp_path / f"{i}").mkdir()
        part = write_parquet(rows.slice(i * 5000, 5000), tmp_path / f"{i}")
        paths.append(part.rename(tmp_path / f"part{i}.parquet"))
    (tmp_path / "_SUCCESS.csv").write_text("no rows")
    assert answer(talkers, paths) == wanted
    assert answer(talkers, tmp_path) == wanted
    assert answer(talkers, ds.dataset(paths)) == wanted
    assert answer(talkers.on_error("aside"), paths[::-1]) != wanted, "late rows are aside"


def test_only_the_columns_of_the_source_are_read(rows: pa.Table, tmp_path: Path) -> None:
    wide = rows.append_column("more", [[[1]] * 20_000])
    path = write_parquet(wide, tmp_path)
    [first, *_] = files.batches_of(path, flows.sources["flows"])
    assert isinstance(first, pa.RecordBatch)
    assert first.schema.names == ["ts", "src", "len"]
    assert answer(latest, ds.dataset(path)) == answer(latest, rows)


def test_a_parquet_file_is_never_in_memory_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "flows.parquet"
    rng = np.random.default_rng(1)
    with parquet.ParquetWriter(path, flows.schema.payload, compression="none") as writer:
        for start in range(0, 1_000_000, 50_000):
            ts = pa.array(np.arange(start, start + 50_000)).cast(pa.timestamp("ms"))
            src = pa.array(rng.integers(0, 10**9, 50_000)).cast(pa.string())
            lengths = pa.array(rng.integers(0, 99, 50_000), pa.int32())
            writer.write_batch(pa.record_batch([ts, src, lengths], schema=flows.schema.payload))
    before, most = pa.total_allocated_bytes(), 0
    for _ in gl.execute(flows.where(gl.col("len") > 5), path):
        most = max(most, pa.total_allocated_bytes() - before)
    assert path.stat().st_size > 20_000_000
    assert most < 8_000_000


def test_files_that_cannot_be_read_are_told_at_once(rows: pa.Table, tmp_path: Path) -> None:
    (tmp_path / "flows.txt").write_text("ts,src,len")
    (tmp_path / "empty").mkdir()
    for given, message in [
        (tmp_path / "nothing.parquet", "source flows: there is no file"),
        ([write_parquet(rows, tmp_path), tmp_path / "nothing.csv"], "there is no file"),
        (tmp_path / "flows.txt", r"ends in none of \.parquet, \.arrow"),
        (tmp_path / "empty", "has no files that end in"),
    ]:
        with pytest.raises(gl.Misuse, match=message):
            gl.execute(talkers, given)


def test_a_file_that_is_no_such_file_is_bad_data(tmp_path: Path) -> None:
    for name in ("flows.parquet", "flows.arrow", "flows.csv"):
        (tmp_path / name).write_text("x")
        error = gl.SchemaError if name.endswith(".csv") else gl.BadData
        with pytest.raises(error, match=f"source flows, file '.*{name}'"):
            list(gl.execute(talkers, tmp_path / name))


# -- running ----------------------------------------------------------------------------------


def test_busy_time_is_counted(rows: pa.Table) -> None:
    execution = gl.execute(talkers, rows)
    list(execution)
    assert [counter.name for counter in execution.counters] == [
        "where (len > 0)",
        "aggregate by src: packets=count(), bytes=sum(len) (paned)",
    ]
    assert all(counter.busy_ns > 0 for counter in execution.counters)
    assert execution.counters[0].rows_in == 20_000


def test_a_memory_limit_stops_a_query_before_the_machine_suffers(rows: pa.Table) -> None:
    with pytest.raises(gl.MemoryLimit, match="is in distinct"):
        list(gl.execute(flows.window("1h").distinct(), rows, memory_limit=1_500_000))


def test_a_plan_runs_as_it_was_chosen(rows: pa.Table) -> None:
    plan = gl.Plan(talkers, implementation={"packets": "wid"})
    execution = gl.execute(plan, rows)
    assert "(wid)" in execution.counters[1].name
    with pytest.raises(gl.Misuse, match="give the query instead"):
        gl.execute(plan, rows, implementation="paned")


def test_two_sources_are_joined_from_different_kinds_of_input(
    rows: pa.Table, tmp_path: Path
) -> None:
    hosts = gl.source("hosts", {"ts": "timestamp[ms]", "src": "string", "rack": "int8"}, time="ts")
    query = flows.window("5s").join(hosts.latest_by("src"), on="src").select("src", "rack", "len")

    def told() -> Iterator[pa.RecordBatch | gl.Punctuation]:
        names = [f"host{n}" for n in range(0, 20, 2)]
        columns = [pa.array([0] * 10, pa.timestamp("ms")), pa.array(names), pa.array(range(10))]
        yield pa.record_batch(columns, names=["ts", "src", "rack"])
        for t in range(0, 110_000, 1000):
            yield gl.Punctuation.of(ts=t)

    joined = answer(query, {"flows": write_parquet(rows, tmp_path), "hosts": told()})
    even = [name for name in rows["src"].to_pylist() if int(name[4:]) % 2 == 0]
    assert len(joined.events) == len(even)
    assert {(src, rack) for src, rack, _ in (e.payload for e in joined.events)} == {
        (f"host{n}", n // 2) for n in range(0, 20, 2)
    }


# -- answers ----------------------------------------------------------------------------------


def test_a_table_is_the_answer_at_a_time(rows: pa.Table) -> None:
    at = gl.table(talkers, rows, at=np.datetime64("1970-01-01T00:00:35"))
    ts = rows["ts"].cast(pa.int64()).to_numpy()
    kept = rows.filter(pa.array((ts >= 25_000) & (ts < 35_000))).filter(pa.compute.field("len") > 0)
    wanted = kept.group_by("src").aggregate([("len", "count"), ("len", "sum")]).sort_by("src")
    assert at.column("src").to_pylist() == wanted.column("src").to_pylist()
    assert at.column("packets").to_pylist() == wanted.column("len_count").to_pylist()
    assert at.column("bytes").to_pylist() == wanted.column("len_sum").to_pylist()
    assert gl.table(talkers, rows, at=36_000).equals(at)
    assert gl.table(talkers, rows, at=-5).num_rows == 0


def test_a_table_without_a_time_is_the_newest_answer(rows: pa.Table) -> None:
    newest = gl.table(talkers, rows)
    last = max(event.ve for event in answer(talkers, rows).events)
    assert newest.equals(gl.table(talkers, rows, at=last - 1))
    assert newest.num_rows == 20
    now = gl.table(latest, rows)
    assert sorted(now.column("src").to_pylist()) == sorted({*rows["src"].to_pylist()})


# -- results as files -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["talkers", "latest"])
def test_every_event_is_written_once_when_it_is_final(
    rows: pa.Table, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_sink, "GROUP_ROWS", 100)
    query = {"talkers": talkers, "latest": latest}[name]
    path = tmp_path / "out.parquet"
    count = gl.execute(query, rows).to_parquet(path, compression="zstd")
    written = parquet.read_table(path)
    wanted = sorted((e.vs, e.ve, *e.payload) for e in answer(query, rows).events)
    columns = [written.column(i).to_pylist() for i in range(written.num_columns)]
    assert sorted(zip(*columns, strict=True)) == wanted
    assert written.schema.names == ["_vs", "_ve", *query.schema.names]
    assert count == len(wanted)
    assert parquet.ParquetFile(path).num_row_groups > 3
    assert [p.name for p in tmp_path.iterdir()] == ["out.parquet"]


@pytest.mark.parametrize("name", ["talkers", "latest"])
def test_an_execution_is_the_table_that_its_file_would_hold(
    rows: pa.Table, tmp_path: Path, name: str
) -> None:
    query = {"talkers": talkers, "latest": latest}[name]
    gl.execute(query, rows).to_parquet(tmp_path / "out.parquet")
    written = parquet.read_table(tmp_path / "out.parquet")
    table = gl.execute(query, rows, frame_rows=700).to_arrow()
    order = [(column, "ascending") for column in written.schema.names]
    assert table.sort_by(order).equals(written.sort_by(order))
    assert table.schema.equals(written.schema, check_metadata=True)
    frame = gl.execute(query, rows).to_pandas().sort_values(written.schema.names)
    ends = written.sort_by(order).column("_ve").to_pylist()
    assert frame["_ve"].isna().tolist() == [end == gl.INF for end in ends]
    assert str(frame["_vs"].dtype) == "datetime64[ms]"


def test_an_execution_says_in_short_what_it_has_read(rows: pa.Table) -> None:
    execution = gl.execute(talkers, rows)
    assert repr(execution) == (
        "Execution(src, packets, bytes): 0 rows of flows read; final up to begin"
    )
    execution.to_arrow()
    assert repr(execution).endswith("20000 rows of flows read; final up to inf")
    assert "aggregate by src" in execution._repr_html_()
    with pytest.raises(gl.Misuse, match="to_pandas: frames have been read already"):
        execution.to_pandas()


def test_a_query_is_its_plan_in_a_notebook() -> None:
    for each in (talkers, gl.Plan(talkers)):
        html = each._repr_html_()
        assert html.startswith("<pre>aggregate by src")
        assert "(len &gt; 0)" in html


def test_where_a_run_fails_there_is_no_file(rows: pa.Table, tmp_path: Path) -> None:
    late = pa.concat_tables([rows, rows.slice(0, 1)])
    with pytest.raises(gl.RowError, match="late by"):
        gl.execute(talkers, late).to_parquet(tmp_path / "out.parquet")
    assert list(tmp_path.iterdir()) == []


def test_where_the_file_cannot_be_written_the_run_says_so(
    rows: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(parquet_sink, "GROUP_ROWS", 100)
    monkeypatch.setattr(parquet.ParquetWriter, "write_table", full)
    with pytest.raises(OSError, match="no space left"):
        gl.execute(talkers, rows, frame_rows=500).to_parquet(tmp_path / "out.parquet")
    assert list(tmp_path.iterdir()) == []


def test_a_slow_file_slows_the_engine_and_does_not_fill_the_memory(
    rows: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = []

    class Watched(Queue[Any]):
        def put(self, *args: Any, **options: Any) -> None:
            super().put(*args, **options)
            waiting.append((self.qsize(), self.maxsize))

    monkeypatch.setattr(parquet_sink, "GROUP_ROWS", 100)
    monkeypatch.setattr("gapless.io.parquet_sink.Queue", Watched)
    gl.execute(flows, rows, frame_rows=100).to_parquet(tmp_path / "out.parquet")
    assert len(waiting) > 100
    assert all(size <= most == parquet_sink.GROUPS_WAITING_MAX for size, most in waiting)


def test_what_has_been_read_already_is_not_written(rows: pa.Table, tmp_path: Path) -> None:
    execution = gl.execute(talkers, rows)
    next(execution)
    with pytest.raises(gl.Misuse, match="have been read already"):
        execution.to_parquet(tmp_path / "out.parquet")


def test_an_execution_that_gave_its_frames_away_leaves_a_written_file_alone(
    rows: pa.Table, tmp_path: Path
) -> None:
    path = tmp_path / "out.parquet"
    gl.execute(talkers, rows).to_parquet(path)
    written = path.read_bytes()
    closed, empty = gl.execute(talkers, rows), gl.execute(talkers, [])
    closed.close()
    assert next(empty).stable == gl.INF
    for execution in (closed, empty):
        with pytest.raises(gl.Misuse, match="execute the query again"):
            execution.to_parquet(path)
    assert path.read_bytes() == written


def test_only_a_file_is_replaced_by_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(gl.Misuse, match="exists and is not a file: name another path"):
            gl.execute(talkers, []).to_parquet(tmp_path / name)
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder", "pipe"]


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("", {}, "no file can have this name"),
        (None, {}, "no file can have this name"),
        ("x" * 5000, {}, "no file can have this name"),
        ("nowhere/out.parquet", {}, "there is no folder"),
        ("out.parquet", {"compression": "junk"}, "Unsupported compression: junk"),
        ("out.parquet", {"colour": 1}, "unexpected keyword argument 'colour'"),
    ],
)
def test_a_path_or_an_option_that_cannot_be_is_misuse_and_leaves_nothing(
    name: Any,
    options: dict[str, Any],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(gl.Misuse, match=sentence):
        gl.execute(talkers, []).to_parquet(name, **options)
    assert list(tmp_path.iterdir()) == []


# -- rows that are set aside ----------------------------------------------------------------------

KEPT = 5
LATE = flows.on_error("aside").where(gl.col("len") >= 0)


@pytest.fixture
def late(rows: pa.Table, monkeypatch: pytest.MonkeyPatch) -> pa.Table:
    """Rows of which 40 are late, and an engine that keeps 5."""
    monkeypatch.setattr(Aside.__init__, "__defaults__", ("stop", KEPT))
    return pa.concat_tables([rows, rows.slice(0, 40)])


def lines_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_table_comes_however_many_rows_are_set_aside_and_says_so(
    late: pa.Table, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = gl.table(LATE, late.slice(0, 20_000))
    assert gl.table(LATE, late) == wanted
    assert "40 rows were set aside, and count nowhere, the last in source flows: late by" in (
        caplog.text
    )
    assert "rejects=FILE keeps them" in caplog.text
    caplog.clear()
    assert gl.table(LATE, late, rejects=tmp_path / "r") == wanted
    assert f"see {tmp_path / 'r'}" in caplog.text


@pytest.mark.parametrize("run", ["to_arrow", "to_parquet", "frames"])
def test_rows_that_are_set_aside_go_to_a_file_in_every_way_to_run(
    run: str, late: pa.Table, tmp_path: Path
) -> None:
    execution = gl.execute(LATE, late, rejects=tmp_path / "rejects")
    if run == "to_parquet":
        execution.to_parquet(tmp_path / "x.parquet")
    elif run == "to_arrow":
        execution.to_arrow()
    else:
        list(execution)
    assert (execution.aside.count, execution.aside.lost, execution.aside.take()) == (40, 0, [])
    lines = lines_in(tmp_path / "rejects")
    assert [line["row"]["src"] for line in lines] == late["src"].to_pylist()[20_000:]
    assert {line["origin"] for line in lines} == {"source flows"}
    assert all(line["reason"].startswith("late by") for line in lines)


def test_without_a_file_the_first_are_kept_and_the_others_counted(late: pa.Table) -> None:
    execution = gl.execute(LATE, late)
    list(execution)
    assert (execution.aside.count, execution.aside.lost) == (40, 40 - KEPT)
    assert sum(of.rows.num_rows for of in execution.aside.take()) == KEPT


def test_a_parquet_file_has_its_rejects_beside_it_of_this_run_alone(
    late: pa.Table, tmp_path: Path
) -> None:
    path, beside = tmp_path / "x.parquet", tmp_path / "x.parquet.rejects.jsonl"
    written = gl.execute(LATE, late, frame_rows=KEPT).to_parquet(path)
    assert len(lines_in(beside)) == 40
    assert gl.execute(LATE, late.slice(0, 20_000)).to_parquet(path) == written
    assert not beside.exists()


def test_a_file_of_rejects_is_bounded_and_what_is_not_in_it_is_counted(
    late: pa.Table,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(reject_file, "FILE_BYTES_MAX", 1)
    execution = gl.execute(LATE, late, rejects=tmp_path / "r", frame_rows=KEPT)
    list(execution)
    assert (len(lines_in(tmp_path / "r")), execution.aside.count) == (KEPT, 40)
    assert caplog.text.count("are counted, and not kept in") == 1
    with pytest.raises(gl.Misuse, match="no file of rows can be there"):
        gl.execute(LATE, late, rejects=tmp_path)


def test_a_reject_file_that_cannot_be_written_ends_nothing(
    late: pa.Table, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert gl.table(LATE, late, rejects=tmp_path / "no" / "r").num_rows
    assert "are counted, and not kept in" in caplog.text


def test_a_line_that_is_no_row_is_a_bad_row_with_its_file_and_number(tmp_path: Path) -> None:
    path = tmp_path / "flows.csv"
    path.write_text("ts,src,len\n2024-05-01,NA,1\n2024-05-01,b,x\n2024-05-01,,3\n")
    with pytest.raises(gl.GaplessError, match=r"len: the value is no int32; .*flows.csv, line 3"):
        list(gl.execute(flows, path))
    execution = gl.execute(flows.on_error("aside"), path, rejects=tmp_path / "r")
    assert execution.to_arrow()["src"].to_pylist() == ["NA", None]
    [line] = lines_in(tmp_path / "r")
    assert line["reason"] == "len: the value is no int32"
    assert line["row"] == {"origin": "flows.csv, line 3", "line": "2024-05-01,b,x"}


def test_lines_may_be_in_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "flows.csv"
    path.write_bytes("ts,src,len\n2024-05-01,caf\xe9,1\n2024-05-01,caf\xe8,2\n".encode("latin-1"))
    read = gl.execute(flows.on_error("aside"), path)
    assert read.to_arrow().num_rows == 0
    assert [of.reason for of in read.aside.take()] == ["the line is no UTF-8 text"]
    names = gl.execute(flows, path, encoding="Latin-1").to_arrow()["src"].to_pylist()
    assert names == ["caf\xe9", "caf\xe8"]
    for encoding in ("utf-16", "nothing"):
        with pytest.raises(gl.Misuse, match=r"encoding '.*': utf-8, latin-1"):
            gl.execute(flows, path, encoding=encoding)
