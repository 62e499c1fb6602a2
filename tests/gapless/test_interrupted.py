"""Ctrl-C at every line of what reads and writes here: nothing goes on as if all had been read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gapless as gl
from gapless import embedded
from gapless.engine import execute as execute_module
from gapless.io import journal_handles as journals
from gapless.io import parquet_sink
from gapless.journal import cursor, reader
from gapless.protocol.errors import GaplessError, JournalError, Misuse
from tests.interrupts import Interrupts

ROWS = pa.table({"ts": pa.array(range(40), pa.int64()), "n": pa.array(range(40), pa.int64())})
QUERY = gl.source("rows", {"ts": "int64", "n": "int64"}, time="ts").select("n")


def run() -> gl.Execution:
    return gl.execute(QUERY, ROWS, frame_rows=10)


def whole(frames: list[gl.Frame]) -> list[int]:
    return [n for frame in frames for n in frame.payload.column(0).to_pylist()]


def test_an_execution_that_is_interrupted_goes_on_whole_or_says_that_it_cannot() -> None:
    interrupts = Interrupts(embedded, execute_module)
    wanted = whole(list(run()))
    said = 0
    for number in range(1, 200):
        execution = run()
        was_interrupted, first = interrupts.at(number, lambda: next(execution))  # noqa: B023  # of this turn
        if not was_interrupted:
            assert whole([first, *execution]) == wanted
            break
        try:
            assert whole(list(execution)) == wanted
        except Misuse:
            said += 1
            with pytest.raises(Misuse, match="KeyboardInterrupt"):
                next(execution)
    assert said > 5


def test_a_file_of_results_that_is_interrupted_is_not_there(tmp_path: Path) -> None:
    interrupts = Interrupts(embedded, parquet_sink)
    path = tmp_path / "out.parquet"
    for number in range(1, 200):
        was_interrupted, rows = interrupts.at(number, lambda: run().to_parquet(path))
        if path.exists():  # then it is whole, though its caller may have been interrupted
            assert len(pq.read_table(path)) == 40
            path.unlink()
        else:
            assert was_interrupted
        if not was_interrupted:
            assert rows == 40
            return


TABLES: dict[str, tuple[Callable[[], Any], int]] = {
    "table": (lambda: gl.table(QUERY, ROWS), 1),
    "to_arrow": (lambda: run().to_arrow(), 40),
    "to_pandas": (lambda: run().to_pandas(), 40),
}


@pytest.mark.parametrize("how", TABLES)
def test_a_table_that_was_interrupted_is_computed_anew(how: str) -> None:
    call, size = TABLES[how]
    interrupts = Interrupts(embedded, execute_module)
    struck = 0
    for result in interrupts.everywhere(call):
        struck += result is KeyboardInterrupt
    assert (len(result), struck > 5) == (size, True)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    with gl.JournalWriter(tmp_path / "rows", {"ts": "int64", "n": "int64"}, time="ts") as writer:
        for start in range(0, 40, 4):
            writer.append(ROWS.slice(start, 4))
    return tmp_path / "rows"


def test_a_read_of_a_journal_that_is_interrupted_has_not_moved_its_position(
    journal: Path,
) -> None:
    interrupts = Interrupts(journals, reader, cursor)
    struck = 0
    for number in range(1, 400):
        got: list[int] = []
        with gl.JournalReader(journal, frame_rows=7) as first:
            got += whole_rows(first.read())
            before = first.position
            was_interrupted, frame = interrupts.at(number, first.read)
            position = first.position
            if was_interrupted:
                assert position == before
                try:
                    frame = first.read()  # it was not in the middle of it
                except JournalError:
                    struck += 1
            position = first.position
            assert position[0] == before[0] + (0 if frame is None else len(frame))
            got += [] if frame is None else whole_rows(frame)
        with gl.JournalReader(journal, start=position) as second:
            for each in second:
                got += whole_rows(each)
        assert got == list(range(40))
        if not was_interrupted:
            break
    assert struck > 20


def test_one_who_follows_and_is_interrupted_while_nothing_comes_reads_on(journal: Path) -> None:
    with gl.JournalReader(journal) as follower:
        stop = Waits(after=3)
        got: list[int] = []
        try:
            for frame in follower.follow(stop):
                got += whole_rows(frame)
        except KeyboardInterrupt:
            assert stop.left == 0
        assert got == list(range(40))
        with gl.JournalWriter(journal) as writer:
            writer.append(ROWS.slice(39, 1))
            writer.end()
        for frame in follower.follow():
            got += whole_rows(frame)
    assert got == [*range(40), 39]


class Waits:
    """Is interrupted at the n-th wait."""

    def __init__(self, after: int) -> None:
        self.left = after

    def is_set(self) -> bool:
        return False

    def wait(self, timeout: float) -> bool:  # noqa: ARG002  # nobody waits here
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt
        return False


def test_an_append_that_is_interrupted_is_in_or_not_and_the_writer_says_so(tmp_path: Path) -> None:
    interrupts = Interrupts(journals)
    for number in range(1, 100):
        path = tmp_path / str(number)
        writer = gl.JournalWriter(path, {"ts": "int64", "n": "int64"}, time="ts")
        was_interrupted, _ = interrupts.at(number, lambda: writer.append(ROWS))  # noqa: B023  # of this turn
        if not was_interrupted:
            assert number > 5
            return
        try:
            writer.append(ROWS.slice(0, 0))
        except GaplessError:
            with pytest.raises(GaplessError, match="interrupted"):
                writer.append(ROWS)
        with gl.JournalReader(path) as read:
            assert sum(len(whole_rows(frame)) for frame in read) in (0, 40)


def whole_rows(frame: Any) -> list[int]:
    found: list[int] = frame.payload.column(frame.schema.names.index("n")).to_pylist()
    return found
