"""The disk of a machine: the only module that touches the operating system's files.

    append    lseek, write, ...            the bytes are there, and a crash may take them
    write_ahead  write of zeros, fdatasync  what is appended there needs no new block
    sync      fdatasync, fsync of the      they are there to stay, and so is their name, up to the
              directories above            first directory of another file system
    create    write a draft, link it       the whole file or none; of several makers one succeeds

It implements `Disk` (disk_interface.py), which is imported from here, too. The simulator implements
the same interface in memory, with torn writes and unsynced bytes lost.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import uuid
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from gapless.journal.disk_interface import Disk
from gapless.journal.mount import Mount, mount_of
from gapless.protocol.errors import JournalError, Misuse

__all__ = ["SYNC_BYTES", "Disk", "LocalDisk", "Lock", "Mapped", "mountinfo"]

WRITTEN_OPEN_MAX = 64
"""Files kept open for the next write: one a writer, and a program has few writers."""
HOLDER_BYTES_MAX = 200
"""Of what a lock's file says of its holder: a name, a host and a process, in one sentence."""
SYNC_BYTES = 8 << 20
"""Written to a large file between two syncs of it: on many file systems a sync waits for all that
others have written, so an append to an output would wait for a gigabyte."""
ENTERED_MAX = 1024
"""Names of which is kept that their directories were synced: those in use are few, and of one that
was forgotten they are synced again."""


