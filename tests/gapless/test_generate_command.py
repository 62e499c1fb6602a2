"""`gapless generate`: files that are whole or absent, the same bytes each time, one line."""

from __future__ import annotations

import errno
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import csv, parquet

import gapless as gl
from gapless.commands import terminal
from gapless.commands.generate_run import start_ms
from gapless.commands.options import count
from gapless.io.event_files import Destination
from gapless.io.event_formats import Counted, JsonLines
from gapless.io.parquet_sink import GROUP_ROWS
from gapless.journal.generate import Netflow, Nexmark
from gapless.protocol.errors import Misuse, RowError
from tests.gapless.command import Gapless

KINDS = ["netflow", "nexmark", "dhcp", "quotes"]
FORMATS = ["parquet", "csv", "jsonl", "arrow"]


def read(path: Path, schema: pa.Schema) -> pa.Table:
    """The rows of a file, in the columns' own types."""
    if path.suffix == ".parquet":
        return parquet.read_table(path)
    if path.suffix == ".arrow":
        return pa.ipc.open_file(path).read_all()
    if path.suffix == ".csv":
        options = csv.ConvertOptions(column_types=schema)
        return csv.read_csv(path, convert_options=options)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        for field in schema:
            if pa.types.is_timestamp(field.type):
                row[field.name] = datetime.fromisoformat(row[field.name])
    return pa.Table.from_pylist(rows, schema)


def write(destination: Destination, batches: Any, schema: pa.Schema, rows: int) -> None:
    with destination:
        for _ in destination.write("out", batches, schema, rows):
            pass


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# -- what is written ------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", FORMATS)
def test_a_file_holds_the_generators_rows(ending: str, gapless: Gapless, tmp_path: Path) -> None:
    path = tmp_path / f"bids.{ending}"
    outcome = gapless("generate", "nexmark", path, "--kind", "bid", "--events", "5k", "--seed", "7")
    assert (outcome.code, outcome.err) == (0, "")
    bids = Nexmark(kind="bid", events=5_000, seed=7)
    expected = pa.Table.from_batches(list(bids))
    assert read(path, bids.schema).cast(bids.schema).equals(expected)
    assert names(tmp_path) == [path.name]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ending", FORMATS)
def test_the_same_seed_gives_the_same_bytes(
    kind: str, ending: str, gapless: Gapless, tmp_path: Path
) -> None:
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        folder = tmp_path / name
        assert gapless(
            *("generate", kind, folder, "--events", "3k"), *("--seed", seed, "--format", ending)
        ).code == 0  # fmt: skip
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
        assert path.read_bytes() != (tmp_path / "c" / path.name).read_bytes()


@pytest.mark.parametrize("ending", FORMATS)
def test_a_file_is_the_same_however_its_rows_come(ending: str, tmp_path: Path) -> None:
    flows = Netflow(events=2 * GROUP_ROWS + 1_000)
    rows = pa.Table.from_batches(list(flows))
    for chunk in (7_919, 65_536, 10**9):
        path = tmp_path / f"{chunk}.{ending}"
        batches = rows.combine_chunks().to_batches(max_chunksize=chunk)
        write(Destination(str(path)), batches, flows.schema, len(rows))
    contents = {path.read_bytes() for path in tmp_path.iterdir()}
    assert len(contents) == 1


def test_rows_are_split_over_files_in_order_of_arrival(gapless: Gapless, tmp_path: Path) -> None:
    one, three = tmp_path / "one.parquet", tmp_path / "three"
    assert gapless("generate", "netflow", one, "--events", "10k").code == 0
    assert gapless("generate", "netflow", three, "--events", "10k", "--files", "3").code == 0
    parts = [three / f"out-0000{i}.parquet" for i in range(3)]
    assert names(three) == [part.name for part in parts]
    tables = [parquet.read_table(part) for part in parts]
    assert [len(table) for table in tables] == [3_333, 3_333, 3_334]
    assert pa.concat_tables(tables).equals(parquet.read_table(one))


