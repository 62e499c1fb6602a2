r"""A merger's output on its disk: written by one life after another, read by those that are behind.

    life 1   append append sync -> Appended      seal(base)
    life 2                                                     opens: epoch 2, the cut
                                                               recover: last base + what follows
    readers  behind an offset, as a table, as a peer: output_reader.py

This is the pump's part: the merger asks for these things by effects and decides nothing here. It
stands on the journal (journal/writer.py): opening it for writing fences off the former writer, and
what a reader sees is durable and lies before every cut. Offsets are numbers of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from gapless.failover.fold import Fold
from gapless.failover.merger.bases import BaseDraft, Made
from gapless.failover.merger.effects import Appended
from gapless.failover.merger.output_reader import NO_GUARD, OutputReader
from gapless.failover.merger.recent_rows import Recent
from gapless.failover.messages import Life
from gapless.journal.commit import Commits
from gapless.journal.disk import Disk
from gapless.journal.epoch import claim, claimed_by, is_fenced
from gapless.journal.headroom import HEADROOM_BYTES
from gapless.journal.layout import Layout, layout_of
from gapless.journal.reader import Reader
from gapless.journal.room import Room
from gapless.journal.segment import SEGMENT_BYTES
from gapless.journal.writer import BASE_BYTES, Writer
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Fenced, JournalError, Misuse
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

RECORDS_MAX = 2048
"""Appended since the last base until the next one is wanted. A life that comes back decodes them
one by one while the output waits; of many small frames there would be enough for seconds of that
long before `base_bytes` are there."""
ROWS_PER_RECORD = 256
"""Of a base: as many rows as cost about as much to write and to read as one record. So the larger
the live table, the more records there are from one base to the next."""


class OutputJournal:
    """The output of one life of a merger. Opening it takes the journal over.

    Raises `DiskFull` or `JournalError` where that cannot be done, `Misuse` where another schema
    lies there.
    """

    def __init__(
        self,
        disk: Disk,
        schema: StreamSchema,
        life: Life,
        token: str,
        now_ms: Callable[[], int],
        *,
        base_bytes: int = BASE_BYTES,
        segment_bytes: int = SEGMENT_BYTES,
        headroom_bytes: int = HEADROOM_BYTES,
        on_alarm: Callable[[str], None] | None = None,
        guard: AbstractContextManager[Any] = NO_GUARD,
    ) -> None:
        """`life` is whose output it is; `token` is this process's alone. `base_bytes` of frames
        from one base to the next, `segment_bytes` from one segment to the next, `headroom_bytes`
        written ahead at once. `guard`: what keeps its writer and its readers apart, a lock where
        they are several threads.

        Raises `Fenced` where a later life has the journal: a supervisor whose term is over may
        still have started this one.
        """
        _check_is_latest(disk, life)
        who = str(life)
        self._disk = disk
        self.schema = schema
        """Of its rows."""
        self._base_bytes = base_bytes
        self._unsynced: list[Frame] = []
        self._records = 0  # since the last base
        self._base_rows = self._base_size = 0
        self._recent: Recent | None = None
        self._guard = guard
        self._writer: Writer | None = None
        layout = Layout(schema)
        try:
            self._writer = Writer(
                disk,
                layout,
                who=who,
                token=token,
                now_ms=now_ms,
                durability="machine",
                segment_bytes=segment_bytes,
                headroom_bytes=headroom_bytes,
                on_alarm=on_alarm,
            )
            self.epoch = self._writer.epoch
            """The life of the journal's writer."""
        except Misuse:
            if layout_of(disk) != layout or not (head := Commits(disk, layout).head).ended:
                raise
            self.epoch = _claimed(disk, head.epoch, who, token)
            self._ended = Appended(sum(head.rows), head.stable)
        except OSError as e:
            raise Room(disk).refused(e) from None

    def recover(self) -> tuple[Frame, int]:
        """What is not settled of the output so far, as inserts with the stable, and its rows."""
        reader = Reader(self._disk, start="base")
        fold = Fold(self.schema)
        while (frame := reader.read()) is not None:
            fold.add(frame)
        self._records = reader.records
        rows, expected = reader.position[0], self._said(wants_base=False).offset
        if rows != expected:
            raise JournalError(f"{self._disk}: {rows} rows can be read, and there are {expected}")
        live = fold.table()
        if self._recent is None:
            self._recent = Recent(live, rows)
        return live, rows

    def reader(self) -> OutputReader:
        """A reader of this output, that has what this life wrote last in memory."""
        return OutputReader(self._disk, self.schema, self._recent, self._guard)

    def append(self, frame: Frame) -> None:
        """Adds a frame, seen by nobody and not safe before `sync`. Raises `DiskFull`, and nothing
        of it is there.
        """
        writer = self._usable()
        if writer is None:
            raise Misuse(f"{self._disk} has ended: nothing follows stable(inf)")
        if not self._unsynced:  # what is durable is said before its segment is sealed
            writer.seal_full()
        writer.append(frame, synced=False)
        self._unsynced.append(frame)
        self._records += 1

    def sync(self) -> Appended:
        """Makes all that was appended durable, and then looks whether it still counts.

        Raises `Fenced` where somebody has taken the journal over, `JournalError` where the disk
        has failed: this life is over.
        """
        writer = self._usable()
        if writer is None:
            return self._ended
        writer.sync()
        self._show()
        return self._said(wants_base=self._wants_base(writer))

    def _wants_base(self, writer: Writer) -> bool:
        """Whether a life that comes back would read too much."""
        records_max = RECORDS_MAX + self._base_rows // ROWS_PER_RECORD
        if writer.stable == BEGIN:
            return False  # before its first stable an output has no base
        bytes_max = max(self._base_bytes, self._base_size)  # what bases cost stays a share
        return writer.bytes_since_base >= bytes_max or self._records >= records_max

    def watch(self) -> None:
        """Raises `Fenced` where somebody has taken the journal over: one small read."""
        if is_fenced(self._disk, self.epoch):
            raise Fenced(f"{self._disk}: epoch {self.epoch} is over, another life writes here")

    def seal(self, base: Frame | None) -> None:
        """Seals the segment, with the live table after all that was appended. Raises `DiskFull`,
        and nothing has changed; `Fenced` and `JournalError` as `sync`.

        Before its first stable an output has no base: then it is sealed without.
        """
        writer = self._usable()
        if writer is not None:
            is_based = base is not None and base.stable is not None
            if not self._unsynced:
                writer.seal_full()
            writer.seal(base if is_based else None)
            if base is not None and is_based:
                self._records, self._base_rows, self._base_size = 0, len(base), base.nbytes
            self._show()

    def begin_base(self, disk: Disk | None = None) -> BaseDraft | None:
        """Seals the segment; what a base of all that was appended is to be made of, by somebody
        else, over a disk of its own. None where the output has ended. Raises as `seal`.
        """
        writer = self._usable()
        if writer is None:
            return None
        writer.seal()
        return BaseDraft(
            disk or self._disk,
            writer.layout,
            writer.base_name(),
            writer.commit,
            writer.rows,
            writer.stable,
            self._records,
        )

    def put_base(self, draft: BaseDraft, made: Made) -> str:
        """Has the journal know a base that was made; why not, where that is not there any more.
        Raises as `seal`.
        """
        writer = self._usable()
        if writer is None or not writer.put_base(made.base):
            return f"{self._disk}: the base {draft.name} was taken away before a commit named it"
        self._records -= draft.records
        self._base_rows, self._base_size = made.rows, made.nbytes
        return ""

    def _usable(self) -> Writer | None:
        """The writer; None where the output has ended. Raises `JournalError` where it has failed:
        a base that is made beside may be what it failed at, and more is on its way to it.
        """
        if self._writer is not None and self._writer.ended_by is not None:
            raise JournalError(f"{self._disk}: {self._writer.ended_by}")
        return self._writer

    def _show(self) -> None:
        """What was appended is durable, and before every cut."""
        if self._recent is not None:
            with self._guard:
                for frame in self._unsynced:
                    self._recent.add(frame)
        self._unsynced.clear()

    def _said(self, *, wants_base: bool) -> Appended:
        writer = self._writer
        return self._ended if writer is None else Appended(writer.rows, writer.stable, wants_base)


def newest_epoch(disk: Disk) -> int:
    """The epoch of the last life that has claimed an output; 0 where none has."""
    epochs = [name for name in disk.list("epochs") if name.isdecimal()]
    return int(epochs[-1]) if epochs else 0


def _check_is_latest(disk: Disk, life: Life) -> None:
    epoch = newest_epoch(disk)
    if not epoch:
        return
    last = Life.parse(claimed_by(disk, epoch))
    if last is not None and last > life:
        raise Fenced(f"{disk}: {last} writes here, which came after {life}")


def _claimed(disk: Disk, after: int, who: str, token: str) -> int:
    """An epoch for a life that writes nothing, because the output has ended."""
    try:
        return claim(disk, after, who, token)
    except OSError as e:
        raise Room(disk).refused(e) from None
