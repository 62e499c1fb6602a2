"""Verify finds what readers cannot see, goes on behind what it finds, and says nothing of what is
well.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from gapless.chaos.sim.disk import SimulatedDisk
from gapless.journal import judge, partition, shares, tally, verify, walk
from gapless.journal import writer as writer_module
from gapless.journal.batch import TaskWriter, commit_batch, writing_epoch
from gapless.journal.commit import NEWEST, Commits
from gapless.journal.disk import Disk
from gapless.journal.epoch import LiveEnd, put_live_end
from gapless.journal.layout import Layout, establish
from gapless.journal.reader import Reader
from gapless.journal.readers import register
from gapless.journal.retention import Retention, trim
from gapless.journal.segment import Index, times_of
from gapless.journal.verify import REJECT_FINDINGS_MAX, Verifier
from gapless.journal.walk import Finding
from gapless.journal.writer import Writer
from gapless.protocol.elements import INF
from gapless.protocol.errors import JournalError, Misuse
from gapless.protocol.frame import Frame
from tests.journal.journals import (
    SCHEMA,
    batch,
    drain,
    layout,
    memory,
    random_batches,
    read_all,
    writer,
)


def findings(disk: Disk) -> list[Finding]:
    return list(Verifier(disk).findings())


def serious(disk: Disk) -> list[Finding]:
    return [f for f in findings(disk) if f.severity != "note"]


def filled(disk: Disk, batches: int = 30, seed: int = 1, **options: Any) -> Writer:
    options.setdefault("segment_bytes", 1_200)
    out = writer(disk, **options)
    for rows in random_batches(random.Random(seed), batches):
        out.append(batch(rows))
    return out


def said(disk: Disk) -> str:
    return "\n".join(f"{f.severity} {f.file} {f.at} {f.what}" for f in serious(disk))


# -- what is well ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_said_of_a_journal_that_is_well(seed: int) -> None:
    rng = random.Random(seed)
    disk, shape = memory(), layout(rng.choice((1, 3, 5)), rng.choice((0, 5)))
    out = writer(disk, shape=shape, segment_bytes=rng.choice((1, 900, 1 << 20)))
    for i, rows in enumerate(random_batches(rng, 60)):
        out.append(batch(rows))
        if rng.random() < 0.05:
            out = writer(disk, f"w{i}", shape=shape, segment_bytes=900)
        if rng.random() < 0.05:
            trim(Commits(disk, shape), Retention(keep_bytes=2_000), token="t", now_ms=1)
        if rng.random() < 0.1:
            assert serious(disk) == []
    if rng.random() < 0.3:
        out.end()
    verifier = Verifier(disk)
    left = [f for f in verifier.findings() if f.severity != "note"]
    assert left == []
    assert verifier.rows == len(read_all(disk))


def test_what_is_no_journal_is_the_callers_mistake() -> None:
    with pytest.raises(Misuse, match="is not a journal"):
        Verifier(memory())


def test_it_says_how_far_it_is() -> None:
    disk = memory()
    filled(disk)
    seen: list[tuple[int, int]] = []
    verifier = Verifier(disk, lambda done, total: seen.append((done, total)))
    assert list(verifier.findings()) == []
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert len({total for _, total in seen}) == 1
    assert seen[-1][0] <= seen[-1][1] == verifier.bytes
    assert verifier.segments == len(seen)


def test_a_trim_or_a_writer_at_work_is_no_damage() -> None:
    disk = memory()
    out = filled(disk)
    found: list[Finding] = []

    def meanwhile(done: int, _: int) -> None:
        if done:
            trim(Commits(disk, layout()), Retention(before=INF), token="t", now_ms=1)
            out.append(batch([(10_000, "a", 1)]))

    found += Verifier(disk, meanwhile).findings()
    assert [f for f in found if f.severity != "note"] == []


# -- what readers cannot see ----------------------------------------------------------------------


def lying(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """A writer that breaks one promise, and computes every checksum over it."""
    if what == "partition":
        of = partition.partitions_of
        monkeypatch.setattr(shares, "partitions_of", lambda keys, n: (of(keys, n) + 1) % n)
    elif what == "late":
        parted = judge.parted
        monkeypatch.setattr(
            writer_module, "parted", lambda rows, shape, _, *more: parted(rows, shape, -INF, *more)
        )
    elif what in ("times", "rows"):
        made = tally.Tally.facts

        def more(self: tally.Tally, rows: list[int], *args: Any, **kwargs: Any) -> Any:
            facts = made(self, rows, *args, **kwargs)
            if what == "times":
                return [fact._replace(largest=fact.largest + 1) for fact in facts]
            for fact in facts[-1:]:
                rows[fact.partition] += 1
                facts[-1] = fact._replace(rows=fact.rows + 1)
            return facts

        monkeypatch.setattr(tally.Tally, "facts", more)
    else:

        def less(head: Any, counted: Any) -> Any:
            after, facts = tally.sealed(head, counted)
            return after, [fact._replace(stable=fact.stable - 3) for fact in facts]

        monkeypatch.setattr(writer_module, "sealed", less)


LIES = {
    "partition": "belongs to another, by its key",
    "late": "promised before",
    "times": "its commit says",
    "rows": "its commit says",
    "stables": "its commit",
}


def check_a_lie_is_found(monkeypatch: pytest.MonkeyPatch, lie: str) -> None:
    disk = memory()
    with monkeypatch.context() as lies:
        lying(lies, lie)
        filled(disk)
    assert LIES[lie] in said(disk)


@pytest.mark.parametrize("lie", LIES)
def test_a_broken_promise_is_found_however_right_the_checksums_are(
    lie: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_a_lie_is_found(monkeypatch, lie)


def test_a_verify_that_trusts_times_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "_below", lambda *_: None)
    with pytest.raises(AssertionError):
        check_a_lie_is_found(monkeypatch, "late")


def frame(times: list[int], stable: int, was: list[int] | None = None, end: int = 5) -> Frame:
    vs = np.array(times, np.int64)
    rows = batch([(t, "a", t) for t in times])
    old = None if was is None else np.array(was, np.int64)
    return Frame.from_columns(SCHEMA, vs, vs + end, rows, was=old, stable=stable)


@pytest.mark.parametrize(
    "late", [frame([15], 30), frame([15], 30, was=[18]), frame([15], 30, was=[25], end=2)]
)
def test_an_element_that_a_stable_forbids_is_found(late: Frame) -> None:
    disk = memory()
    out = writer(disk, shape=Layout(SCHEMA))
    out.append(frame([10, 15, 20], 20))
    out.append(frame([15], 20, was=[20], end=25))
    assert serious(disk) == []
    out.append(late)
    assert "row 4 of partition 0 is below 20, promised before" in said(disk)
    out.seal()
    assert "row 4 of partition 0 is below 20, promised before" in said(disk)


def test_a_base_that_is_no_table_as_of_its_commit_is_found() -> None:
    disk = memory()
    out = writer(disk, shape=Layout(SCHEMA))
    out.append(frame([10, 15], 12))
    out.seal(frame([10, 15], 12))
    assert serious(disk) == []
    out.append(frame([20], 20))
    out.seal(frame([10, 20], 20))
    assert "events that were settled before it" in said(disk)
    out.append(frame([30], 28))
    out.stable -= 1
    out.seal(frame([30], 27))
    assert "it is not as of commit" in said(disk)


# -- beyond the first damage ----------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_every_damaged_record_is_named_with_its_byte(seed: int) -> None:
    rng, disk = random.Random(seed), memory()
    out = filled(disk, segment_bytes=3_000)
    out.seal()
    named = Commits(disk, layout()).facts.column("segment").unique().to_pylist()
    wanted = set()
    for name in named:
        data = disk.read(name, 0, 1 << 20)
        index = Index(name)
        index.extend(memoryview(data))
        for record in rng.sample(index.records, min(2, len(index.records))):
            if record.size > 64 or record.has_rows:
                at = record.at + rng.randrange(record.size)
                flip(disk, name, at)
                wanted.add((name, record.at))
    found = {(f.file, f.at) for f in serious(disk)}
    assert wanted <= found
    with pytest.raises(JournalError):
        read_all(disk)


def flip(disk: SimulatedDisk, name: str, at: int) -> None:
    data = bytearray(disk.read(name, 0, 1 << 20))
    data[at] ^= 1
    disk.truncate(name, 0)
    disk.append(name, bytes(data))


def test_damage_in_one_place_hides_none_in_another() -> None:
    disk = memory()
    filled(disk)
    for name in ("commits/0000000002", "live/0000000001", "epochs/0000000001"):
        flip(disk, name, 9)
    segment = f"segments/{disk.list('segments')[0]}"
    disk.unlink(segment)
    register(disk, "far", {7: 1}, 1)
    register(disk, "broken", {0: 1}, 1)
    flip(disk, "readers/broken", 70)
    disk.append(f"rejects/{disk.list('rejects')[0]}", b"{}\n")
    files = {f.file for f in serious(disk)}
    assert {"commits/0000000002", "live/0000000001", "epochs/0000000001", "readers/far"} <= files
    assert {"readers/broken", f"rejects/{disk.list('rejects')[0]}"} <= files


def test_a_last_commit_that_is_gone_is_found_twice_over() -> None:
    disk = memory()
    out = filled(disk)
    out.seal()
    last = f"commits/{Commits(disk, layout()).head.number:010}"
    disk.unlink(last)
    assert f"damage {last} None it is missing" in said(disk)
    disk.unlink(NEWEST)
    assert "is not committed" in said(disk), "the writer's mark tells, too"


def test_a_mark_of_a_segment_to_come_is_found() -> None:
    disk = memory()
    out = filled(disk)
    put_live_end(disk, out.epoch, LiveEnd(out._commits.head.live + 1, 64))
    assert "is not committed" in said(disk)


@pytest.mark.parametrize("is_damaged", [False, True])
def test_however_many_segments_are_missing_the_chain_is_opened_once(
    is_damaged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = memory()
    filled(disk).seal()
    if is_damaged:
        flip(disk, f"commits/{disk.list('commits')[-2]}", 9)
    names = disk.list("segments")
    for name in names[1:6]:
        disk.unlink(f"segments/{name}")
    opened: list[Disk] = []

    class Counted(Commits):
        def __init__(self, disk: Disk, shape: Layout) -> None:
            opened.append(disk)
            super().__init__(disk, shape)

    monkeypatch.setattr(verify, "Commits", Counted)
    missing = [f.file for f in findings(disk) if f.what == "it is missing"]
    assert missing == [f"segments/{name}" for name in names[1:6]]
    assert len(opened) == 1


# -- what is only good to know --------------------------------------------------------------------


def test_what_is_left_over_or_not_whole_yet_is_noted() -> None:
    disk = memory()
    out = filled(disk)
    live = out._tally.name
    disk.append(live, b"GAPL and then it died")
    disk.append("segments/0000000001-q.1-000000", b"of a task")
    disk.append("commits/0000000001.w1", b"a draft")
    disk.append("bases/0000000000-0000000000", b"of before")
    disk.append(f"rejects/{live.rpartition('/')[2]}.jsonl", b'{"batch": 1')
    notes = {f.file: f.what for f in findings(disk)}
    assert serious(disk) == []
    assert notes[live] == "21 bytes that are not said to be written yet"
    assert "being written, or left over" in notes["segments/0000000001-q.1-000000"]
    assert "commits/0000000001.w1" in notes
    assert "of a writer before, left over" in notes["bases/0000000000-0000000000"]
    assert notes[f"rejects/{live.rpartition('/')[2]}.jsonl"] == "its last line is not whole yet"


def test_a_damaged_file_of_rejected_rows_has_so_many_findings_and_no_more() -> None:
    disk = memory()
    filled(disk)
    disk.append("rejects/0000000000-x.jsonl", b"{}\n" * (REJECT_FINDINGS_MAX + 7))
    found = serious(disk)
    assert len(found) == REJECT_FINDINGS_MAX + 1
    assert found[-1].what == "7 more lines that are no rejected rows"


def test_a_reader_that_needs_what_was_trimmed_is_named() -> None:
    disk = memory()
    filled(disk)
    trim(Commits(disk, layout()), Retention(before=INF), token="t", now_ms=1)
    register(disk, "late", {0: 1}, 1)
    assert "warning readers/late None row 1 of partition 0 is trimmed" in said(disk)


def test_verify_changes_nothing() -> None:
    disk = memory()
    out = filled(disk)
    before = {name: bytes(file.data) for name, file in disk._files.items()}
    findings(disk)
    assert {name: bytes(file.data) for name, file in disk._files.items()} == before
    reader = Reader(disk)
    drain(reader)
    out.append(batch([(10_000, "a", 1)]))
    assert drain(reader) == [(10_000, "a", 1)]


# -- partitions with stables of their own ---------------------------------------------------------


def by_partition(disk: Disk, *, promise_ahead: int = 0) -> None:
    """A batch as Spark sorts it: each partition in a segment of its own, promising what comes."""
    rows = sorted(
        (
            row
            for rows in random_batches(random.Random(4), 40)
            for row in rows
            if row[0] is not None
        ),
        key=lambda row: row[0] or 0,
    )
    establish(disk, layout(), "t")
    commits = Commits(disk, layout())
    epoch = writing_epoch(commits, "a run", "r", 7, process="p", durable=False)
    task = TaskWriter(
        disk, layout(), epoch, "t", commits.head.stable, batch=0, durable=False, by_partition=True
    )
    for start in range(0, len(rows), 20):
        some = batch(rows[start : start + 20])
        task.add(some, times_of(some, layout()) + promise_ahead)
        task._write()
    commit_batch(commits, epoch, "t", [task.finish()], query="q", batch=0, now_ms=7, durable=False)


def test_partitions_may_promise_more_than_their_commit_where_readers_stop() -> None:
    disk = memory()
    by_partition(disk)
    reader = Reader(disk)
    assert drain(reader)
    assert reader.stable == Commits(disk, layout()).head.stable
    assert serious(disk) == []


def test_a_partition_that_breaks_its_own_promise_is_found() -> None:
    disk = memory()
    by_partition(disk, promise_ahead=3)
    assert "promised before" in said(disk)
