"""Rows that a job's plan cannot process: the same in every replica, counted, told and kept."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gapless as gl
from gapless.actors import rejects
from gapless.actors.rejects import Rejects
from gapless.actors.watched import WatchedExecutor
from gapless.engine.plan import Plan
from gapless.engine.splice import Runnable, Splice
from gapless.failover.messages import Life
from gapless.journal.disk import LocalDisk
from gapless.operators import evaluation
from gapless.operators.aside import SetAside
from gapless.protocol.elements import INF
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import RowError
from gapless.protocol.expr import Expr, col
from gapless.protocol.failed_rows import Answers, answers
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb

COLUMNS = {"ts": "int64", "len": "int64", "n": "int64"}
SCHEMA = StreamSchema(COLUMNS)
LIFE = Life("r0.1", Incarnation(1, 4))

Row = tuple[int, int, int]
Mode = Literal["aside", "stop"]


def share(length: pa.Array, n: pa.Array) -> pa.Array:
    """What a person writes: it raises for the whole frame."""
    return pa.array([a // b for a, b in zip(length.to_pylist(), n.to_pylist(), strict=True)])


def a_query(on_error: Mode = "aside") -> gl.Query:
    flows = gl.source("flows", COLUMNS, time="ts", time_unit="ms")
    checked = flows.where(col("len") // col("n") >= -100).map(
        share=gl.function(share, "len", "n", returns="int64"), n=col("n")
    )
    counts = checked.window(range=4, slide=2).group_by("n").aggregate(sum=gl.sum("share"))
    return counts.on_error(on_error)


def frame(rows: Sequence[Row], stable: int | None = None) -> Frame:
    columns = [pa.array([row[i] for row in rows], pa.int64()) for i in range(3)]
    times = columns[0].to_numpy()
    return Frame.from_columns(SCHEMA, times, times + 1, columns, stable=stable)


def answered(
    plan: Runnable, rows: Sequence[Row], cuts: Sequence[int]
) -> tuple[Tdb, Counter[tuple[str, str, str]]]:
    """The table of the rows when they are cut like that, and what was set aside."""
    executor = WatchedExecutor("a", plan, None)
    told: list[SetAside] = []
    executor.on_aside = lambda kept, _: told.extend(kept)
    table, at = Tdb(executor.schema), 0
    for length in (*cuts, len(rows)):
        table.fold(executor.push("flows", frame(rows[at : at + length])))
        at = min(len(rows), at + length)
    table.fold(executor.push("flows", frame([], INF)))
    gone = Counter((of.where, of.reason, str(row)) for of in told for row in of.rows.to_pylist())
    assert executor.set_aside == gone.total()
    return table, gone


ROWS = st.lists(
    st.tuples(st.integers(0, 9), st.integers(-9, 9), st.sampled_from([-1, 0, 0, 1, 2])), max_size=20
)
CUTS = st.lists(st.integers(1, 9), max_size=6)


@settings(max_examples=40)
@given(ROWS, CUTS, CUTS)
def test_any_framing_gives_the_same_table_and_the_same_rejects(
    rows: list[Row], one: list[int], other: list[int]
) -> None:
    plan = Plan(a_query())
    table, gone = answered(plan, rows, one)
    assert (table, gone) == answered(plan, rows, other)
    assert gone.total() == sum(n == 0 for _, _, n in rows)


def test_a_function_that_is_judged_by_the_frame_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broken variant: what a frame fails for is all aside."""

    def whole(expr: Expr, batch: pa.RecordBatch) -> Answers:
        found = answers(expr, batch)
        return found._replace(reason=np.zeros(batch.num_rows, np.int64))

    monkeypatch.setattr(evaluation, "answers", whole)
    plan, rows = Plan(a_query()), [(1, 8, 2), (1, 8, 0), (1, 8, 1)]
    assert answered(plan, rows, [1]) != answered(plan, rows, [2])


def test_a_plan_that_stops_still_stops_beside_one_that_goes_on() -> None:
    rows = [(1, 8, 0), (9, 8, 0)]
    modes: list[tuple[Mode, Mode]] = [("stop", "aside"), ("aside", "stop"), ("stop", "stop")]
    for old, new in modes:
        with pytest.raises(RowError):
            answered(Splice(Plan(a_query(old)), Plan(a_query(new)), 6), rows, [1])
    _, gone = answered(Splice(Plan(a_query()), Plan(a_query()), 6), rows, [1])
    assert gone.total() > 0


