"""Whatever happens to a journal's files: the right rows, or an error that names the file.

Each test damages a copy of a small journal in one way at every place, and reads it: by one reader
of all, by those of one partition each, from the middle on, and through the chain of commits.
"""

from __future__ import annotations

import random
from itertools import combinations, pairwise
from types import SimpleNamespace

import pytest

from gapless.journal import commit
from gapless.journal.commit import NEWEST
from gapless.journal.verify import Verifier
from tests.journal.damaged import (
    READ_ALL_THE_SAME,
    SAMPLES,
    Sample,
    borders,
    check,
    damaged,
    found_by_verify,
    live_of,
    names_of,
    positions,
    prepared,
)

# -- bytes ----------------------------------------------------------------------------------------


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
