"""The sources of a replica: a reader of each journal, for whoever pumps the machine.

    OpenSources(positions, since)  --> open       a reader a source
    ReadSource(source)             --> read       SourceRead(source, frame, position)
    SkipSource(source, t)          --> skip

All it knows of time is what the journals say; it never waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gapless.failover.effects import Position
from gapless.journal.disk import Disk
from gapless.journal.reader import Reader
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import JournalError, Misuse
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema


class Sources:
    """Readers of some partitions of each source's journal, at the columns that a plan needs."""

    def __init__(
        self,
        disks: Mapping[str, Disk],
        schemas: Mapping[str, StreamSchema],
        partitions: Iterable[int] | None = None,
    ) -> None:
        """`schemas`: the plan's, by source. `partitions`: the shard's, the same of every journal;
        all of them by default.
        """
        missing = schemas.keys() - disks.keys()
        if missing:
            raise Misuse(f"no journal for source {min(missing)!r}")
        self._disks = disks
        self._schemas = schemas
        self._partitions = None if partitions is None else tuple(partitions)
        self._readers: dict[str, Reader] = {}

    def open(self, positions: Mapping[str, Position] | None, since: Mapping[str, int]) -> None:
        """Begins to read: at positions that an earlier reader had, or where the journals begin, and
        then without segments whose rows are all before `since`. Raises `JournalError`, also where
        a journal does not have the columns or the partitions.
        """
        self._readers = {
            name: self._reader(
                name, None if positions is None else positions[name], since.get(name, BEGIN)
            )
            for name in self._schemas
        }

    def read(self, source: str) -> tuple[Frame | None, Position]:
        """The next frame, None where there is nothing new, and the position behind it. Raises
        `JournalError`; the source is then to be opened anew.
        """
        reader = self._reader_of(source)
        frame = reader.read()
        return frame, reader.position

    def skip(self, source: str, t: int) -> None:
        """Rows before t are of no more use: segments that have no others are not read."""
        self._reader_of(source).skip_before(t)

    def _reader(self, name: str, position: Position | None, since: int) -> Reader:
        try:
            return Reader(
                self._disks[name],
                partitions=self._partitions,
                columns=self._schemas[name].names,
                start="begin" if position is None else position,
                since=None if since == BEGIN else since,
            )
        except Misuse as e:  # not this caller's: of whoever made the journal, or the checkpoint
            raise JournalError(f"source {name}: {e}") from e

    def _reader_of(self, source: str) -> Reader:
        reader = self._readers.get(source)
        if reader is None:
            raise JournalError(f"source {source!r} is not open")
        return reader
