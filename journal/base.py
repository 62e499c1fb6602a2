r"""Bases: the live table of an output journal at a commit, so that nobody reads from its start.

    commit 17                 commit 18  ...                    commit 40   commit 41
    base: every event with ve >= stable, as inserts                 |           |
      \____________________ what came before is needed no more      read on from here

A base is a file of records like a segment, of one batch. A commit names it, whole or not at all.
The last two are kept, so that a reader that has just opened the older one may finish.
"""

from __future__ import annotations

from gapless.journal.commit import Commits
from gapless.journal.disk import SYNC_BYTES, Disk
from gapless.journal.head import Base
from gapless.journal.layout import Layout
from gapless.journal.segment import ADVICE, Index, read, records_of, writer_of
from gapless.protocol.errors import JournalError, Misuse
from gapless.protocol.frame import Frame


def write_base(disk: Disk, layout: Layout, name: str, live: Frame, *, durable: bool) -> int:
    """Writes a live table under a name that no commit has; returns its bytes."""
    disk.unlink(name)  # of one that died here before
    size = synced = 0
    for record in records_of(layout, writer_of(name), [(0, 0, live)], live.stable):
        size = disk.append(name, record)
        if durable and size - synced >= SYNC_BYTES:
            disk.sync(name)
            synced = size
    if durable:
        disk.sync(name)
    disk.close(name)
    return size


def read_base(disk: Disk, layout: Layout, base: Base) -> Frame:
    """The live table of a base: inserts, and the stable behind them."""
    try:
        return _read(disk, layout, base)
    except (OSError, JournalError) as e:
        raise JournalError(f"{disk}: {e}") from None


def _read(disk: Disk, layout: Layout, base: Base) -> Frame:
    data = memoryview(disk.map(base.segment, base.bytes).data)
    index = Index(base.segment)
    index.extend(data)
    if index.end != base.bytes:
        raise JournalError(f"base {base.segment} ends at byte {index.end}; {ADVICE}")
    frames = [read(base.segment, data[r.at : r.at + r.size], r, layout) for r in index.records]
    return Frame.concat([frame.with_stable(None) for frame in frames]).with_stable(
        frames[-1].stable
    )


class Bases:
    """The bases of the journal that a writer appends to, and how far it is behind the last."""

    def __init__(self, disk: Disk, commits: Commits, layout: Layout, *, durable: bool) -> None:
        self._disk = disk
        self._commits = commits
        self._layout = layout
        self._durable = durable
        self.bytes_since = self._committed_since()
        """Of frames: what rebuilding reads."""

    @staticmethod
    def name_for(segment: str) -> str:
        """The name of the base that is made while a segment is the live one."""
        return f"bases/{segment.rpartition('/')[2]}"

    def is_named(self, name: str) -> bool:
        """Whether a commit names a base of that name: one that was made beside has it."""
        return any(base.segment == name for base in self._commits.head.bases)

    def write(self, live: Frame, name: str) -> Base:
        """Writes the live table as of the next commit. Raises what the disk raises."""
        if not live.insert_only:
            raise Misuse("a base has adjusts: it is the live table, as inserts")
        size = write_base(self._disk, self._layout, name, live, durable=self._durable)
        return Base(self._commits.head.number + 1, name, size)

    def recount(self, live_bytes: int) -> None:
        """Counts anew once a base was committed, with so many bytes of the live segment."""
        self.bytes_since = self._committed_since() + live_bytes

    def _committed_since(self) -> int:
        """Of the segments that the last base does not stand for; all, where there is no base."""
        head, facts = self._commits.head, self._commits.facts
        base = head.bases[-1].commit if head.bases else 0
        return int(facts.column("bytes").to_numpy()[facts.column("commit").to_numpy() > base].sum())
