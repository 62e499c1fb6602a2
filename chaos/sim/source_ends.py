"""Where the sources of a shard end, and what lies between two places: by plain readers of its own.

    now()                        {"flows": {0: 812, 1: 790}}
    rows("flows", from, to, t)   how many rows lie between two positions and end behind t

A checker compares with it what a replica says that it has read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from gapless.journal.disk import Disk
from gapless.journal.reader import Reader
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import JournalError
from gapless.protocol.frame import Frame

Position = Mapping[int, int]


class SourceEnds:
    """The sources that a replica reads, and their partitions."""

    def __init__(
        self,
        names: Iterable[str],
        disk_of: Callable[[str], Disk],
        partitions: Iterable[int] | None,
    ) -> None:
        self._names = tuple(names)
        self._disk_of = disk_of
        self._partitions = None if partitions is None else tuple(partitions)

    def now(self) -> Mapping[str, Position]:
        """Behind all rows that are there, by source; nothing of one that does not read now."""
        found: dict[str, Position] = {}
        for name in self._names:
            try:
                end = Reader(self._disk_of(name), partitions=self._partitions, start="end")
            except JournalError:
                continue
            found[name] = end.position
        return found

    def rows(self, source: str, start: Position, end: Position, before: int) -> int:
        """Rows between two positions that do not end by `before`; 0 where that does not read."""
        return sum(
            self._rows(source, p, start[p], end[p], before) for p in end if start[p] < end[p]
        )

    def _rows(self, source: str, partition: int, start: int, end: int, before: int) -> int:
        try:
            reader = Reader(
                self._disk_of(source), partitions=(partition,), start={partition: start}
            )
            left, count = end - start, 0
            while left > 0 and (frame := reader.read()) is not None:
                count += _behind(frame.slice(0, left), before)
                left -= len(frame)
        except JournalError:
            return 0
        return count


def _behind(frame: Frame, t: int) -> int:
    if t == BEGIN or not frame.insert_only:
        return len(frame)
    return int((frame.ve > t).sum())
