"""Scanning an output: a table of it, read from its journal slice by slice.

    bases        --- b1 ------------- b2 ------ end          since=t: from the newest base with a
                     |  since = t >= b1's stable             stable of t at most, to the end
                     '-> fold every frame behind it

A time that is older than the bases costs what the journal has left: an event that ends behind it
may have been told at any time before, and no other table would be a reset. So a scan may take long,
and a merger with several takes a slice of each in turn; one that nobody waits for is dropped.
"""

from __future__ import annotations

from collections.abc import Callable

from gapless.failover.fold import Fold, folded
from gapless.failover.merger.effects import DropTable, ReadTable, TableRead
from gapless.journal.base import read_base
from gapless.journal.commit import Commits
from gapless.journal.disk import Disk
from gapless.journal.head import Base
from gapless.journal.layout import opened
from gapless.journal.reader import FRAME_ROWS, Reader
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import JournalError, SchemaError, Trimmed
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

SLICE_FRAMES = 4
"""Frames of FRAME_ROWS rows in a slice: some milliseconds, which others wait."""


class BeyondEnd(JournalError):
    """What was asked for lies behind the end of the output: nobody has been given it."""


class Scan:
    """One table: every event with `ve >= since` as inserts; without `since`, since the stable."""

    def __init__(self, disk: Disk, schema: StreamSchema, since: int | None) -> None:
        """Raises `Trimmed` where what is left of the journal cannot say it."""
        self._disk = disk
        self._since = since
        base, self._reader = from_base(disk, schema, INF if since is None else since)
        self._fold = Fold(schema, since if since is not None else _stable_of(base))
        if base is not None:
            self._fold.add(base)

    def step(self) -> tuple[Frame, int] | None:
        """Reads a slice. At the end the table with the stable, and the rows that it stands for.

        Raises `BeyondEnd` where the output is not stable up to `since`.
        """
        for _ in range(SLICE_FRAMES):
            frame = self._reader.read()
            if frame is None:
                return self._table()
            self._fold.add(frame)
        return None

    def _table(self) -> tuple[Frame, int]:
        stable, since = self._fold.stable, self._since
        if since is not None and stable < since:
            raise BeyondEnd(f"{self._disk}: the output is stable up to {stable}, not {since}")
        table = self._fold.table()
        if since is None and len(table):
            table = table.take(table.ve >= stable, table.stable)
        return table, self._reader.position[0]

    def run(self) -> tuple[Frame, int]:
        """All of it at once."""
        while (found := self.step()) is None:
            pass
        return found


class Scans:
    """The tables that a merger reads for its subscribers: a slice each, whenever `step` is called.
    For one thread: the one that scans.
    """

    def __init__(self, open_scan: Callable[[int], Scan | tuple[Frame, int]]) -> None:
        """`open_scan(since)`: a scan, or the table itself where it is in memory. It may raise."""
        self._open = open_scan
        self._scans: dict[str, tuple[int, Scan | None]] = {}  # attempt by subscriber, once begun

    def begin(self, effect: ReadTable) -> None:
        """A table is wanted; of a subscriber the last one."""
        self._scans[effect.subscriber] = effect.attempt, None

    def drop(self, effect: DropTable) -> None:
        """A table is wanted no more."""
        if self.wants(effect.subscriber, effect.attempt):
            del self._scans[effect.subscriber]

    def wants(self, subscriber: str, attempt: int) -> bool:
        """Whether this table is being read."""
        known = self._scans.get(subscriber)
        return known is not None and known[0] == attempt

    def step(self, effect: ReadTable) -> TableRead | None:
        """Reads a slice of a table that is wanted: the answer, once it is whole. Where it raises
        it is read no more.
        """
        subscriber, attempt, since = effect.subscriber, effect.attempt, effect.since
        _, scan = self._scans.pop(subscriber)
        opened = self._open(since) if scan is None else scan
        found = opened.step() if isinstance(opened, Scan) else opened
        if found is None and isinstance(opened, Scan):
            self._scans[subscriber] = attempt, opened
        return None if found is None else TableRead(subscriber, attempt, since, *found)

    def __len__(self) -> int:
        return len(self._scans)


