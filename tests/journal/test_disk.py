"""What a directory of a POSIX file system does beyond what the simulated disk has, too."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gapless.journal import disk
from gapless.journal.disk import LocalDisk
from gapless.protocol.errors import JournalError, Misuse

HOLDER = """
import sys
from gapless.journal.disk import LocalDisk
held = LocalDisk(sys.argv[1]).lock("lock", "sidecar s1, pid 17")
print("held", flush=True)
sys.stdin.read()
"""


def test_a_lock_is_held_by_one_and_says_by_whom_it_is(tmp_path: Path) -> None:
    held = LocalDisk(tmp_path / "s").lock("lock", "sidecar s1 on alpha, pid 17")
    with pytest.raises(Misuse, match="is held by sidecar s1 on alpha, pid 17: end that first"):
        LocalDisk(tmp_path / "s").lock("lock", "sidecar s2 on alpha, pid 18")
    held.release()
    held.release()
    LocalDisk(tmp_path / "s").lock("lock", "s2").release()
    assert (tmp_path / "s/lock").read_text() == "s2"


def test_of_who_holds_a_lock_no_more_is_told_than_a_sentence_holds(tmp_path: Path) -> None:
    held = LocalDisk(tmp_path).lock("lock", "a" * 10_000)
    assert (tmp_path / "lock").stat().st_size == disk.HOLDER_BYTES_MAX
    (tmp_path / "lock").write_bytes(b"x" * 10_000)
    with pytest.raises(Misuse, match="end that first") as refused:
        LocalDisk(tmp_path).lock("lock", "another")
    assert f" {'x' * disk.HOLDER_BYTES_MAX}:" in str(refused.value)
    held.release()


def test_nothing_is_left_of_the_lock_of_a_process_that_was_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(Misuse, match="is held by sidecar s1, pid 17"):
            LocalDisk(tmp_path).lock("lock", "another")
        process.send_signal(signal.SIGKILL)
        process.wait()
    LocalDisk(tmp_path).lock("lock", "another").release()


def test_a_file_system_without_locks_is_refused_and_not_taken_as_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", without)
    with pytest.raises(Misuse, match="cannot be locked: No locks available"):
        LocalDisk(tmp_path).lock("lock", "s1")


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The directories that were synced, in order."""
    found: list[Path] = []
    fsync = os.fsync

    def watched(fd: int) -> None:
        found.append(Path(f"/proc/self/fd/{fd}").readlink())
        fsync(fd)

    monkeypatch.setattr(os, "fsync", watched)
    return found


def test_a_journals_own_directory_entry_is_synced_with_its_first_file(
    tmp_path: Path, synced: list[Path]
) -> None:
    disk = LocalDisk(tmp_path / "new/journal")
    disk.append("segments/1", b"rows")
    disk.sync("segments/1")
    above = [
        tmp_path / "new/journal/segments",
        tmp_path / "new/journal",
        tmp_path / "new",
        tmp_path,
    ]
    assert [path for path in above if path not in synced] == []


def test_directories_above_a_journal_are_synced_once(tmp_path: Path, synced: list[Path]) -> None:
    disk = LocalDisk(tmp_path / "journal")
    for name in ("a", "b"):
        disk.append(f"segments/{name}", b"rows")
        disk.sync(f"segments/{name}")
        disk.sync(f"segments/{name}")
    assert synced.count(tmp_path) == 1
    assert synced.count(tmp_path / "journal/segments") == 2


def test_a_directory_above_that_may_not_be_read_is_somebody_elses_to_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_ = os.open

    def refused(path: str | Path, flags: int, mode: int = 0o777) -> int:
        if Path(path) == tmp_path:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return open_(path, flags, mode)

    disk = LocalDisk(tmp_path / "journal")
    disk.append("segments/a", b"rows")
    monkeypatch.setattr(os, "open", refused)
    disk.sync("segments/a")


# -- answers that were lost -----------------------------------------------------------------------


@pytest.fixture
def lost_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network file system that makes each link, loses the answer, is asked again and says that
    the name is taken: link(2) may do so where an NFS server has forgotten what it did.
    """
    link = os.link

    def asked_twice(source: str, name: str, **how: bool) -> None:
        link(source, name, **how)
        link(source, name, **how)

    monkeypatch.setattr(os, "link", asked_twice)


@pytest.mark.usefixtures("lost_answers")
def test_a_link_whose_answer_was_lost_is_made(tmp_path: Path) -> None:
    disk = LocalDisk(tmp_path)
    disk.append("drafts/1", b"mine")
    disk.link("drafts/1", "commits/1")
    assert disk.read("commits/1", 0, 10) == b"mine"


@pytest.mark.usefixtures("lost_answers")
def test_a_file_whose_answer_was_lost_is_made_by_us(tmp_path: Path) -> None:
    disk = LocalDisk(tmp_path)
    disk.create("epochs/1", b"mine")
    assert disk.list("epochs") == ["1"]


@pytest.mark.usefixtures("lost_answers")
def test_a_name_that_another_file_has_is_taken_whatever_was_lost(tmp_path: Path) -> None:
    disk = LocalDisk(tmp_path)
    disk.append("commits/1", b"theirs")
    disk.append("drafts/1", b"mine")
    with pytest.raises(FileExistsError):
        disk.link("drafts/1", "commits/1")
    with pytest.raises(FileExistsError):
        disk.create("commits/1", b"mine")
    assert disk.read("commits/1", 0, 10) == b"theirs"


def test_an_append_that_can_neither_be_finished_nor_undone_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = LocalDisk(tmp_path)
    disk.append("segments/1", b"rows")

    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "pwrite", broken)
    monkeypatch.setattr(os, "ftruncate", broken)
    with pytest.raises(JournalError, match="cannot be cut off again"):
        disk.append("segments/1", b"more")
