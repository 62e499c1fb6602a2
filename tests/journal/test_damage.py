"""Whatever happens to a journal's files: the right rows, or an error that names the file.

Each test damages a copy of a small journal in one way at every place, and reads it: by one reader
of all, by those of one partition each, from the middle on, and through the chain of commits.
"""

from __future__ import annotations

import ctypes
import os
import random
from collections.abc import Callable, Iterator
from itertools import chain, combinations, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from gapless.chaos.sim.disk import SimulatedDisk
from gapless.journal import commit, room
from gapless.journal.batch import TaskWriter, commit_batch, writing_epoch
from gapless.journal.commit import NEWEST, Commits, live_segment
from gapless.journal.disk import Disk, LocalDisk
from gapless.journal.facts import NAMES_FEW, Fact, facts_batch
from gapless.journal.facts import check as check_facts
from gapless.journal.layout import NOBODY, Layout, establish
from gapless.journal.reader import Reader
from gapless.journal.retention import Retention, trim
from gapless.journal.verify import Verifier
from gapless.journal.writer import Writer
from gapless.protocol.envelope import encode_document, peek_header
from gapless.protocol.errors import DecodeError, DiskFull, JournalError, Misuse
from gapless.protocol.frame import Frame
from tests.journal.journals import (
    SCHEMA,
    Row,
    batch,
    by_partition,
    drain,
    expected,
    layout,
    memory,
    random_batches,
    read_all,
    rows_of,
    writer,
)

PARTITIONS = 3


class Sample(NamedTuple):
    """A journal, and what each reader of it gets."""

    disk: SimulatedDisk
    shape: Layout
    rows: dict[int, list[Row]]
    middle: dict[int, int]
    """A position in it."""
    name: str = ""

    def copy(self) -> SimulatedDisk:
        copy = SimulatedDisk()
        for name in names_of(self.disk):
            copy.append(name, self.disk.read(name, 0, self.disk.size(name)))
        return copy


def names_of(disk: Disk) -> list[str]:
    folders = ("commits", "epochs", "live", "segments", "bases", "rejects", "readers")
    return ["layout", *(f"{folder}/{name}" for folder in folders for name in disk.list(folder))]