class Mapped:
    """The bytes of a file that does not change; a part of them keeps them alive."""

    def __init__(self, data: pa.Buffer, pages: mmap.mmap | None = None) -> None:
        self.data = data
        self._pages = pages

    def forget(self, start: int, end: int) -> None:
        """These bytes are not needed for now: they take no memory until they are looked at again.

        Whole pages only; nothing happens where the bytes are not the file's own pages.
        """
        first, behind = -(-start // mmap.PAGESIZE), end // mmap.PAGESIZE
        if self._pages is not None and first < behind:
            size = mmap.PAGESIZE
            self._pages.madvise(mmap.MADV_DONTNEED, first * size, (behind - first) * size)


class Lock:
    """A file that one process has for itself, until it lets go or dies, in whatever way it dies."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        """Lets go; the file stays, as somebody else may have it open to lock it. Twice is once."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class LocalDisk:
    """A directory of a POSIX file system."""

    def __init__(self, root: str | Path) -> None:
        self._opened: OrderedDict[str, int] = OrderedDict()  # descriptors, the last used last
        if not str(root):
            raise Misuse("a journal's directory has a name; '.' is the one that you are in")
        if "://" in str(root):
            raise Misuse(
                f"{root}: commit and fencing need a POSIX file system; give a directory, and copy "
                "from or export to other file systems"
            )
        self._root = Path(root)
        self._start = f"{self._root}/"  # joined to names here and there: a Path costs microseconds
        self._entered: set[str] = set()  # names that their directory is known to hold for good
        self._ends: dict[str, int] = {}  # of files that were written ahead: where appends go on
        self._mounted: tuple[Mount | None] | None = None  # what it lies on; not looked yet
        self._entered_above = False  # whether the directories above hold the journal's own

    def __repr__(self) -> str:
        return str(self._root)

    def __del__(self) -> None:
        for fd in self._opened.values():
            os.close(fd)

    def size(self, name: str) -> int:
        """Bytes in the file; 0 where there is none."""
        try:
            fd = os.open(self._start + name, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return 0
        try:
            return os.fstat(fd).st_size  # an open file's is that of the server, a name's is not
        finally:
            os.close(fd)

    def exists(self, name: str) -> bool:
        """Whether there is such a file: one stat."""
        try:
            os.stat(self._start + name)  # noqa: PTH116  # asked after each append
        except FileNotFoundError:
            return False
        return True

    def create(self, name: str, data: bytes) -> None:
        """Makes a file that nobody else has made: written under a name of its own, then linked."""
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
        try:
            draft.write_bytes(data)
            _link(draft, path)
        finally:
            draft.unlink(missing_ok=True)

    def append(self, name: str, data: bytes) -> int:
        """Adds bytes at the end, in one write if the system takes them so; returns the new size."""
        fd = self._writable(name)
        size = self._end(name, fd)
        try:
            _write(fd, size, data)
            self._send(fd)
        except OSError as e:
            try:
                os.ftruncate(fd, size)  # what a full disk took of it would lie before the next
            except OSError as then:
                raise JournalError(
                    f"{self._root / name}: a part of what was appended ({e}) cannot be cut off "
                    f"again: {then}; opening it anew finds its end"
                ) from None
            raise
        if name in self._ends:
            self._ends[name] = size + len(data)
        return size + len(data)

    def _end(self, name: str, fd: int) -> int:
        """Behind what was appended to a file."""
        end = self._ends.get(name)
        return os.lseek(fd, 0, os.SEEK_END) if end is None else end

    def write_ahead(self, name: str, size: int) -> None:
        """Zeros, as blocks that were only reserved are noted like new ones; then fdatasync."""
        mount = self._mount()
        if mount is None or not mount.notes_blocks:
            return
        fd = self._writable(name)
        end, there = self._end(name, fd), os.lseek(fd, 0, os.SEEK_END)
        try:
            _write(fd, there, bytes(max(0, size - there)))
            os.fdatasync(fd)
        except OSError:
            os.ftruncate(fd, there)
            raise
        self._ends[name] = end

    def _send(self, fd: int) -> None:
        """Over a network what was written reaches the server now: it counts for readers
        on another machine, and takes the journal over there.
        """
        mount = self._mount()
        if mount is not None and mount.writes_back:
            os.fdatasync(fd)

    def _mount(self) -> Mount | None:
        if self._mounted is None:
            text = mountinfo()
            root = str(self._root.resolve())
            self._mounted = (None if text is None else mount_of(text, root),)
        return self._mounted[0]

    def _writable(self, name: str) -> int:
        fd = self._opened.get(name)
        if fd is None:
            path = self._root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            # Without O_APPEND, under which Linux lets `put` write at the end, too.
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
            self._opened[name] = fd
            if len(self._opened) > WRITTEN_OPEN_MAX:
                os.close(self._opened.popitem(last=False)[1])
        else:
            self._opened.move_to_end(name)
        return fd

    def lock(self, name: str, who: str) -> Lock:
        """Takes a file for this process alone. Raises `Misuse`, which says who has it, where it is
        taken. The system lets go of it when the process ends, so nothing is left of one that was
        killed; a child that was forked, and has not started another program, has it as well.

        `who` is for people: the file has it while the lock is held, and may have it afterwards.
        """
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(fd, 0)
            os.pwrite(fd, who.encode()[:HOLDER_BYTES_MAX], 0)
        except BlockingIOError:
            holder = os.pread(fd, HOLDER_BYTES_MAX, 0).decode(errors="replace") or "another process"
            os.close(fd)
            raise Misuse(
                f"{path} is held by {holder}: end that first, or choose another directory"
            ) from None
        except OSError as e:
            os.close(fd)
            if e.errno in (errno.ENOLCK, errno.EOPNOTSUPP):
                raise Misuse(
                    f"{path} cannot be locked: {e.strerror}; choose a directory of a file system "
                    "that has locks (`gapless doctor DIR` looks at the mount)"
                ) from None
            raise
        return Lock(fd)

    def close(self, name: str) -> None:
        """Closes the file that was kept open for appending."""
        fd = self._opened.pop(name, None)
        if fd is not None:
            os.close(fd)

    def sync(self, name: str) -> None:
        """Calls fdatasync; the first time also fsync on the directories above the file.

        A file whose directory entry is lost is lost, however safe its bytes are.
        """
        path = self._root / name
        fd = self._opened.get(name)
        if fd is None:
            _sync(path, os.fdatasync)
        else:
            os.fdatasync(fd)
        if name not in self._entered:
            for directory in path.relative_to(self._root).parents:
                _sync(self._root / directory, os.fsync)
            if not self._entered_above:
                _sync_above(self._root)
                self._entered_above = True
            if len(self._entered) >= ENTERED_MAX:
                self._entered.clear()
            self._entered.add(name)

    def put(self, name: str, data: bytes) -> None:
        """One pwrite at the start."""
        fd = self._writable(name)
        os.pwrite(fd, data, 0)
        self._send(fd)

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset` on."""
        try:
            fd = os.open(self._start + name, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return b""
        try:
            return os.pread(fd, length, offset)
        finally:
            os.close(fd)

    def map(self, name: str, length: int) -> Mapped:
        """The file's own pages: nothing is copied."""
        with (self._root / name).open("rb", buffering=0) as f:
            size = os.fstat(f.fileno()).st_size
            if size < length:
                raise OSError(f"{name} has {size} bytes, not {length}")
            if not length:
                return Mapped(pa.py_buffer(b""))
            mapped = mmap.mmap(f.fileno(), length, access=mmap.ACCESS_READ)
        mapped.madvise(mmap.MADV_SEQUENTIAL)
        return Mapped(pa.py_buffer(mapped), mapped)

    def expect(self, name: str) -> None:
        """Tells the system to read ahead; where there is no such file, `map` will say so."""
        try:
            fd = os.open(self._root / name, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_WILLNEED)
        finally:
            os.close(fd)

    def truncate(self, name: str, size: int) -> None:
        """Cuts the file to `size` bytes; nothing is written ahead any more."""
        os.truncate(self._root / name, size)
        self._ends.pop(name, None)

    def link(self, source: str, name: str) -> None:
        """A hard link: whole or absent, and only one of several takers gets the name."""
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        _link(self._root / source, path)

    def unlink(self, name: str) -> None:
        """Takes a name away; nothing happens where it does not exist."""
        self.close(name)
        self._entered.discard(name)
        self._ends.pop(name, None)
        (self._root / name).unlink(missing_ok=True)

    def list(self, folder: str) -> list[str]:
        """The names in a folder, in order; none where it does not exist."""
        try:
            return sorted(entry.name for entry in os.scandir(self._root / folder))
        except FileNotFoundError:
            return []

    def free_bytes(self) -> int:
        """What users other than root may still write."""
        self._root.mkdir(parents=True, exist_ok=True)
        stat = os.statvfs(self._root)
        return stat.f_bavail * stat.f_frsize


def mountinfo() -> str | None:
    """What is mounted where, in Linux's own words; None on systems without them."""
    try:
        return Path("/proc/self/mountinfo").read_text(errors="replace")
    except FileNotFoundError:
        return None


def _write(fd: int, at: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        written = os.pwrite(fd, left, at)
        at, left = at + written, left[written:]


def _sync(path: Path, call: Callable[[int], None]) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        call(fd)
    finally:
        os.close(fd)


def _sync_above(root: Path) -> None:
    """Syncs the directories above, as far as their file system goes: a journal whose directory has
    no entry after a crash is lost, whichever process made that directory. One that may not be read
    cannot be synced either; such a one (a /home with mode 711) was there long before the journal.
    """
    inside = root.resolve()
    device = inside.stat().st_dev
    for directory in inside.parents:
        if directory.stat().st_dev != device:
            return
        try:
            _sync(directory, os.fsync)
        except PermissionError:
            continue


def _link(source: Path, path: Path) -> None:
    """Links; a name that is taken by this very file is ours. NFS may make a link, lose the answer,
    ask again, and say EEXIST (open(2)). Which file it is the server is asked, as by each open.
    """
    try:
        path.hardlink_to(source)
    except FileExistsError:
        if _identity(source) != _identity(path):
            raise


def _identity(path: Path) -> tuple[int, int]:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        stat = os.fstat(fd)
        return stat.st_dev, stat.st_ino
    finally:
        os.close(fd)
