"""Zeros ahead of appends: nothing that was safe is lost, whichever pages of the rest a crash takes,
and nobody ever reads a zero.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from gapless.chaos.sim.disk import SimulatedDisk
from gapless.journal import disk as local
from gapless.journal import takeover
from gapless.journal.commit import Commits, live_segment
from gapless.journal.disk import Disk, LocalDisk
from gapless.journal.epoch import claim
from gapless.journal.headroom import APPENDS, EVERY_MS
from gapless.journal.layout import Layout
from gapless.journal.mount import Mount
from gapless.journal.room import FREE_BYTES_ALARM
from gapless.journal.segment import SEGMENT_BYTES
from gapless.journal.verify import Verifier
from gapless.journal.writer import Writer
from gapless.protocol.envelope import peek_header
from gapless.protocol.errors import DiskFull, Fenced, JournalError
from gapless.protocol.frame import Frame
from tests.journal.journals import SCHEMA, Row, batch, read_all

LAYOUT = Layout(SCHEMA)
ROWS = 8
SEEDS = 300


def rows(i: int) -> list[Row]:
    return [(100 * i + j, "abcd"[j % 4], ROWS * i + j) for j in range(ROWS)]


def frame(i: int) -> Frame:
    made = batch(rows(i))
    times = made.column("ts").to_numpy()
    return Frame.from_columns(SCHEMA, times, times + 1, made, stable=100 * i + 9)


def writer(
    disk: Disk,
    token: str = "w1",
    headroom_bytes: int = 20_000,
    segment_bytes: int = SEGMENT_BYTES,
    tick_ms: int = EVERY_MS,
) -> Writer:
    """Of which `tick_ms` pass from one look at the clock to the next."""
    return Writer(
        disk,
        LAYOUT,
        who="test",
        token=token,
        now_ms=partial(next, count(7, tick_ms)),
        headroom_bytes=headroom_bytes,
        segment_bytes=segment_bytes,
    )


def read(disk: Disk) -> list[Row]:
    return sorted(read_all(disk), key=lambda row: row[2])


def live(disk: Disk) -> str:
    return live_segment(Commits(disk, LAYOUT).head)


def check_a_crash_takes_nothing_safe(seed: int) -> None:
    """Appends, some of them synced; a crash of the machine that takes the live end, too."""
    rng = random.Random(seed)
    disk = SimulatedDisk()
    out, safe, told = writer(disk, headroom_bytes=rng.choice((6_000, 20_000))), 0, 0
    for i in range(rng.randint(1, 9)):
        out.append(frame(i), synced=False)
        told += 1
        if rng.random() < 0.5:
            out.sync()
            safe = told
    disk.crash("", rng)
    if rng.random() < 0.5:
        disk.unlink("live/0000000001")
    after = writer(disk, "w2")
    assert safe <= after.batches <= told
    assert read(disk) == [row for i in range(after.batches) for row in rows(i)]
    after.append(frame(after.batches))
    after.close()
    assert len(read(disk)) == ROWS * after.batches
    assert not [f for f in Verifier(disk).findings() if f.severity == "damage"]


def test_a_crash_takes_nothing_that_was_safe_and_leaves_nothing_that_looks_like_damage() -> None:
    for seed in range(SEEDS):
        check_a_crash_takes_nothing_safe(seed)


def test_a_takeover_that_takes_torn_appends_for_damage_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Unmarked(Writer):
        @property
        def _safe_bytes(self) -> int:
            return self._tally.bytes  # "all before it is safe", whatever it appends

        @_safe_bytes.setter
        def _safe_bytes(self, _: int) -> None: ...

    monkeypatch.setattr(f"{__name__}.Writer", Unmarked)
    with pytest.raises(JournalError, match="verify"):
        test_a_crash_takes_nothing_that_was_safe_and_leaves_nothing_that_looks_like_damage()


def test_damage_of_what_was_safe_is_told_from_a_torn_end() -> None:
    disk = SimulatedDisk()
    out = writer(disk)
    for i in range(3):
        out.append(frame(i))
    disk.unlink("live/0000000001")
    name = live(disk)
    each = peek_header(disk.read(name, 0, 64)).envelope_bytes
    for seed in range(99):
        mend = disk.flip_bit(name, random.Random(seed))
        if any(bits for at, bits in disk._files[name].flipped.items() if at < 2 * each):
            break  # of the records before the last
        mend()
    with pytest.raises(JournalError, match="verify"):
        writer(disk, "w2")


def test_a_takeover_that_takes_damage_for_a_torn_end_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(takeover, "_goes_on", lambda *_: False)
    with pytest.raises(pytest.fail.Exception):
        test_damage_of_what_was_safe_is_told_from_a_torn_end()


def test_records_say_what_they_follow() -> None:
    disk = SimulatedDisk()
    out = writer(disk)
    for i in range(4):
        out.append(frame(i), synced=i in (1, 3))
    data = memoryview(disk.read(live(disk), 0, disk.size(live(disk))))
    said, at = [], 0
    for _ in range(4):
        header = peek_header(data, at)
        said.append(header.place.follows_unsafe)
        at += header.envelope_bytes
    assert said == [False, True, False, True]
    assert data[at:] == bytes(len(data) - at)
    assert len(data) > at


def test_segments_that_are_sealed_or_taken_over_have_no_zeros() -> None:
    disk = SimulatedDisk()
    first = writer(disk)
    first.append(frame(0))
    sealed = live(disk)
    ahead = disk.size(sealed)
    first.seal()
    assert disk.size(sealed) < ahead
    first.append(frame(1))
    died = live(disk)
    second = writer(disk, "w2")
    assert disk.size(died) == disk.size(sealed)
    assert read(disk) == rows(0) + rows(1)
    second.close()
    assert list(Verifier(disk).findings()) == []


def test_who_was_not_the_one_to_commit_a_cut_cuts_nothing_off() -> None:
    """Two processes of one writer, which see the end of another writer at different times."""

    class Racing(SimulatedDisk):
        other: Callable[[], None] | None = None

        def link(self, source: str, name: str) -> None:
            other, self.other = self.other, None
            if other is not None:
                other()
            super().link(source, name)

    disk = Racing()
    old = writer(disk)
    old.append(frame(0))
    segment = live(disk)
    epoch = claim(disk, Commits(disk, LAYOUT).head.epoch, "two", "both", shared=True)

    def begin(token: str) -> None:
        takeover.begin(Commits(disk, LAYOUT), epoch, token, 7, durable=True)

    def other() -> None:
        with pytest.raises(Fenced):
            old.append(frame(1))
        begin("second")

    disk.other = other
    begin("first")
    assert read(disk) == rows(0) + rows(1)
    assert disk.size(segment) == 2 * peek_header(disk.read(segment, 0, 64)).envelope_bytes


def test_a_journal_that_is_verified_while_it_is_written_has_zeros_and_no_damage() -> None:
    disk = SimulatedDisk()
    out = writer(disk)
    out.append(frame(0))
    (note,) = Verifier(disk).findings()
    assert note.severity == "note"
    assert note.what.endswith("bytes of zeros, for appends")


def test_of_large_appends_none_is_written_ahead() -> None:
    one = SimulatedDisk()
    writer(one, headroom_bytes=0).append(frame(0))
    each = one.size(live(one))
    for headroom_bytes, is_large in ((APPENDS * each - 1, True), (APPENDS * each, False)):
        disk = SimulatedDisk()
        out = writer(disk, headroom_bytes=headroom_bytes)
        for i in range(3):
            out.append(frame(i))
        assert (disk.size(live(disk)) == 3 * each) is is_large


def test_it_ends_where_a_segment_is_full() -> None:
    disk = SimulatedDisk()
    out = writer(disk, segment_bytes=2_000)
    out.append(frame(0))
    assert disk.size(live(disk)) == 2_000
    out = writer(SimulatedDisk(), segment_bytes=1)
    out.append(frame(0))
    assert out.batches == 1


def widened(token: str, tick_ms: int = EVERY_MS) -> list[int]:
    """At which of a hundred appends zeros are written."""
    at: list[int] = []

    class Counting(SimulatedDisk):
        def write_ahead(self, name: str, size: int) -> None:
            at.append(i)
            super().write_ahead(name, size)

    out = writer(Counting(), token, headroom_bytes=20_000, tick_ms=tick_ms)
    for i in range(100):
        out.append(frame(i))
    return at


def test_writers_of_the_same_widen_it_at_different_times() -> None:
    first, second = widened("m0.0"), widened("m0.1")
    assert len(first) > 2
    assert set(first) & set(second) == {0}


def test_a_writer_that_fills_it_at_once_waits_until_there_is_more() -> None:
    assert widened("m0.0", tick_ms=0) == [0], "else half of what it writes is zeros"
    often = widened("m0.0", tick_ms=EVERY_MS // 25)
    assert 2 <= len(often) <= 100 // 25


def test_on_a_disk_with_little_room_nothing_is_written_ahead() -> None:
    disk = SimulatedDisk()
    disk.fill("", FREE_BYTES_ALARM - 1)
    out = writer(disk)
    out.append(frame(0))
    assert disk.size(live(disk)) == peek_header(disk.read(live(disk), 0, 64)).envelope_bytes


def test_a_full_disk_takes_what_lies_in_zeros_that_are_there() -> None:
    disk = SimulatedDisk()
    out = writer(disk)
    out.append(frame(0))
    disk.fill("", 20)
    out.append(frame(1))
    each = out.bytes_since_base // out.batches
    for i in range(2, disk.size(live(disk)) // each):
        out.append(frame(i))
    there = out.batches
    with pytest.raises(DiskFull):
        out.append(frame(there))
    disk.empty("")
    out.append(frame(there))
    out.close()
    assert read(disk) == [row for i in range(there + 1) for row in rows(i)]


class Refusing(SimulatedDisk):
    def __init__(self, error: int) -> None:
        super().__init__()
        self.error = error

    def write_ahead(self, name: str, size: int) -> None:  # noqa: ARG002  # refused at any size
        raise OSError(self.error, "as asked", name)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
def test_without_room_for_it_appends_go_on(error: int) -> None:
    disk = Refusing(error)
    out = writer(disk)
    out.append(frame(0))
    out.append(frame(1))
    out.close()
    assert read(disk) == rows(0) + rows(1)


def test_a_disk_that_fails_at_it_has_failed_and_the_batch_is_in() -> None:
    disk = Refusing(errno.EIO)
    out = writer(disk)
    with pytest.raises(JournalError, match="open the journal anew"):
        out.append(frame(0))
    assert writer(SimulatedDisk(), "w2").batches == 0
    disk.error = errno.ENOSPC
    assert writer(disk, "w2").batches == 1


# -- a real disk ----------------------------------------------------------------------------------


@pytest.fixture
def ext4(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the test lies."""
    monkeypatch.setattr(local, "mount_of", lambda *_: Mount("/", "ext4", "/dev/sda1", {}))


