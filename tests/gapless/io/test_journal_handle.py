"""`gl.JournalWriter` and `gl.JournalReader`: rows as programs have them, times as people write
them, and several processes at one journal.
"""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gapless as gl
from gapless.io.journal_handles import POLL_MS_MAX, layout_from
from gapless.journal import room, takeover
from gapless.journal.commit import Commits
from gapless.journal.disk import LocalDisk

SCHEMA = {"ts": "timestamp[ms]", "src": "int32", "len": "double"}
EXAMPLES = Path(__file__).parents[3] / "examples" / "journal"
NOON = 1_714_564_800_000  # 2024-05-01 12:00:00


def made(path: Path, **options: Any) -> gl.JournalWriter:
    given: dict[str, Any] = {"time": "ts", "key": "src", "partitions": 4, "lateness": "5s"}
    return gl.JournalWriter(path / "j", SCHEMA, **{**given, **options})


def rows(path: Path, **options: Any) -> list[dict[str, Any]]:
    """All rows that a reader gets, in the order of their numbers."""
    with gl.JournalReader(path / "j", **options) as reader:
        frames = list(reader)
    got = [row for frame in frames for row in frame.payload.to_pylist()]
    return sorted(got, key=repr)


def rejects(path: Path) -> list[dict[str, Any]]:
    files = sorted((path / "j" / "rejects").glob("*"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


# -- rows in --------------------------------------------------------------------------------------

TICKS = [NOON, NOON + 1, NOON + 2]
TIMES = pa.array(TICKS, pa.timestamp("ms"))
TABLE = pa.table({"ts": TIMES, "src": pa.array([1, 2, 3], pa.int32()), "len": [1.0, None, 2.5]})

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


# -- reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "since",
    [
        NOON,
        "2024-05-01T12:00:00",
        "2024-05-01 14:00:00+02:00",
        datetime(2024, 5, 1, 12, tzinfo=UTC),
        datetime(2024, 5, 1, 12),  # noqa: DTZ001  # without a zone it is UTC
        np.datetime64("2024-05-01T12:00:00"),
    ],
)
def test_times_are_said_in_many_forms(since: Any, tmp_path: Path) -> None:
    with made(tmp_path, lateness=0) as writer:
        for hour in range(4):
            writer.append({"ts": [NOON + (hour - 2) * 3_600_000], "src": [hour], "len": [0.0]})
            writer.seal()
    assert [row["src"] for row in rows(tmp_path, since=since)] == [2, 3]
    with gl.JournalReader(tmp_path / "j") as reader:
        reader.skip_before(since)
        assert sum(len(frame) for frame in reader) == 2


@given(
    st.lists(st.lists(st.integers(0, 100), max_size=6), max_size=8),
    st.integers(1, 7),
    st.sets(st.integers(0, 3), min_size=1),
    st.lists(st.booleans(), min_size=8, max_size=8),
)
def test_oracle_a_reader_gets_each_row_that_was_not_late_once(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[list[int]],
    frame_rows: int,
    partitions: set[int],
    seals: list[bool],
) -> None:
    path = tmp_path_factory.mktemp("oracle")
    expected: list[int] = []
    largest, number = -5_000 - 1, 0
    with made(path) as writer, gl.JournalReader(path / "j", frame_rows=frame_rows) as beside:
        seen: list[gl.Frame] = []
        for times, seal in zip(batches, seals, strict=False):
            numbers = range(number, number + len(times))
            number += len(times)
            given = {"ts": [1_000 * t for t in times], "src": numbers, "len": [0.0] * len(times)}
            writer.append({**given, "src": list(numbers)})
            if seal:
                writer.seal()
            on_time = [
                i for i, t in zip(numbers, times, strict=True) if 1_000 * t >= largest - 5_000
            ]
            expected += on_time
            largest = max([largest, *(1_000 * t for t in times)])
            seen += beside  # from where it was
        stable = writer.stable
    numbers_seen = sorted(row["src"] for frame in seen for row in frame.payload.to_pylist())
    assert numbers_seen == expected
    assert max((f.stable for f in seen if f.stable is not None), default=stable) == stable
    some = rows(path, partitions=partitions, columns=["src"])
    others = rows(path, partitions={0, 1, 2, 3} - partitions or {0}, columns=["src"])
    if len(partitions) < 4:
        assert sorted(row["src"] for row in some + others) == expected


class Waits:
    """An event that notes how long it is waited for, and is set after so many waits."""

    def __init__(self, waits: int, meanwhile: Callable[[int], object] = lambda _: None) -> None:
        self.timeouts_ms: list[float] = []
        self._waits = waits
        self._meanwhile = meanwhile

    def is_set(self) -> bool:
        return len(self.timeouts_ms) >= self._waits

    def wait(self, timeout: float) -> bool:
        self.timeouts_ms.append(timeout * 1_000)
        self._meanwhile(len(self.timeouts_ms))
        return self.is_set()


def test_a_follower_looks_less_often_while_nothing_comes(tmp_path: Path) -> None:
    with made(tmp_path) as writer, gl.JournalReader(tmp_path / "j") as reader:
        stop = Waits(10, lambda n: writer.append(TABLE) if n == 6 else None)
        frames = list(reader.follow(stop))
    assert [len(frame) for frame in frames] == [3]
    assert stop.timeouts_ms == [1, 2, 4, 8, 10, 10, 1, 2, 4, 8]
    assert max(stop.timeouts_ms) == POLL_MS_MAX


def test_a_follower_ends_with_its_journal(tmp_path: Path) -> None:
    with made(tmp_path) as writer, gl.JournalReader(tmp_path / "j") as reader:
        following = reader.follow()
        for number in range(3):
            writer.append({**TABLE.to_pydict(), "src": [number] * 3})
            assert next(following).payload.column("src").to_pylist() == [number] * 3
        writer.end()
        assert [frame.stable for frame in following] == [gl.INF]
        assert reader.ended
        assert list(reader.follow()) == []


def test_a_follower_ends_when_it_is_told(tmp_path: Path) -> None:
    stop = Event()
    with made(tmp_path) as writer, gl.JournalReader(tmp_path / "j") as reader:
        writer.append(TABLE)
        frames = []
        for frame in reader.follow(stop):
            frames.append(frame)
            stop.set()
            writer.append(TABLE)
        assert [len(frame) for frame in frames] == [3]
        with gl.JournalReader(tmp_path / "j", start=reader.position) as later:
            assert sum(len(frame) for frame in later) == 3
    with pytest.raises(gl.Misuse, match="was closed"):
        reader.read()


# -- processes ------------------------------------------------------------------------------------

PRINTS = "print(i, flush=True)"
APPENDS = f"""
import sys, gapless as gl
path, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
schema = dict(ts="int64", src="int64")
writer = gl.JournalWriter(path, schema, time="ts", key="src", partitions=3, segment_bytes=20_000)
print("ready", flush=True)
sys.stdin.readline()
try:
    for i in range(first, first + count):
        writer.append(dict(ts=[i] * 50, src=list(range(50 * i, 50 * i + 50))))
        {PRINTS}
except gl.Fenced as error:
    print("fenced:", error, flush=True)
    sys.exit(2)
if "end" in sys.argv:
    writer.end()
"""

FOLLOWS = """
import sys, gapless as gl
with gl.JournalReader(sys.argv[1], frame_rows=int(sys.argv[2])) as reader:
    print("ready", flush=True)
    promises = []
    for frame in reader.follow():
        for row in frame.payload.column("src").to_pylist():
            print(row)
        if frame.stable is not None:
            print("stable", frame.stable)
print("end", flush=True)
"""


@contextmanager
def process(program: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A Python program that has said that it is ready; killed if it does not end by itself."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", program, *map(str, arguments)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            yield child
        finally:
            child.kill()


def lines_of(child: subprocess.Popen[str]) -> Sequence[str]:
    assert child.stdout is not None
    return child.stdout.read().splitlines()


def go(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()


def test_followers_in_other_processes_see_the_same_rows_and_stables(tmp_path: Path) -> None:
    path, count = tmp_path / "j", 60
    with (
        process(APPENDS, path, 0, count, "end") as writer,
        process(FOLLOWS, path, 7) as narrow,
        process(FOLLOWS, path, 100_000) as wide,
    ):
        go(writer)
        told = [lines_of(narrow), lines_of(wide)]
    stables = []
    for lines in told:
        assert lines[-1] == "end"
        assert [int(line) for line in lines if line.isdecimal()] != []
        at: dict[int, list[int]] = {}  # which rows were given before each stable
        given: list[int] = []
        for line in lines[:-1]:
            if line.startswith("stable"):
                at[int(line.split()[1])] = sorted(given)
            else:
                given.append(int(line))
        assert sorted(given) == list(range(50 * count))
        stables.append(at)
        for stable, before in at.items():
            assert before[: 50 * min(stable, count)] == list(range(50 * min(stable, count)))
    assert max(stables[0]) == max(stables[1]) == gl.INF
    for stable in stables[0].keys() & stables[1].keys():
        assert stables[0][stable] == stables[1][stable]


def rows_after_two_writers(path: Path) -> tuple[list[int], list[int], str]:
    """What a journal has, and what its writers were told, where a second comes while the first
    appends; and the last that the first one said.
    """
    with process(APPENDS, path, 0, 10**6) as first:
        go(first)
        assert first.stdout is not None
        acked = [int(first.stdout.readline()) for _ in range(5)]
        with process(APPENDS, path, 10**6, 20) as second:
            go(second)
            told = lines_of(second)
            assert second.wait() == 0
        *rest, last = lines_of(first)
        assert first.wait() == 2
    acked += [int(line) for line in rest]
    with gl.JournalReader(path) as reader:
        got = [row for frame in reader for row in frame.payload.column("src").to_pylist()]
    return sorted(got), [*acked, *map(int, told)], last


def expected_after(acked: list[int]) -> list[list[int]]:
    """The rows of the batches that were acknowledged, without and with the one in between."""
    last = max(i for i in acked if i < 10**6)
    batches = [sorted(acked), sorted([*acked, last + 1])]
    return [[row for i in each for row in range(50 * i, 50 * i + 50)] for each in batches]


def test_of_two_writers_the_later_wins_and_the_earlier_is_told(tmp_path: Path) -> None:
    got, acked, last = rows_after_two_writers(tmp_path / "j")
    assert re.search("fenced: .*this writer is of epoch 1, .* taken the journal over", last)
    assert "process" in last, "who has taken over is said"
    assert got in expected_after(acked)


def test_that_check_can_fail(tmp_path: Path) -> None:
    """A writer that does not look for a later one says that it has written what nobody reads."""
    careless = "import gapless.journal.writer as w; w.is_fenced = lambda *_: False\n"
    pausing = APPENDS.replace(PRINTS, f"{PRINTS}\n        if i == 4: sys.stdin.readline()")
    unsealed = pausing.replace("20_000", "1 << 30")  # at a seal it would find out
    path = tmp_path / "j"
    with process(careless + unsealed, path, 0, 10) as first:
        go(first)
        assert first.stdout is not None
        acked = [int(first.stdout.readline()) for _ in range(5)]
        gl.JournalWriter(path).close()
        go(first)
        acked += [int(line) for line in lines_of(first)]
    assert acked == list(range(10))
    with gl.JournalReader(path) as reader:
        got = sorted(row for frame in reader for row in frame.payload.column("src").to_pylist())
    assert got not in expected_after(acked)


def test_a_writer_that_is_overtaken_while_it_seals_writes_into_no_segment_of_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, others = made(tmp_path), []
    first.append(TABLE)
    add = first._commits.add

    def overtaken(*arguments: Any, **options: Any) -> bool:
        done = add(*arguments, **options)
        others.append(made(tmp_path))  # between the commit and the segment that is begun then
        return done

    monkeypatch.setattr(first._commits, "add", overtaken)
    with pytest.raises(gl.Fenced):
        first.seal()
    with pytest.raises(gl.Misuse, match="taken over"):
        first.append(TABLE)
    with others[0] as second:
        second.append(TABLE)
        second.seal()
        second.append(TABLE)
    assert len(rows(tmp_path)) == 9


def test_a_writer_that_is_overtaken_while_it_takes_over_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others: list[gl.JournalWriter] = []
    collect = takeover.collect_garbage

    def overtaken(commits: Commits) -> None:
        monkeypatch.undo()
        others.append(made(tmp_path))
        commits.catch_up()
        collect(commits)

    monkeypatch.setattr(takeover, "collect_garbage", overtaken)
    with pytest.raises(gl.Fenced):
        made(tmp_path)
    with others[0] as second:
        second.append(TABLE)
    assert len(rows(tmp_path)) == 3


def test_the_examples_run_one_beside_the_other(tmp_path: Path) -> None:
    path = tmp_path / "readings"

    def example(name: str, *arguments: str) -> str:
        command = [sys.executable, str(EXAMPLES / name), str(path), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout

    assert example("append.py", "20") == "20 batches, 2000 rows, 0 rejected\n"
    told = example("follow.py").splitlines()
    assert sum(int(line.split()[0]) for line in told[:-1]) == 2_000
    assert told[-1].startswith("the end, at {0: ")


def test_a_writer_is_of_one_thread_at_a_time(tmp_path: Path) -> None:
    writer = made(tmp_path)

    def origin(_: int) -> str:  # while the first append is under way
        with pytest.raises(gl.Misuse, match="another thread is appending"):
            writer.append(TABLE)
        return "here"

    written = writer.append({"ts": [NOON, None], "src": [1, 2], "len": [1, 2]}, origin=origin)
    assert (written.rows, written.rejected) == (1, 1)
    assert writer.append(TABLE).rows == 3
    writer.close()
    assert len(rows(tmp_path)) == 4


def test_a_writer_is_of_the_process_that_opened_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = made(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("os.getpid", lambda: -1)  # as in a fork
        for call in (lambda: writer.append(TABLE), writer.sync, writer.close):
            with pytest.raises(gl.Misuse, match="belongs to the parent process"):
                call()
    assert writer.append(TABLE).rows == 3


def test_what_is_not_said_of_a_journal_that_is_there_is_what_it_has(tmp_path: Path) -> None:
    schema = {"ts": "timestamp[ms]", "src": "int32"}
    gl.JournalWriter(
        tmp_path / "j", schema, time="ts", key="src", partitions=3, lateness="5s"
    ).close()
    with gl.JournalWriter(tmp_path / "j", schema) as writer:
        assert (writer.layout.time, writer.layout.partitions) == ("ts", 3)
        assert writer.layout.lateness == 5_000
    with pytest.raises(gl.Misuse, match="lateness 5000, not 9000"):
        gl.JournalWriter(tmp_path / "j", schema, lateness="9s")
    with pytest.raises(gl.Misuse, match="a journal's directory has a name"):
        gl.JournalWriter("", schema, time="ts")
