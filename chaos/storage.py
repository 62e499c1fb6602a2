"""A disk in memory that loses what was not synced: the simulator's side of `journal.disk`."""

from __future__ import annotations

import random
from dataclasses import dataclass


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

    def append(self, name: str, data: bytes) -> int:
        """Adds bytes at the end; returns the new size."""
        file = self._files.setdefault(name, _File(bytearray()))
        file.data += data
        return len(file.data)

    def sync(self, name: str) -> None:
        """Nothing appended so far can be lost any more."""
        file = self._files[name]
        file.synced = len(file.data)

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset` on."""
        return (
            bytes(self._files[name].data[offset : offset + length]) if name in self._files else b""
        )

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
