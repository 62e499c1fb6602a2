"""A small disk is full when it is said to be, for every writer, and is not there afterwards."""

from __future__ import annotations

import errno
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gapless.chaos.drill.means import mounts, small_disk
from gapless.chaos.drill.means.janitor import Janitor
from gapless.chaos.drill.means.mounts import is_mounted
from gapless.chaos.drill.means.small_disk import MEGABYTES_MAX, SmallDisk, why_not
from gapless.protocol.errors import JobError, Misuse

MB = 1 << 20
FILL_S_MAX = 1.0
"""For 64 MB."""

needs_disk = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@pytest.fixture
def janitor() -> Iterator[Janitor]:
    with Janitor() as it:
        yield it


def is_full(at: Path) -> bool:
    try:
        (at / "more").write_bytes(b"x")
    except OSError as e:
        if e.errno != errno.ENOSPC:
            raise
        return True
    finally:
        (at / "more").unlink()
    return False


@needs_disk
def test_a_filled_disk_takes_nothing_more_until_it_is_freed(
    janitor: Janitor, tmp_path: Path
) -> None:
    with SmallDisk(tmp_path / "disk", 64, janitor) as disk:
        (disk.at / "before").write_bytes(bytes(5 * MB + 1))
        free = os.statvfs(disk.at).f_bavail
        before = time.process_time()
        disk.fill()
        assert time.process_time() - before < FILL_S_MAX
        assert is_full(disk.at)
        assert os.statvfs(disk.at).f_bavail == 0
        disk.free()
        assert not is_full(disk.at)
        assert os.statvfs(disk.at).f_bavail == free
        assert (disk.at / "before").stat().st_size == 5 * MB + 1
        disk.free()


@needs_disk
def test_room_that_others_make_is_taken_by_the_next_fill(janitor: Janitor, tmp_path: Path) -> None:
    with SmallDisk(tmp_path / "disk", 2, janitor) as disk:
        (disk.at / "theirs").write_bytes(bytes(MB))
        disk.fill()
        (disk.at / "theirs").unlink()
        assert not is_full(disk.at)
        disk.fill()
        assert is_full(disk.at)
        disk.free()
        (disk.at / "theirs").write_bytes(bytes(2 * MB - (1 << 16)))


@needs_disk
def test_its_place_is_afterwards_as_it_was(janitor: Janitor, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name, is_left in (("empty", True), ("missing", False)):
        disk = SmallDisk(tmp_path / name, 1, janitor)
        assert is_mounted(tmp_path / name)
        (disk.at / "file").write_text("x")
        disk.close()
        disk.close()
        assert not is_mounted(tmp_path / name)
        assert (tmp_path / name).exists() is is_left
        with pytest.raises(Misuse, match="is closed"):
            disk.fill()
    assert list((tmp_path / "empty").iterdir()) == []


@needs_disk
def test_it_ends_with_its_janitor(tmp_path: Path) -> None:
    place = tmp_path / "a disk, with a name"
    with Janitor() as janitor:
        SmallDisk(place, 1, janitor).fill()
        assert is_mounted(place)
    assert not place.exists()


@needs_disk
def test_a_place_behind_a_link_is_found(janitor: Janitor, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    disk = SmallDisk(tmp_path / "link" / "disk", 1, janitor)
    assert disk.at == tmp_path / "there" / "disk"
    disk.close()
    assert not (tmp_path / "there" / "disk").exists()


@needs_disk
def test_a_place_that_is_not_empty_is_refused(janitor: Janitor, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(Misuse, match="files in it"):
        SmallDisk(tmp_path, 1, janitor)
    with pytest.raises(Misuse, match="not a directory"):
        SmallDisk(tmp_path / "file", 1, janitor)
    with pytest.raises(Misuse, match=f"make {tmp_path}/missing first"):
        SmallDisk(tmp_path / "missing" / "disk", 1, janitor)
    for megabytes in (0, MEGABYTES_MAX + 1):
        with pytest.raises(Misuse, match=f"from 1 to {MEGABYTES_MAX}"):
            SmallDisk(tmp_path / "disk", megabytes, janitor)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@needs_disk
def test_one_that_cannot_be_mounted_leaves_nothing(
    janitor: Janitor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_disk, "mount_tmpfs", lambda at, _: mounts.mount_tmpfs(at, "size=no"))
    with pytest.raises(JobError, match=r"no small disk at .*mount"):
        SmallDisk(tmp_path / "disk", 1, janitor)
    assert list(tmp_path.iterdir()) == []


def test_a_machine_that_cannot_have_one_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    why = small_disk.why_not.__wrapped__()
    assert why is not None
    assert "install util-linux" in why
    monkeypatch.setattr(small_disk, "why_not", lambda: why)
    with Janitor() as janitor, pytest.raises(Misuse, match="install util-linux"):
        SmallDisk(tmp_path / "disk", 1, janitor)


@needs_disk
def test_finding_out_mounts_nothing_that_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # others mount elsewhere meanwhile
    assert small_disk.why_not.__wrapped__() is None
    assert mounts.mounted_below(tmp_path) == ()
