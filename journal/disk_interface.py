"""The interface of a disk: all that a journal asks of a file system.

                      LocalDisk   (disk.py)      a directory of a POSIX file system
    journal ---> Disk
                      SimulatedDisk (chaos)      bytes in memory: torn writes, lost bytes, errors

Everything above works on names and bytes. Names are relative, like "commits/0000000017".

What a journal relies on, and what POSIX gives: `link` makes a name for a file that is there whole,
or fails because the name exists; bytes appended are seen by later readers; a file that has no name
any more stays for those who have it open. Object stores give none of it, so commits and fencing
need a POSIX file system.

Over a network less is asked, which is what NFS gives as it is mounted by default. That a name is
*not* there (`exists`, and what reads nothing) may be as of a minute ago, until its folder is
listed. What is in a file that is there, and whether a name can be made, is as of now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gapless.journal.disk import Mapped


class Disk(Protocol):
    """Files that are appended to, small ones that are overwritten, and names made by link."""

    def size(self, name: str) -> int:
        """Bytes in the file, with those that were written ahead; 0 where there is none."""

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""

    def create(self, name: str, data: bytes) -> None:
        """Makes a file; raises `FileExistsError` where there is one: of several, one succeeds.
        Nobody else reads a part of it while it is made.

        Of a crash a file with a part of the bytes may be left.
        """

    def append(self, name: str, data: bytes) -> int:
        """Adds bytes at the end, makes the file where there is none; returns the new size.

        The bytes survive a crash only after `sync`; before it any prefix of them may. Where they
        cannot all be written it raises `OSError`, and the file is as it was; `JournalError` where
        it cannot be brought back to that: nothing may be appended any more.
        """

    def write_ahead(self, name: str, size: int) -> None:
        """Makes the file `size` bytes long, with zeros behind what was appended, and all of it
        safe. Appends go over the zeros, as if these were not there, and return where they end. Of a
        crash before their `sync` any of their bytes may be zeros still, not only the last ones.

        Where the disk gains nothing by it, nothing happens. Raises `OSError` where there is no
        room; the file is then as it was. For a file that nobody else appends to.
        """

    def sync(self, name: str) -> None:
        """Makes every byte appended so far, and the name itself, survive a crash of the machine."""

    def put(self, name: str, data: bytes) -> None:
        """Overwrites the start of a small file. Of a crash any mix of old and new may be left."""

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset` on; fewer at the end, none where there is no file."""

    def map(self, name: str, length: int) -> Mapped:
        """The first `length` bytes of a file that does not change any more, copied if need be.

        Raises `OSError` where there are not so many, or no such file.
        """

    def expect(self, name: str) -> None:
        """The file will be mapped soon: the system may begin to read it."""

    def truncate(self, name: str, size: int) -> None:
        """Cuts the file to `size` bytes; nothing is written ahead any more."""

    def link(self, source: str, name: str) -> None:
        """Gives a file a second name; raises `FileExistsError` where another file has that name.
        Where this file has it already nothing happens: an answer may have been lost.
        """

    def unlink(self, name: str) -> None:
        """Takes a name away; nothing happens where it does not exist."""

    def list(self, folder: str) -> list[str]:
        """The names in a folder, in order, without the folder; none where it does not exist."""

    def free_bytes(self) -> int:
        """What may still be written before the disk is full."""

    def close(self, name: str) -> None:
        """Nothing will be appended to the file for now."""
