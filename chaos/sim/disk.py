"""A disk in memory that fails as disks do: the simulator's side of `journal.disk`.

    job/out/0/m0.0/segments/..    crashes, is full       a View: what one journal sees
    job/checkpoints/..            a bit flipped
    sources/flows/..              nothing

A fault never breaks more than the interface says (journal/disk.py): what was synced survives a
crash (chaos/sim/disk_file.py), and what could not be appended is not there in part. Only a flipped
bit is beyond it: damage, which a journal has to name. Errors of single calls stand before the disk
(chaos/sim/disk_errors.py). One disk has the files of a whole simulated
job; who works in a part of it, as every journal does, is given a `View`.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from typing import Protocol

import pyarrow as pa

from gapless.chaos.sim.disk_file import File
from gapless.journal.disk import Disk, Mapped

CAPACITY_BYTES = 1 << 34
"""What fits on a simulated disk: more than any run writes, and enough that no alarm is raised."""
VANISHES = 0.5
"""How likely a crash takes a name that was not synced, and brings one back that was taken away."""
MENDED_BYTES = 16
"""Bytes before a damaged one that are still as they were, where nothing was written over it: in a
record that is written anew a counter or a checksum among them is another."""

Names = list[str]


class SimulatedDisk:
    """Implements `journal.disk.Disk` over bytes in memory."""

    def __init__(self) -> None:
        self._files: dict[str, File] = {}
        self._folders: dict[str, dict[str, None]] = {}  # a folder's entries; folders stay
        self._named: set[str] = set()  # names that survive a crash
        self._gone: dict[str, File] = {}  # those of them that a crash may bring back
        self._used = 0
        self._rooms: dict[str, int] = {}
        self.before_write: Callable[[], None] | None = None
        """What happens before the next write of any kind: the writer may stop there."""
        self.reads = 0
        """How often something was read or mapped."""

    # -- the interface ------------------------------------------------------------------------

    def size(self, name: str) -> int:
        """Bytes in the file; 0 where there is none."""
        file = self._files.get(name)
        return 0 if file is None else len(file.data)

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""
        return name in self._files

    def create(self, name: str, data: bytes) -> None:
        """Makes a file that is not there."""
        if self.before_write is not None:
            self.before_write()
        if name in self._files:
            raise FileExistsError(errno.EEXIST, "there is such a file", name)
        self._grow(name, len(data))
        self._enter(name, File(data))

    def append(self, name: str, data: bytes) -> int:
        """Adds bytes at the end, all or none; returns the new size."""
        if self.before_write is not None:
            self.before_write()
        file = self._files.get(name)
        self._grow(name, len(data) if file is None else file.grows_by(data))
        if file is None:
            file = self._enter(name, File())
        return file.append(data)

    def write_ahead(self, name: str, size: int) -> None:
        """Zeros behind the end of a file, safe with all before them."""
        if self.before_write is not None:
            self.before_write()
        file = self._file(name)
        self._grow(name, max(0, size - len(file.data)))
        file.write_ahead(size)

    def sync(self, name: str) -> None:
        """Nothing appended so far can be lost any more, nor the name."""
        if self.before_write is not None:
            self.before_write()
        self._file(name).sync()
        if name not in self._named:
            self._named.add(name)
            if self._gone:  # its folder was synced, so what was taken away there stays away
                folder = _split(name)[0]
                for gone in [n for n in self._gone if _split(n)[0] == folder]:
                    del self._gone[gone]

    def put(self, name: str, data: bytes) -> None:
        """Overwrites the start of a file."""
        if self.before_write is not None:
            self.before_write()
        file = self._files.get(name)
        added = len(data) - (0 if file is None else len(file.data))
        if added > 0:
            self._grow(name, added)
        if file is None:
            file = self._enter(name, File())
        file.put(data)

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset` on: a copy of those alone."""
        file = self._files.get(name)
        if file is None:
            return b""
        self.reads += 1
        data = file.data
        return bytes(data[offset : offset + length])

    def map(self, name: str, length: int) -> Mapped:
        """The first bytes; nothing is copied but, once, a file that was changed before."""
        file = self._file(name)
        if len(file.data) < length:
            raise OSError(errno.EIO, f"has {len(file.data)} bytes, not {length}", name)
        self.reads += 1
        file.data = bytes(file.data)  # the same object where it is one already
        return Mapped(pa.py_buffer(file.data).slice(0, length))

    def expect(self, name: str) -> None:
        """Memory is as near as it gets."""

    def truncate(self, name: str, size: int) -> None:
        """Cuts the file to `size` bytes."""
        if self.before_write is not None:
            self.before_write()
        file = self._file(name)
        held = file.changed()
        if size < len(held):
            self._grow(name, size - len(held))
            del held[size:]
            file.synced = min(file.synced, size)
        file.end = None

    def link(self, source: str, name: str) -> None:
        """Both names mean one file from now on."""
        if self.before_write is not None:
            self.before_write()
        file = self._file(source)
        there = self._files.get(name)
        if there is None:
            self._enter(name, file)
        elif there is not file:
            raise FileExistsError(errno.EEXIST, "there is such a file", name)

    def unlink(self, name: str) -> None:
        """Takes a name away; nothing happens where it does not exist."""
        if self.before_write is not None:
            self.before_write()
        if name in self._files:
            was_safe = name in self._named
            file = self._leave(name)
            if was_safe:
                self._gone[name] = file

    def list(self, folder: str) -> list[str]:
        """The names in a folder, those of folders in it as well, in order."""
        return sorted(self._folders.get(folder, ()))

    def free_bytes(self) -> int:
        """What fits beside what is there."""
        return self.free_under("")

    def close(self, name: str) -> None:
        """Nothing is kept open."""

    # -- faults -------------------------------------------------------------------------------

    def fill(self, prefix: str, room_bytes: int = 0) -> None:
        """From now on only so many bytes more fit under a prefix: a folder, or "" for all. What is
        taken away there makes room again.
        """
        self._rooms[prefix] = room_bytes

    def empty(self, prefix: str) -> None:
        """There is room again under a prefix that was filled."""
        self._rooms.pop(prefix, None)

    def crash(self, prefix: str, rng: random.Random) -> int:
        """The machine dies that writes under a prefix (a folder, a file, "" for all): bytes and
        names that were not synced may be lost. How many bytes were; names that came back count
        less. Nobody who had files open there may go on: a crash is not seen by those who live.
        """
        before = self._used
        for name in [n for n in self._gone if _is_under(n, prefix)]:
            file = self._gone.pop(name)
            if name not in self._files and rng.random() < VANISHES:
                if not file.links:
                    self._used += len(file.data)
                self._enter(name, file)
                self._named.add(name)
        for name in self.files(prefix):
            if name not in self._named and rng.random() < VANISHES:
                self._leave(name)
        for name in self.files(prefix):
            file = self._files[name]
            size = len(file.data)
            file.crash(rng)
            self._grow(name, len(file.data) - size)
            self._named.add(name)
        return before - self._used

    def flip_bit(self, name: str, rng: random.Random) -> Callable[[], None]:
        """Damages one bit of a file that is not empty. What is returned mends it again, as one that
        has a copy does; nothing happens where something else has been written there meanwhile.
        """
        file = self._file(name)
        at, bit = rng.randrange(len(file.data)), 1 << rng.randrange(8)
        around = slice(max(0, at - MENDED_BYTES), at + 1)
        file.changed()[at] ^= bit
        file.flipped[at] = file.flipped.get(at, 0) ^ bit
        written = file.as_written(around)

        def mend() -> None:
            if file.as_written(around) == written:
                file.changed()[at] ^= bit
            file.flipped[at] ^= bit

        return mend

    # -- looking at it ------------------------------------------------------------------------

    def files(self, prefix: str) -> Names:
        """Those of a folder and of all folders in it, in the order in which they were made."""
        return [name for name in self._files if _is_under(name, prefix)]

    def free_under(self, prefix: str) -> int:
        """What may still be written under a prefix; a few steps, however many files there are."""
        free = CAPACITY_BYTES - self._used
        for limited, room in self._rooms.items():
            if _is_under(prefix, limited):
                free = min(free, room)
        return free

    # -- names and room -----------------------------------------------------------------------

    def _file(self, name: str) -> File:
        file = self._files.get(name)
        if file is None:
            raise FileNotFoundError(errno.ENOENT, "there is no such file", name)
        return file

    def _grow(self, name: str, by: int) -> None:
        """So many bytes more, or less, under a name; raises where they do not fit."""
        if self._rooms:
            limited = [prefix for prefix in self._rooms if _is_under(name, prefix)]
            if by > 0 and any(self._rooms[prefix] < by for prefix in limited):
                raise OSError(errno.ENOSPC, "the disk is full", name)
            for prefix in limited:
                self._rooms[prefix] -= by
        if self._used + by > CAPACITY_BYTES:
            raise OSError(errno.ENOSPC, "the disk is full", name)
        self._used += by

    def _enter(self, name: str, file: File) -> File:
        self._files[name] = file
        self._gone.pop(name, None)
        file.links += 1
        folder, entry = _split(name)
        while entry and entry not in (entries := self._folders.setdefault(folder, {})):
            entries[entry] = None
            folder, entry = _split(folder)
        return file

    def _leave(self, name: str) -> File:
        file = self._files.pop(name)
        self._named.discard(name)
        folder, entry = _split(name)
        del self._folders[folder][entry]
        file.links -= 1
        if not file.links:
            self._grow(name, -len(file.data))
        return file


