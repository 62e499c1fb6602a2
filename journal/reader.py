"""The reader of a journal: frames of some partitions, with the watermarks that were recorded.

    reader = Reader(disk, partitions=(0, 3), since=t)
    while (frame := reader.read()) is not None:      None: nothing more now; `read` again later
        ...                                          reader.position: where to go on after a restart

Where partitions were written each with its own stables (Spark sorts them) they are read side by
side, the one that is least far next; all else is read in the order in which it was written. What
`stable` a frame carries was decided when the journal was written: every reader promises the same,
whenever it reads, however large its frames are.

It never waits: a follower of a journal that grows asks again (`gapless.io.journal_handles` does,
without asking hard). It holds one record a partition, and maps the segments that it is in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np
import pyarrow as pa

from gapless.journal.agenda import Agenda, Offsets
from gapless.journal.base import read_base
from gapless.journal.commit import Commits, check_committed, live_segment, read_newest
from gapless.journal.cursor import Growing, Needs, Piece
from gapless.journal.disk import Disk
from gapless.journal.epoch import is_fenced, live_end_name, read_live_end
from gapless.journal.lane import Lane, lanes_of
from gapless.journal.layout import NAME as LAYOUT
from gapless.journal.layout import opened
from gapless.journal.place import Place, Position
from gapless.journal.readers import register
from gapless.journal.segment import no_rows
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import JournalError, Misuse, SchemaError
from gapless.protocol.frame import Frame
from gapless.protocol.ipc_guard import ROWS_MAX
from gapless.protocol.schema import StreamSchema

FRAME_ROWS = 16_384
"""Rows of a frame: what is done once a frame costs nothing any more, and its columns still lie in a
processor's cache."""

LOOKS_PER_LISTING = 256
"""Looks for the next commit until all are listed: a reader that was overtaken by a hundred commits,
or by two trims, finds the next one gone, and must not wait for it. What says which commit is the
newest says so at once, but may itself be damaged."""

Start = Literal["earliest", "end", "base"]


