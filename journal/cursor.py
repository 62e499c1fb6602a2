"""Reading one segment: the records of some partitions, in the order in which they were written.

A *sealed* segment is mapped: its length is known and it never changes. A *growing* one is read in
chunks, up to its live end. Both give pieces: the rows of one record, which partition they are of
and where in it, and what the record promises.

Every record of a partition begins at the row where the one before it ended; a sealed segment has as
many rows as its commit says. So a record that is missing is an error, and never a gap.

A reader that begins late in a segment `Needs` only a part of it. The rest is passed over by its
headers, at a tenth of what reading it costs: a live segment may hold a day of small records.

    record    row 0: 2 rows    row 2: 3 rows, stable 80    row 5: 1 row, stable 90
    needed    from row 5 on; or from time 95 on, where rows are late by 10 at most: the last alone
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gapless.journal.disk import Disk, Mapped
from gapless.journal.layout import Layout
from gapless.journal.segment import ADVICE, Index, Record, count, no_rows, read
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import JournalError
from gapless.protocol.frame import Frame

CHUNK_BYTES = 4 << 20
"""Of a growing segment, read at once: as many as a batch needs, where that is more."""


READ_BYTES = 8 << 20
"""Of a mapped segment, read before they are let go again: so many for each partition that is read
side by side, and not all that its segment has.
"""


@dataclass(slots=True)
class Needs:
    """What a reader needs; it may move on while segments are read."""

    offsets: npt.NDArray[np.int64]
    """By partition: rows before it are not needed."""
    since: int = BEGIN
    """Rows before this time are not needed either: of source rows, whose promises say how late they
    can have been.
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
    passed: int = 0
    """Rows of the partition right before it that were passed over."""


class Cursor(ABC):
    """A place in one segment. `next` gives the next piece, or None where there is none yet."""

    def __init__(
        self,
        disk: Disk,
        layout: Layout,
        name: str,
        first: Mapping[int, int],
        needs: Needs | None = None,
    ) -> None:
        """`first` has the partitions that are read, and the offset of the segment's first row.
        `needs`: all of it by default.
        """
        self._disk = disk
        self._layout = layout
        self._first = first
        self._needs = needs
        self._index = Index(name)
        self._at = 0  # of the next record in the index
        self._needless = bytearray()  # by record of the index
        self._rows = dict.fromkeys(first, 0)  # read so far
        self._passed = dict.fromkeys(first, 0)  # rows passed over since the last piece
        self._promised = BEGIN  # by what was passed over since then

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
                if self._needless[self._at - 1]:
                    self._pass(record)
                    continue
                return self._piece(
                    record, read(self.name, self._bytes(record), record, self._layout)
                )
            if record.stable is not None:
                return Piece(0, 0, no_rows(self._layout.schema), record.stable)
        if self._promised > BEGIN:  # by a batch that was passed over, and by none behind it
            stable, self._promised = self._promised, BEGIN
            return Piece(0, 0, no_rows(self._layout.schema), stable)
        return None

    def _next_record(self) -> Record | None:
        if self._at == len(self._index.records):
            if not self._more():
                return None
            self._needless = self._found_needless()
        self._at += 1
        return self._index.records[self._at - 1]

    def _found_needless(self) -> bytearray:
        """By record of the index, whether none of its rows is needed. The last of each partition
        is read whatever it has: reading on behind it then knows where it is.
        """
        records, needs = self._index.records, self._needs
        found = bytearray(len(records))
        if needs is None:
            return found
        since = needs.since if self._layout.has_rows else BEGIN
        read = {p: int(needs.offsets[p]) - first for p, first in self._first.items()}
        next_row: dict[int, int] = {}  # by partition, where the record behind begins
        latest = INF  # of the times in the present batch
        for i in range(len(records) - 1, -1, -1):
            _, _, partition, row, stable, has_rows = records[i]
            if stable is not None:
                latest = min(stable, INF - self._layout.lateness) + self._layout.lateness
            if has_rows and partition in read:
                end = next_row.get(partition)
                if end is not None:
                    found[i] = end <= read[partition] or latest < since
                next_row[partition] = row
        return found

    def _pass(self, record: Record) -> None:
        rows = count(self.name, self._bytes(record), record, self._layout)
        self._follows(record, rows)
        self._passed[record.partition] += rows
        if record.stable is not None:
            self._promised = max(self._promised, record.stable)

    def _piece(self, record: Record, frame: Frame) -> Piece:
        partition, stable = record.partition, record.stable
        self._follows(record, len(frame))
        passed, self._passed[partition] = self._passed[partition], 0
        if self._promised > BEGIN:
            stable = self._promised if stable is None else max(stable, self._promised)
            self._promised = BEGIN
        return Piece(partition, self._first[partition] + record.row, frame, stable, passed)

    def _follows(self, record: Record, rows: int) -> None:
        """Counts the rows of a record, which has to begin where the one before it ended."""
        before = self._rows[record.partition]
        if record.row != before:
            raise JournalError(
                f"segment {self.name} at byte {record.at}: row {record.row} of partition "
                f"{record.partition} follows row {before - 1}: a record is missing; {ADVICE}"
            )
        self._rows[record.partition] += rows

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
        needs: Needs | None = None,
    ) -> None:
        super().__init__(disk, layout, name, first, needs)
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

    def __init__(
        self,
        disk: Disk,
        layout: Layout,
        name: str,
        first: Mapping[int, int],
        needs: Needs | None = None,
    ) -> None:
        super().__init__(disk, layout, name, first, needs)
        self.end = 0
        """How far it may be read; the watcher of the live end moves it on."""
        self._base = 0  # where the present chunk begins
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
