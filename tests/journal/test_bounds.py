"""What happens at the bounds of a journal that no simulated job comes to."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from gapless.chaos.sim.disk import SimulatedDisk
from gapless.journal import batch as batches
from gapless.journal import disk as disks
from gapless.journal import epoch, head, rejects, segment
from gapless.journal.batch import TaskWriter, commit_batch, writing_epoch
from gapless.journal.commit import Commits
from gapless.journal.disk import LocalDisk
from gapless.journal.layout import establish
from gapless.protocol.elements import BEGIN
from gapless.protocol.envelope import HEADER_BYTES
from tests.journal.journals import Row, batch, layout, memory, read_all

ROWS: list[Row] = [(100 + i, "a", i) for i in range(23)]


def committed(rows_of_each_call: int) -> SimulatedDisk:
    """A journal with one batch, given to its writer in several calls."""
    disk = memory()
    establish(disk, layout(), "p")
    commits = Commits(disk, layout())
    number = writing_epoch(commits, "run r", "r", 7, process="p", durable=False)
    written = TaskWriter(disk, layout(), number, "t", BEGIN, batch=0, durable=False)
    for at in range(0, len(ROWS), rows_of_each_call):
        written.add(batch(ROWS[at : at + rows_of_each_call]))
    commit_batch(
        commits, number, "c", [written.finish()], batch=0, now_ms=7, query="q", durable=False
    )
    return disk


@pytest.mark.parametrize("rows", [1, 5, 22, 23, 24])
def test_a_batch_writes_its_records_when_they_have_rows_enough(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    write = batches.TaskWriter._write

    def counted(self: TaskWriter) -> None:
        written.append(self._waiting_rows)
        write(self)

    monkeypatch.setattr(batches.TaskWriter, "_write", counted)
    monkeypatch.setattr(batches, "RECORD_ROWS", rows)
    assert sorted(read_all(committed(2))) == sorted(ROWS)
    assert max(written) <= rows + 1, "a call of two rows may go one beyond"
    assert sum(written) == len(ROWS)


def test_files_beyond_the_bound_are_closed_and_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disks, "WRITTEN_OPEN_MAX", 2)
    monkeypatch.setattr(disks, "ENTERED_MAX", 2)
    disk, wanted = LocalDisk(tmp_path), dict.fromkeys("abcde", b"")
    rng = random.Random(3)
    for i in range(60):
        name = rng.choice("abcde")
        disk.append(name, bytes([i]))
        disk.sync(name)
        wanted[name] += bytes([i])
        assert len(disk._opened) <= 2
    assert {name: disk.read(name, 0, 100) for name in wanted} == wanted


def test_a_writer_is_told_from_the_claims_that_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(epoch, "LOOKED_AT_MAX", 3)
    disk = memory()
    for i in range(5):
        epoch.claim(disk, i, f"writer {i}", f"t{i}")
    assert epoch.epoch_of(disk, "t4", 0) == 5
    assert epoch.epoch_of(disk, "t2", 0) == 3
    assert epoch.epoch_of(disk, "t1", 0) is None, "three later ones have fenced it"


class Counted(SimulatedDisk):
    """Counts what is written to markers."""

    appends = 0

    def append(self, name: str, data: bytes) -> int:
        self.appends += name.startswith("epochs/")
        return super().append(name, data)


def test_of_many_that_claim_and_never_commit_each_writes_to_few_markers() -> None:
    disk = Counted()
    for i in range(50):
        epoch.claim(disk, 0, f"writer {i}", f"t{i}")
    assert disk.appends < 3 * 50
    assert [i for i in range(1, 52) if not epoch.is_marked(disk, i)] == [50, 51]


def test_of_the_many_processes_of_one_writer_few_write_to_the_marker_before() -> None:
    disk = Counted()
    epoch.claim(disk, 0, "writer", "old")
    for _ in range(50):
        assert epoch.claim(disk, 1, "run", "shared", shared=True) == 2
    assert disk.appends < 6


def test_a_marker_takes_no_more_than_is_read_of_it_and_a_marked_one_stays_marked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(epoch, "MARKER_BYTES_MAX", 1 << 10)
    monkeypatch.setattr(epoch, "has_fenced", lambda *_: False)
    disk = memory()
    for i in range(60):  # each dies before it has fenced all that were before it
        epoch.claim(disk, 0, "x" * i, f"t{i}")
        assert all(epoch.is_marked(disk, number) for number in range(1, i))
    assert disk.size(epoch.marker(1)) <= epoch.MARKER_BYTES_MAX
    epoch.check_marker(disk.read(epoch.marker(1), 0, epoch.MARKER_BYTES_MAX))


def test_a_journal_remembers_so_many_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "QUERIES_MAX", 2)
    disk = memory()
    establish(disk, layout(), "p")
    for i in range(4):
        commits = Commits(disk, layout())
        number = writing_epoch(commits, f"run {i}", f"r{i}", 7, process=f"p{i}", durable=False)
        stable = commits.head.stable
        written = TaskWriter(disk, layout(), number, f"t{i}", stable, batch=i, durable=False)
        written.add(batch([(100 + i, "a", i)]))
        done = [written.finish()]
        commit_batch(
            commits, number, f"c{i}", done, batch=i, now_ms=7, query=f"q{i}", durable=False
        )
    assert dict(Commits(disk, layout()).head.queries) == {"q2": 2, "q3": 3}
    assert len(read_all(disk)) == 4


def test_a_long_row_is_cut_in_the_file_of_rejected_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rejects, "LINE_CHARS_MAX", 120)
    rows = [("late", "batch 1", {"text": "x" * n}) for n in (0, 30, 60, 90, 1_000)]
    lines = rejects.lines(1, rows).splitlines()
    assert all(len(line) < 2 * 120 + 60 for line in lines)
    assert [json.loads(line)["reason"] for line in lines] == ["late"] * len(rows)


@pytest.mark.parametrize("sought", range(HEADER_BYTES + 1, HEADER_BYTES + 40, 3))
def test_a_record_behind_damage_is_found_wherever_a_search_is_cut(
    sought: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = committed(5)
    [name] = [name for name in disk.files("segments") if disk.size(name)]
    data = disk.read(name, 0, disk.size(name))
    behind = b"\x00" * 300 + data
    wanted = segment.next_header(memoryview(behind), 0, len(behind))
    assert wanted == 300
    monkeypatch.setattr(segment, "SOUGHT_BYTES", sought)
    assert segment.next_header(memoryview(behind), 0, len(behind)) == wanted
