r"""A merger's output on its disk: written by one life after another, read by those that are behind.

    life 1   append append sync -> Appended      seal(base)
    life 2                                                     opens: epoch 2, the cut
                                                               recover: last base + what follows
    readers  read(token) -->  rows behind an offset, exactly
             table(since) ->  every event with ve >= since, as inserts
             peer(since) -->  the whole output from a base on, for the other merger

This is the pump's part: the merger asks for these things by effects and decides nothing here. It
stands on the journal (journal/writer.py): opening it for writing fences off the former writer, and
what a reader sees is durable and lies before every cut. Offsets are numbers of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from gapless.failover.effects import Appended
from gapless.failover.fold import Fold
from gapless.failover.merger.bases import BaseDraft, Made
from gapless.failover.merger.recent_rows import Recent
from gapless.failover.merger.scan import BeyondEnd, Scan, from_base, last_events
from gapless.failover.messages import Life, Token, Why
from gapless.journal.commit import Commits
from gapless.journal.disk import Disk
from gapless.journal.epoch import claim, claimed_by, is_fenced
from gapless.journal.layout import Layout, layout_of
from gapless.journal.reader import Reader
from gapless.journal.room import Room
from gapless.journal.segment import SEGMENT_BYTES
from gapless.journal.writer import BASE_BYTES, Writer
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Fenced, GaplessError, JournalError, Misuse, SchemaError, Trimmed
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

RECORDS_MAX = 2048
"""Appended since the last base until the next one is wanted. A life that comes back decodes them
one by one while the output waits; of many small frames there would be enough for seconds of that
long before `base_bytes` are there."""
ROWS_PER_RECORD = 256
"""Of a base: as many rows as cost about as much to write and to read as one record. So the larger
the live table, the more records there are from one base to the next."""
NO_GUARD: Final = nullcontext()
"""Of an output that one thread writes and reads."""

KEPT_BYTES_MAX = 1 << 18
"""Of a frame that is kept in case its answer is lost: a larger one is read again, and one that
reads slowly costs a place in a file.
"""


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
        on_alarm: Callable[[str], None] | None = None,
        guard: AbstractContextManager[Any] = NO_GUARD,
    ) -> None:
        """`life` is whose output it is; `token` is this process's alone. `base_bytes` of frames
        from one base to the next, `segment_bytes` from one segment to the next. `guard`: what keeps
        its writer and its readers apart, a lock where they are several threads.

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


def _check_is_latest(disk: Disk, life: Life) -> None:
    epochs = [name for name in disk.list("epochs") if name.isdecimal()]
    if not epochs:
        return
    last = Life.parse(claimed_by(disk, int(epochs[-1])))
    if last is not None and last > life:
        raise Fenced(f"{disk}: {last} writes here, which came after {life}")


