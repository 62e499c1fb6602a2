"""Segments that are read one after the other: those of one partition, or all of a commit.

The next segment is announced to the disk while one is read: so far ahead is read, and no further.
"""

from __future__ import annotations

from collections.abc import Sequence

from gapless.journal.cursor import Needs, Piece, Sealed
from gapless.journal.disk import Disk
from gapless.journal.facts import Fact
from gapless.journal.layout import Layout
from gapless.protocol.elements import BEGIN


class Lane:
    """A queue of sealed segments, and how far their records promise."""

    def __init__(self, disk: Disk, layout: Layout, facts: Sequence[Fact], needs: Needs) -> None:
        """`facts` of one segment stand together."""
        self._disk = disk
        self._layout = layout
        self._needs = needs
        self._segments: list[list[Fact]] = []
        for fact in facts:
            if not self._segments or self._segments[-1][0].segment != fact.segment:
                self._segments.append([])
            self._segments[-1].append(fact)
        self._segments.reverse()  # the next is last
        self._cursor: Sealed | None = None
        self.stable = BEGIN

    def next(self) -> Piece | None:
        """The next record's rows; None at the end."""
        while True:
            if self._cursor is not None:
                piece = self._cursor.next()
                if piece is not None:
                    self.stable = max(self.stable, BEGIN if piece.stable is None else piece.stable)
                    return piece
                self._cursor = None
            if not self._segments:
                return None
            self._cursor = self._opened(self._segments.pop())
            if self._segments:
                self._disk.expect(self._segments[-1][0].segment)

    def _opened(self, facts: list[Fact]) -> Sealed:
        first = {fact.partition: fact.first for fact in facts}
        rows = {fact.partition: fact.rows for fact in facts}
        return Sealed(
            self._disk,
            self._layout,
            facts[0].segment,
            first,
            size=facts[0].bytes,
            crc=facts[0].crc,
            rows=rows,
            needs=self._needs,
        )


def lanes_of(
    disk: Disk, layout: Layout, facts: list[Fact], needs: Needs, *, by_partition: bool
) -> list[Lane]:
    """The lanes of one commit: one a partition where each has its own stables, else one."""
    if not by_partition:
        return [Lane(disk, layout, facts, needs)]
    # What a record promises there is no bound of the times in it: the commit's alone is.
    needs = Needs(needs.offsets)
    parts: dict[int, list[Fact]] = {}
    for fact in facts:
        parts.setdefault(fact.partition, []).append(fact)
    return [Lane(disk, layout, part, needs) for part in parts.values()]
