"""`gapless ingest`: files of every kind, what is wrong with them, and going on."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import pytest
from pyarrow import parquet

import gapless as gl
from gapless.commands import terminal
from gapless.io.ingest_columns import READ_ROWS, ColumnFile
from tests.gapless.command import Gapless
from tests.gapless.ingested import (
    FORMATS,
    MAKES,
    SCHEMA,
    read,
    rejects,
    table,
    text_lines,
    write,
)

# -- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FORMATS)
def test_all_kinds_of_files_make_the_same_journal(
    kind: str, gapless: Gapless, tmp_path: Path, schema: Path
) -> None:
    rows = table(2_500)
    source = write(rows, tmp_path / f"flows.{kind}")
    journal, twin = tmp_path / "j", tmp_path / "twin"
    options = ["--schema", schema, "--batch-rows", "1k", *MAKES]
    document = gapless("ingest", source, "--out", journal, *options, "--json").document
    with gl.JournalWriter(
        twin, SCHEMA, time="ts", key="src", partitions=3, lateness="2s"
    ) as writer:
        written = [writer.append(rows.slice(at, 1_000)) for at in (0, 1_000, 2_000)]
    assert read(journal).equals(read(twin))
    late = sum(each.late for each in written)
    assert late > 0
    assert {**document, "seconds": 0} == {
        "input": str(source), "journal": str(journal), "rows_in": 2_500, "batches": 3,
        "written": 2_500 - late, "rejected": late, "late": late, "resumed": 0, "seconds": 0,
        "stable": written[-1].stable, "ended": False, "interrupted": False,
            "reasons": {"late": late},
    }  # fmt: skip
    assert [line["row"]["n"] for line in rejects(journal)] != []
    place = "line" if kind in {"jsonl", "csv"} else "row"
    first = 1 + (kind == "csv")
    for line in rejects(journal):
        assert line["origin"] == f"flows.{kind}, {place} {line['row']['n'] + first}"


def test_a_file_that_knows_its_columns_needs_no_schema(gapless: Gapless, tmp_path: Path) -> None:
    source = write(table(100), tmp_path / "flows.parquet")
    outcome = gapless("ingest", source, "--out", tmp_path / "j", *MAKES)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith(
        f"{tmp_path / 'j'}: 100 rows in, 100 written, 0 rejected (0 late)"
    )
    assert "rejects" not in outcome.out
    again = gapless("ingest", source, "--out", tmp_path / "j")
    assert again.out.startswith(f"{tmp_path / 'j'}: 100 rows in")
    assert f"late), see {tmp_path / 'j'}/rejects" in again.out, "rows that come again are late"
    assert "interrupted" not in again.out


def test_lines_that_are_no_rows_are_told_with_their_numbers_and_stop_nothing(
    gapless: Gapless, tmp_path: Path, schema: Path
) -> None:
    lines = text_lines(table(30))
    bad = {4: "hello", 9: '{"src": "x"}', 10: '{"n": 1}', 20: "", 25: lines[25] + lines[25]}
    for number, text in bad.items():
        lines[number] = text
    source = tmp_path / "flows.jsonl"
    source.write_text("\n".join(lines))
    options = ["--schema", schema, "--batch-rows", "7", *MAKES]
    document = gapless("ingest", source, "--out", tmp_path / "j", *options, "--json").document
    assert (document["rows_in"], document["written"], document["rejected"]) == (29, 25, 4)
    assert [
        (line["batch"], line["origin"], line["reason"]) for line in rejects(tmp_path / "j")
    ] == [
        (0, "flows.jsonl, line 5", "the line is no JSON object"),
        (1, "flows.jsonl, line 10", "src: 'x' is no int32"),
        (1, "flows.jsonl, line 11", "ts is null: no time"),
        (3, "flows.jsonl, line 26", "it has several values"),
    ]
    assert rejects(tmp_path / "j")[0]["row"] == "hello"


def test_a_journal_can_be_ended(gapless: Gapless, tmp_path: Path) -> None:
    source = write(table(10), tmp_path / "flows.parquet")
    options = ["--out", tmp_path / "j", *MAKES]
    assert gapless("ingest", source, *options, "--end", "--json").document["ended"]
    with gl.JournalReader(tmp_path / "j") as reader:
        assert sum(len(frame) for frame in reader.follow()) == 10
    outcome = gapless("ingest", source, *options)
    assert (outcome.code, outcome.out) == (2, "")
    assert "has ended" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere.csv"], "no file 'nowhere.csv'"),
        (["FILE.jsonl"], "text has no types: give --schema"),
        (["FILE.jsonl", "--schema", "FILE.jsonl"], "its name is to end in .toml or .json"),
        (["FILE.jsonl", "--schema", "none.toml"], "--schema 'none.toml' does not read"),
        (["FILE.parquet", "--format", "xml"], "one of arrow, csv, jsonl, parquet"),
        (["FILE.bin"], "add --format"),
        (["FILE.bin", "--format", "parquet", "--time", "ts"], "file '.*FILE.bin'"),
        (["FILE.parquet", "--time", "when"], "time 'when' is none of"),
        (["FILE.parquet"], "holds frames"),
        (["FILE.parquet", "--time", "ts", "--lateness", "soon"], "lateness 'soon'"),
        (["FILE.parquet", "--time", "ts", "--partitions", "3"], "need key="),
        (["FILE.parquet", "--time", "ts", "--batch-rows", "0"], "--batch-rows 0"),
        (["-", "--resume"], "give a file"),
        (["-", "--format", "arrow"], "standard input gives jsonl or csv"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(
    arguments: list[str], said: str, gapless: Gapless, tmp_path: Path
) -> None:
    write(table(10), tmp_path / "FILE.parquet")
    write(table(10), tmp_path / "FILE.jsonl")
    (tmp_path / "FILE.bin").write_bytes(b"\xff" * 100)
    named = [str(tmp_path / each) if each.startswith("FILE") else each for each in arguments]
    outcome = gapless("ingest", *named, "--out", tmp_path / "j")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("gapless: ")
    assert len(outcome.err.splitlines()) == 1
    assert pytest.raises(AssertionError, match=said).matches(AssertionError(outcome.err))


def test_a_damaged_file_ends_it_and_what_was_read_is_in(gapless: Gapless, tmp_path: Path) -> None:
    source = write(table(3 * READ_ROWS), tmp_path / "flows.parquet")
    with source.open("r+b") as file:
        file.seek(source.stat().st_size // 2)
        file.write(b"\xff" * 4_000)
    outcome = gapless("ingest", source, "--out", tmp_path / "j", *MAKES)
    assert outcome.code == 2
    assert "flows.parquet" in outcome.err
    rows = len(read(tmp_path / "j"))
    assert 0 < rows < 3 * READ_ROWS


def test_memory_has_one_batch_however_long_a_file_is(tmp_path: Path) -> None:
    path = write(table(2_500), tmp_path / "flows.arrow")
    given = ColumnFile(path, "arrow", SCHEMA, 1_000, Event())
    sizes = [batch.rows.num_rows for batch in given]
    assert sizes == [1_000, 1_000, 500]


def test_who_watches_sees_a_bar(
    gapless: Gapless, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "is_watched", lambda: True)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    source = write(table(2_500), tmp_path / "flows.parquet")
    outcome = gapless("ingest", source, "--out", tmp_path / "j", *MAKES, "--batch-rows", "100")
    assert "ingesting flows.parquet" in outcome.err


# -- going on -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_that_is_in_is_not_read_again(
    kind: str, gapless: Gapless, tmp_path: Path, schema: Path
) -> None:
    source = write(table(250), tmp_path / f"flows.{kind}")
    options = ["--out", tmp_path / "j", "--batch-rows", "100", *MAKES, "--schema", schema, "--json"]
    first = gapless("ingest", source, *options, "--resume").document
    assert (first["rows_in"], first["resumed"]) == (250, 0)
    again = gapless("ingest", source, *options, "--resume").document
    assert (again["rows_in"], again["resumed"], again["batches"]) == (0, 250, 0)
    assert len(read(tmp_path / "j")) == first["written"]


@pytest.mark.parametrize(
    "change",
    ["another cut", "a shorter file", "a longer last batch", "another writer"],
)
def test_what_was_cut_otherwise_is_not_gone_on_with(
    change: str, gapless: Gapless, tmp_path: Path, schema: Path
) -> None:
    source, journal = write(table(250), tmp_path / "flows.csv"), tmp_path / "j"
    options = ["--out", journal, *MAKES, "--schema", schema, "--resume", "--batch-rows"]
    assert gapless("ingest", source, *options, "100").code == 0
    size = "100"
    if change == "another cut":
        size = "50"
    elif change == "another writer":
        with gl.JournalWriter(journal) as writer:
            writer.append(table(1))
    else:
        write(table(150 if change == "a shorter file" else 260), source)
    before = read(journal)
    outcome = gapless("ingest", source, *options, size)
    assert outcome.code == 2
    assert "that it was begun with" in outcome.err
    assert read(journal).equals(before)


# -- rows that are ahead, and amounts --------------------------------------------------------------

FAR = "2262-04-11T23:47:16"


def dated(path: Path, *times: str) -> Path:
    path.write_text("".join(f'{{"ts": "{t}", "src": 1}}\n' for t in times))
    return path


@pytest.mark.parametrize(("ahead", "rejected"), [([], 1), (["--ahead", "none"], 0)])
def test_one_row_of_the_far_future_is_rejected_and_said(
    gapless: Gapless, tmp_path: Path, ahead: list[str], rejected: int
) -> None:
    (tmp_path / "s.toml").write_text('ts = "timestamp[ms]"\nsrc = "int32"\n')
    source = dated(tmp_path / "a.jsonl", "2024-05-01T12:00:00", FAR, "2024-05-01T12:00:01")
    options = ["--schema", tmp_path / "s.toml", "--time", "ts", *ahead]
    outcome = gapless("ingest", source, "--out", tmp_path / "j", *options)
    assert f"{rejected} rejected (0 late)" in outcome.out
    assert outcome.out.rstrip().endswith("1  ahead") == bool(rejected)


def test_a_lateness_without_a_unit_is_in_that_of_the_time_column(
    gapless: Gapless, tmp_path: Path
) -> None:
    (tmp_path / "s.toml").write_text('ts = "timestamp[ms]"\nsrc = "int32"\n')
    source = dated(tmp_path / "a.jsonl", "2024-05-01T12:00:00")
    options = ["--schema", tmp_path / "s.toml", "--time", "ts", "--lateness", "10"]
    gapless("ingest", source, "--out", tmp_path / "j", *options, "--batch-rows", "200K")
    assert gl.JournalWriter(tmp_path / "j").layout.lateness == 10


def test_a_journal_below_a_file_is_refused_in_a_sentence(gapless: Gapless, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    source = tmp_path / "f.parquet"
    parquet.write_table(table(10), source)
    outcome = gapless("ingest", source, "--out", tmp_path / "file" / "j", *MAKES)
    assert outcome.code == 2
    assert "cannot be opened" in outcome.err
