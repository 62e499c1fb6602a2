"""`gl.JournalWriter`: rows as programs have them, and how a journal is opened."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import gapless as gl
from gapless.io.journal_handles import layout_from
from gapless.journal import room
from gapless.journal.disk import LocalDisk
from tests.gapless.io.journal_rows import (
    NOON,
    SCHEMA,
    TABLE,
    TICKS,
    TIMES,
    made,
    rejects,
    rows,
)

# -- rows in --------------------------------------------------------------------------------------

FORMS: dict[str, Callable[[], Any]] = {
    "a table": lambda: TABLE,
    "a record batch": lambda: TABLE.to_batches()[0],
    "a table of several chunks": lambda: pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1)]),
    "columns in another order": lambda: TABLE.select(["len", "src", "ts"]),
    "a column too many": lambda: TABLE.append_column("more", pa.array(["a", "b", "c"])),
    "other types of the kinds": lambda: TABLE.cast(
        pa.schema({"ts": pa.timestamp("ns"), "src": pa.int64(), "len": pa.float32()})
    ),
    "lists": lambda: {"ts": TICKS, "src": [1, 2, 3], "len": [1.0, None, 2.5]},
    "datetimes": lambda: {
        "ts": TIMES.to_pylist(), "src": (1, 2, 3), "len": pa.array([1.0, None, 2.5])
    },
    "arrays": lambda: {
        "ts": np.array(TICKS), "src": np.array([1, 2, 3], np.uint8), "len": TABLE.column("len")
    },
    "a data frame": TABLE.to_pandas,
    "a data frame with an index": lambda: TABLE.to_pandas().set_index(pd.Index([7, 7, 7])),
    "a stream": lambda: pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches()),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_rows_come_in_many_forms_and_are_the_same(form: str, tmp_path: Path) -> None:
    with made(tmp_path) as writer:
        written = writer.append(FORMS[form]())
    assert written == (0, 3, 0, NOON + 2 - 5_000, 0)
    assert rows(tmp_path) == sorted(TABLE.to_pylist(), key=repr)
    assert rejects(tmp_path) == []


@pytest.mark.parametrize("form", ["a table", "a table of several chunks", "lists", "a data frame"])
def test_no_rows_are_a_batch_too(form: str, tmp_path: Path) -> None:
    nothing = FORMS[form]()
    nothing = {name: [] for name in nothing} if isinstance(nothing, dict) else nothing[:0]
    with made(tmp_path) as writer:
        assert writer.append(nothing).rows == 0
        assert writer.batches == 1


def test_a_row_that_does_not_fit_costs_that_row_and_says_where_it_was(tmp_path: Path) -> None:
    given = {
        "ts": [NOON, None, NOON + 2, NOON + 3, NOON - 60_000],
        "src": [1, 2, 2**40, 3, None],
        "len": [0.5] * 5,
    }
    with made(tmp_path) as writer:
        writer.append({"ts": [NOON], "src": [0], "len": [0.0]})
        written = writer.append(given, origin=lambda i: f"row {i}")
        assert (written.rows, written.rejected, written.late) == (2, 3, 1)
        assert (writer.rows, writer.rejected) == (3, 3)
    assert [row["src"] for row in rows(tmp_path)] == [0, 1, 3]
    by_origin = sorted(rejects(tmp_path), key=lambda line: line["origin"])
    assert [(line["batch"], line["origin"], line["reason"]) for line in by_origin] == [
        (1, "row 1", "ts is null: no time"),
        (1, "row 2", "src: the value is no int32"),
        (1, "row 4", "late: below the watermark 2024-05-01 11:59:55"),
    ]
    assert by_origin[1]["row"]["src"] == 2**40


def test_a_late_row_of_a_date_that_no_calendar_has_is_told_and_the_writer_goes_on(
    tmp_path: Path,
) -> None:
    far = pa.array([1 << 30], pa.int32()).view(pa.date32())
    schema = pa.schema({"ts": pa.timestamp("ms"), "day": pa.date32()})
    with gl.JournalWriter(tmp_path / "j", schema, time="ts") as writer:
        writer.append({"ts": [NOON], "day": far})
        assert writer.append({"ts": [0], "day": far}).late == 1
        assert writer.append({"ts": [NOON], "day": far}).rows == 1
    (late,) = rejects(tmp_path)
    assert late["row"] == {"ts": "1970-01-01 00:00:00", "day": 1 << 30}


def test_a_time_that_no_calendar_has_is_told_all_the_same(tmp_path: Path) -> None:
    with made(tmp_path) as writer:
        writer.append({"ts": [gl.INF - 1, 10**17], "src": [1, 1], "len": [float("nan"), 1.0]})
        writer.append({"ts": [0], "src": [2], "len": [None]})
    beyond, late = rejects(tmp_path)
    assert beyond["row"] == {"ts": gl.INF - 1, "src": 1, "len": "nan"}
    assert late["reason"] == f"late: below the watermark {10**17 - 5_000} ms"


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"ts": [1], "src": [1]}, gl.SchemaError, "'len' is not among ts, src"),
        (TABLE.select(["ts", "src"]), gl.SchemaError, "'len' is not in its input"),
        ({"ts": [1], "src": ["a"], "len": [1.0]}, gl.SchemaError, "'src' is string"),
        ({"ts": [1], "src": [1, "a"], "len": [1.0]}, gl.SchemaError, "column 'src'"),
        ({"ts": [1], "src": [1, 2], "len": [1.0]}, gl.Misuse, "ts 1, src 2, len 1"),
        ([1, 2], gl.Misuse, "list appended"),
        (gl.Frame.empty(gl.StreamSchema(SCHEMA)), gl.Misuse, "holds rows"),
    ],
)
def test_what_is_wrong_with_a_column_costs_the_batch_and_nothing_else(
    given: Any, error: type[Exception], said: str, tmp_path: Path
) -> None:
    with made(tmp_path) as writer:
        with pytest.raises(error, match=said):
            writer.append(given)
        assert writer.batches == 0
        writer.append(TABLE)
    assert len(rows(tmp_path)) == 3


def test_what_is_no_valid_arrow_does_not_spoil_the_journal(tmp_path: Path) -> None:
    bad = pa.StringArray.from_buffers(
        1, pa.array([0, 1], pa.int32()).buffers()[1], pa.py_buffer(b"\xff")
    )
    with gl.JournalWriter(tmp_path / "j", {"ts": "int64", "name": "string"}, time="ts") as writer:
        with pytest.raises(gl.BadData, match="no valid Arrow"):
            writer.append(pa.table({"ts": [1], "name": bad}))
        writer.append({"ts": [1], "name": ["a"]})
    assert rows(tmp_path) == [{"ts": 1, "name": "a"}]


def test_an_append_that_was_interrupted_ends_the_writer_and_not_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = made(tmp_path)
    writer.append(TABLE)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gapless.journal.writer.put_live_end", interrupted)
    with pytest.raises(KeyboardInterrupt):
        writer.append(TABLE)
    monkeypatch.undo()
    with pytest.raises(gl.Misuse, match="an append was interrupted: open the journal again"):
        writer.append(TABLE)
    with made(tmp_path) as again:
        assert again.rows == 3 * again.batches
        assert again.batches in {1, 2}
        again.append(TABLE)
    assert len(rows(tmp_path)) == 3 * again.batches


# -- opening --------------------------------------------------------------------------------------


def test_a_journal_that_is_there_needs_no_schema(tmp_path: Path) -> None:
    made(tmp_path).close()
    with gl.JournalWriter(tmp_path / "j") as writer:
        assert writer.layout.key == ("src",)
        writer.append(TABLE)
    gl.JournalWriter(tmp_path / "j", time="ts", key=["src"], partitions=4, lateness=5_000).close()


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ({"partitions": 3}, "partitions 4, not 3"),
        ({"lateness": "1s"}, "lateness 5000, not 1000"),
        ({"key": "len"}, "key"),
        ({"time": "src"}, "time"),
        ({"schema": {**SCHEMA, "len": "float"}}, "schema"),
    ],
)
def test_what_is_said_of_a_journal_has_to_be_so(
    said: dict[str, Any], named: str, tmp_path: Path
) -> None:
    made(tmp_path).close()
    with pytest.raises(gl.Misuse, match=named):
        gl.JournalWriter(tmp_path / "j", **said)


def test_where_there_is_no_journal_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(gl.Misuse, match="give a schema to create one"):
        gl.JournalWriter(tmp_path / "j")
    with pytest.raises(gl.Misuse, match="is not a journal"):
        gl.JournalReader(tmp_path / "j")
    (tmp_path / "file").write_text("")
    with pytest.raises(gl.Misuse, match="cannot be opened"):
        gl.JournalWriter(tmp_path / "file", SCHEMA)
    with pytest.raises(gl.Misuse, match="POSIX"):
        gl.JournalReader("s3://bucket/j")


def test_times_are_in_the_unit_that_a_source_would_have() -> None:
    micros = {"ts": "timestamp[us]", "n": "int64"}
    assert layout_from(micros, "ts", lateness="5s").lateness == 5_000_000
    assert layout_from(micros, "n", lateness="5s").lateness == 5_000
    assert layout_from(micros, "n", time_unit="s", lateness="5s").lateness == 5
    assert layout_from(gl.StreamSchema(micros, "ns"), "n", lateness="5s").lateness == 5 * 10**9
    with pytest.raises(gl.Misuse, match="'ns'"):
        layout_from(gl.StreamSchema(micros, "ns"), "n", time_unit="s")
    for time, unit in [("ts", None), ("n", None), ("n", "s")]:
        query = gl.source("s", micros, time=time, lateness=0, time_unit=unit)
        assert query.schema == layout_from(micros, time, time_unit=unit).schema


def test_without_a_time_a_journal_holds_frames(tmp_path: Path) -> None:
    schema = gl.StreamSchema({"src": "string"})
    frames = [
        gl.Frame.from_elements(schema, gl.parse(text, schema))
        for text in ("ins(A,6,20) ins(B,7,9) stable(6)", "adj(A,6,20,30) stable(inf)")
    ]
    with gl.JournalWriter(tmp_path / "j", schema) as writer:
        for frame in frames:
            writer.append(frame)
        with pytest.raises(gl.Misuse, match="holds frames"):
            writer.append(TABLE)
    table = gl.Tdb(schema)
    for frame in gl.JournalReader(tmp_path / "j"):
        table.fold(frame)
    assert table.stable == gl.INF
    assert {event.payload: event.ve for event in table.events} == {("A",): 30, ("B",): 9}


def test_a_disk_that_fills_up_is_told_to_the_log_or_to_whom_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(LocalDisk, "free_bytes", lambda _: room.FREE_BYTES_ALARM - 1)
    with caplog.at_level(logging.WARNING):
        made(tmp_path).close()
    assert "gapless journal trim" in caplog.text
    said: list[str] = []
    made(tmp_path, on_alarm=said.append).close()
    assert len(said) == 1
    monkeypatch.setattr(LocalDisk, "free_bytes", lambda _: 0)
    with pytest.raises(gl.DiskFull):
        made(tmp_path)


def test_left_by_an_error_what_was_appended_is_in(tmp_path: Path) -> None:
    def wrong(writer: gl.JournalWriter) -> None:
        with writer:
            writer.append(TABLE)
            raise ZeroDivisionError

    writer = made(tmp_path)
    with pytest.raises(ZeroDivisionError):
        wrong(writer)
    with pytest.raises(gl.Misuse, match="left by an error"):
        writer.append(TABLE)
    assert len(rows(tmp_path)) == 3