def from_base(
    disk: Disk, schema: StreamSchema, since: int, bases_max: int | None = None
) -> tuple[Frame | None, Reader]:
    """The newest base that has every event with `ve >= since`, and a reader of what follows;
    without one, a reader from the start. `bases_max`: of the oldest bases so many are looked at.

    Raises `Trimmed` where what is left does not go back so far.
    """
    layout = opened(disk)
    if layout.schema != schema:
        raise SchemaError(f"{disk} holds {layout.schema}, wanted is {schema}")
    commits = Commits(disk, layout)
    for base in reversed(commits.head.bases[:bases_max]):
        offset = _rows_at(commits, base)
        live = None if offset is None else read_base(disk, layout, base)
        if offset is not None and live is not None and _stable_of(live) <= since:
            return live, Reader(disk, start={0: offset})
    return None, Reader(disk, start={0: 0})


def last_events(disk: Disk, schema: StreamSchema) -> Frame:
    """The events that end last, as inserts, and the stable: what is left to say of an output behind
    which nothing is alive. Empty where none is left.
    """
    bases = len(opened_bases(disk))
    for seen in range(bases, -1, -1):
        try:
            base, reader = from_base(disk, schema, INF, seen)
        except Trimmed:
            break
        last = _Last(schema)
        if base is not None:
            last.add(base)
        while (frame := reader.read()) is not None:
            last.add(frame)
        table = last.table()
        if len(table):
            return table
    return Frame.empty(schema)


def opened_bases(disk: Disk) -> tuple[Base, ...]:
    """The bases that a journal has."""
    return Commits(disk, opened(disk)).head.bases


def end_of(disk: Disk) -> tuple[int, int]:
    """How many rows an output has, and up to when it is stable."""
    commits = Commits(disk, opened(disk))
    reader = Reader(disk, start={0: commits.head.rows[0]})
    while reader.read() is not None:
        pass
    return reader.position[0], max(commits.head.stable, reader.stable)


class _Last:
    """Adds a stream up as `Fold` does, and keeps what may still turn out to end last."""

    def __init__(self, schema: StreamSchema) -> None:
        self._schema = schema
        self._frames: list[Frame] = []
        self._rows = 0
        self._stable = BEGIN

    def add(self, frame: Frame) -> None:
        if len(frame):
            self._frames.append(frame.with_stable(None))
            self._rows += len(frame)
        if frame.stable is not None:
            self._stable = max(self._stable, frame.stable)
        if self._rows > 4 * FRAME_ROWS:
            self._fold()

    def _fold(self) -> None:
        if not self._frames:
            return
        rows = folded(self._schema, self._frames)
        settled = rows.ve < self._stable
        if self._stable == INF:
            settled = rows.ve <= INF
        if settled.any():
            rows = rows.take(rows.ve >= int(rows.ve[settled].max()))
        self._frames, self._rows = [rows], len(rows)

    def table(self) -> Frame:
        self._fold()
        rows = self._frames[0] if self._frames else Frame.empty(self._schema)
        if len(rows):
            rows = rows.take(rows.ve == int(rows.ve.max()))
        return rows.with_stable(None if self._stable == BEGIN else self._stable)


def _stable_of(base: Frame | None) -> int:
    return BEGIN if base is None or base.stable is None else base.stable


def _rows_at(commits: Commits, base: Base) -> int | None:
    """How many rows a base stands for; None where too much was trimmed to know.

    Rows are trimmed up to the last base at most, so of that one it is always known.
    """
    facts, head = commits.facts, commits.head
    ends = facts.column("first").to_numpy() + facts.column("rows").to_numpy()
    before = ends[(facts.column("commit").to_numpy() <= base.commit) & (ends > 0)]
    if len(before):
        return int(before.max())
    return head.first[0] if base == head.bases[-1] or not head.first[0] else None