def _split(name: str) -> tuple[str, str]:
    """Its folder, and what it is called there; twice "" of the disk itself."""
    folder, _, entry = name.rpartition("/")
    return folder, entry


def _is_under(name: str, prefix: str) -> bool:
    return not prefix or name == prefix or name.startswith(f"{prefix}/")


class Files(Disk, Protocol):
    """A simulated disk, or what stands before it."""

    def free_under(self, prefix: str) -> int:
        """What may still be written under a prefix."""


class View:
    """A folder of a simulated disk, as a disk of its own: what a journal takes for its root."""

    __slots__ = ("_start", "disk", "prefix")

    def __init__(self, disk: Files, prefix: str) -> None:
        self.disk = disk
        self.prefix = prefix
        """As the disk's faults take it."""
        self._start = f"{prefix}/"

    def __repr__(self) -> str:
        return self.prefix

    def size(self, name: str) -> int:
        """Bytes in the file; 0 where there is none."""
        return self.disk.size(self._start + name)

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""
        return self.disk.exists(self._start + name)

    def create(self, name: str, data: bytes) -> None:
        """Makes a file that is not there."""
        self.disk.create(self._start + name, data)

    def append(self, name: str, data: bytes) -> int:
        """Adds bytes at the end, all or none; returns the new size."""
        return self.disk.append(self._start + name, data)

    def write_ahead(self, name: str, size: int) -> None:
        """Zeros behind the end of a file, safe with all before them."""
        self.disk.write_ahead(self._start + name, size)

    def sync(self, name: str) -> None:
        """Nothing appended so far can be lost any more, nor the name."""
        self.disk.sync(self._start + name)

    def put(self, name: str, data: bytes) -> None:
        """Overwrites the start of a file."""
        self.disk.put(self._start + name, data)

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset` on."""
        return self.disk.read(self._start + name, offset, length)

    def map(self, name: str, length: int) -> Mapped:
        """The first bytes, not copied."""
        return self.disk.map(self._start + name, length)

    def expect(self, name: str) -> None:
        """Memory is as near as it gets."""
        self.disk.expect(self._start + name)

    def truncate(self, name: str, size: int) -> None:
        """Cuts the file to `size` bytes."""
        self.disk.truncate(self._start + name, size)

    def link(self, source: str, name: str) -> None:
        """Both names mean one file from now on."""
        self.disk.link(self._start + source, self._start + name)

    def unlink(self, name: str) -> None:
        """Takes a name away."""
        self.disk.unlink(self._start + name)

    def list(self, folder: str) -> list[str]:
        """The names in a folder, in order."""
        return self.disk.list(self._start + folder if folder else self.prefix)

    def free_bytes(self) -> int:
        """What may still be written in this folder."""
        return self.disk.free_under(self.prefix)

    def close(self, name: str) -> None:
        """Nothing is kept open."""
        self.disk.close(self._start + name)