class OutputReader:
    """The output of one merger, for one subscriber or one peer. Where it raises it may be asked
    again; `why` says what the error means for the asker.
    """

    def __init__(
        self,
        disk: Disk,
        schema: StreamSchema,
        recent: Recent | None = None,
        guard: AbstractContextManager[Any] = NO_GUARD,
    ) -> None:
        """`recent` has the last rows in memory, where the output's writer lives here; `guard` keeps
        it from changing while it is looked at.
        """
        self._disk = disk
        self._schema = schema
        self._recent = recent
        self._guard = guard
        self._reader: Reader | None = None
        self._last: tuple[int, Frame] | None = None  # behind which offset, and what was given
        self._peer: _Peer | None = None

    def read_recent(self, token: Token) -> tuple[bool, Frame | None]:
        """Whether what is behind a token was written so lately that no disk is asked for it; and
        that, as `read` gives it. For any thread.
        """
        if self._recent is not None:
            with self._guard:
                if self._recent.has(token.offset):
                    return True, self._recent.read(token.offset, token.stable)
        return False, None

    def read(self, token: Token) -> Frame | None:
        """The rows behind a token and what is promised after them; None where nothing is new.

        Raises `Trimmed` where those rows are gone, `BeyondEnd` where there never were any.
        """
        is_known, known = self.read_recent(token)
        if is_known:
            self._reader = self._last = None  # at the journal's end it is not needed again
            return known
        try:
            return self._read(token)
        except GaplessError:
            self._reader = self._last = None
            raise

    def _read(self, token: Token) -> Frame | None:
        offset, stable = token.offset, token.stable
        reader = self._reader
        if reader is None or reader.position[0] != offset:
            if self._last is not None and self._last[0] == offset:
                return _above(self._last[1], stable)  # the answer was lost
            reader = self._reader = self._opened_at(offset)
        elif reader.stable > stable:
            return Frame.empty(self._schema, reader.stable)  # so was one that only promised
        while (frame := reader.read()) is not None:
            frame = _above(frame, stable)
            if frame:
                self._last = (offset, frame) if frame.nbytes <= KEPT_BYTES_MAX else None
                return frame
        return None

    def table(self, since: int) -> tuple[Frame, int]:
        """Every event with `ve >= since` as inserts, the stable, and the rows that it stands for.

        Raises `Trimmed` where what is left of the journal cannot say it, `BeyondEnd` where the
        output is not stable up to `since`.
        """
        known = self.recent_table(since)
        return Scan(self._disk, self._schema, since).run() if known is None else known

    def last_events(self) -> Frame:
        """The events that end last: the answer of an output behind which nothing is alive."""
        return last_events(self._disk, self._schema)

    def scan(self, since: int | None) -> Scan:
        """The same, to be read slice by slice; without `since` of what is not settled."""
        return Scan(self._disk, self._schema, since)

    def open_table(self, since: int) -> Scan | tuple[Frame, int]:
        """The same: at once where memory has it, else as a scan."""
        known = self.recent_table(since)
        return Scan(self._disk, self._schema, since) if known is None else known

    def recent_table(self, since: int) -> tuple[Frame, int] | None:
        """The same where memory has it, at once; None where the journal is to be scanned."""
        if self._recent is None:
            return None
        with self._guard:
            return self._recent.table(since)

    def peer(self, since: int) -> tuple[Frame | None, int]:
        """The next frame of the output as a stream that joins; None where nothing is new, or where
        there is no such output. And since when it has every event: no later than `since`.

        `since` counts until it could be opened. Where it raises it goes on, asked again, behind
        what it has given.
        """
        if self._peer is None:
            if layout_of(self._disk) is None:
                return None, BEGIN
            self._peer = _Peer(self._disk, *from_base(self._disk, self._schema, since))
        return self._peer.next(), self._peer.join_at

    @staticmethod
    def why(error: GaplessError) -> Why:
        """What an error of a reader means for a subscriber. What is damaged is gone for it, too."""
        return "future" if isinstance(error, BeyondEnd) else "trimmed"

    def _opened_at(self, offset: int) -> Reader:
        try:
            reader = Reader(self._disk, start={0: offset})
        except JournalError as e:
            if isinstance(e, Trimmed) or offset <= Reader(self._disk, start="end").position[0]:
                raise
            raise BeyondEnd(str(e)) from None
        self._check(reader.schema)
        return reader

    def _check(self, schema: StreamSchema) -> None:
        if schema != self._schema:
            raise SchemaError(f"{self._disk} holds {schema}, wanted is {self._schema}")


class _Peer:
    """A peer's output, being read: its base, and what follows."""

    def __init__(self, disk: Disk, base: Frame | None, reader: Reader) -> None:
        self.join_at = BEGIN if base is None else _stable_of(base)
        """What is given has every event with `ve` from here on."""
        self._disk = disk
        self._base = base
        self._reader: Reader | None = reader
        self._position = reader.position
        self._given = self.join_at

    def next(self) -> Frame | None:
        """The next frame; its stables never go back."""
        frame, self._base = self._base, None
        while frame is None:
            read = self._read()
            if read is None:
                return None
            frame = _above(read, self._given) or None
        if frame.stable is not None:
            self._given = frame.stable
        return frame

    def _read(self) -> Frame | None:
        reader, self._reader = self._reader, None  # one that has failed does so for ever
        if reader is None:
            reader = Reader(self._disk, start=self._position)
        frame = reader.read()
        self._reader, self._position = reader, reader.position
        return frame


def _above(frame: Frame, stable: int) -> Frame:
    """The frame, without its stable where that is no news."""
    old = frame.stable is not None and frame.stable <= stable
    return frame.with_stable(None) if old else frame


def _stable_of(base: Frame) -> int:
    return BEGIN if base.stable is None else base.stable


def _claimed(disk: Disk, after: int, who: str, token: str) -> int:
    """An epoch for a life that writes nothing, because the output has ended."""
    try:
        return claim(disk, after, who, token)
    except OSError as e:
        raise Room(disk).refused(e) from None