def test_more_than_can_be_kept_of_one_frame_stops_no_replica(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All of them would stop at the same row."""
    monkeypatch.setattr("gapless.operators.aside.Aside.__init__.__defaults__", ("aside", 2))
    executor = WatchedExecutor("a", Plan(a_query()), None)
    told: list[tuple[int, int]] = []
    executor.on_aside = lambda kept, count: told.append(
        (sum(of.rows.num_rows for of in kept), count)
    )
    executor.push("flows", frame([(1, 8, 0)] * 2))
    executor.push("flows", frame([(1, i, 0) for i in range(9)]))
    assert [count for _, count in told] == [2, 9]
    assert executor.set_aside == 11


# -- how they are kept ------------------------------------------------------------------------


class Kept:
    """Rejects of a life whose hands do what they are asked for when the test says so."""

    def __init__(self, path: Path | LocalDisk) -> None:
        self.disk = path if isinstance(path, LocalDisk) else LocalDisk(path)
        self.work: list[Callable[[], None]] = []
        self.alarms: list[str] = []
        self.rejects = Rejects(
            LIFE, "a", self.disk, self.work.append, lambda do: do(), self.alarms.append
        )

    def take(self, *rows: Row, where: str = "map share", reason: str = "no") -> None:
        self.rejects.take([SetAside(where, reason, frame(rows).batch)], len(rows))

    def write(self) -> list[dict[str, object]]:
        for work in self.work:
            work()
        self.work.clear()
        text = self.disk.read(self.rejects.name, 0, 1 << 20).decode()
        return [json.loads(line) for line in text.splitlines()]


def test_a_line_says_the_row_with_the_reason_and_who_could_not_process_it(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.take((1, 8, 0), reason="ZeroDivisionError: no")
    [line] = kept.write()
    assert line["reason"] == "ZeroDivisionError: no"
    assert line["origin"] == "r0.1/1.4, plan a: map share"
    assert isinstance(line["row"], dict)
    assert line["row"].items() >= {"_vs": 1, "len": 8, "n": 0}.items()
    assert kept.rejects.name == "rejects/r0.1.jsonl"


def test_the_first_row_is_told_the_tenth_and_the_hundredth(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    for i in range(200):
        kept.take((i, 8, 0))
    assert [alarm.split()[0] for alarm in kept.alarms] == ["1", "10", "100"]
    assert "map share: no; see rejects/r0.1.jsonl" in kept.alarms[0]
    assert kept.rejects.count == 200


def test_what_the_disk_is_too_slow_for_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rejects, "WAITING_ROWS_MAX", 3)
    kept = Kept(tmp_path)
    for i in range(20):
        kept.take((i, 8, 0), (i, 9, 0))
    assert len(kept.work) == 1
    assert len(kept.write()) == 2
    assert (kept.rejects.count, kept.rejects.lost) == (40, 38)
    assert any("of them are not in it" in alarm for alarm in kept.alarms)
    kept.take((99, 1, 0))
    assert len(kept.write()) == 3


def test_a_full_file_takes_no_more_and_that_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rejects, "FILE_BYTES_MAX", 1)
    kept = Kept(tmp_path)
    for i in range(5):
        kept.take((i, 8, 0))
        assert len(kept.write()) == 1
    assert kept.rejects.lost == 4
    assert sum("remove it for newer ones" in alarm for alarm in kept.alarms) == 1


def test_a_full_disk_ends_no_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(tmp_path)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(LocalDisk, "append", full)
    for i in range(5):
        kept.take((i, 8, 0))
        kept.write()
    assert kept.rejects.lost == 5
    assert sum("No space left" in alarm for alarm in kept.alarms) == 1


class FailingDisk(LocalDisk):
    """Takes nothing as long as it has a reason."""

    why = ""

    def append(self, name: str, data: bytes) -> int:
        if self.why:
            raise OSError(self.why)
        return super().append(name, data)


def test_a_disk_that_fails_is_told_whatever_was_lost_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rejects, "WAITING_ROWS_MAX", 2)
    disk = FailingDisk(tmp_path)
    kept = Kept(disk)

    def told() -> list[str]:
        return [alarm for alarm in kept.alarms if "not kept" in alarm]

    kept.take((1, 8, 0))
    kept.take((2, 8, 0), (3, 8, 0))
    assert len(told()) == 1  # as soon as the bound costs rows
    assert "wait" in told()[0]
    kept.write()
    for why in ("no room", "no room", "read-only"):
        disk.why = why
        kept.take((4, 8, 0))
        kept.write()
    assert [alarm.rpartition(": ")[2].split(";")[0] for alarm in told()[1:]] == [
        "no room",
        "read-only",
    ]
    disk.why = ""
    kept.take((5, 8, 0))
    kept.write()
    disk.why = "read-only"
    for _ in range(100):
        kept.take((6, 8, 0))
        kept.write()
    assert len(told()) == 3 + 2  # the 10th and the 100th loss, whatever disk it is
    assert kept.rejects.lost == 2 + 3 + 100


def test_of_ever_new_reasons_for_which_rows_are_lost_a_few_are_told_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rejects, "REASONS_MAX", 2)
    disk = FailingDisk(tmp_path)
    kept = Kept(disk)
    for i in range(100):
        disk.why = f"error {i}"
        kept.take((i, 8, 0))
        kept.write()
    told = [alarm.rpartition("error ")[2] for alarm in kept.alarms if "error" in alarm]
    assert told == ["0", "1", "9", "99"]
