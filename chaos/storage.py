"""A disk in memory that loses what was not synced: the simulator's side of `journal.disk`."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pyarrow as pa

from gapless.journal.disk import Mapped

CAPACITY_BYTES = 1 << 30
"""What fits on a simulated disk: more than any run writes."""


@dataclass(slots=True)
class _File:
    data: bytearray
    synced: int = 0


class SimulatedDisk:
    """Implements `journal.disk.Disk` over bytes in memory."""

    def __init__(self) -> None:
        self._files: dict[str, _File] = {}

    def size(self, name: str) -> int:
        """Bytes in the file; 0 where there is none."""
        return len(self._files[name].data) if name in self._files else 0

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""
        return name in self._files

    def create(self, name: str, data: bytes) -> None:
        """Makes a file that is not there."""
        if name in self._files:
            raise FileExistsError(name)
        self._files[name] = _File(bytearray(data))

    def append(self, name: str, data: bytes) -> int:
        """Adds bytes at the end; returns the new size."""
        file = self._files.setdefault(name, _File(bytearray()))
        file.data += data
        return len(file.data)

    def sync(self, name: str) -> None:
        """Nothing appended so far can be lost any more."""
        file = self._files[name]
        file.synced = len(file.data)

    def put(self, name: str, data: bytes) -> None:
        """Overwrites the start of a file."""
        self._files.setdefault(name, _File(bytearray())).data[: len(data)] = data

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset` on."""
        return (
            bytes(self._files[name].data[offset : offset + length]) if name in self._files else b""
        )

    def map(self, name: str, length: int) -> Mapped:
        """A copy of the first bytes."""
        if self.size(name) < length or not self.exists(name):
            raise OSError(f"{name} has {self.size(name)} bytes, not {length}")
        return Mapped(pa.py_buffer(self.read(name, 0, length)))

    def expect(self, name: str) -> None:
        """Memory is as near as it gets."""

    def link(self, source: str, name: str) -> None:
        """Both names mean one file from now on."""
        if name in self._files:
            raise FileExistsError(name)
        self._files[name] = self._files[source]

    def unlink(self, name: str) -> None:
        """Takes a name away."""
        self._files.pop(name, None)

    def list(self, folder: str) -> list[str]:
        """The names in a folder, in order."""
        start = f"{folder}/"
        return sorted(name[len(start) :] for name in self._files if name.startswith(start))

    def free_bytes(self) -> int:
        """What fits beside what is there."""
        files = {id(file): len(file.data) for file in self._files.values()}
        return CAPACITY_BYTES - sum(files.values())

    def close(self, name: str) -> None:
        """Nothing is kept open."""

    def truncate(self, name: str, size: int) -> None:
        """Cuts the file to `size` bytes."""
        file = self._files[name]
        del file.data[size:]
        file.synced = min(file.synced, size)

    def crash(self, name: str, rng: random.Random) -> None:
        """The machine dies: of what was not synced, some prefix survives, often a torn one."""
        if name in self._files:
            file = self._files[name]
            self.truncate(name, rng.randint(file.synced, len(file.data)))
            file.synced = len(file.data)
