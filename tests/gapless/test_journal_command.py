"""`gapless journal`: what people and programs are told about a journal, and what it does to one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import gapless as gl
from gapless.commands import journal as commands
from gapless.commands import terminal
from gapless.commands.options import size_of
from gapless.journal.disk import LocalDisk
from gapless.journal.layout import Layout
from gapless.journal.readers import register, registered
from gapless.journal.verify import Verifier
from gapless.journal.walk import Finding
from gapless.journal.writer import Writer
from gapless.protocol.errors import JournalError, Misuse
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from tests.gapless.command import Gapless

SCHEMA = StreamSchema({"ts": "timestamp[ms]", "src": "int32", "n": "int64"})
START = 1_714_521_600_000  # 2024-05-01T00:00:00


def batch(first: int, rows: int = 100) -> pa.RecordBatch:
    n = np.arange(first, first + rows, dtype=np.int64)
    columns = [pa.array(START + n * 1000).view(pa.timestamp("ms")), pa.array(n % 7, pa.int32()), n]
    return pa.RecordBatch.from_arrays([pa.array(c) for c in columns], schema=SCHEMA.payload)


def writer(path: Path, **options: Any) -> Writer:
    shape = options.pop("shape", Layout(SCHEMA, "ts", ("src",), 3, 5_000))
    return Writer(
        LocalDisk(path),
        shape,
        who="a test",
        token="t",
        now_ms=lambda: START,
        segment_bytes=5_000,
        **options,
    )


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """Where there is no journal yet."""
    return tmp_path / "j"


@pytest.fixture
def out(empty: Path) -> Writer:
    """1,000 rows, a second apart, 100 of them live, and three that are late."""
    out = writer(empty)
    for first in range(0, 900, 100):
        out.append(batch(first))
    out.seal()
    out._segment_bytes = 1 << 20
    out.append(batch(900))
    out.append(batch(0, 3))
    return out


@pytest.fixture
def path(out: Writer, empty: Path) -> Path:
    """The journal that it has written."""
    assert (out.rows, out.rejected) == (1_000, 3)
    return empty


# -- show -----------------------------------------------------------------------------------------


def test_show_says_what_is_there(gapless: Gapless, path: Path, out: Writer) -> None:
    register(LocalDisk(path), "billing", {0: 10, 1: 20, 2: 30}, START)
    d = gapless("journal", "show", path, "--json").document
    assert (d["holds"], d["rows"], d["partitions"], d["key"]) == ("rows", 1_000, 3, ["src"])
    assert (d["first"], d["last"]) == ("2024-05-01T00:00:00.000", "2024-05-01T00:16:39.000")
    assert d["watermark"] == "2024-05-01T00:16:34.000"
    assert d["live"]["rows"] == 100
    assert d["live"]["bytes"] == out._tally.bytes
    assert sum(p["rows"] for p in d["by_partition"]) == 1_000
    assert (d["writer"], d["epoch"], d["ended"]) == ("a test", 1, False)
    assert d["segments"] == len(LocalDisk(path).list("segments")) - 1
    assert d["readers"][0]["behind_rows"] == 1_000 - 60
    shown = gapless("journal", "show", path).out
    for text in ("1,000 rows from 2024-05-01", "time ts, key src, lateness 5 s", "billing", "940"):
        assert text in shown


def test_times_that_are_counts_are_shown_as_counts(gapless: Gapless, empty: Path) -> None:
    schema = StreamSchema({"at": "int64"})
    with_counts = writer(empty, shape=Layout(schema, "at"))
    with_counts.append(pa.record_batch({"at": [5, 7]}))
    document = gapless("journal", "show", empty, "--json").document
    assert (document["first"], document["last"], document["watermark"]) == (5, 7, 7)
    with_counts.end()
    assert "it has ended" in gapless("journal", "show", empty).out


def test_a_journal_without_rows_is_shown(gapless: Gapless, empty: Path) -> None:
    writer(empty)
    d = gapless("journal", "show", empty, "--json").document
    assert (d["rows"], d["first"], d["watermark"], d["segments"]) == (0, None, None, 0)
    assert "0 rows; watermark -" in gapless("journal", "show", empty).out


@pytest.mark.parametrize("command", ["show", "verify", "export", "trim"])
def test_what_is_no_journal_could_not_be_looked_at(
    command: str, gapless: Gapless, tmp_path: Path
) -> None:
    more: Sequence[str] = {"export": [str(tmp_path / "o.parquet")], "trim": ["--read"]}.get(
        command, []
    )
    outcome = gapless("journal", command, tmp_path, *more)
    assert outcome.code == 2
    assert "is not a journal" in outcome.err
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / ("x" * 300)):
        outcome = gapless("journal", command, path, *more)
        assert outcome.code == 2
        assert "is not a journal that can be read" in outcome.err


# -- verify ---------------------------------------------------------------------------------------


def test_a_whole_journal_verifies_with_its_counts(gapless: Gapless, path: Path) -> None:
    outcome = gapless("journal", "verify", path)
    assert outcome.code == 0
    assert "all is well" in outcome.out
    assert "1,000 rows" in outcome.out
    document = gapless("journal", "verify", path, "--json").document
    assert (document["rows"], document["findings"]) == (1_000, [])


def test_damage_is_a_problem_that_was_found(gapless: Gapless, path: Path) -> None:
    segments = sorted((path / "segments").iterdir())
    data = bytearray(segments[1].read_bytes())
    data[-70] ^= 1
    segments[1].write_bytes(data)
    segments[2].unlink()
    outcome = gapless("journal", "verify", path)
    assert outcome.code == 1
    assert f"damage   segments/{segments[1].name} at byte" in outcome.out
    assert f"damage   segments/{segments[2].name}: it is missing" in outcome.out
    findings = gapless("journal", "verify", path, "--json").document["findings"]
    assert {f["file"] for f in findings} == {f"segments/{s.name}" for s in segments[1:3]}
    (path / "layout").write_bytes(b"x")
    assert gapless("journal", "verify", path).code == 1


def test_what_is_left_over_is_no_problem(gapless: Gapless, path: Path) -> None:
    (path / "segments" / "0000000000-x-000000").write_bytes(b"left over")
    outcome = gapless("journal", "verify", path)
    assert outcome.code == 0
    assert "note     segments/0000000000-x-000000: 9 bytes that no commit names" in outcome.out


def test_of_many_findings_the_first_of_each_severity_are_shown_and_the_rest_counted(
    gapless: Gapless, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(150):
        (path / "segments" / f"0000000000-x-{i:06}").write_bytes(b"")
    assert "note     and 50 more: see --json" in gapless("journal", "verify", path).out
    document = gapless("journal", "verify", path, "--json").document
    assert (len(document["findings"]), document["more_findings"]) == (150, {})
    sorted((path / "segments").iterdir())[-2].unlink()
    monkeypatch.setattr(commands, "FINDINGS_KEPT_MAX", 120)
    document = gapless("journal", "verify", path, "--json").document
    assert document["more_findings"] == {"note": 30}
    assert [f["severity"] for f in document["findings"]] == ["damage"] + ["note"] * 120


def test_findings_are_printed_as_they_come(
    gapless: Gapless, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Verifier.findings

    def fails(verifier: Verifier) -> Iterator[Finding]:
        yield from found(verifier)
        raise JournalError("and then the disk failed")

    sorted((path / "segments").iterdir())[1].unlink()
    monkeypatch.setattr(Verifier, "findings", fails)
    outcome = gapless("journal", "verify", path)
    assert outcome.code == 2
    assert "it is missing" in outcome.out


def test_a_person_sees_how_far_it_is(
    gapless: Gapless, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "is_watched", lambda: True)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    assert "verifying" in gapless("journal", "verify", path).err


# -- export ---------------------------------------------------------------------------------------


def test_all_rows_are_exported_live_ones_included(
    gapless: Gapless, path: Path, tmp_path: Path
) -> None:
    file = tmp_path / "o.parquet"
    document = gapless("journal", "export", path, file, "--json").document
    assert document["rows"] == 1_000
    assert document["bytes"] == file.stat().st_size
    table = parquet.read_table(file)
    assert table.schema.names == ["ts", "src", "n"]
    assert sorted(table["n"].to_pylist()) == list(range(1_000))
    assert list(tmp_path.glob("*.part")) == []


def test_partitions_times_and_columns_choose_rows(
    gapless: Gapless, path: Path, tmp_path: Path
) -> None:
    file = tmp_path / "o.parquet"
    times = ["--since", "2024-05-01T00:01:40", "--until", str(START + 300_000)]
    gapless("journal", "export", path, file, *times, "--columns", "n,src")
    table = parquet.read_table(file)
    assert table.schema.names == ["n", "src"]
    assert sorted(table["n"].to_pylist()) == list(range(100, 300))
    outcome = gapless("journal", "export", path, file, "--partitions", "0,2", "--overwrite")
    parts = parquet.read_table(file)["src"].to_pylist()
    assert 0 < len(parts) < 1_000
    assert outcome.out.startswith(f"{file}: {len(parts)} rows")
    one = gapless("journal", "export", path, tmp_path / "1.csv", "--partitions", "1", "--json")
    assert len(parts) + one.document["rows"] == 1_000


def test_rejected_rows_are_exported_with_their_reasons(
    gapless: Gapless, path: Path, tmp_path: Path
) -> None:
    file = tmp_path / "rejected.jsonl"
    assert gapless("journal", "export", path, file, "--rejects", "--json").document["rows"] == 3
    first = json.loads(file.read_text().splitlines()[0])
    assert "late: below the watermark 2024-05-01" in first["reason"]
    assert first["row"]["n"] == 0
    assert first["batch"] == 10


def test_a_line_that_was_no_row_is_exported_as_it_was(
    gapless: Gapless, empty: Path, tmp_path: Path
) -> None:
    out = writer(empty)
    line = '{"ts": "x\\"y"}'
    out.append(batch(0, 3), rejected=[("ts: no time", "here", line)])
    gapless("journal", "export", empty, tmp_path / "r.jsonl", "--rejects")
    (told,) = (tmp_path / "r.jsonl").read_text().splitlines()
    assert json.loads(told)["row"] == line
    gapless("journal", "export", empty, tmp_path / "r.parquet", "--rejects")
    assert parquet.read_table(tmp_path / "r.parquet")["row"].to_pylist() == [line]


def test_numbers_of_all_kinds_are_exported_as_json_lines(gapless: Gapless, tmp_path: Path) -> None:
    schema = {
        "ts": "timestamp[ms]", "d": "double", "f": "float", "m": "decimal128(10, 2)",
        "day": "date32", "p": "struct<x: double, y: string>", "c": "dictionary<string>",
    }  # fmt: skip
    rows = {
        "ts": [START, START + 1, START + 2, START + 3],
        "d": [1.5, float("nan"), float("-inf"), None],
        "f": [1e20, 0.5, -0.0, 2.0],
        "m": [Decimal("1.50"), None, Decimal("-0.01"), Decimal(7)],
        "day": [date(2022, 1, 8), date(1970, 1, 2), None, date(1970, 1, 4)],
        "p": [{"x": 1.25, "y": 'a"b'}, None, {"x": None, "y": None}, {"x": 2.0, "y": ""}],
        "c": ["a", "b", "a", None],
    }
    types = StreamSchema(schema).payload
    table = pa.table({f.name: pa.array(rows[f.name]).cast(f.type) for f in types})
    with gl.JournalWriter(tmp_path / "j", schema, time="ts") as out:
        out.append(table)
    gapless("journal", "export", tmp_path / "j", tmp_path / "o.jsonl")
    got = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [row["d"] for row in got] == [1.5, "NaN", "-Infinity", None]
    assert [row["f"] for row in got] == [1e20, 0.5, 0.0, 2.0]
    assert [row["m"] for row in got] == ["1.50", None, "-0.01", "7.00"]
    assert got[0]["day"] == "2022-01-08"
    assert [row["p"] for row in got] == rows["p"]
    assert [row["c"] for row in got] == rows["c"]


def test_frames_are_exported_as_elements(gapless: Gapless, empty: Path, tmp_path: Path) -> None:
    shape = Layout(SCHEMA)
    merged = writer(empty, shape=shape)
    vs = np.arange(START, START + 3, dtype=np.int64)
    merged.append(Frame.from_columns(SCHEMA, vs, vs + 9, batch(0, 3), stable=START + 2))
    file = tmp_path / "o.parquet"
    gapless("journal", "export", empty, file)
    table = parquet.read_table(file)
    assert table.schema.names == ["_vs", "_ve", "_was", "ts", "src", "n"]
    assert table["_ve"].to_pylist() == (vs + 9).tolist()


def test_a_damaged_journal_leaves_no_file(gapless: Gapless, path: Path, tmp_path: Path) -> None:
    last = sorted((path / "segments").iterdir())[-2]
    last.write_bytes(last.read_bytes()[:-1])
    outcome = gapless("journal", "export", path, tmp_path / "o.parquet")
    assert outcome.code == 2
    assert last.name in outcome.err
    assert [p.name for p in tmp_path.iterdir()] == ["j"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["o.txt"], "ends in none of"),
        (["-", "--json"], "name a file"),
        (["o.parquet", "--partitions", "x"], "write numbers as 0,3"),
        (["o.parquet", "--partitions", "9"], "has 0 to 2"),
        (["o.parquet", "--columns", "x"], "none of ts, src, n"),
        (["o.parquet", "--since", "soon"], "--since: time 'soon'"),
        (["o.parquet", "--rejects", "--since", "2024-05-01"], "no partition and no time"),
    ],
)
def test_what_cannot_be_exported_is_refused(
    arguments: list[str], said: str, gapless: Gapless, path: Path, tmp_path: Path
) -> None:
    target = arguments[0] if arguments[0] == "-" else tmp_path / arguments[0]
    outcome = gapless("journal", "export", path, target, *arguments[1:])
    assert outcome.code == 2
    assert said in outcome.err
    assert [p.name for p in tmp_path.iterdir()] == ["j"]


# -- trim -----------------------------------------------------------------------------------------


def test_a_dry_run_says_what_a_trim_then_does(gapless: Gapless, path: Path, out: Writer) -> None:
    rule = ["--before", "2024-05-01T00:10"]
    before = sorted(path.rglob("*"))
    planned = gapless("journal", "trim", path, *rule, "--dry-run", "--json").document
    assert planned["rows"] > 100
    assert sorted(path.rglob("*")) == before
    done = gapless("journal", "trim", path, *rule, "--json").document
    assert done == {**planned, "dry_run": False}
    assert gapless("journal", "trim", path, *rule, "--json").document["rows"] == 0
    assert gapless("journal", "verify", path).code == 0
    shown = gapless("journal", "show", path, "--json").document
    assert (shown["rows"], shown["trimmed_rows"]) == (1_000 - done["rows"], done["rows"])
    out.append(batch(1_000))
    assert gapless("journal", "show", path, "--json").document["rows"] == 1_100 - done["rows"]


def test_a_size_to_keep_is_kept(gapless: Gapless, path: Path) -> None:
    total = gapless("journal", "show", path, "--json").document["bytes"]
    done = gapless("journal", "trim", path, "--keep-bytes", "20kB", "--json").document
    assert total > 20_000 >= done["kept_bytes"] > 10_000


def test_a_reader_is_heeded_until_it_is_forgotten(gapless: Gapless, path: Path) -> None:
    disk = LocalDisk(path)
    register(disk, "old", {0: 0, 1: 0, 2: 0}, START)
    rule = ["--before", "2024-05-01T00:10"]
    outcome = gapless("journal", "trim", path, *rule)
    assert "stays: reader old has not read them: " in outcome.out
    assert " 0 rows in 0 segments went" in outcome.out
    planned = gapless("journal", "trim", path, *rule, "--forget", "old", "--dry-run")
    assert "reader old would be forgotten" in planned.out
    assert [r.name for r in registered(disk)] == ["old"]
    done = gapless("journal", "trim", path, *rule, "--forget-after", "7d", "--json").document
    assert done["forgotten"] == ["old"]
    assert done["rows"] > 100
    assert registered(disk) == []
    unknown = gapless("journal", "trim", path, *rule, "--forget", "x")
    assert unknown.code == 2
    assert "registered are none" in unknown.err


@pytest.mark.parametrize("option", [["--forget", "old"], ["--forget-after", "7d"]])
def test_a_reader_is_forgotten_without_another_rule(
    option: list[str], gapless: Gapless, path: Path
) -> None:
    disk = LocalDisk(path)
    register(disk, "old", {0: 0, 1: 0, 2: 0}, START)
    register(disk, "new", {0: 5, 1: 5, 2: 5}, 1 << 42)  # in 2109
    planned = gapless("journal", "trim", path, *option, "--dry-run", "--json").document
    assert [r.name for r in registered(disk)] == ["new", "old"]
    done = gapless("journal", "trim", path, *option, "--json").document
    assert done == {**planned, "dry_run": False}
    assert (done["forgotten"], done["rows"]) == (["old"], 0)
    assert [r.name for r in registered(disk)] == ["new"]
    assert gapless("journal", "show", path, "--json").document["rows"] == 1_000
    assert gapless("journal", "trim", path, "--forget-after", "7d").code == 0, "nobody is silent"


def test_a_trim_of_nothing_is_wrong_usage(gapless: Gapless, path: Path) -> None:
    outcome = gapless("journal", "trim", path)
    assert outcome.code == 2
    assert "give a rule: --before" in outcome.err


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("4096", 4096), ("20kB", 20_000), ("1.5GB", 1_500_000_000), ("4GiB", 4 << 30)],
)
def test_sizes_are_as_people_write_them(text: str, size: int) -> None:
    assert size_of("--keep-bytes", text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1", "1.2345k", "10 G B", "1e9", "9" * 30])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(Misuse, match="write a size as"):
        size_of("--keep-bytes", text)