def written(plus: int = 0) -> Sample:
    """By a program: sealed segments, a live one, two epochs."""
    drawn = random_batches(random.Random(4), 10)
    made = [[(t, src, n + plus) for t, src, n in rows] for rows in drawn]
    disk = memory()
    out = writer(disk, segment_bytes=1_200)
    for rows in made[:5]:
        out.append(batch(rows))
    out = writer(disk, "w2", segment_bytes=1 << 20)
    for rows in made[5:]:
        out.append(batch(rows))
    kept = by_partition(list(chain(*expected(made).kept)), PARTITIONS)
    return Sample(disk, layout(), kept, {p: len(kept[p]) * 2 // 3 for p in kept})


def prepared(plus: int = 0, *, by_partition_: bool) -> Sample:
    """By tasks: three batches, each of several segments."""
    disk, shape = memory(), layout(lateness=0)
    establish(disk, shape, "x")
    commits = Commits(disk, shape)
    epoch = writing_epoch(commits, "spark", "run", 1, durable=True)
    kept: list[Row] = []
    for b in range(2):
        results = []
        numbers = range(100 * b, 100 * b + 60)
        rows: list[Row] = [(100 + n, "abcde"[n % 5], n + plus) for n in numbers]
        kept += rows
        for task in range(1 if by_partition_ else 2):
            mine = rows if by_partition_ else rows[task * 30 : task * 30 + 30]
            out = TaskWriter(
                disk,
                shape,
                epoch,
                f"q.{b}.{task}.x",
                commits.head.stable,
                batch=b,
                durable=True,
                by_partition=by_partition_,
                segment_bytes=900,
            )
            for at in range(0, len(mine), 10):
                part = mine[at : at + 10]
                promises = np.array([r[0] for r in part], np.int64)
                out.add(batch(part), promises if by_partition_ else None)
                out._write()
            results.append(out.finish())
        commit_batch(
            commits, epoch, "run", results, query="q", batch=b, now_ms=1, durable=True, ends=b == 1
        )
        commits.catch_up()
    rows_by = by_partition(kept, PARTITIONS)
    return Sample(disk, shape, rows_by, {p: len(rows_by[p]) * 2 // 3 for p in rows_by})


def delivered(plus: int = 0) -> Sample:
    """Frames of a merger, with two bases and frames behind them."""
    disk, shape = memory(), Layout(SCHEMA)
    out = writer(disk, shape=shape, segment_bytes=700)
    rows: list[Row] = []
    for i in range(8):
        part = [(10 * i + j, "a", 10 * i + j + plus) for j in range(10)]
        rows += part
        vs = np.array([r[0] for r in part], np.int64)
        frame = Frame.from_columns(SCHEMA, vs, vs + 1, batch(part), stable=10 * i + 9)
        out.append(frame)
        if i in (2, 5):
            out.seal(frame.take(np.flatnonzero(frame.ve >= 10 * i + 9)).with_stable(10 * i + 9))
    return Sample(disk, shape, {0: rows}, {0: 50})


SAMPLES: dict[str, Callable[[int], Sample]] = {
    "written": written,
    "prepared by partition": lambda plus: prepared(plus, by_partition_=True),
    "prepared": lambda plus: prepared(plus, by_partition_=False),
    "delivered": delivered,
}


@pytest.fixture(scope="module", params=SAMPLES)
def sample(request: pytest.FixtureRequest) -> Sample:
    return SAMPLES[request.param](0)._replace(name=request.param)


# -- reading what is damaged ----------------------------------------------------------------------


class Seen(NamedTuple):
    """What came of reading a damaged journal in one way."""

    rows: dict[int, list[Row]]
    error: JournalError | Misuse | None


def read_so(disk: Disk, **options: Any) -> Seen:
    rows: list[Row] = []
    error = None
    try:
        reader = Reader(disk, frame_rows=4, **options)
        while (frame := reader.read()) is not None:
            rows += rows_of(frame)
    except (JournalError, Misuse) as e:
        error = e
    return Seen(by_partition(rows, PARTITIONS), error)


def ways(sample: Sample) -> list[tuple[dict[str, Any], dict[int, list[Row]]]]:
    """How it is read, and which rows are right."""
    rows = sample.rows
    if len(rows) == 1:
        after = {0: rows[0][50:]}
        return [({}, rows), ({"start": {0: 50}}, after)]
    found: list[tuple[dict[str, Any], dict[int, list[Row]]]] = [({}, rows)]
    found.append(({"partitions": [2]}, {p: rows[p] if p == 2 else [] for p in rows}))
    found.append(({"start": sample.middle}, {p: rows[p][sample.middle[p] :] for p in rows}))
    return found


def check(sample: Sample, disk: Disk, names: set[str], *, may_delay: bool = False) -> bool:
    """Reads it in all ways; whether one raised. `names`: one of them is in each error.

    `may_delay`: the rows that come last may not be seen.
    """
    raised = False
    for options, rows in ways(sample):
        seen = read_so(disk, **options)
        got = seen.rows if len(rows) > 1 else {0: sorted(chain(*seen.rows.values()))}
        for p, right in rows.items():
            assert got[p] == right[: len(got[p])], (options, seen.error)
        if seen.error is None and not may_delay:
            assert got == rows, options
        if seen.error is not None:
            raised = True
            assert isinstance(seen.error, JournalError)
            assert any(name in str(seen.error) for name in names), (names, seen.error)
    return raised


def damaged(sample: Sample, name: str, data: bytes) -> SimulatedDisk:
    disk = sample.copy()
    disk.truncate(name, 0)
    disk.append(name, data)
    return disk


def found_by_verify(disk: Disk) -> list[Any]:
    return [f for f in Verifier(disk).findings() if f.severity != "note"]


# -- bytes ----------------------------------------------------------------------------------------

FIELDS = (0, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 56, 60)
"""Where the fields of a header are (protocol/envelope.py)."""
READ_ALL_THE_SAME = ("epochs/", "rejects/", "commits/", "live/", "bases/")
"""Where damage may change nothing: what is for people, before the last full commit or the last
base, or says only that there may be more.
"""


def test_the_samples_read_as_they_were_written(sample: Sample) -> None:
    assert not check(sample, sample.disk, set())
    assert found_by_verify(sample.disk) == []


def check_no_flipped_bit_gives_a_wrong_row(sample: Sample) -> None:
    rng = random.Random(1)
    for name in names_of(sample.disk):
        data = sample.disk.read(name, 0, sample.disk.size(name))
        for at in positions(data, rng):
            bad = bytearray(data)
            bad[at] ^= 1 << rng.randrange(8)
            disk = damaged(sample, name, bytes(bad))
            raised = check(sample, disk, {name}, may_delay=name.startswith("live/"))
            found = {f.file for f in found_by_verify(disk)}
            assert name in found or name.startswith("rejects/"), (name, at)
            assert raised or name.startswith(READ_ALL_THE_SAME), name


def positions(data: bytes, rng: random.Random) -> list[int]:
    """Some of the bytes: of a record's header one of a few fields each, and of its body."""
    if not data.startswith(b"GAPL"):
        return rng.choices(range(len(data)), k=4)
    start, end = rng.choice(list(pairwise(borders(data))))
    fields = [start + at + rng.randrange(2) for at in rng.sample(FIELDS, 6)]
    return [*fields, *rng.choices(range(start, end), k=2)]


def borders(data: bytes) -> list[int]:
    """Where records begin, and where the last one ends."""
    found = [0]
    while found[-1] < len(data):
        found.append(found[-1] + peek_header(data, found[-1]).envelope_bytes)
    return found


def test_no_flipped_bit_gives_a_wrong_row(sample: Sample) -> None:
    check_no_flipped_bit_gives_a_wrong_row(sample)


def test_a_reader_that_skips_checksums_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = prepared(by_partition_=False)
    monkeypatch.setattr("gapless.protocol.envelope.zlib", SimpleNamespace(crc32=lambda *_: Right()))
    with pytest.raises(AssertionError):
        check_no_flipped_bit_gives_a_wrong_row(sample)


class Right(int):
    """A checksum that is always the one that is wanted."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


def test_no_file_that_ends_too_early_gives_a_wrong_row(sample: Sample) -> None:
    for name in names_of(sample.disk):
        data = sample.disk.read(name, 0, sample.disk.size(name))
        ends = borders(data)[:-1] if data.startswith(b"GAPL") else [0, len(data) - 1]
        inside = [end + 40 for end in ends[-3:] if end + 40 < len(data)]
        for end in {*ends[:4], *ends[-2:], *inside[:2], len(data) - 1}:
            disk = damaged(sample, name, data[:end])
            raised = check(sample, disk, {name}, may_delay=name.startswith("live/"))
            assert raised or name.startswith(READ_ALL_THE_SAME), (name, end)
            found = {f.file for f in Verifier(disk).findings()}
            assert name in found or name.startswith("rejects/"), (name, end)


def test_no_record_that_is_missing_doubled_or_moved_gives_a_wrong_row(sample: Sample) -> None:
    rng, raised = random.Random(2), 0
    for name in [n for n in names_of(sample.disk) if n.startswith("segments/")]:
        data = sample.disk.read(name, 0, sample.disk.size(name))
        ends = borders(data)
        records = [data[a:b] for a, b in pairwise(ends)]
        for _ in range(2):
            i, j = rng.randrange(len(records)), rng.randrange(len(records))
            moved = records[:]
            moved[i], moved[j] = moved[j], moved[i]
            without, twice = records[:i] + records[i + 1 :], records[: i + 1] + records[i:]
            for bad in (moved, without, twice, [*without, records[i]]):
                raised += check(sample, damaged(sample, name, b"".join(bad)), {name})
    assert raised >= 5


# -- files ----------------------------------------------------------------------------------------


def check_no_missing_file_gives_a_wrong_row(sample: Sample) -> None:
    for name in names_of(sample.disk):
        disk = sample.copy()
        disk.unlink(name)
        raised = check(sample, disk, {name}, may_delay=name.startswith("live/"))
        assert raised or name.startswith(READ_ALL_THE_SAME), name
        assert name in {f.file for f in found_by_verify(disk)} or not raised, name


def test_no_missing_file_gives_a_wrong_row(sample: Sample) -> None:
    check_no_missing_file_gives_a_wrong_row(sample)


def test_without_a_note_of_the_newest_commit_a_missing_one_would_not_be_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(commit, "read_newest", lambda _: 0)
    with pytest.raises(AssertionError):
        check_no_missing_file_gives_a_wrong_row(prepared(by_partition_=True))


def check_no_file_in_place_of_another_gives_a_wrong_row(sample: Sample) -> None:
    for folder in ("segments", "commits", "bases"):
        names = [f"{folder}/{name}" for name in sample.disk.list(folder)]
        names = [name for name in names if name != NEWEST]
        for a, b in combinations(names, 2):
            one, other = (sample.disk.read(n, 0, sample.disk.size(n)) for n in (a, b))
            swapped = damaged(sample, a, other)
            swapped.truncate(b, 0)
            swapped.append(b, one)
            assert check(sample, swapped, {a, b}) or folder == "bases"
            assert {f.file for f in found_by_verify(swapped)} & {a, b}


def test_no_file_in_place_of_another_gives_a_wrong_row(sample: Sample) -> None:
    check_no_file_in_place_of_another_gives_a_wrong_row(sample)


def test_segments_that_commits_do_not_know_by_their_checksum_are_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gapless.journal.segment.zlib", SimpleNamespace(crc32=lambda *_: 0))
    with pytest.raises(AssertionError):
        check_no_file_in_place_of_another_gives_a_wrong_row(prepared(by_partition_=True))


def test_a_file_of_another_journal_does_not_pass_for_ours(sample: Sample) -> None:
    """Made in the same way, of other rows: names, sizes and numbers are the same."""
    other = SAMPLES[sample.name](1_000).disk
    names = (set(names_of(sample.disk)) & set(names_of(other))) - {live_of(sample)[0]}
    for name in names:
        if name == "layout" or name.startswith(("live/", "epochs/", "rejects/", NEWEST)):
            continue
        data = other.read(name, 0, other.size(name))
        if data != sample.disk.read(name, 0, sample.disk.size(name)):
            disk = damaged(sample, name, data)
            raised = check(sample, disk, {*names, name})
            assert raised or name.startswith(("bases/", "commits/")), name


# -- commits --------------------------------------------------------------------------------------


def last_commit(disk: Disk) -> int:
    return max(int(name) for name in disk.list("commits") if name.isdecimal())


def test_a_commit_from_the_future_is_refused(sample: Sample) -> None:
    last = last_commit(sample.disk)
    for number in range(1, last + 1):
        data = sample.disk.read(f"commits/{number:010}", 0, 1 << 20)
        for future in (last + 1, last + 2, last + 70):
            disk = sample.copy()
            name = f"commits/{future:010}"
            disk.append(name, data)
            assert check(sample, disk, {name})
            with pytest.raises(JournalError, match=f"says that it is commit {number}"):
                Commits(disk, sample.shape)


def test_a_commit_of_a_later_release_is_refused_and_says_so(sample: Sample) -> None:
    disk, last = sample.copy(), last_commit(sample.disk)
    name = f"commits/{last + 1:010}"
    disk.append(name, encode_document({"format": 2, "number": last + 1}, NOBODY, last + 1))
    with pytest.raises(JournalError, match=f"{name}.*a later release made it.*with that release"):
        Commits(disk, sample.shape)
    followed = sample.copy()
    follower = Reader(followed)
    while follower.read() is not None:
        pass
    followed.append(name, disk.read(name, 0, 1 << 10))
    with pytest.raises(JournalError, match="a later release"):
        follower.read()


@pytest.mark.parametrize("before", [0, NAMES_FEW])  # however many there are, judged the same
@pytest.mark.parametrize(
    "name",
    ["x", "segments/x", "segments/../../etc/passwd-1", "/etc/x-1", "segments/0000000001-1\n"],
)
def test_a_commit_that_names_no_segment_is_refused(name: str, before: int) -> None:
    good = Fact(1, "segments/0000000001-a.b-000001", 64, 0, 0, 0, 0, 5, 5, 5, False)
    facts = [good] * before + [good._replace(rows=1)]
    check_facts(facts_batch(facts), None, [1])
    with pytest.raises(DecodeError, match="names of segments"):
        check_facts(facts_batch([*facts[:-1], facts[-1]._replace(segment=name)]), None, [1])


@pytest.mark.parametrize(
    ("facts", "first", "rows"),
    [
        ([(0, 0, 5), (0, 6, 1)], [0, 0], [7, 0]),
        ([(0, 0, 5)], [0, 0], [6, 0]),
        ([(0, 1, 5)], [0, 0], [6, 0]),
        ([(0, 0, 5)], [0, 0], [5, 3]),
        ([(2, 0, 5)], [0, 0], [5, 0]),
        ([(0, 0, -1)], [0, 0], [0, 0]),
    ],
)
def test_facts_with_a_gap_are_refused(
    facts: list[tuple[int, int, int]], first: list[int], rows: list[int]
) -> None:
    name = "segments/0000000001-0"
    made = [Fact(1, name, 64, 0, p, at, n, 5, 5, 5, False) for p, at, n in facts]
    with pytest.raises(DecodeError, match=r"commit\.facts"):
        check_facts(facts_batch(made), first, rows)


def test_a_follower_that_misses_a_commit_says_so_once_another_is_there() -> None:
    disk = memory()
    out = writer(disk, segment_bytes=1 << 20)
    follower = Reader(disk)
    for i in range(3):
        out.append(batch([(100 + i, "a", i)]))
        out.seal()
    disk.unlink("commits/0000000003")
    with pytest.raises(JournalError, match="commit"):
        drain(follower)


def test_the_mark_of_a_writer_tells_of_a_lost_commit_too() -> None:
    disk = memory()
    out = writer(disk, segment_bytes=1 << 20)
    out.append(batch([(100, "a", 1)]))
    out.seal()
    disk.unlink(NEWEST)
    name = f"commits/{last_commit(disk):010}"
    disk.unlink(name)
    with pytest.raises(JournalError, match=name):
        read_all(disk)
    with pytest.raises(JournalError, match=name):
        writer(disk, "w2")
    writer(disk, "w3", accept_loss=True).close()
    assert read_all(disk) == [(100, "a", 1)]


def test_old_segments_can_be_trimmed_away_with_their_damage() -> None:
    disk, rows = memory(), list[Row]()
    out = writer(disk, segment_bytes=1)
    for i in range(5):
        rows += (more := [(100 + i, "a", i)])
        out.append(batch(more))
    disk.unlink(f"segments/{disk.list('segments')[0]}")
    with pytest.raises(JournalError):
        read_all(disk)
    trim(Commits(disk, layout()), Retention(before=101), token="t", now_ms=1)
    assert read_all(disk) == rows[1:]
    assert found_by_verify(disk) == []


def test_a_journal_without_its_layout_is_no_new_one(sample: Sample) -> None:
    disk = sample.copy()
    disk.unlink("layout")
    for use in (lambda: Reader(disk), lambda: writer(disk, "w9", shape=sample.shape)):
        with pytest.raises(JournalError, match="file layout is missing"):
            use()


# -- writing on -----------------------------------------------------------------------------------


def live_of(sample: Sample) -> tuple[str, bytes]:
    name = live_segment(Commits(sample.disk, sample.shape).head)
    return name, sample.disk.read(name, 0, sample.disk.size(name))


def test_a_writer_does_not_go_on_over_rows_that_were_read_and_are_damaged() -> None:
    sample = written()
    name, data = live_of(sample)
    rng = random.Random(3)
    bad = [data[:end] for end in range(0, len(data), 60)]
    for at in positions(data, rng) * 3:
        flipped = bytearray(data)
        flipped[at] ^= 1 << rng.randrange(8)
        bad.append(bytes(flipped))
    for each in bad:
        disk = damaged(sample, name, each)
        with pytest.raises(JournalError, match=name):
            writer(disk, "w9")
        found = damaged(sample, name, each)
        writer(found, "w9", accept_loss=True).close()
        kept = by_partition(read_all(found), PARTITIONS)
        assert all(kept[p] == sample.rows[p][: len(kept[p])] for p in kept)
        if kept != sample.rows:
            with pytest.raises(JournalError, match="rows that were read have been lost"):
                Reader(found, start={p: len(sample.rows[p]) for p in sample.rows})


def test_a_reader_whose_rows_were_given_up_is_told() -> None:
    sample = written()
    name, data = live_of(sample)
    disk = sample.copy()
    reader = Reader(disk)
    drain(reader)
    disk.truncate(name, borders(data)[1])
    out = writer(disk, "w9", accept_loss=True)
    for i in range(40):
        out.append(batch([(1_000 + i, src, i) for src in ("a", "b", "c")]))
    with pytest.raises(JournalError, match="rows that were read have been lost"):
        drain(reader)


def test_a_damaged_line_of_a_rejected_row_stops_no_writer() -> None:
    sample = written()
    for name in [n for n in names_of(sample.disk) if n.startswith("rejects/")]:
        data = sample.disk.read(name, 0, sample.disk.size(name))
        for at in range(0, len(data), 7):
            bad = bytearray(data)
            bad[at] ^= 0x81
            disk = damaged(sample, name, bytes(bad))
            writer(disk, "w9").close()
            assert by_partition(read_all(disk), PARTITIONS) == sample.rows


# -- a disk that is full --------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small tmpfs needs root")
    folder = tmp_path / "small"
    folder.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", bytes(folder), b"tmpfs", 0, b"size=24m") != 0:
        pytest.skip(f"a tmpfs cannot be mounted: {os.strerror(ctypes.get_errno())}")
    try:
        yield folder
    finally:
        assert libc.umount2(bytes(folder), 2) == 0


def large(i: int, rows: int = 2_000) -> list[Row]:
    return [(100 + i, "x" * 100 + str(j % 7), j) for j in range(rows)]


@pytest.mark.parametrize("is_careful", [True, False], ids=["looks before", "is refused"])
@pytest.mark.parametrize("durability", ["process", "machine"])
def test_a_full_disk_is_said_leaves_all_whole_and_writing_goes_on_once_there_is_room(
    small_disk: Path, is_careful: bool, durability: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_careful:
        monkeypatch.setattr(room, "FREE_BYTES_MIN", -(1 << 40))
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(2 << 20))
    disk, alarms = LocalDisk(small_disk / "j"), list[str]()
    out = writer(disk, segment_bytes=1 << 20, durability=durability, on_alarm=alarms.append)
    rows: list[Row] = []
    fill(out, rows)
    assert len(alarms) == 1
    check_whole(disk, rows)
    ballast.unlink()
    number = out.batches
    fill(out, rows)
    assert out.batches > number
    check_whole(disk, rows)
    if is_careful:
        trim(Commits(disk, layout()), Retention(keep_bytes=2 << 20), token="t", now_ms=1)
        fill(out, rows)
        out.close()
        assert writer(memory(), "w2").batches == 0
        assert Commits(disk, layout()).head.batches == len(rows) // ROWS


def check_whole(disk: Disk, rows: list[Row]) -> None:
    assert by_partition(read_all(disk), PARTITIONS) == by_partition(rows, PARTITIONS)
    assert [f for f in Verifier(disk).findings() if f.severity == "damage"] == []


ROWS = 500


def fill(out: Writer, rows: list[Row]) -> None:
    """Appends until the disk is full, three times over."""
    refused = 0
    while refused < 3:
        i = out.batches
        more: list[Row] = [(100 + i, "x" * 1_000 + str(j % 7), j) for j in range(ROWS)]
        try:
            out.append(batch(more))
        except DiskFull:
            refused += 1
        else:
            rows += more