def test_nexmark_writes_its_three_streams_into_a_folder(gapless: Gapless, tmp_path: Path) -> None:
    document = gapless("generate", "nexmark", tmp_path / "nx", "--events", "5k", "--json").document
    rows = {Path(file["path"]).name: file["rows"] for file in document["files"]}
    assert rows == {"persons.parquet": 100, "auctions.parquet": 300, "bids.parquet": 4_600}
    assert document["rows"] == 5_000
    bids = parquet.read_table(tmp_path / "nx" / "bids.parquet")
    persons = parquet.read_table(tmp_path / "nx" / "persons.parquet")
    known = pc.is_in(bids.column("bidder"), persons.column("id"))
    assert pc.mean(known.cast(pa.int8())).as_py() > 0.9, "except for some who are yet to come"


def test_a_stream_without_rows_is_a_file_without_rows(gapless: Gapless, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    document = gapless(
        *("generate", "nexmark", path, "--kind", "auction", "--events", "1", "--json")
    ).document
    assert (document["rows"], document["first"], document["last"]) == (0, None, None)
    assert parquet.read_table(path).num_rows == 0


def test_the_engine_reads_what_was_generated_and_no_row_is_late(
    gapless: Gapless, tmp_path: Path
) -> None:
    options = ["--events", "50k", "--lateness", "2s", "--disorder", "block", "--files", "2"]
    assert gapless("generate", "netflow", tmp_path / "flows", *options).code == 0

    def counted(lateness: str) -> int:
        types = {"ts": "timestamp[ms]", "src": "int32", "len": "int32"}
        flows = gl.source("flows", types, time="ts", lateness=lateness)
        counts = flows.window(range="1s", slide="1s").aggregate(flows=gl.count())
        frames = gl.execute(counts, str(tmp_path / "flows"))
        return sum(pc.sum(frame.batch.column("flows")).as_py() or 0 for frame in frames)

    assert counted("2s") == 50_000
    with pytest.raises(RowError, match="late by"):
        counted("1900ms")


# -- standard output ------------------------------------------------------------------------------


def test_rows_go_to_standard_output_and_the_line_to_standard_error(gapless: Gapless) -> None:
    outcome = gapless("generate", "quotes", "--events", "5")
    rows = [json.loads(line) for line in outcome.out.splitlines()]
    assert [list(row) for row in rows] == [["ts", "symbol", "bid", "ask", "size", "seq"]] * 5
    assert outcome.err.startswith("quotes: 5 rows, ")
    table = gapless("generate", "quotes", "-", "--events", "5", "--format", "csv").out
    assert table.splitlines()[0] == '"ts","symbol","bid","ask","size","seq"'
    assert len(table.splitlines()) == 6


def test_who_has_read_enough_may_go() -> None:
    program = "from gapless.cli import main; main()"
    command = [sys.executable, "-c", program, "generate", "netflow", "--events", "2M"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b'{"ts"')
        process.stdout.close()
        assert process.wait() == 0
        assert process.stderr.read() == b""


# -- what it says ---------------------------------------------------------------------------------


def test_it_ends_with_one_line(gapless: Gapless, tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    out = gapless("generate", "netflow", path, "--events", "1.5k", "--disorder", "none").out
    size = f"{path.stat().st_size:,}"
    assert re.fullmatch(
        rf"netflow: 1,500 rows, {size} bytes, 1 file, \d+\.\d\d s, "
        rf"2024-01-01T00:00:00\.000 to 2024-01-01T00:00:00\.149, {re.escape(str(path))}\n",
        out,
    )


def test_as_json_it_is_a_document(gapless: Gapless, tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    options = ["--events", "10", "--start", "2025-06-01T12:00:00+02:00", "--disorder", "none"]
    document = gapless("generate", "netflow", path, *options, "--json").document
    assert document.pop("seconds") >= 0
    size = path.stat().st_size
    assert document == {
        "kind": "netflow",
        "seed": 0,
        "rows": 10,
        "bytes": size,
        "first": "2025-06-01T10:00:00.000",
        "last": "2025-06-01T10:00:00.000",
        "format": "csv",
        "path": str(path),
        "files": [{"path": str(path), "rows": 10, "bytes": size}],
    }


def test_a_bar_is_shown_when_a_person_watches(
    gapless: Gapless, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "is_watched", lambda: True)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    outcome = gapless("generate", "netflow", tmp_path / "f.csv", "--events", "10", "--json")
    assert "generating netflow" in outcome.err
    assert outcome.document["rows"] == 10


# -- what it refuses ------------------------------------------------------------------------------


def test_what_is_there_stays_unless_overwrite_is_said(gapless: Gapless, tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("mine")
    refused = gapless("generate", "netflow", path, "--events", "10")
    assert refused.code == 2
    assert "exists: use --overwrite" in refused.err
    assert path.read_text() == "mine"
    assert gapless("generate", "netflow", path, "--events", "10", "--overwrite").code == 0
    assert len(path.read_text().splitlines()) == 11


def test_files_of_a_longer_run_do_not_stay_among_those_of_a_shorter(
    gapless: Gapless, tmp_path: Path
) -> None:
    folder = tmp_path / "flows"
    write = ["generate", "netflow", folder, "--events", "100"]
    assert gapless(*write, "--files", "4").code == 0
    (folder / "notes.csv").touch()
    assert gapless(*write, "--files", "2").code == 2
    assert gapless(*write, "--files", "2", "--format", "csv", "--overwrite").code == 0
    assert names(folder) == ["notes.csv", "out-00000.csv", "out-00001.csv"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["netflow", "x.txt"], "ends in none of .parquet, .csv"),
        (["netflow", "no/x.csv"], "there is no folder 'no': make it"),
        (["netflow", "a.csv", "--format", "jsonl"], "has the name of a csv"),
        (["netflow", "-", "--format", "arrow"], "standard output takes jsonl or csv, not arrow"),
        (["netflow", "d", "--format", "xml"], "one of arrow, csv, jsonl, parquet"),
        (["netflow", "a.csv", "--files", "2"], "2 files are in a folder"),
        (["netflow", "d", "--files", "10001"], "files 10001: give 1 to 10000"),
        (["netflow", "-", "--json"], "--json prints to standard output"),
        (["nexmark", "a.csv"], "persons, auctions, bids are files of a folder"),
        (["netflow", "--events", "0"], "events 0: it is from 1"),
        (["netflow", "--events", "lots"], "--events 'lots': write a whole number"),
        (["netflow", "--rate", "1.0001k"], "--rate '1.0001k': write a whole number"),
        (["netflow", "--start", "soon"], "--start 'soon': write a time"),
        (["netflow", "--lateness", "5"], "--lateness '5': write a text such as '10s'"),
        (["quotes", "--burst-factor", "0"], "burst factor 0: it is from 1 to 10000"),
        (["dhcp", "--lease", "1ms"], "lease 1: it is from 1000"),
    ],
)
def test_what_has_no_meaning_could_not_run_and_leaves_nothing(
    arguments: list[str],
    words: str,
    gapless: Gapless,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = gapless("generate", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert words in outcome.err
    assert outcome.err.count("\n") == 1
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "number"),
    [("200", 200), ("10k", 10_000), ("1.5M", 1_500_000), ("2G", 2 * 10**9), ("1.50k", 1_500)],
)
def test_numbers_are_read_as_people_write_them(text: str, number: int) -> None:
    assert count("--events", text) == number


def test_the_start_is_the_same_wherever_one_is() -> None:
    assert start_ms("1970-01-02") == start_ms("1970-01-02T01:00:00+01:00") == 86_400_000


# -- half files -----------------------------------------------------------------------------------


class Unlucky(Exception):
    pass


def stops_early(flows: Netflow) -> Iterator[pa.RecordBatch]:
    for number, batch in enumerate(flows):
        if number == 3:
            raise Unlucky
        yield batch


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.jsonl", "a.arrow", "folder"])
def test_where_something_goes_wrong_nothing_is_left(name: str, tmp_path: Path) -> None:
    flows = Netflow(events=500_000)
    destination = Destination(str(tmp_path / name))
    with pytest.raises(Unlucky):
        write(destination, stops_early(flows), flows.schema, flows.rows)
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.jsonl", "a.arrow"])
def test_a_full_disk_is_said_and_what_was_there_stays(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flows, path = Netflow(events=500_000), tmp_path / name
    path.write_text("mine")
    write_some: Callable[[Counted, Any], int] = Counted.write

    def write_until_full(self: Counted, data: Any) -> int:
        if self.bytes > 100_000 and self._file is not None:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_some(self, data)

    monkeypatch.setattr(Counted, "write", write_until_full)
    with pytest.raises(Misuse, match=r"cannot be written, and nothing is left of it: .*No space"):
        write(Destination(str(path), overwrite=True), flows, flows.schema, flows.rows)
    assert names(tmp_path) == [name]
    assert path.read_text() == "mine"


def test_files_appear_together(tmp_path: Path) -> None:
    flows = Netflow(events=500_000)
    with Destination(str(tmp_path / "d"), files=3) as destination:
        for _ in destination.write("out", flows, flows.schema, flows.rows):
            assert all(name.endswith(".part") for name in names(tmp_path / "d"))
    assert names(tmp_path / "d") == [f"out-0000{i}.parquet" for i in range(3)]


def test_a_writer_in_place_leaves_half_a_file_and_is_caught(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    flows = Netflow(events=500_000)

    def write_in_place() -> None:  # what a simpler sink would do
        with path.open("wb") as file:
            encoder = JsonLines(Counted(file), flows.schema)
            for batch in stops_early(flows):
                encoder.write(batch)

    with pytest.raises(Unlucky):
        write_in_place()
    assert names(tmp_path) == ["a.jsonl"], "half a file"


# -- JSON -----------------------------------------------------------------------------------------


def test_json_lines_are_what_python_would_write(tmp_path: Path) -> None:
    texts = ["plain", 'quo"te', "back\\slash", "new\nline", "\x00\x1f", "ü", "", None]
    schema = pa.schema([("a", pa.string()), ("b", pa.bool_()), ('odd"name', pa.int64())])
    columns = [pa.array(texts), pa.array([True, None] * 4), pa.array(range(8))]
    batch = pa.record_batch(columns, schema=schema)
    write(Destination(str(tmp_path / "a.jsonl")), [batch], schema, 8)
    lines = (tmp_path / "a.jsonl").read_text(encoding="utf-8").split("\n")
    assert [json.loads(line) for line in lines[:-1]] == batch.to_pylist()
    assert lines[-1] == ""


def test_what_json_cannot_say_is_refused(tmp_path: Path) -> None:
    batch = pa.record_batch({"a": [b"bytes"]})
    with pytest.raises(Misuse, match="column 'a': JSON lines have no form for binary"):
        write(Destination(str(tmp_path / "a.jsonl")), [batch], batch.schema, 1)
    assert names(tmp_path) == []


def test_an_output_without_a_name_or_with_one_too_long_is_refused(gapless: Gapless) -> None:
    for out, said in (("", "has no name"), ("x" * 300, "cannot be looked at")):
        outcome = gapless("generate", "quotes", out, "--events", "1")
        assert (outcome.code, said in outcome.err) == (2, True)


def test_a_standard_output_that_is_closed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(Misuse, match="standard output is closed"):
        Destination("-")


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize(
    ("type_", "count"),
    [
        (pa.timestamp("ms"), 1_700_000_000_000_000),  # microseconds, taken for milliseconds
        (pa.timestamp("s"), -(1 << 60)),
        (pa.date32(), 1 << 30),
        (pa.date64(), 86_400_000 << 30),
    ],
)
def test_a_time_that_texts_cannot_say_is_refused_and_not_replaced(
    type_: pa.DataType, count: int, kind: str, tmp_path: Path
) -> None:
    width = pa.int32() if type_ == pa.date32() else pa.int64()
    column = pa.array([0, None, count], width).view(type_)
    rows = pa.record_batch({"t": column})
    path = tmp_path / f"o.{kind}"
    with pytest.raises(gl.BadData, match=r"'t': -?\d+ as .* years from 1970"):
        write(Destination(str(path)), [rows], rows.schema, 3)
    assert not list(tmp_path.iterdir())