@pytest.mark.usefixtures("ext4")
def test_a_local_disk_writes_over_zeros(tmp_path: Path) -> None:
    disk = LocalDisk(tmp_path)
    end = disk.append("segments/a", b"one")
    disk.write_ahead("segments/a", 100)
    assert disk.append("segments/a", b"two") == end + 3
    disk.close("segments/a")
    assert disk.append("segments/a", b"three") == 11
    assert (tmp_path / "segments/a").read_bytes() == b"onetwothree" + bytes(89)
    disk.write_ahead("segments/a", 50)
    assert disk.size("segments/a") == 100
    assert disk.append("segments/a", bytes([1]) * 100) == 111
    disk.truncate("segments/a", 11)
    assert disk.append("segments/a", b"four") == 15
    assert (tmp_path / "segments/a").read_bytes() == b"onetwothreefour"


def test_a_disk_that_gains_nothing_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "mount_of", lambda *_: Mount("/", "btrfs", "/dev/sda1", {}))
    disk = LocalDisk(tmp_path)
    disk.append("a", b"one")
    disk.write_ahead("a", 100)
    assert disk.size("a") == 3


@pytest.mark.usefixtures("ext4")
def test_what_a_full_disk_took_of_the_zeros_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = LocalDisk(tmp_path)
    disk.append("a", b"one")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "no room")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", full)
        with pytest.raises(OSError, match="no room"):
            disk.write_ahead("a", 100)
    assert disk.size("a") == 3
    assert disk.append("a", b"two") == 6


@pytest.mark.usefixtures("ext4")
def test_a_journal_on_a_local_disk_survives_its_writer(tmp_path: Path) -> None:
    out = writer(LocalDisk(tmp_path))
    for i in range(5):
        out.append(frame(i))
    out.append(frame(5), synced=False)
    name = live(LocalDisk(tmp_path))
    assert (tmp_path / name).read_bytes().endswith(bytes(512))
    after = writer(LocalDisk(tmp_path), "w2")
    assert after.batches == 6
    assert not (tmp_path / name).read_bytes().endswith(bytes(512))
    assert read(LocalDisk(tmp_path)) == [row for i in range(6) for row in rows(i)]
