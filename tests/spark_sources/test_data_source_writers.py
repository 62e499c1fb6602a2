"""The data source without Spark: what it writes, rejects, refuses, reads; who is fenced."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from gapless.journal.batch import TaskResult
from gapless.journal.commit import Commits
from gapless.journal.cursor import Growing, Piece
from gapless.journal.disk import LocalDisk
from gapless.journal.layout import Layout, opened
from gapless.journal.partition import partitions_of
from gapless.journal.reader import Reader
from gapless.journal.writer import Writer
from gapless.protocol import text as notation
from gapless.protocol.elements import INF
from gapless.protocol.errors import Fenced, JournalError, Misuse, SchemaError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.spark_sources import spark_reader, spark_writer
from tests.spark_sources.by_hand import (
    begun,
    commits_of,
    done,
    read,
    rejects_of,
    rows_of,
    schema_of,
    segments_of,
    sent,
    source,
    write,
)

NEW: dict[str, Any] = {
    "time": "ts",
    "key": "src",
    "partitions": 3,
    "lateness": "5ms",
    "time_unit": "ms",
}


def table(start: int, count: int, **more: Any) -> pa.Table:
    """Rows in order of time, one a tick."""
    numbers = range(start, start + count)
    columns = {
        "ts": pa.array(numbers, pa.int64()),
        "src": pa.array([n % 7 for n in numbers], pa.int64()),
    }
    return pa.table({**columns, "n": pa.array(numbers, pa.int64()), **more})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "j"


# -- rows -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tasks", "partitions"), [(1, 1), (2, 5), (5, 2), (4, 16)])
def test_any_number_of_tasks_and_of_partitions_holds_the_same_rows(
    tasks: int, partitions: int, path: Path
) -> None:
    rows = table(1_000, 3_000)
    parts = [rows.filter(pc.equal(pc.bit_wise_and(rows["n"], 7), i)) for i in range(8)]
    shares = [pa.concat_tables(parts[i::tasks]) for i in range(tasks)]
    write(path, *shares, **{**NEW, "partitions": partitions})
    assert rows_of(read(path)) == rows_of(rows)
    for p in range(partitions):
        mine = read(path, partitions=p)
        if len(mine):
            places = partitions_of([mine["src"].combine_chunks()], partitions)
            assert set(places.tolist()) == {p}


def test_a_journal_of_a_data_frame_has_its_columns(path: Path) -> None:
    rows = table(0, 5, at=pa.array(range(5), pa.int64()).cast(pa.timestamp("us")))
    write(path, rows, time="at", key="src, n", partitions=2, lateness="1s")
    layout = opened(LocalDisk(path))
    assert layout.schema == StreamSchema(pa.schema(rows.schema), "us")
    assert (layout.key, layout.lateness) == (("src", "n"), 1_000_000)


def test_columns_say_what_a_journal_has_and_rows_come_in_any_order_of_columns(path: Path) -> None:
    columns = '[["n", "uint16", true], ["ts", "timestamp[ms]", true], ["src", "int8", true]]'
    micros = pa.array([1_000, 2_000], pa.int64()).cast(pa.timestamp("us"))
    rows = pa.table({"src": [1, 2], "n": [3, 4], "ts": micros})
    write(path, rows, time="ts", columns=columns)
    layout = opened(LocalDisk(path))
    assert layout.schema == StreamSchema(
        {"n": "uint16", "ts": "timestamp[ms]", "src": "int8"}, "ms"
    )
    assert rows_of(read(path), "src", "n") == [(1, 3), (2, 4)]


def test_rows_come_to_a_journal_that_is_there_without_saying_again_what_it_is(path: Path) -> None:
    write(path, table(100, 10), **NEW)
    write(path, table(200, 10))
    write(path, table(300, 10), lateness="5ms", key="src")
    assert len(read(path)) == 30
    assert commits_of(path).head.stable == 304


def test_no_rows_make_a_journal_and_change_nothing_later(path: Path) -> None:
    nothing = table(0, 0)
    write(path, nothing, nothing, **NEW)
    assert read(path).num_rows == 0
    write(path, table(100, 10), nothing)
    stable = commits_of(path).head.stable
    write(path, nothing)
    assert (len(read(path)), commits_of(path).head.stable) == (10, stable)


def test_small_batches_of_spark_become_large_records(path: Path) -> None:
    write(path, table(0, 50_000), batch_rows=100, **NEW)
    assert len(list(Path(path, "segments").iterdir())) == 1
    frames = Reader(LocalDisk(path), partitions=[0], frame_rows=100_000)
    frame = frames.read()
    assert frame is not None
    assert len(frame) > 10_000


# -- rows that are not taken ----------------------------------------------------------------------


def test_late_rows_go_to_the_reject_file_with_where_they_come_from(path: Path) -> None:
    write(path, table(100, 10), **NEW)
    later = table(100, 10, file=[f"f{i}" for i in range(10)])
    write(path, later, origin_column="file", query="q", batch=8)
    assert [r["origin"] for r in rejects_of(path)] == [f"f{i}" for i in range(4)]
    assert {r["batch"] for r in rejects_of(path)} == {8}
    assert commits_of(path).head.rejected == 4
    assert read(path).num_rows == 16
    assert "file" not in read(path).column_names


def test_rows_that_somebody_has_found_bad_are_no_data(path: Path) -> None:
    why = [None, json.dumps({"reason": "odd", "origin": "f1", "row": {"n": 1}}), None]
    rows = pa.table({"ts": [1, None, 3], "src": [1, None, 3], "n": [1, None, 3], "why": why})
    write(path, rows, reject_column="why", **NEW)
    assert rows_of(read(path), "n") == [(1,), (3,)]
    assert rejects_of(path) == [{"batch": 0, "reason": "odd", "origin": "f1", "row": {"n": 1}}]


def test_a_value_that_the_journal_cannot_hold_is_rejected_with_its_row(path: Path) -> None:
    columns = '[["ts", "timestamp[ms]", true], ["n", "int8", true]]'
    micros = pa.array([1_000, 2_001, 3_000, 4_001, None], pa.int64()).cast(pa.timestamp("us"))
    rows = pa.table({"ts": micros, "n": [1, 2, 300, 400, 5], "f": ["a", "b", "c", "d", None]})
    write(path, rows, time="ts", columns=columns, origin_column="f")
    assert rows_of(read(path), "n") == [(1,)]
    told = {(r["origin"], r["reason"]) for r in rejects_of(path)}
    assert told == {
        ("b", "ts: the value is no timestamp[ms]"),
        ("c", "n: the value is no int8"),
        ("d", "ts: the value is no timestamp[ms]"),
        ("batch 0", "ts is null: no time"),
    }
    assert {r["row"]["n"] for r in rejects_of(path)} == {2, 300, 400, 5}
    assert commits_of(path).head.rejected == 4


def test_a_reject_column_that_is_no_json_is_the_caller_s_mistake(path: Path) -> None:
    rows = table(0, 1, why=["because"])
    with pytest.raises(Misuse, match="the reject column has 'because'"):
        write(path, rows, reject_column="why", **NEW)
    assert not segments_of(path)


# -- order ----------------------------------------------------------------------------------------


def in_partitions(rows: pa.Table, partitions: int) -> list[pa.Table]:
    places = pa.array(partitions_of([rows["src"].combine_chunks()], partitions))
    return [rows.filter(pc.equal(places, p)) for p in range(partitions)]


@pytest.mark.parametrize("promised", [False, True])
def test_partitions_in_order_are_read_side_by_side(promised: bool, path: Path) -> None:
    rows = table(100, 30_000)
    how: dict[str, Any] = {"by_partition": "sorted"}
    if promised:
        rows = rows.append_column("floor", pc.subtract(rows["ts"], 3))
        how = {"by_partition": "floor"}
    write(path, *in_partitions(rows, 3), **NEW, **how)
    assert rows_of(read(path), "n") == rows_of(rows, "n")
    reader = Reader(LocalDisk(path), frame_rows=1_000)
    stables: list[int] = []
    while (frame := reader.read()) is not None:
        assert not stables or not len(frame) or int(frame.vs.min()) >= stables[-1]
        stables += [] if frame.stable is None else [frame.stable]
    assert stables[-1] == 100 + 30_000 - 1 - 5
    assert segments_of(path)


def test_rows_that_break_their_order_are_refused(path: Path) -> None:
    rows = in_partitions(table(100, 100), 3)
    backwards = [part.sort_by([("ts", "descending")]) for part in rows]
    with pytest.raises(Misuse, match="do not come in their order"):
        write(path, *backwards, by_partition="sorted", **NEW)
    with pytest.raises(Misuse, match="two tasks have written partition"):
        write(path, rows[0].slice(0, 9), rows[0].slice(9), by_partition="sorted")
    assert commits_of(path).head.rows == (0, 0, 0)


# -- once, and by one writer ----------------------------------------------------------------------


def test_a_batch_that_is_in_comes_again_and_changes_nothing(path: Path) -> None:
    write(path, table(100, 10), query="q", batch=3, **NEW)
    before = {p: p.stat().st_mtime_ns for p in path.rglob("*")}
    for batch in (3, 2):
        write(path, table(100, 10), query="q", batch=batch)
    assert {p: p.stat().st_mtime_ns for p in path.rglob("*")} == before
    write(path, table(200, 10), query="q", batch=4)
    write(path, table(300, 10), query="other", batch=3)
    assert len(read(path)) == 30


def test_a_batch_that_is_in_is_known_even_in_a_journal_that_has_ended(path: Path) -> None:
    write(path, table(100, 10), query="q", batch=0, ends="true", **NEW)
    write(path, table(100, 10), query="q", batch=0, ends="true")
    assert commits_of(path).head.stable == INF
    with pytest.raises(Misuse, match="has ended: nothing can be added"):
        begun(path, table(200, 1))


def test_of_two_writes_the_one_that_began_first_is_told_who_has_come(path: Path) -> None:
    rows = table(100, 10)
    first = begun(path, rows, **NEW)
    written = [sent(first.write(iter(rows.to_batches())))]
    write(path, table(200, 10), query="the other", batch=5)
    with pytest.raises(Fenced, match=r"a Spark write on \S+ \(batch 5 of the other\) has taken"):
        sent(first).commit(written)
    sent(first).abort(written)
    assert rows_of(read(path), "n") == rows_of(table(200, 10), "n")
    assert len(segments_of(path)) == 1


def test_writes_with_one_token_are_one_writer(path: Path) -> None:
    write(path, table(100, 10), token="mine", **NEW)
    write(path, table(200, 10), token="mine")
    assert commits_of(path).head.epoch == 1
    write(path, table(300, 10))
    with pytest.raises(Fenced):
        begun(path, table(400, 10), token="mine")


def test_a_batch_judged_by_a_watermark_that_has_moved_is_not_committed(path: Path) -> None:
    first = begun(path, table(0, 1), token="mine", **NEW)
    written = [sent(first.write(iter(table(100, 10).to_batches())))]
    write(path, table(200, 10), token="mine")
    with pytest.raises(JournalError, match="run it again"):
        first.commit(written)


def test_an_aborted_batch_leaves_no_file_and_a_committed_one_is_not_taken_back(path: Path) -> None:
    rows = table(100, 10)
    first = begun(path, rows, **NEW)
    first.abort([sent(first.write(iter(rows.to_batches()))), None])
    assert not segments_of(path)
    second = begun(path, rows)
    written = [sent(second.write(iter(rows.to_batches())))]
    second.commit(written)
    second.abort(written)  # of a commit of which Spark has not heard
    assert len(read(path)) == 10


def test_a_task_that_fails_leaves_no_file(path: Path) -> None:
    writer = begun(path, table(0, 1), **NEW)

    def breaking() -> Any:
        yield from table(0, 200_000).to_batches(max_chunksize=10_000)
        raise OSError("a machine that dies politely")

    with pytest.raises(OSError, match="politely"):
        writer.write(breaking())
    assert not segments_of(path)


# -- what is refused ------------------------------------------------------------------------------

REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "another lateness": ({"lateness": "7ms"}, "is there, and has lateness 5, not 7"),
    "another key": ({"key": "n"}, r"has key \('src',\), not \('n',\)"),
    "another partition count": ({"partitions": 4}, "partitions 3, not 4"),
    "another unit": ({"time_unit": "us"}, "schema .*ms.*not .*us"),
    "a column that is not there": ({"reject_column": "why"}, "column 'why' is none of ts, src, n"),
    "a column of another type": ({"origin_column": "n"}, "column 'n' is bigint, not string"),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_what_does_not_agree_with_the_journal_is_refused(what: str, path: Path) -> None:
    write(path, table(100, 10), **NEW)
    options, said = REFUSALS[what]
    with pytest.raises(Misuse, match=said):
        begun(path, table(200, 10), **options)
    assert commits_of(path).head.epoch == 1


def test_rows_with_other_columns_are_refused(path: Path) -> None:
    write(path, table(100, 10), **NEW)
    rows = table(200, 10)
    others: list[tuple[pa.Table, str]] = [
        (rows.drop(["n"]), "column 'n' of the journal is missing: add it, as bigint"),
        (rows.append_column("x", rows["n"]), "column 'x' is none of the journal's"),
        (rows.set_column(2, "n", rows["n"].cast(pa.string())), "column 'n' is string, and the"),
    ]
    for other, said in others:
        with pytest.raises(SchemaError, match=said):
            begun(path, other)


def test_a_journal_that_is_not_there_is_made_only_of_what_was_said(path: Path) -> None:
    rows = table(0, 1, t=pa.array([0], pa.int64()).cast(pa.timestamp("us")))
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "is not a journal yet: say time="),
        ({"time": "when"}, "'when' is none of the columns"),
        ({"time": "t", "time_unit": "ms"}, r"is timestamp\[us\]: it is to be"),
        ({"time": "ts", "partitions": 2}, "2 partitions need key="),
        ({"time": "ts", "lateness": "1us"}, "not a whole number of ms"),
    ]
    for options, said in wrong:
        with pytest.raises(Misuse, match=said):
            begun(path, rows, **options)
    assert not path.exists()


def test_nothing_is_overwritten(path: Path) -> None:
    write(path, table(100, 10), **NEW)
    with pytest.raises(Misuse, match=r"only added to: mode\('append'\)"):
        source(path).writer(schema_of(table(0, 1)), overwrite=True)
    with pytest.raises(Misuse, match="give another path"):
        source(path).streamWriter(schema_of(table(0, 1)), overwrite=True)


def test_a_stream_takes_its_batches_names_from_spark(path: Path) -> None:
    for options in ({"query": "q", "batch": 1}, {"ends": "true"}):
        with pytest.raises(Misuse, match=r"are for df\.write"):
            source(path, **NEW, **options).streamWriter(schema_of(table(0, 1)), overwrite=False)


def test_a_path_of_an_object_store_is_refused() -> None:
    with pytest.raises(Misuse, match="POSIX"):
        begun("s3://bucket/j", table(0, 1), **NEW)


# -- reading --------------------------------------------------------------------------------------


def frames(text: str, schema: StreamSchema) -> Frame:
    return Frame.from_elements(schema, notation.parse(text, schema))


def test_a_journal_of_frames_is_read_with_its_times_and_not_written(path: Path) -> None:
    schema = StreamSchema({"k": "string"})
    disk = LocalDisk(path)
    writer = Writer(disk, Layout(schema), who="a merger", token="t", now_ms=lambda: 7)
    writer.append(frames("ins(A,6,20) adj(A,6,20,30) stable(11)", schema))
    writer.seal()
    writer.append(frames("ins(B,12,inf)", schema))
    got = read(path)
    assert got.column_names == ["_vs", "_ve", "_was", "k"]
    assert rows_of(got, "_vs", "_ve", "k") == [(12, INF, "B"), (6, 20, "A"), (6, 30, "A")]
    with pytest.raises(Misuse, match="holds frames of a merger"):
        begun(path, table(0, 1))


def appending(path: Path, **options: Any) -> Writer:
    shape = opened(LocalDisk(path))
    return Writer(LocalDisk(path), shape, who="w", token="w", now_ms=lambda: 7, **options)


def test_rows_of_the_live_segment_are_read_as_far_as_they_may_be(path: Path) -> None:
    write(path, table(100, 10), **NEW)
    writer = appending(path)
    writer.append(table(200, 10).to_batches()[0])
    got = read(path, with_offsets="true")
    assert rows_of(got, "n") == rows_of(table(100, 10), "n") + rows_of(table(200, 10), "n")
    assert got["_commit"].null_count == 10


@pytest.mark.parametrize("then", ["append", "seal", "another takes over"])
def test_a_read_gives_what_was_there_when_it_was_planned(then: str, path: Path) -> None:
    write(path, table(100, 10), **NEW)
    writer = appending(path)
    writer.append(table(200, 10).to_batches()[0])
    reader = source(path).reader(source(path).schema())
    planned = reader.partitions()
    writer.append(table(300, 10).to_batches()[0])
    if then == "seal":
        writer.seal()
    elif then == "another takes over":
        write(path, table(400, 10))
    assert rows_of(done(reader, planned), "n") == [
        (n,) for n in [*range(100, 110), *range(200, 210)]
    ]


def test_an_offset_is_the_number_of_rows_before_in_the_partition(path: Path) -> None:
    for start in (100, 200, 300):
        write(path, table(start, 10), table(start + 10, 10), **NEW)
    got = read(path, with_offsets="true")
    head = commits_of(path).head
    for p, count in enumerate(head.rows):
        mine = got.filter(pc.equal(got["_partition"], p))
        assert sorted(mine["_offset"].to_pylist()) == list(range(count))
    assert sorted(set(got["_commit"].to_pylist())) == [2, 4, 6]


def test_since_leaves_out_rows_before_and_does_not_open_segments_of_them(path: Path) -> None:
    for start in (100, 200, 300):
        write(path, table(start, 20), **NEW)
    (path / "segments" / segments_of(path)[0]).unlink()
    assert rows_of(read(path, since=210), "n") == [
        (n,) for n in [*range(210, 220), *range(300, 320)]
    ]
    got = read(path, since="1970-01-01T00:00:00.305Z", partitions="0,2")
    assert min(got["n"].to_pylist()) >= 305


def test_small_segments_share_a_task(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for start in range(100, 200, 10):
        write(path, table(start, 10), **NEW)
    reader = source(path).reader(source(path).schema())
    assert len(reader.partitions()) == 1
    monkeypatch.setattr(spark_reader, "TASK_BYTES", 1)
    assert len(reader.partitions()) == 10
    assert done(reader, reader.partitions()).num_rows == 100


def test_columns_that_are_asked_for_come_in_that_order(path: Path) -> None:
    write(path, table(100, 3), **NEW)
    schema = source(path).schema()
    schema.fields = [schema["n"], schema["ts"]]
    schema.names = ["n", "ts"]
    assert read(path, schema).column_names == ["n", "ts"]
    other = schema_of(pa.table({"n": ["text"]}))
    with pytest.raises(SchemaError, match="column 'n' string is not there; the journal has"):
        read(path, other)


def damage(path: Path) -> None:
    file = path / "segments" / segments_of(path)[0]
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize(
    "harm", [damage, lambda path: (path / "segments" / segments_of(path)[0]).unlink()]
)
def test_damage_has_a_name_and_gives_no_row(harm: Callable[[Path], None], path: Path) -> None:
    write(path, table(100, 3_000), **NEW)
    harm(path)
    with pytest.raises(JournalError, match="segment"):
        read(path)


@pytest.mark.parametrize("seed", range(5))
def test_random_writes_are_read_back_once(seed: int, path: Path) -> None:
    rng = random.Random(seed)
    start, all_rows = 1_000, []
    for number in range(6):
        rows = table(start, rng.randrange(500))
        cuts = sorted(rng.choices(range(len(rows) + 1), k=rng.randrange(4)))
        ends = [*cuts, len(rows)]
        shares = [rows.slice(a, b - a) for a, b in zip([0, *cuts], ends, strict=True)]
        for _ in range(rng.choice((1, 1, 2))):
            write(path, *shares, batch_rows=rng.choice((7, 100)), query="q", batch=number, **NEW)
        all_rows.append(rows)
        start += len(rows) + 10
    assert rows_of(read(path)) == rows_of(pa.concat_tables(all_rows))


# -- the checks can fail --------------------------------------------------------------------------


def _take_away_all(commits: Commits, results: Sequence[TaskResult]) -> None:
    for name in (tally.name for result in results for tally in result.tallies):
        commits.disk.unlink(name)


def test_an_abort_that_does_not_look_is_caught(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_writer, "discard", _take_away_all)
    with pytest.raises(JournalError):
        test_an_aborted_batch_leaves_no_file_and_a_committed_one_is_not_taken_back(path)


def test_a_writer_that_does_not_ask_what_is_in_is_caught(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_writer, "is_in", lambda *_: False)
    with pytest.raises(AssertionError):
        test_a_batch_that_is_in_comes_again_and_changes_nothing(path)


def test_a_read_that_goes_on_behind_what_was_planned_is_caught(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Endless(Growing):
        def next(self) -> Piece | None:
            self.end = self._disk.size(self.name)
            return super().next()

    monkeypatch.setattr(spark_reader, "Growing", Endless)
    with pytest.raises(AssertionError):
        test_a_read_gives_what_was_there_when_it_was_planned("append", path)
