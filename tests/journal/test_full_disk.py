"""A writer on a journal that is damaged, or on a disk that is full."""

from __future__ import annotations

import ctypes
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gapless.journal import room
from gapless.journal.commit import Commits
from gapless.journal.disk import Disk, LocalDisk
from gapless.journal.reader import Reader
from gapless.journal.retention import Retention, trim
from gapless.journal.verify import Verifier
from gapless.journal.writer import Writer
from gapless.protocol.errors import DiskFull, JournalError
from tests.journal.damaged import (
    PARTITIONS,
    borders,
    damaged,
    live_of,
    names_of,
    positions,
    written,
)
from tests.journal.journals import (
    Row,
    batch,
    by_partition,
    drain,
    layout,
    memory,
    read_all,
    writer,
)

# -- writing on -----------------------------------------------------------------------------------


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
