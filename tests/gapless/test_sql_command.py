"""`gapless sql`: answers over files and journals, as tables and as JSON; and SQL files of jobs."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import gapless as gl
from gapless.commands.query_file import read
from gapless.commands.sql import Shell, statements
from gapless.protocol.errors import Misuse
from tests.gapless.command import Gapless
from tests.sql_queries.thesis import CASES, LINKS, Case
from tests.sql_queries.thesis import packets as packets_of

SCHEMA = pa.schema({"ts": pa.timestamp("ms"), "src": pa.int32(), "len": pa.int32()})
COUNTS = "SELECT src, count(*) AS n FROM flows [RANGE TUMBLING 10 s] GROUP BY src"
CREATE = "CREATE TABLE flows (ts TIMESTAMP(3), src INT, len INT, WATERMARK FOR ts);"


@pytest.fixture
def rows() -> pa.Table:
    times = [0, 1_000, 2_000, 11_000]
    return pa.table({"ts": times, "src": [1, 1, 2, 1], "len": [5, 6, 7, 8]}).cast(SCHEMA)


@pytest.fixture
def parquet(tmp_path: Path, rows: pa.Table) -> str:
    path = tmp_path / "flows.parquet"
    pa.parquet.write_table(rows, path)
    return str(path)


ANSWER = [
    {"_vs": 10_000, "_ve": 20_000, "src": 1, "n": 2},
    {"_vs": 10_000, "_ve": 20_000, "src": 2, "n": 1},
    {"_vs": 20_000, "_ve": 30_000, "src": 1, "n": 1},
]


def test_a_query_over_a_file_is_answered(gapless: Gapless, parquet: str) -> None:
    done = gapless("sql", "--source", f"flows={parquet}", "-c", COUNTS, "--json")
    [answer] = done.document
    assert sorted(answer["rows"], key=lambda row: (row["_vs"], row["src"])) == ANSWER
    assert (answer["columns"], answer["unit"]) == ({"src": "int32", "n": "int64"}, "ms")


def test_people_see_a_table(gapless: Gapless, parquet: str) -> None:
    done = gapless("sql", "--source", f"flows={parquet}", "-c", f"{COUNTS} ORDER BY n DESC LIMIT 1")
    head, first, *_ = done.out.splitlines()
    assert head.split() == ["from", "until", "src", "n"]
    assert first.split()[-2:] == ["1", "2"]


def test_a_journal_says_its_columns_itself(
    gapless: Gapless, rows: pa.Table, tmp_path: Path
) -> None:
    path = tmp_path / "journal"
    with gl.JournalWriter(path, SCHEMA, time="ts", lateness="1s", durability="process") as writer:
        writer.append(rows)
    done = gapless("sql", "--source", f"flows={path}", "-c", COUNTS, "--json")
    assert len(done.document[0]["rows"]) == 3


def test_a_text_file_needs_create_table(gapless: Gapless, rows: pa.Table, tmp_path: Path) -> None:
    path = tmp_path / "flows.csv"
    pa.csv.write_csv(rows, path)
    told = gapless("sql", "--source", f"flows={path}", "-c", COUNTS)
    assert told.code == 2
    assert "CREATE TABLE flows" in told.err
    done = gapless("sql", "--source", f"flows={path}", "-c", CREATE, "-c", COUNTS, "--json")
    assert len(done.document[0]["rows"]) == 3


def test_a_plan_is_explained(gapless: Gapless, parquet: str) -> None:
    done = gapless("sql", "--source", f"flows={parquet}", "-c", f"EXPLAIN {COUNTS}")
    assert "aggregate by src" in done.out
    done = gapless("sql", "--source", f"flows={parquet}", "-c", f"EXPLAIN {COUNTS}", "--json")
    assert "aggregate by src" in done.document[0]["plan"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-c", "SELECT lenn FROM flows"], "no column 'lenn'"),
        (["-c", "SELECT len FROM flwos"], "no table 'flwos'"),
        (["-c", CREATE.replace("flows", "t"), "-c", "SELECT len FROM t"], "--source t="),
        (["--source", "flows"], "write NAME=PATH"),
        (["--source", "flows=x", "-c", "SELECT 1 FROM t"], "only one path"),
        (["no.sql"], "cannot be read"),
    ],
)
def test_what_cannot_be_answered_is_said(
    gapless: Gapless, parquet: str, options: list[str], said: str
) -> None:
    done = gapless("sql", "--source", f"flows={parquet}", *options)
    assert done.code == 2
    assert said in done.err


def test_a_source_that_says_no_time_is_refused(gapless: Gapless, tmp_path: Path) -> None:
    path = tmp_path / "flows.parquet"
    pa.parquet.write_table(pa.table({"ts": [1], "len": [2]}), path)
    done = gapless("sql", "--source", f"flows={path}", "-c", "SELECT len FROM flows")
    assert "has to have one timestamp" in done.err


def test_statements_end_with_a_semicolon() -> None:
    lines = io.StringIO("SELECT 1\nFROM a;\n\nSELECT 2;\nSELECT 3")
    assert [t.strip() for t in statements(lines, asks=False)] == [
        "SELECT 1\nFROM a;",
        "SELECT 2;",
        "SELECT 3",
    ]


class Typed:
    """Lines of somebody at a prompt; None is Ctrl-C."""

    def __init__(self, *lines: str | None) -> None:
        self._lines = [*lines, ""]

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        line = self._lines.pop(0)
        if line is None:
            raise KeyboardInterrupt
        return line


def test_ctrl_c_drops_what_was_typed_and_exit_ends() -> None:
    typed = Typed("SELECT 1\n", None, "SELECT 2;\n", "exit\n", "SELECT 3;\n")
    assert list(statements(typed, asks=True)) == ["SELECT 2;\n"]
    typed = Typed("SELECT 1 AS\n", "exit\n", "FROM a;\n")
    assert list(statements(typed, asks=True)) == ["SELECT 1 AS\nexit\nFROM a;\n"]
    with pytest.raises(KeyboardInterrupt):
        list(statements(Typed("SELECT 1\n", None), asks=False))


def test_ctrl_c_stops_the_query_and_the_shell_goes_on(
    gapless: Gapless, parquet: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    answered = Shell.run

    def run(shell: Shell, text: str, *, as_json: bool) -> Any:
        asked.append(text)
        if len(asked) == 1:
            raise KeyboardInterrupt
        return answered(shell, text, as_json=as_json)

    monkeypatch.setattr(Shell, "run", run)
    monkeypatch.setattr("sys.stdin", Typed(f"{COUNTS};\n", "SELECT x FROM t;\n", f"{COUNTS};\n"))
    done = gapless("sql", "--source", f"flows={parquet}")
    assert done.code == 0
    assert "interrupted" in done.err
    assert "no table 't'" in done.err
    assert "until" in done.out
    assert len(asked) == 3


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_thesis_is_answered(gapless: Gapless, tmp_path: Path, case: Case) -> None:
    options = []
    for name in LINKS:
        rows = packets_of(random.Random(name))
        names = ("ts", "srcIP", "srcPort", "destIP", "destPort", "len", "length")
        table = pa.table({n: [row[i] for row in rows] for i, n in enumerate(names)})
        table = table.set_column(0, "ts", table["ts"].cast(pa.timestamp("s")))
        pa.parquet.write_table(table, tmp_path / f"{name}.parquet")
        options += ["--source", f"{name}={tmp_path / name}.parquet"]
    done = gapless("sql", *options, "-c", case.text, "--json")
    assert done.document[0]["rows"]


# -- files of jobs --------------------------------------------------------------------------------


def test_a_sql_file_gives_its_query(tmp_path: Path) -> None:
    path = tmp_path / "counts.sql"
    path.write_text(f"{CREATE}\n{COUNTS};\n")
    file = read(path)
    assert isinstance(file.query, gl.Query)
    assert file.query.schema.names == ["src", "n"]
    assert not file.needs_code
    assert file.code is None


def test_a_sql_file_reads_named_journals(tmp_path: Path, rows: pa.Table) -> None:
    with gl.JournalWriter(tmp_path / "j", SCHEMA, time="ts", durability="process") as writer:
        writer.append(rows)
    path = tmp_path / "counts.sql"
    path.write_text(COUNTS)
    file = read(path, {"flows": str(tmp_path / "j")})
    assert list(gl.table(file.query, tmp_path / "j").column_names) == ["src", "n"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT x FROM flows", r"counts.sql, line 1, column 15: no table 'flows'"),
        (CREATE, "it has 0 queries"),
        (CREATE + "EXPLAIN " + COUNTS, "it has 1 queries"),
        (CREATE + COUNTS + ";" + COUNTS, "it has 2 queries"),
    ],
)
def test_a_sql_file_without_one_query_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "counts.sql"
    path.write_text(text)
    with pytest.raises(Misuse, match=said):
        read(path)
