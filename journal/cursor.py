"""Reading one segment: the records of some partitions, in the order in which they were written.

A *sealed* segment is mapped: its length is known and it never changes. A *growing* one is read in
chunks, up to its live end. Both give pieces: the rows of one record, which partition they are of
and where in it, and what the record promises.

Every record of a partition begins at the row where the one before it ended; a sealed segment has as
many rows as its commit says. So a record that is missing is an error, and never a gap.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

from gapless.journal.disk import Disk, Mapped
from gapless.journal.layout import Layout
from gapless.journal.segment import ADVICE, Index, Record, no_rows, read
from gapless.protocol.errors import JournalError
from gapless.protocol.frame import Frame

CHUNK_BYTES = 4 << 20
"""Of a growing segment, read at once: as many as a batch needs, where that is more."""


READ_BYTES = 8 << 20
"""Of a mapped segment, read before they are let go again: so many for each partition that is read
side by side, and not all that its segment has.
"""


class Piece(NamedTuple):
    """The rows of one record."""

    partition: int
    offset: int
    """Of its first row, in its partition."""
    frame: Frame
    """Its rows. Whether it has a stable, and which, says nothing."""
    stable: int | None
    """What the record promises once its rows are read."""


class Cursor(ABC):
    """A place in one segment. `next` gives the next piece, or None where there is none yet."""

    def __init__(self, disk: Disk, layout: Layout, name: str, first: Mapping[int, int]) -> None:
        """`first` has the partitions that are read, and the offset of the segment's first row."""
        self._disk = disk
        self._layout = layout
        self._first = first
        self._index = Index(name)
        self._at = 0  # of the next record in the index
        self._rows = dict.fromkeys(first, 0)  # read so far

    @property
    def name(self) -> str:
        """The segment's."""
        return self._index.name

    def next(self) -> Piece | None:
        """The next record that has rows of our partitions, or promises something.

        Raises `JournalError`, which says what is damaged in which segment of which journal.
        """
        try:
            return self._next()
        except JournalError as e:
            raise JournalError(f"{self._disk}: {e}") from None

    def _next(self) -> Piece | None:
        while (record := self._next_record()) is not None:
            if record.has_rows and record.partition in self._first:
                return self._piece(
                    record, read(self.name, self._bytes(record), record, self._layout)
                )
            if record.stable is not None:
                return Piece(0, 0, no_rows(self._layout.schema), record.stable)
        return None

    def _next_record(self) -> Record | None:
        if self._at == len(self._index.records) and not self._more():
            return None
        self._at += 1
        return self._index.records[self._at - 1]

    def _piece(self, record: Record, frame: Frame) -> Piece:
        partition, before = record.partition, self._rows[record.partition]
        if record.row != before:
            raise JournalError(
                f"segment {self.name} at byte {record.at}: row {record.row} of partition "
                f"{partition} follows row {before - 1}: a record is missing; {ADVICE}"
            )
        self._rows[partition] += len(frame)
        return Piece(partition, self._first[partition] + before, frame, record.stable)

    @abstractmethod
    def _more(self) -> bool:
        """Extends the index; False where there is no more of it now."""

    @abstractmethod
    def _bytes(self, record: Record) -> memoryview:
        """The bytes of a record that the index has."""


class Sealed(Cursor):
    """A segment of which a commit knows the length, and the rows of each partition."""

    def __init__(
        self,
        disk: Disk,
        layout: Layout,
        name: str,
        first: Mapping[int, int],
        size: int,
        crc: int,
        rows: Mapping[int, int],
    ) -> None:
        super().__init__(disk, layout, name, first)
        self._size = size
        self._crc = crc
        self._expected = rows
        self._mapped: Mapped | None = None
        self._data = memoryview(b"")
        self._let_go = 0  # so much of it from its start

    def _more(self) -> bool:
        if self._mapped is not None:
            self._check_rows()
            return False
        try:
            self._mapped = self._disk.map(self.name, self._size)
        except OSError as e:
            raise JournalError(f"segment {self.name}: {e}; {ADVICE}") from None
        self._data = memoryview(self._mapped.data)
        self._index.extend(self._data)
        if self._index.end != self._size:
            raise JournalError(
                f"segment {self.name} at byte {self._index.end}: it ends in a record that is not "
                f"whole, before byte {self._size}; {ADVICE}"
            )
        if self._index.crc != self._crc:
            raise JournalError(
                f"segment {self.name}: it is whole, and not the file that was committed under "
                f"this name; {ADVICE}"
            )
        self._mapped.forget(0, self._size)
        return bool(self._index.records)

    def _check_rows(self) -> None:
        for partition, rows in self._rows.items():
            if rows != self._expected[partition]:
                raise JournalError(
                    f"segment {self.name}: {rows} rows of partition {partition}, its commit says "
                    f"{self._expected[partition]}; {ADVICE}"
                )

    def _bytes(self, record: Record) -> memoryview:
        if self._mapped is not None and record.at - self._let_go >= READ_BYTES:
            self._mapped.forget(self._let_go, record.at)
            self._let_go = record.at
        return self._data[record.at : record.at + record.size]


class Growing(Cursor):
    """The live segment, as far as it may be read. Once it is sealed it is read to that end."""

    def __init__(self, disk: Disk, layout: Layout, name: str, first: Mapping[int, int]) -> None:
        super().__init__(disk, layout, name, first)
        self.end = 0
        """How far it may be read; whoever watches the live end moves it on."""
        self._base = 0  # where the chunk at hand begins
        self._chunk = memoryview(b"")

    def is_read_to(self, end: int) -> bool:
        """Whether all is read up to `end`; it may be read so far from now on."""
        self.end = max(self.end, end)
        return self._at == len(self._index.records) and self._index.end >= self.end

    def _more(self) -> bool:
        index = self._index
        size = CHUNK_BYTES
        while index.end < self.end:
            index.records.clear()
            index.batches.clear()
            self._at = 0
            self._base = index.end
            length = min(size, self.end - index.end)
            self._chunk = memoryview(self._disk.read(self.name, index.end, length))
            index.extend(self._chunk, self._base)
            if index.records:
                return True
            if len(self._chunk) < length or length == self.end - index.end:
                raise JournalError(
                    f"segment {self.name} at byte {index.end}: it ends in a batch that is not "
                    f"whole, before byte {self.end}; {ADVICE}"
                )
            size *= 2
        return False

    def _bytes(self, record: Record) -> memoryview:
        return self._chunk[record.at - self._base : record.at - self._base + record.size]