class Reader:
    """A place in some partitions of a journal."""

    def __init__(
        self,
        disk: Disk,
        *,
        partitions: Iterable[int] | None = None,
        columns: Sequence[str] | None = None,
        start: Start | Position = "earliest",
        since: int | None = None,
        frame_rows: int = FRAME_ROWS,
    ) -> None:
        """`start`: "earliest" (the first row that is still there), "end" (only what comes later),
        "base" (the last base of an output journal), or the `position` of a reader of the same
        partitions. `since`: segments whose rows are all before that time are not read.
        """
        if type(frame_rows) is not int or not 1 <= frame_rows <= ROWS_MAX:
            raise Misuse(f"frame_rows {frame_rows!r}: a number of rows, 1 to {ROWS_MAX:,}")
        self.layout = opened(disk)
        self.schema = self.layout.schema if columns is None else self._selected(columns)
        """Of the frames."""
        self._places = [3 + self.layout.schema.names.index(name) for name in self.schema.names]
        self._disk = disk
        self.frame_rows = frame_rows
        """Of the next frames, at most: a slow reader may want them smaller."""
        self._wanted = self._partitions(partitions)
        self._commits = Commits(disk, self.layout)
        self._agenda = Agenda(self._commits.facts, self._wanted, self.layout.partitions)
        self._place = Place(disk, self._commits, self._wanted)
        self._needs = Needs(self._place.offsets)
        self._lanes: list[Lane] = []  # of the commit that is being read
        self._growing: Growing | None = None  # the live segment, once all commits are read
        self._cap = BEGIN  # what may be promised before the present commit is read
        self._held: Piece | None = None  # what is left of a record
        self._given = BEGIN
        self._before: Position = {}  # where the live segment began
        self._failed: JournalError | None = None
        self.records = 0
        """Read so far, one by one, however many of them made a frame; a base is none."""
        self._looks = 0
        self._first: Frame | None = None  # a base, which comes before all else
        self._begin(start)
        if since is not None:
            self.skip_before(since)

    # -- beginning ----------------------------------------------------------------------------

    def _selected(self, columns: Sequence[str]) -> StreamSchema:
        whole = self.layout.schema
        if list(columns) == whole.names:
            return whole
        unknown = [name for name in columns if name not in whole.names]
        if unknown:
            raise SchemaError(f"column {unknown[0]!r} is none of {', '.join(whole.names)}")
        return StreamSchema(pa.schema([whole.payload.field(n) for n in columns]), whole.time_unit)

    def _partitions(self, given: Iterable[int] | None) -> list[int]:
        count = self.layout.partitions
        wanted = sorted(set(range(count) if given is None else given))
        if not wanted or wanted[0] < 0 or wanted[-1] >= count:
            raise Misuse(f"partitions {wanted}: {self._disk} has 0 to {count - 1}")
        return wanted

    def _begin(self, start: Start | Position) -> None:
        if isinstance(start, Mapping):
            self._place.move_to(start, self._end() if self._place.is_ahead(start) else None)
        elif start == "end":
            self._place.offsets[:] = self._end()
        elif start not in ("earliest", "base"):
            raise Misuse(f'start {start!r}: "earliest", "end", "base", or a position')
        elif start == "base" or (not self.layout.has_rows and any(self._commits.head.first)):
            self._begin_at_base()  # of trimmed frames the base is the beginning

    def _begin_at_base(self) -> None:
        bases = self._commits.head.bases
        if not bases:
            return
        self._first = read_base(self._disk, self.layout, bases[-1])
        self._place.move_behind(bases[-1].commit)

    def _end(self) -> Offsets:
        """Behind all rows that are there now."""
        head = self._commits.head
        if read_live_end(self._disk, head.epoch) is None and self._disk.size(live_segment(head)):
            raise JournalError(
                f"{self._disk}: {live_end_name(head.epoch)} is missing or damaged: how far live "
                "rows may be read is known after the next append, or once a writer opens the "
                "journal"
            )
        end = np.array(self._commits.head.rows, np.int64)
        live = self._watched(None, Needs(np.full(len(end), INF)))
        while live is not None and (piece := live.next()) is not None:
            if len(piece.frame):
                end[piece.partition] = piece.offset + len(piece.frame)
        return end

    # -- reading ------------------------------------------------------------------------------

    @property
    def position(self) -> dict[int, int]:
        """Where to go on: behind the rows that were given."""
        return self._place.position

    @property
    def stable(self) -> int:
        """Promised so far: rows to come are not before it."""
        return self._given

    @property
    def ended(self) -> bool:
        """Whether nothing comes any more: the journal was ended, and all of it is read."""
        return self._given == INF

    def skip_before(self, t: int) -> None:
        """Rows before t are not needed any more: segments without others, and records of source
        rows, are passed over unread.
        """
        self._agenda.skip_before(t)
        self._needs.since = max(self._needs.since, t)

    def keep(self, name: str, now_ms: int, position: Position | None = None) -> None:
        """Registers this reader: what is not before `position` is not trimmed. Unless it is given
        it is the reader's own; one that must be able to read again gives that from which it would.
        """
        register(self._disk, name, self.position if position is None else position, now_ms)

    def read(self) -> Frame | None:
        """The next rows and what is promised after them; None where there is nothing new now.

        Where it raises `JournalError` once it does so again: open another reader.
        """
        if self._failed is not None:
            raise self._failed
        if self._first is not None:
            base, self._first = self._first, None
            self._given = BEGIN if base.stable is None else base.stable
            return self._projected(base)
        pieces: list[Frame] = []
        rows, promise, offsets = 0, self._given, self._place.offsets
        while rows < self.frame_rows and (piece := self._next_before(rows)) is not None:
            if rows + len(piece.frame) > self.frame_rows:
                if rows:
                    self._held = piece
                    break
                piece, self._held = _cut(piece, self.frame_rows)
            partition, offset, frame, stable, _ = piece
            if size := len(frame):
                pieces.append(frame)
                rows += size
                offsets[partition] = offset + size
            if stable is not None and stable > promise:
                promise = stable
        if promise == self._given and not rows:
            return None
        stable = promise if promise > self._given else None
        self._given = promise
        return self._projected(self._joined(pieces, stable))

    def _joined(self, pieces: list[Frame], stable: int | None) -> Frame:
        if not pieces:
            return Frame.empty(self.layout.schema, stable)
        if len(pieces) > 1:
            pieces = [
                frame if frame.stable is None else frame.with_stable(None) for frame in pieces
            ]
        whole = pieces[0] if len(pieces) == 1 else Frame.concat(pieces)
        return whole if whole.stable == stable else whole.with_stable(stable)

    def _projected(self, frame: Frame) -> Frame:
        if self.schema is self.layout.schema:
            return frame
        return frame.projected(self.schema, self._places)

    def _next_before(self, rows: int) -> Piece | None:
        """The next piece; after rows that are still to be given nothing instead of an error."""
        try:
            return self._next(rows)
        except JournalError as e:
            self._failed = e
            if rows:
                return None
            raise

    def _next(self, rows: int) -> Piece | None:
        """The next piece, without rows before our position; its stable is what we may promise.
        Behind `rows` of a live segment it does not look for what has come just now.
        """
        if self._held is not None:
            held, self._held = self._held, None
            return held
        while True:
            if self._lanes:
                piece = self._of_lanes()
            elif (got := self._of_growing()) is not None:
                piece = got
            elif rows and self._growing is not None:
                return None
            else:
                stable = self._look()
                if stable is None:
                    return None
                if stable == BEGIN:
                    continue
                piece = self._nothing(stable)
            self.records += 1
            piece = self._place.unread(piece)
            if len(piece.frame) or piece.stable is not None:
                return piece

    def _of_lanes(self) -> Piece:
        lane = min(self._lanes, key=lambda lane: lane.stable)
        try:
            piece = lane.next()
        except JournalError:
            self._see_commits()  # and whether retention has taken it away
            raise
        if piece is None:
            self._lanes.remove(lane)
            piece = self._nothing(BEGIN)
        promise = min((lane.stable for lane in self._lanes), default=self._cap)
        return piece._replace(stable=min(promise, self._cap))

    def _of_growing(self) -> Piece | None:
        growing = self._growing
        if growing is None:
            return None
        try:
            return growing.next()
        except JournalError:
            self._see_commits()
            is_live = growing.name == live_segment(self._commits.head)
            if is_live or self._agenda.sealed(growing.name):
                raise
            return None  # it was sealed and taken away, and what it had for us we have read

    def _nothing(self, stable: int) -> Piece:
        return Piece(0, 0, no_rows(self.layout.schema), stable)

    # -- what there is to read ----------------------------------------------------------------

    def _look(self) -> int | None:
        """Finds more to read; returns what is promised already, BEGIN where that is nothing, None
        where there is nothing new.
        """
        if self._commits_moved():
            self._commits_changed()
        growing = self._growing
        if growing is not None and growing.name != live_segment(self._commits.head):
            sealed = self._agenda.sealed(growing.name)  # nothing where it had no rows at all
            if sealed and not growing.is_read_to(sealed[0].bytes):
                return BEGIN
            self._place.check_sealed(sealed, self._before)
            self._growing = None
        group = self._agenda.next(self._place.offsets)
        if group is not None:
            if not group.facts:
                return group.stable
            self._lanes = lanes_of(
                self._disk,
                self.layout,
                group.facts,
                self._needs,
                by_partition=group.by_partition,
            )
            self._cap = group.stable
            return BEGIN
        before = self._commits.head
        growing = self._growing = self._watched(self._growing)
        if self._commits.head is not before:
            return BEGIN
        return None if growing is None or growing.is_read_to(growing.end) else BEGIN

    def _commits_moved(self) -> bool:
        moved = False
        while self._commits.poll():
            moved = True
        self._looks += 1
        is_due = self._looks % LOOKS_PER_LISTING == 0
        if is_due and not self._disk.exists(LAYOUT):
            raise JournalError(f"{self._disk} was removed while it was read: nothing more comes")
        if is_due or read_newest(self._disk) > self._commits.head.number:
            moved = self._commits.catch_up() or moved  # the next commit was taken away
        return moved

    def _watched(self, growing: Growing | None, needs: Needs | None = None) -> Growing | None:
        """The live segment, as far as it may be read now; of what we need, if nothing is said."""
        head = self._commits.head
        shown = read_live_end(self._disk, head.epoch)
        # In this order: what it shows is before a cut that is not yet made (epoch.py).
        if shown is not None and shown.number > head.live:  # it was sealed meanwhile
            self._see_commits()
            check_committed(self._commits, head.epoch, shown.number)
        if shown is None or shown.number != head.live or is_fenced(self._disk, head.epoch):
            return growing
        if growing is None:
            self._before = {p: head.rows[p] for p in self._wanted}
            growing = Growing(
                self._disk, self.layout, live_segment(head), self._before, needs or self._needs
            )
        if shown.end > growing.end:
            self._commits.check_identity()
            growing.end = shown.end
        return growing

    def _see_commits(self) -> None:
        """Reads all commits that are there. Raises `Trimmed` where they say we are too late."""
        if self._commits.catch_up():
            self._commits_changed()

    def _commits_changed(self) -> None:
        self._agenda.replace(self._commits.facts)
        self._place.check_trimmed()


def _cut(piece: Piece, rows: int) -> tuple[Piece, Piece]:
    """The first rows, and the rest, with what comes after it."""
    rest = piece._replace(offset=piece.offset + rows, frame=piece.frame.slice(rows))
    return piece._replace(frame=piece.frame.slice(0, rows), stable=None), rest
