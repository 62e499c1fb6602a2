"""The disk, behind an interface: the only module that touches the operating system's files.

The simulator implements the same interface in memory, with torn writes and unsynced bytes lost.
Everything above works on names and bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol


class Disk(Protocol):
    """Files that are appended to. Names are relative, like "out/0.log"."""

    def size(self, name: str) -> int:
        """Bytes in the file; 0 where there is none."""

    def append(self, name: str, data: bytes) -> int:
        """Adds bytes at the end, makes the file where there is none; returns the new size.

        The bytes survive a crash only after `sync`; before it any prefix of them may. Where they
        cannot all be written it raises `OSError`, and the file is as it was.
        """

    def sync(self, name: str) -> None:
        """Makes every byte appended so far survive a crash of the machine."""

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset` on; fewer at the end, none where there is no file."""

    def truncate(self, name: str, size: int) -> None:
        """Cuts the file to `size` bytes."""


class LocalDisk:
    """A directory of a POSIX file system."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._entered: set[str] = set()  # names that their directory is known to hold for good

    def size(self, name: str) -> int:
        """Bytes in the file; 0 where there is none."""
        try:
            return (self._root / name).stat().st_size
        except FileNotFoundError:
            return 0

    def append(self, name: str, data: bytes) -> int:
        """Adds bytes at the end, in one write if the system takes them so; returns the new size."""
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab", buffering=0) as f:
            size, left = f.tell(), memoryview(data)
            try:
                while left:
                    left = left[f.write(left) :]
            except OSError:
                f.truncate(size)  # what a full disk took of it would lie before the next bytes
                raise
            return f.tell()

    def sync(self, name: str) -> None:
        """Calls fdatasync; the first time also fsync on the directories above the file.

        A file whose directory entry is lost is lost, however safe its bytes are.
        """
        path = self._root / name
        _sync(path, os.fdatasync)
        if name not in self._entered:
            for directory in path.relative_to(self._root).parents:
                _sync(self._root / directory, os.fsync)
            self._entered.add(name)

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset` on."""
        try:
            with (self._root / name).open("rb") as f:
                f.seek(offset)
                return f.read(length)
        except FileNotFoundError:
            return b""

    def truncate(self, name: str, size: int) -> None:
        """Cuts the file to `size` bytes."""
        os.truncate(self._root / name, size)


def _sync(path: Path, call: Callable[[int], None]) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        call(fd)
    finally:
        os.close(fd)
