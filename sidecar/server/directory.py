"""A sidecar's directory: its only durable truth.

    sidecar                  its name, made once
    terms/000003             lives of the sidecar: made, never changed; the largest is the present
    streams/talkers/
      definition             schema and properties, made once, before anything else of the stream
      output/                the output journal (failover/merger/output_journal.py)
    records/                 flight records of streams that broke down, or raised an alarm

    lock                     held by the sidecar that runs here, as long as its process does

Files are there whole or not at all. A second sidecar on one directory is refused by the lock. Where
locks do not reach, on some file systems that several machines see, the later has the larger term:
it takes each journal over, and the earlier one notices before it delivers anything more.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from uuid import uuid4

from gapless.failover.job.whole_file import drop_drafts, is_name, write_whole
from gapless.journal.disk import LocalDisk, Lock
from gapless.protocol import documents
from gapless.protocol.documents import Fields
from gapless.protocol.errors import GaplessError, JobError, Misuse
from gapless.sidecar.definition import NAME_CHARS_MAX, Definition

VERSION = 1
DEFINITION_BYTES_MAX = 1 << 20
"""Of a file with a definition: a schema of 4,096 columns is a quarter of it."""
LOCK = "lock"
REMOVED = "removed"
"""Where streams are while their files go."""
TERM_DIGITS = 6
TERM_TRIES_MAX = 100
"""Sidecars that start on one directory at the same moment: people do not start so many."""


class Directory:
    """Reads and writes it. Raises `JobError` where it does not read back, `OSError`."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.disk = LocalDisk(self.path)
        self._lock: Lock | None = None

    def lock(self) -> None:
        """Keeps the directory for this process, until `unlock`. Raises `Misuse` where another one
        has it, and `OSError`.
        """
        try:
            self._lock = self.disk.lock(
                LOCK, f"a sidecar, process {os.getpid()} of {os.uname().nodename}"
            )
        except FileExistsError:  # what stands in the way is not a directory
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None

    def unlock(self) -> None:
        """Another sidecar may have the directory."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def name(self) -> str:
        """The sidecar's name; made where it has none yet."""
        if not self.disk.exists("sidecar"):
            made = f"sidecar-{uuid4().hex[:12]}"
            data = documents.pack({"version": VERSION, "name": made})
            try:
                write_whole(self.disk, "sidecar", [data], made)
            except FileExistsError:
                pass  # another one was faster: its name counts
        return self._read_name()

    def _read_name(self) -> str:
        try:
            fields = Fields(documents.unpack(self._bytes("sidecar")), "sidecar")
            fields.take_int("version", VERSION, VERSION)
            name = fields.take("name", str)
            fields.done()
        except GaplessError as e:
            raise JobError(f"{self.path}/sidecar: {e}") from None
        return name

    def next_term(self, token: str) -> int:
        """Begins a new life of the sidecar; those before it are over."""
        drop_drafts(self.disk)
        for _ in range(TERM_TRIES_MAX):
            taken = [int(name) for name in self.disk.list("terms") if name.isdecimal()]
            term = max(taken, default=0) + 1
            data = documents.pack({"version": VERSION, "token": token})
            try:
                write_whole(self.disk, f"terms/{term:0{TERM_DIGITS}}", [data], token)
            except FileExistsError:
                continue
            return term
        raise JobError(f"{self.path}: {TERM_TRIES_MAX} others have begun meanwhile; try again")

    def names(self) -> list[str]:
        """Of all streams that are defined."""
        folders = self.disk.list("streams")
        return [name for name in folders if is_name(name, NAME_CHARS_MAX) and self.has(name)]

    def has(self, name: str) -> bool:
        """Whether there is such a stream."""
        return self.disk.exists(f"streams/{name}/definition")

    def definition(self, name: str) -> Definition:
        """What a stream is."""
        path = f"streams/{name}/definition"
        try:
            made = Definition.of_document(self._bytes(path))
        except GaplessError as e:
            raise JobError(f"{self.path}/{path}: {e}") from None
        if made.name != name:
            raise JobError(f"{self.path}/{path}: is of stream {made.name}")
        return made

    def define(self, definition: Definition, token: str) -> None:
        """Makes a stream. Raises `FileExistsError` where it is there, and `Misuse` for a definition
        that would not be read back.
        """
        document = definition.document()
        if len(document) > DEFINITION_BYTES_MAX:
            raise Misuse(
                f"stream {definition.name}: its definition has {len(document)} bytes, "
                f"{DEFINITION_BYTES_MAX} are the most: give it fewer columns, or shorter names"
            )
        path = f"streams/{definition.name}/definition"
        write_whole(self.disk, path, [document], token)

    def remove(self, name: str) -> None:
        """Removes a stream with all that it holds: first out of sight, then from the disk. What a
        death in between leaves, `drop_removed` takes away.
        """
        away = self.path / REMOVED / f"{name}-{uuid4().hex}"
        away.parent.mkdir(exist_ok=True)
        (self.path / "streams" / name).rename(away)
        shutil.rmtree(away)

    def drop_removed(self) -> None:
        """Takes away what is left of streams that were removed."""
        if (self.path / REMOVED).exists():
            shutil.rmtree(self.path / REMOVED)

    def output(self, name: str) -> LocalDisk:
        """Where a stream's output journal is."""
        return LocalDisk(self.path / "streams" / name / "output")

    def _bytes(self, path: str) -> bytes:
        return self.disk.read(path, 0, DEFINITION_BYTES_MAX)
