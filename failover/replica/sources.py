"""The sources of a replica: a reader of each journal, for the machine's pump.

    OpenSources(positions, since)  --> open       a reader a source
    ReadSource(source)             --> read       SourceRead(source, frame, position)
    SkipSource(source, t)          --> skip

All it knows of time is what the journals say; it never waits.

Retention takes leading rows of a partition away. A reader that goes on at a position is told so by
the journal. One that begins at the start is not: it would read what is left, and answer for that.

    a job began here |  trimmed since  | since |    right: what went is of no more use
    a job began here |  trimmed since    since      refused: rows that were counted then are missing
    trimmed | a job began here                      right: they were never a part of its answer

What exactly went nobody knows any more; but a journal takes no row that is further behind than its
lateness, so what it still has says how late those rows can have been.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from gapless.failover.replica.effects import Position
from gapless.journal.commit import Commits
from gapless.journal.disk import Disk
from gapless.journal.facts import facts_list
from gapless.journal.layout import opened
from gapless.journal.reader import FRAME_ROWS, Reader
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import JournalError, Misuse, Trimmed
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema


class Sources:
    """Readers of some partitions of each source's journal, at the columns that a plan needs."""

    def __init__(
        self,
        disks: Mapping[str, Disk],
        schemas: Mapping[str, StreamSchema],
        partitions: Iterable[int] | None = None,
        began: Mapping[str, Position] | None = None,
    ) -> None:
        """`schemas`: the plan's, by source. `partitions`: the shard's, the same of every journal;
        all of them by default. `began`: where the journals of sources began when the job did, the
        very first row where nothing is said.
        """
        missing = schemas.keys() - disks.keys()
        if missing:
            raise Misuse(f"no journal for source {min(missing)!r}")
        self._disks = disks
        self._schemas = schemas
        self._partitions = None if partitions is None else tuple(partitions)
        self._began = {} if began is None else dict(began)
        self._readers: dict[str, Reader] = {}

    @property
    def positions(self) -> dict[str, Position]:
        """Of each source that is open, where its reader is."""
        return {name: reader.position for name, reader in self._readers.items()}

    def open(self, positions: Mapping[str, Position] | None, since: Mapping[str, int]) -> None:
        """Begins to read: at positions that an earlier reader had, or where the journals begin, and
        then without segments whose rows are all before `since`. Raises `JournalError`, also where
        a journal does not have the columns or the partitions; `Trimmed` where rows that are needed
        have been taken away.
        """
        self._readers = {
            name: self._reader(
                name, None if positions is None else positions[name], since.get(name, BEGIN)
            )
            for name in self._schemas
        }

    def read(self, source: str, rows: int = FRAME_ROWS) -> tuple[Frame | None, Position]:
        """The next frame, of so many rows at most, None where there is nothing new, and the
        position behind it. Raises `JournalError`; the source is then to be opened anew.
        """
        reader = self._reader_of(source)
        reader.frame_rows = rows
        frame = reader.read()
        return frame, reader.position

    def go_back(self, source: str, position: Position) -> None:
        """Reads on from a position where the source has been. Raises `JournalError`."""
        self._readers[source] = self._reader(source, position, BEGIN)

    def end(self, source: str) -> Position:
        """Behind all rows of a source that are there now. Raises `JournalError`."""
        end = Reader(self._disks[source], partitions=self._partitions, start="end")
        return end.position

    def skip(self, source: str, t: int) -> None:
        """Rows before t are of no more use: segments that have no others are not read."""
        self._reader_of(source).skip_before(t)

    def _reader(self, name: str, position: Position | None, since: int) -> Reader:
        try:
            reader = Reader(
                self._disks[name],
                partitions=self._partitions,
                columns=self._schemas[name].names,
                start="earliest" if position is None else position,
                since=None if since == BEGIN else since,
            )
        except Misuse as e:  # not this caller's: of the maker of the journal, or the checkpoint
            raise JournalError(f"source {name}: {e}") from e
        if position is None:
            self._check_whole(name, reader.position, since)
        return reader

    def _check_whole(self, name: str, first: Position, since: int) -> None:
        """Raises `Trimmed` unless every row from `since` on that the job began with is there."""
        began = self._began.get(name, {})
        gone = [p for p, row in first.items() if row > began.get(p, 0)]
        if not gone or trimmed_to(self._disks[name], gone) < since:
            return
        p = gone[0]
        needed = "all rows" if since == BEGIN else f"the rows from {since} on"
        raise Trimmed(
            f"source {name}: {self._disks[name]}: rows {began.get(p, 0)} to {first[p] - 1} of "
            f"partition {p} have been trimmed since the job began, and a replay needs {needed}: "
            "without them its answers would be others. Replicas can start from a checkpoint or a "
            "live one; else restore the rows, or launch a new job, which begins with what is there"
        )

    def _reader_of(self, source: str) -> Reader:
        reader = self._readers.get(source)
        if reader is None:
            raise JournalError(f"source {source!r} is not open")
        return reader


def trimmed_to(disk: Disk, partitions: Iterable[int]) -> int:
    """A time that no row which was trimmed from these partitions can be after; INF where nothing
    says.
    """
    layout = opened(disk)
    commits = Commits(disk, layout)
    return max(_trimmed_to(commits, p) for p in partitions)


def _trimmed_to(commits: Commits, partition: int) -> int:
    """By the first commit that still has rows of the partition: those that went were before it, or
    came with it. Then no promise behind it is later than they are by more than the lateness. Where
    none of them came with it, for it has one segment, no row of it is either.
    """
    facts, head, lateness = commits.facts, commits.head, commits.layout.lateness
    of_it = facts.column("partition").to_numpy() == partition
    of_it &= facts.column("rows").to_numpy() > 0
    if not of_it.any():
        return _later(head.stable, lateness)
    commit = facts.column("commit").to_numpy()
    same = np.flatnonzero(commit == commit[int(of_it.argmax())])
    listed = facts_list(facts.slice(int(same[0]), len(same)))
    bound = listed[-1].stable
    if listed[0].segment.count("-") == 1:  # a writer's: it commits one segment at a time
        bound = min(bound, *(fact.least for fact in listed if fact.rows), INF)
    return _later(bound, lateness)


def _later(t: int, by: int) -> int:
    return INF if t == BEGIN or t >= INF - by else t + by
