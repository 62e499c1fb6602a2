"""Changelogs in files: the frames that each form gives, and what is refused, with its line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import gapless as gl
from gapless.io.changelog_files import BATCH_ROWS, ChangelogFile, Form
from gapless.io.stop_signals import StopSignals
from gapless.protocol.errors import BadData, Misuse
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from tests.gapless.command import Gapless

LOADS = StreamSchema({"id": "string", "load": "int32"})
FLINK = """\
{"op":"+I","ts":1,"id":"a","load":10}
{"op":"+I","ts":4,"id":"b","load":20}
{"op":"+U","ts":3,"id":"a","load":11}
{"op":"-D","ts":9,"id":"b"}
"""


@pytest.fixture
def stop() -> Iterator[StopSignals]:
    with StopSignals() as stop:
        yield stop


def read(
    path: Path, form: Form, stop: StopSignals, schema: StreamSchema | None = LOADS
) -> list[Frame]:
    return list(ChangelogFile(str(path), form, stop, schema=schema).frames())


def written(tmp_path: Path, text: str, name: str = "log.jsonl") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


EVENTS = "ins((a,10),1,3) ins((a,11),3,inf) ins((b,20),4,9)"


def table(frames: list[Frame], schema: StreamSchema = LOADS) -> gl.Tdb:
    table = gl.Tdb(schema)
    for frame in frames:
        table.fold(frame)
    return table


def told(text: str, schema: StreamSchema = LOADS) -> gl.Tdb:
    return table([Frame.from_elements(schema, gl.parse(text, schema))], schema)


def test_upserts_come_out_of_order_within_the_lateness(tmp_path: Path, stop: StopSignals) -> None:
    form = Form("flink", ("id",), lateness=2)
    frames = read(written(tmp_path, FLINK), form, stop)
    assert table(frames) == told(EVENTS + " stable(7)")


def test_a_long_changelog_has_a_watermark_a_batch(tmp_path: Path, stop: StopSignals) -> None:
    rows = "".join(f'{{"op":"+I","ts":{t},"id":"k{t}","load":1}}\n' for t in range(BATCH_ROWS + 5))
    frames = read(written(tmp_path, rows), Form("flink", ("id",), lateness=3), stop)
    assert [frame.stable for frame in frames] == [BATCH_ROWS - 4, BATCH_ROWS + 1]


def test_what_is_later_than_said_is_refused_with_its_line(
    tmp_path: Path, stop: StopSignals
) -> None:
    rows = [f'{{"op":"+I","ts":{t},"id":"k{t}","load":1}}' for t in range(BATCH_ROWS)]
    late = '{"op":"+I","ts":5,"id":"late","load":1}'
    log = written(tmp_path, "\n".join([*rows, late, ""]))
    with pytest.raises(BadData, match=f"log.jsonl, line {BATCH_ROWS + 1}: late: it is at 5"):
        read(log, Form("flink", ("id",), lateness=3), stop)
    frames = read(log, Form("flink", ("id",), lateness=BATCH_ROWS), stop)
    assert len(table(frames)) == BATCH_ROWS + 1


def test_parquet_says_its_columns_and_unit_itself(tmp_path: Path, stop: StopSignals) -> None:
    path = tmp_path / "log.parquet"
    columns = {
        "id": ["a", "b"],
        "op": ["+", "+"],
        "ts": pa.array([1, 4], pa.timestamp("us")),
        "load": pa.array([10, 20], pa.int32()),
    }
    parquet.write_table(pa.table(columns), path)
    log = ChangelogFile(str(path), Form("plus-minus"), stop)
    assert log.schema == StreamSchema({"id": "string", "load": "int32"}, "us")
    assert table(list(log.frames()), log.schema) == told(
        "ins((a,10),1,inf) ins((b,20),4,inf) stable(4)", log.schema
    )
    assert log.changes == 2
    assert log.share_read == 1


def test_debezium_lines_need_no_before_where_rows_have_a_key(
    tmp_path: Path, stop: StopSignals
) -> None:
    lines = """\
{"op":"r","ts_ms":1,"after":{"id":"a","load":10},"source":{"db":"x"}}
{"op":"u","ts_ms":3,"before":null,"after":{"id":"a","load":11}}
{"op":"c","ts_ms":4,"after":{"id":"b","load":20}}
{"op":"d","ts_ms":9,"before":{"id":"b"}}
{"op":null}
"""
    log = written(tmp_path, lines)
    assert table(read(log, Form("debezium", ("id",)), stop)) == told(EVENTS + " stable(9)")
    with pytest.raises(BadData, match="line 2: no before"):
        read(log, Form("debezium"), stop)


def test_open_and_close_where_a_close_revises(tmp_path: Path, stop: StopSignals) -> None:
    lines = "op,ts,p\nopen,2,B\nclose,6,B\nopen,1,A\nclose,4,A\nclose,5,B\n"
    one = StreamSchema({"p": "string"})
    frames = read(written(tmp_path, lines, "log.csv"), Form("open-close"), stop, one)
    assert table(frames, one) == told("ins(A,1,4) ins(B,2,5) stable(6)", one)


def test_whole_lifetimes_and_what_takes_them_back(tmp_path: Path, stop: StopSignals) -> None:
    lines = "op,ts,end,p\n+,6,20,A\n-,6,20,A\n+,6,30,A\n"
    one = StreamSchema({"p": "string"})
    frames = read(written(tmp_path, lines, "log.csv"), Form("plus-minus", until="end"), stop, one)
    assert table(frames, one) == told("ins(A,6,30) stable(6)", one)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"op":"?","ts":1,"id":"a","load":1}', "line 1: op is '[?]'"),
        ('{"op":"+I","id":"a","load":1}', "line 1: ts is null"),
        ('{"op":"-D","ts":1,"id":"a"}', "line 1: deletes a key that is not there"),
        ('{"op":"+I","ts":1,"id":"a","load":"x"}', "line 1: load: 'x' is no int32"),
        ('{"op":', "line 1: the line is no JSON object"),
        ('{"op":"+I","ts":9223372036854775807,"id":"a","load":1}', "line 1: ts is inf"),
    ],
)
def test_a_row_that_is_none_is_refused_with_its_line(
    tmp_path: Path, stop: StopSignals, line: str, said: str
) -> None:
    with pytest.raises(BadData, match=said):
        read(written(tmp_path, line + "\n"), Form("flink", ("id",)), stop)


def test_a_delete_of_nothing_may_be_ignored(tmp_path: Path, stop: StopSignals) -> None:
    log = written(tmp_path, '{"op":"-D","ts":1,"id":"a"}\n')
    (frame,) = read(log, Form("flink", ("id",), ignore_absent=True), stop)
    assert len(frame) == 0


@pytest.mark.parametrize(
    "form",
    [
        {"name": "kafka"},
        {"name": "flink", "lateness": -1},
        {"name": "flink", "ignore_absent": True},
        {"name": "open-close", "key": ("p",)},
        {"name": "debezium", "until": "end"},
        {"name": "plus-minus", "key": ("p",), "until": "end"},
    ],
)
def test_a_form_that_makes_no_sense_is_refused(form: dict[str, Any]) -> None:
    with pytest.raises(Misuse):
        Form(**form)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("log.jsonl", "--changelog", "flink"), "text has no types"),
        (("gone.jsonl", "--changelog", "flink"), "there is no file"),
        (("log.jsonl", "--by", "id", "--schema", "id:string"), "need --changelog"),
        (("log.jsonl", "--changelog", "flink", "--by", "x", "--schema", "id:string"), "key 'x'"),
        (("log.jsonl", "--changelog", "kafka"), "kafka"),
    ],
)
def test_a_push_that_makes_no_sense_is_one_sentence_and_exit_2(
    tmp_path: Path,
    gapless: Gapless,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    said: str,
) -> None:
    written(tmp_path, FLINK)
    monkeypatch.chdir(tmp_path)
    outcome = gapless("push", *arguments, "--stream", "s", "--name", "a")
    assert outcome.code == 2
    assert outcome.out == ""
    assert said in outcome.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--eager",), "need --changelog"),
        (("--changelog", "flink", "--table"), "leave out --table"),
        (("--changelog", "debezium", "--eager"), "debezium has no form"),
        (("--changelog", "flink", "--eager", "--by", "id"), "leave out --by"),
        (("--changelog", "open-close", "--by", "id"), "has no keys"),
    ],
)
def test_a_tail_that_makes_no_sense_is_one_sentence_and_exit_2(
    gapless: Gapless, arguments: tuple[str, ...], said: str
) -> None:
    outcome = gapless("tail", "s", *arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert said in outcome.err
