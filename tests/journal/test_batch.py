"""Batches that many tasks write and one place commits: in once, whichever dies or asks twice."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gapless.chaos.sim.disk import SimulatedDisk
from gapless.journal import batch as batches_module
from gapless.journal import judge
from gapless.journal.batch import (
    TaskResult,
    TaskWriter,
    commit_batch,
    discard,
    writing_epoch,
)
from gapless.journal.commit import Commits
from gapless.journal.disk import Disk, LocalDisk
from gapless.journal.layout import establish
from gapless.journal.partition import partitions_of
from gapless.journal.reader import Reader
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Fenced, JournalError, Misuse
from tests.journal.dying import Died, DyingDisk
from tests.journal.journals import (
    Row,
    batch,
    drain,
    expected,
    layout,
    memory,
    random_batches,
    read_all,
    writer,
)

BATCHES = random_batches(random.Random(12), 6)
TASKS = 3
QUERY = "q"


def opened(disk: Disk, process: str = "p0") -> Commits:
    establish(disk, layout(), process)
    return Commits(disk, layout())


def epoch_of_run(commits: Commits, run: str, process: str = "p", *, durable: bool = False) -> int:
    return writing_epoch(commits, f"run {run}", run, 7, process=process, durable=durable)


def task(
    commits: Commits,
    epoch: int,
    token: str,
    rows: Sequence[Row],
    number: int = 0,
    *,
    promises: Sequence[int] | None = None,
    **options: Any,
) -> TaskResult:
    options.setdefault("durable", False)
    written = TaskWriter(
        commits.disk, layout(), epoch, token, commits.head.stable, batch=number, **options
    )
    written.add(batch(rows), None if promises is None else np.array(promises, np.int64))
    return written.finish()


def commit(
    commits: Commits, epoch: int, results: Sequence[TaskResult], number: int, **options: Any
) -> bool:
    options.setdefault("query", QUERY)
    options.setdefault("durable", False)
    return commit_batch(commits, epoch, f"c{number}", results, batch=number, now_ms=7, **options)


def run(disk: Disk, name: str, *, durable: bool = False) -> None:
    """What a Spark query does with `BATCHES`, from wherever the run before has died: the last batch
    comes again, as Spark does not know whether it was committed.
    """
    commits = opened(disk, name)
    for number in range(commits.head.queries.get(QUERY, 0), len(BATCHES)):
        results = []
        for i in range(TASKS):
            seen = Commits(disk, layout())  # each task is a process of its own
            if batches_module.is_in(seen, QUERY, number):
                continue
            epoch = epoch_of_run(seen, name, f"{name}.{number}.{i}", durable=durable)
            token = f"{number}.{i}.{name}"
            rows = BATCHES[number][i::TASKS]
            results.append(task(seen, epoch, token, rows, number, durable=durable))
        if results:
            epoch = epoch_of_run(commits, name, durable=durable)
            commit(commits, epoch, results, number, durable=durable)


def judged() -> tuple[list[Row], list[Row]]:
    """What the plainest rules keep of `BATCHES`, and what they do not."""
    want = expected(BATCHES)
    return [r for rows in want.kept for r in rows], [r for rows in want.late for r in rows]


def check_once(disk: Disk) -> None:
    kept, late = judged()
    reader = Reader(disk)
    assert sorted(map(repr, drain(reader))) == sorted(map(repr, kept))
    assert reader.stable == expected(BATCHES).stables[-1]
    assert Commits(disk, layout()).head.rejected == len(late)


def test_the_rows_are_those_that_one_writer_would_have_taken() -> None:
    disk = memory()
    run(disk, "r1")
    check_once(disk)
    assert judged()[1], "a workload without late rows shows little"


def test_the_reader_gets_the_rows_of_each_batch_and_its_watermark_behind_them() -> None:
    disk, at_once = memory(), memory()
    run(disk, "r1")
    one = writer(at_once)
    for rows in BATCHES:
        one.append(batch(rows))
    one.close()
    assert sorted(map(repr, read_all(disk))) == sorted(map(repr, read_all(at_once)))
    for p in range(layout().partitions):
        mine = read_all(disk, partitions=[p])
        assert sorted(map(repr, mine)) == sorted(map(repr, read_all(at_once, partitions=[p])))


# -- deaths ---------------------------------------------------------------------------------------


def deaths(*, durable: bool, halfway: bool) -> Iterator[DyingDisk]:
    """The same run, dead at its first step, its second, ..."""
    at = 1
    while True:
        disk = DyingDisk(at, halfway=halfway)
        try:
            run(disk, "r1", durable=durable)
        except Died:
            yield disk.revived()
        else:
            return
        at += 1


def check_all_deaths(*, halfway: bool = False) -> None:
    died = 0
    for disk in deaths(durable=False, halfway=halfway):
        run(disk, "r2")
        check_once(disk)
        died += 1
    assert died > 8 * len(BATCHES)


@pytest.mark.parametrize("halfway", [False, True])
def test_every_row_is_there_once_whatever_step_the_run_dies_at(halfway: bool) -> None:
    check_all_deaths(halfway=halfway)


def test_machine_durable_batches_survive_the_machine_at_every_step() -> None:
    rng = random.Random(3)
    for disk in deaths(durable=True, halfway=False):
        disk.crash_machine(rng)
        run(disk, "r2", durable=True)
        check_once(disk)


BROKEN: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "a batch that comes again is not known": (batches_module, "is_in", lambda *_: False),
    "a task judges by what it likes": (
        batches_module,
        "parted",
        lambda rows, shape, *_: judge.parted(rows, shape, BEGIN),
    ),
    "who has claimed an epoch does not end the one before": (
        batches_module,
        "begin",
        lambda commits, epoch, *_, **__: None,
    ),
}


@pytest.mark.parametrize("how", list(BROKEN)[:2])
def test_the_check_sees_what_is_broken(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*BROKEN[how])
    with pytest.raises((AssertionError, JournalError)):
        check_all_deaths()


# -- one run, many processes ----------------------------------------------------------------------


def test_a_run_that_died_between_its_claim_and_the_cut_goes_on_behind_the_rows_before() -> None:
    rows: list[Row] = [(100, "a", 1), (101, "b", 2)]
    for at in range(1, 40):
        disk = DyingDisk(-1)
        writer(disk).append(batch(rows))
        disk.at, disk.changes = at, 0
        try:
            epoch_of_run(Commits(disk, layout()), "r1", "p1")
        except Died:
            pass
        commits = Commits(disk.revived(), layout())
        commit(commits, epoch_of_run(commits, "r1", "p2"), [], 0)
        assert sorted(map(repr, read_all(disk))) == sorted(map(repr, rows))


def test_that_check_sees_a_cut_that_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*BROKEN["who has claimed an epoch does not end the one before"])
    with pytest.raises(AssertionError):
        test_a_run_that_died_between_its_claim_and_the_cut_goes_on_behind_the_rows_before()


class RacingDisk(SimulatedDisk):
    """Somebody else does something just before the first file is made exclusively."""

    def __init__(self) -> None:
        super().__init__()
        self.first: Callable[[], object] | None = None

    def create(self, name: str, data: bytes) -> None:
        first, self.first = self.first, None
        if first is not None:
            first()
        super().create(name, data)


def test_a_task_that_asks_while_another_of_its_run_claims_gets_the_same_epoch() -> None:
    disk = RacingDisk()
    commits = opened(disk)
    got: list[int] = []
    disk.first = lambda: got.append(epoch_of_run(Commits(disk, layout()), "r1", "p1"))
    assert epoch_of_run(commits, "r1", "p2") == 1
    assert got == [1]
    assert not disk.exists("epochs/0000000002")


def test_a_run_that_loses_the_race_to_another_run_comes_after_it() -> None:
    disk = RacingDisk()
    commits = opened(disk)
    disk.first = lambda: epoch_of_run(Commits(disk, layout()), "r1", "p1")
    assert epoch_of_run(commits, "r2", "p2") == 2
    with pytest.raises(Fenced, match="run r2"):
        epoch_of_run(Commits(disk, layout()), "r1", "p3")


def test_many_processes_that_ask_at_once_share_one_epoch_on_a_disk(tmp_path: Path) -> None:
    opened(LocalDisk(tmp_path))
    for run_number in range(1, 6):
        got: list[int] = []
        start = threading.Barrier(8)

        def ask(process: str, run_number: int = run_number, got: list[int] = got) -> None:
            commits = Commits(LocalDisk(tmp_path), layout())
            start.wait()  # noqa: B023  # all threads of this round have ended before the next
            got.append(epoch_of_run(commits, f"r{run_number}", process))

        threads = [threading.Thread(target=ask, args=(f"{run_number}.{i}",)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert got == [run_number] * 8
    assert len(list((tmp_path / "epochs").iterdir())) == 5


def test_a_file_that_is_made_exclusively_is_never_seen_in_part(tmp_path: Path) -> None:
    disk = LocalDisk(tmp_path)
    disk.create("epochs/1", b"whole")
    with pytest.raises(FileExistsError):
        disk.create("epochs/1", b"other")
    assert disk.read("epochs/1", 0, 10) == b"whole"
    assert disk.list("epochs") == ["1"]


# -- batches that come again, and writers that were fenced ----------------------------------------


def test_a_batch_that_is_in_changes_nothing() -> None:
    disk = memory()
    commits = opened(disk)
    epoch = epoch_of_run(commits, "r1")
    assert commit(commits, epoch, [task(commits, epoch, "t0", [(100, "a", 0)])], 0)
    head = Commits(disk, layout()).head
    again = replace(task(commits, epoch, "t1", [(100, "a", 0)]), watermark=commits.head.stable)
    assert not commit(commits, epoch, [again], 0)
    assert Commits(disk, layout()).head == head


def test_a_batch_without_a_name_is_found_by_nobody_and_pushes_no_name_out() -> None:
    commits = opened(memory())
    epoch = epoch_of_run(commits, "r1")
    for i in range(3):
        commits.catch_up()
        result = task(commits, epoch, f"t{i}", [(100 + i, "a", i)])
        assert commit(commits, epoch, [result], 0, query=None)
    commits.catch_up()
    assert dict(commits.head.queries) == {}
    assert len(read_all(commits.disk)) == 3


def test_of_two_runs_the_first_is_told_who_has_come_and_leaves_nothing() -> None:
    disk = memory()
    commits = opened(disk)
    first = epoch_of_run(commits, "r1")
    result = task(commits, first, "t0", [(100, "a", 0)])
    second = epoch_of_run(Commits(disk, layout()), "r2")
    with pytest.raises(Fenced, match="run r2 has taken the journal over with epoch 2"):
        commit(commits, first, [result], 0)
    discard(commits, [result])
    after = Commits(disk, layout())
    assert commit(after, second, [task(after, second, "u0", [(200, "b", 1)])], 0)
    assert read_all(disk) == [(200, "b", 1)]


def test_what_a_commit_names_is_not_discarded() -> None:
    commits = opened(memory())
    epoch = epoch_of_run(commits, "r1")
    taken = [task(commits, epoch, f"t{i}", [(100, "a", i)]) for i in range(2)]
    left = [task(commits, epoch, "t2", [(100, "a", 2)])]
    commit(commits, epoch, taken, 0)
    discard(commits, taken)
    discard(commits, left)
    assert len(commits.disk.list("segments")) == 2
    assert len(read_all(commits.disk)) == 2


def test_a_task_that_gives_up_leaves_no_file() -> None:
    commits = opened(memory())
    written = TaskWriter(commits.disk, layout(), 1, "t0", 100, batch=0, durable=False)
    written.add(batch([(99, "a", 0)] + [(100 + i, "a", i) for i in range(70_000)]))
    assert commits.disk.list("segments")
    assert commits.disk.list("rejects")
    written.abandon()
    assert not commits.disk.list("segments")
    assert not commits.disk.list("rejects")


# -- what is judged, promised and refused ---------------------------------------------------------


def test_a_batch_that_was_judged_by_a_watermark_that_has_moved_is_refused() -> None:
    disk = memory()
    commits = opened(disk)
    epoch = epoch_of_run(commits, "r1")
    stale = task(commits, epoch, "t0", [(100, "a", 0)])
    commit(commits, epoch, [task(commits, epoch, "t1", [(500, "b", 1)])], 0)
    with pytest.raises(JournalError, match="somebody else has written; run it again"):
        commit(commits, epoch, [stale], 1)
    assert read_all(disk) == [(500, "b", 1)]


def test_late_rows_are_told_with_where_each_comes_from() -> None:
    commits = opened(memory())
    written = TaskWriter(commits.disk, layout(), 1, "t0", 100, batch=4, durable=False)
    rows: list[Row] = [(99, "a", 0), (100, "b", 1), (50, "c", 2), (98, "d", 3)]
    written.add(batch(rows), origins=pa.array(["file 1", "file 2", "file 3", None]))
    written.reject([("bad", "file 9", "row")])
    result = written.finish()
    assert (result.rejected, result.late) == (4, 3)
    data = commits.disk.read(result.rejects, 0, 10_000)
    lines = [json.loads(line) for line in data.splitlines()]
    assert [line["origin"] for line in lines] == ["file 1", "file 3", "batch 4", "file 9"]


def in_order(count: int = 40) -> dict[int, list[Row]]:
    rows: list[Row] = [(100 + i, random.Random(i).choice("abcdefgh"), i) for i in range(count)]
    places = partitions_of([batch(rows).column("src")], layout().partitions).tolist()
    return {p: [r for r, at in zip(rows, places, strict=True) if at == p] for p in set(places)}


def test_partitions_that_are_written_each_in_order_are_read_side_by_side() -> None:
    disk = memory()
    commits = opened(disk)
    epoch = epoch_of_run(commits, "r1")
    parts = in_order()
    results = [
        task(commits, epoch, f"t{p}", rows, promises=[r[0] or 0 for r in rows], by_partition=True)
        for p, rows in parts.items()
    ]
    commit(commits, epoch, results, 0)
    assert sorted(read_all(disk)) == sorted(r for rows in parts.values() for r in rows)
    assert len(parts) > 1


def test_by_partition_each_is_one_task_s_and_comes_in_its_order() -> None:
    commits = opened(memory())
    epoch = epoch_of_run(commits, "r1")
    rows = max(in_order().values(), key=len)
    times = [r[0] or 0 for r in rows]
    half = len(rows) // 2
    shared = [
        task(commits, epoch, "t0", rows[:half], promises=times[:half], by_partition=True),
        task(commits, epoch, "t1", rows[half:], promises=times[half:], by_partition=True),
    ]
    with pytest.raises(Misuse, match="two tasks have written partition"):
        commit(commits, epoch, shared, 0)
    with pytest.raises(Misuse, match="some tasks have written by partition, and some have not"):
        commit(commits, epoch, [shared[0], task(commits, epoch, "t2", rows[half:])], 0)
    with pytest.raises(Misuse, match="do not come in their order"):
        task(commits, epoch, "t3", rows[::-1], promises=times[::-1], by_partition=True)
    commits.catch_up()
    assert sum(commits.head.rows) == 0


def test_an_ended_journal_takes_no_batch() -> None:
    disk = memory()
    commits = opened(disk)
    epoch = epoch_of_run(commits, "r1")
    commit(commits, epoch, [task(commits, epoch, "t0", [(100, "a", 0)])], 0, ends=True)
    reader = Reader(disk)
    drain(reader)
    assert reader.ended
    commits.catch_up()
    assert commits.head.stable == INF
    with pytest.raises(Misuse, match="has ended"):
        commit(commits, epoch, [], 1)


def test_a_batch_without_rows_is_in_and_moves_no_watermark() -> None:
    commits = opened(memory())
    epoch = epoch_of_run(commits, "r1")
    commit(commits, epoch, [task(commits, epoch, "t0", [(100, "a", 0)])], 0)
    commits.catch_up()
    stable = commits.head.stable
    assert commit(commits, epoch, [task(commits, epoch, "t1", [])], 1)
    commits.catch_up()
    assert (commits.head.stable, commits.head.queries[QUERY]) == (stable, 1)


@pytest.mark.parametrize("sorts", [False, True])
def test_a_task_may_put_its_rows_in_the_order_of_their_time(sorts: bool) -> None:
    disk = memory()
    commits = opened(disk)
    epoch = epoch_of_run(commits, "r")
    rows: list[Row] = [(100 + i * 7 % 10, "a", i) for i in range(10)]
    commit(commits, epoch, [task(commits, epoch, "t", rows, sorts=sorts)], 0)
    wanted = sorted(rows, key=lambda row: row[0] or 0) if sorts else rows
    assert read_all(disk) == wanted
