"""The place of a reader: how far it is in each partition, and whether what comes next is there.

partition            0     3        the journal now has    first   200    0
the next row is    210    40                               rows    230   40

trimmed              rows before 200 go; at 190 the reader would be too late: `Trimmed`
lost                 behind row 40 of partition 3 nothing was written; at 44 somebody has read
                     rows that are not there any more: `JournalError`
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gapless.journal.agenda import Offsets
from gapless.journal.commit import Commits
from gapless.journal.cursor import Piece
from gapless.journal.disk import Disk
from gapless.journal.facts import Fact
from gapless.journal.segment import ADVICE
from gapless.protocol.errors import JournalError, Misuse, Trimmed

Position = Mapping[int, int]
"""By partition, the offset of the next row."""


class Place:
    """The offsets of the next rows. They begin at the first rows that are still there."""

    def __init__(self, disk: Disk, commits: Commits, wanted: list[int]) -> None:
        self._disk = disk
        self._commits = commits
        self._wanted = wanted
        self.offsets: Offsets = np.array(commits.head.first, np.int64)
        """By partition, also of those that are not read; what is passed over moves them on, too."""

    @property
    def position(self) -> dict[int, int]:
        """Of the partitions that are read."""
        return {p: int(self.offsets[p]) for p in self._wanted}

    # -- beginning ----------------------------------------------------------------------------

    def is_ahead(self, position: Position) -> bool:
        """Whether a position is behind all that commits have: in the live segment, if anywhere."""
        if sorted(position) != self._wanted:
            raise Misuse(f"a position of partitions {sorted(position)}, read are {self._wanted}")
        return any(position[p] > self._commits.head.rows[p] for p in position)

    def move_to(self, position: Position, end: Offsets | None) -> None:
        """Goes to a position. `end` is behind all rows that are there, where that matters."""
        for p, offset in position.items():
            if offset < self._commits.head.first[p]:
                raise self._trimmed(p, offset)
            self.offsets[p] = offset
            if end is not None and offset > end[p]:
                raise self._lost(p, int(end[p]))

    def move_behind(self, commit: int) -> None:
        """Goes behind all rows of a commit and those before it."""
        facts = self._commits.facts
        before = facts.column("commit").to_numpy() <= commit
        columns = [facts.column(n).to_numpy()[before] for n in ("partition", "first", "rows")]
        np.maximum.at(self.offsets, columns[0], columns[1] + columns[2])

    def return_to(self, position: Position) -> None:
        """Goes back to where it was: what was read since then nobody has been given."""
        for p, offset in position.items():
            self.offsets[p] = offset

    # -- reading ------------------------------------------------------------------------------

    def unread(self, piece: Piece) -> Piece:
        """Without the rows before our place. Raises where rows are missing before it."""
        size = len(piece.frame)
        if not size:
            return piece
        read = int(self.offsets[piece.partition])
        if piece.offset - piece.passed <= read <= piece.offset:
            return piece
        if piece.offset > read:
            raise JournalError(
                f"{self._disk}: partition {piece.partition} continues at row {piece.offset} after "
                f"row {read - 1}; {ADVICE}"
            )
        rows = max(0, piece.offset + size - read)
        return piece._replace(offset=read, frame=piece.frame.slice(size - rows))

    def check_trimmed(self) -> None:
        """Raises `Trimmed` where the commits say that we are too late."""
        for p in self._wanted:
            if self.offsets[p] < self._commits.head.first[p]:
                raise self._trimmed(p, int(self.offsets[p]))

    def check_sealed(self, sealed: list[Fact], before: Position) -> None:
        """Raises where we have read rows of a live segment that are not in it now that it is
        sealed, as these facts say; it began `before`.
        """
        first = self._commits.head.first
        ends = {fact.partition: fact.first + fact.rows for fact in sealed}
        for p in self._wanted:
            end = max(first[p], ends.get(p, before[p]))
            if self.offsets[p] > end:
                raise self._lost(p, end)

    def _lost(self, partition: int, end: int) -> JournalError:
        return JournalError(
            f"{self._disk}: partition {partition} has {end} rows, the position is "
            f"{self.offsets[partition]}: rows that were read have been lost, or it is another "
            "journal's position"
        )

    def _trimmed(self, partition: int, offset: int) -> Trimmed:
        return Trimmed(
            f"{self._disk}: row {offset} of partition {partition} has been trimmed, the first that "
            f'is there is {self._commits.head.first[partition]}: start at "earliest", or at a base'
        )
