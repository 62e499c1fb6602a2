"""Commits that are damaged, lost, or of a release to come: said, and never read around."""

from __future__ import annotations

import pytest

from gapless.journal.commit import NEWEST, Commits
from gapless.journal.disk import Disk
from gapless.journal.facts import NAMES_FEW, Fact, facts_batch
from gapless.journal.facts import check as check_facts
from gapless.journal.layout import NOBODY
from gapless.journal.reader import Reader
from gapless.journal.retention import Retention, trim
from gapless.protocol.envelope import encode_document
from gapless.protocol.errors import DecodeError, JournalError
from tests.journal.damaged import (
    Sample,
    check,
    found_by_verify,
)
from tests.journal.journals import (
    Row,
    batch,
    drain,
    layout,
    memory,
    read_all,
    writer,
)

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
