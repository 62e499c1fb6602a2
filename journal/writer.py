"""The writer of a journal: one process that appends batches as they come.

    append   late?  partition -> records -> one write -> (fdatasync) -> fenced? -> live end
                                                                                     |
    seal     facts of the segment -> commit, by link                    readers may read it

A row is late when it is below the watermark that held before its batch; the watermark after it is
the largest time so far, over all partitions, less the journal's lateness. That is the verdict for
all readers: what is late goes to the reject file and to no partition.

When `append` returns, the batch is in the journal, and survives this process ("process") or this
machine ("machine"). When it raises, the batch is not there, except for two cases: `Fenced` says
that the next writer has maybe found it, and `JournalError` that the disk has failed while it was
made safe. Then the journal, opened anew, says by `batches` whether it is in. That counts all
batches, also those of writers before: a producer that cuts its rows in the same way each time
resumes with batch `batches` after a restart, and has every row in the journal exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import pyarrow as pa

from gapless.journal import rejects
from gapless.journal.base import Bases
from gapless.journal.commit import Change, Commits, fenced, live_segment
from gapless.journal.disk import Disk
from gapless.journal.epoch import LiveEnd, is_claimed, is_fenced, marker, put_live_end
from gapless.journal.head import BASES_MAX, Base
from gapless.journal.headroom import HEADROOM_BYTES, Headroom
from gapless.journal.judge import parted, watermark_after
from gapless.journal.layout import Layout, establish
from gapless.journal.plausible import Plausible, doubted_after, reach_of
from gapless.journal.room import Room
from gapless.journal.segment import SEGMENT_BYTES, records_of, writer_of
from gapless.journal.shares import Share, Shares
from gapless.journal.takeover import take_over
from gapless.journal.tally import Tally, sealed, watermark
from gapless.journal.written import Durability, Written
from gapless.protocol.elements import INF
from gapless.protocol.errors import Bug, DiskFull, JournalError, Misuse
from gapless.protocol.frame import Frame

BASE_BYTES = 64 << 20
"""Bytes of frames from one base to the next: what rebuilding reads at most."""


class Writer:
    """Appends to a journal, which it makes where there is none. It is the only writer there: one
    that was there before is fenced off.
    """

    def __init__(
        self,
        disk: Disk,
        layout: Layout,
        *,
        who: str,
        token: str,
        now_ms: Callable[[], int],
        durability: Durability | None = None,
        segment_bytes: int = SEGMENT_BYTES,
        headroom_bytes: int = HEADROOM_BYTES,
        on_alarm: Callable[[str], None] | None = None,
        accept_loss: bool = False,
        ahead: int | Literal["a day"] | None = "a day",
    ) -> None:
        """`who` is for people; `token` is this writer's alone. Frames are machine-durable by
        default, rows process-durable. `headroom_bytes`: what is written ahead at once (see
        headroom.py). `ahead`: how many ticks beyond all others a row may be (plausible.py); of a
        column of integers a day says nothing, and None says that all are taken.
        """
        if durability not in (None, "process", "machine"):
            raise Misuse(f'durability {durability!r}: "process" or "machine"')
        if segment_bytes < 1:
            raise Misuse(f"segment_bytes {segment_bytes}: 1 at least")
        self.layout = layout
        given = None if isinstance(ahead, str) else ahead
        self._reach = reach_of(layout, given, is_off=ahead is None)
        self._durable = (durability or ("process" if layout.has_rows else "machine")) == "machine"
        self._disk = disk
        self._token = token
        self._now_ms = now_ms
        self._segment_bytes = segment_bytes
        self._ended_by: str | None = None
        self._shares = Shares(disk, layout)
        self._room = Room(disk, on_alarm)
        self._room.need(0)
        self._headroom = Headroom(disk, token, segment_bytes, headroom_bytes)
        establish(disk, layout, token)
        self._commits = Commits(disk, layout)
        if self._commits.head.ended:
            raise Misuse(f"{disk} has ended: nothing can be added to it")
        self.epoch = take_over(
            self._commits, who, token, now_ms(), durable=self._durable, accept_loss=accept_loss
        )
        self._plausible = Plausible(layout, self._reach, self._commits.head.doubted)
        self.stable = self._commits.head.stable
        """Promised of all rows to come."""
        self._bases = Bases(disk, self._commits, layout, durable=self._durable)
        self._begin()

    def _begin(self) -> None:
        """A new live segment, if the head that we have just read is still of our epoch."""
        if (now := self._commits.head.epoch) != self.epoch:
            self._ended_by = "another writer has taken over"
            raise fenced(self._disk, self.epoch, now)
        self._tally = Tally(live_segment(self._commits.head))
        self._safe_bytes = 0  # of the live segment
        self._unshown = True
        self._show()

    # -- appending ----------------------------------------------------------------------------

    @property
    def batches(self) -> int:
        """Batches that the journal has from writers like this: the number of the next."""
        return self._commits.head.batches + self._tally.batches

    @property
    def rows(self) -> int:
        """Rows that the journal has had so far."""
        return sum(self._commits.head.rows) + self._tally.rows

    @property
    def rejected(self) -> int:
        """Rows that the journal has not taken so far."""
        return self._commits.head.rejected + self._tally.rejected

    def append(
        self,
        rows: pa.RecordBatch | Frame,
        *,
        synced: bool = True,
        origin: rejects.Origin | None = None,
        rejected: Sequence[rejects.Rejected] = (),
        promise: int | None = None,
    ) -> Written:
        """Adds one batch: all of it or, where this raises, nothing (but see the module's header).

        With `synced=False` a machine-durable journal leaves the batch to the next `sync`, unseen by
        readers until then, so that several batches share one. `origin` says where a row comes from
        that is not taken; `rejected` are rows of the batch that somebody else has found bad. With
        `promise` no rows are added, and no batch is counted: none below that time comes any more.
        """
        self._check_usable()
        number, late, doubts = self.batches, 0, self._plausible.doubts
        lines, left_out = rejects.lines(number, rejected) if rejected else b"", len(rejected)
        times: tuple[int, int] | None = None
        if isinstance(rows, Frame):
            kept, stable = self._shares.frame(rows), rows.stable
        else:
            batch = self._shares.batch(rows)
            verdict = parted(batch, self.layout, self.stable, self._plausible)
            kept, times, late, stable = verdict.kept, verdict.span, verdict.late, None
            if verdict.reasons:
                lines += rejects.lines_of(number, verdict, origin or f"batch {number}")
                left_out += len(verdict.reasons)
        shares = self._shares.of(kept, times)
        if stable is None and shares and self.layout.has_rows:
            largest = max(share.part.largest for share in shares)
            stable = watermark_after(largest, self.layout, self.stable)
        stable = promise if promise is not None else stable
        stable = self.stable if stable is None else max(self.stable, stable)
        try:
            self._write(shares, stable if stable > self.stable else None, lines)
        except BaseException:
            self._plausible.doubts = doubts  # of a batch that is not in nothing is remembered
            raise
        for share in shares:
            self._tally.part(share.partition).merge(share.part)
        self._tally.batches += promise is None
        self._tally.rejected += left_out
        self.stable = self._tally.stable = stable
        self._unshown = True
        if synced or not self._durable:
            self.sync()
            self.seal_full()
        return Written(number, sum(share.part.rows for share in shares), left_out, stable, late)

    def _write(self, shares: list[Share], stable: int | None, lines: bytes) -> None:
        """Appends the records, after the lines of rejected rows; all of it or nothing."""
        records = records_of(
            self.layout,
            writer_of(self._tally.name),
            [(p, self._tally.part(p).rows, rows) for p, rows, _ in shares],
            stable,
            self._tally.bytes == self._safe_bytes if self._durable else None,
        )
        data = b"".join(records) if len(records) > 1 else records[0]
        self._room.need(len(data) + len(lines))
        beside = rejects.beside(self._tally.name) if lines else ""
        lines_end = self._disk.size(beside) if lines else 0
        try:
            if lines:
                self._disk.append(beside, lines)
                if self._durable:  # a record that survives a crash has its lines
                    self._make_safe(beside)
            size = self._disk.append(self._tally.name, data)
        except OSError as e:
            if lines and self._disk.size(beside) > lines_end:
                self._disk.truncate(beside, lines_end)  # else they were there twice in the end
            raise self._room.refused(e) from None
        except JournalError as e:
            self._ended_by = self._ended_by or f"the disk has failed: {e}; open the journal anew"
            raise
        self._tally.wrote(records, size)
        self._bases.bytes_since += len(data)

    def sync(self) -> None:
        """Makes what was appended durable, and lets readers see it. Raises `Fenced` where another
        writer has taken over: then it has maybe found the last batches, and maybe not.
        `JournalError` where the disk fails, or has no room to note how far this is: open it anew.
        """
        self._check_usable()
        if self._durable and self._unshown and self._tally.bytes:
            self._make_safe(self._tally.name)
            self._safe_bytes = self._tally.bytes
        if is_fenced(self._disk, self.epoch):
            self._ended_by = "another writer has taken over"
            raise fenced(self._disk, self.epoch, self.epoch + 1)
        if not self._disk.exists(marker(self.epoch)):
            raise self._gone()
        self._show()
        if self._safe_bytes:
            name, end = self._tally.name, self._safe_bytes
            self._on_disk(lambda: self._headroom.widen(name, end, self._now_ms()))

    def _make_safe(self, name: str) -> None:
        self._on_disk(lambda: self._disk.sync(name))

    def _on_disk(self, call: Callable[[], None]) -> None:
        try:
            call()
        except OSError as e:  # the system may have dropped what it could not write
            self._ended_by = f"the disk has failed: {e}; open the journal anew"
            raise JournalError(f"{self._disk}: {self._ended_by}") from None

    def _gone(self) -> JournalError:
        self._ended_by = (
            "the journal was removed, or made anew, while it was written, and what was appended "
            "behind its last commit is lost; open the journal anew, and send those rows again"
        )
        return JournalError(f"{self._disk}: {self._ended_by}")

    def _show(self) -> None:
        if self._unshown:
            end = LiveEnd(self._commits.head.live, self._tally.bytes)
            try:
                put_live_end(self._disk, self.epoch, end)
            except OSError as e:  # durable, and nobody may be told: the next writer finds it
                self._ended_by = f"its end cannot be noted: {e}; open the journal anew"
                raise JournalError(f"{self._disk}: {self._ended_by}") from None
            self._unshown = False

    # -- sealing ------------------------------------------------------------------------------

    @property
    def wants_base(self) -> bool:
        """Whether enough was appended that a base is worth it: seal with one."""
        return not self.layout.has_rows and self._bases.bytes_since >= BASE_BYTES

    @property
    def bytes_since_base(self) -> int:
        """What rebuilding reads of frames: for callers that want bases at another distance."""
        return self._bases.bytes_since

    def seal(self, base: Frame | None = None) -> None:
        """Commits the live segment; what comes goes into a new one.

        `base`: the live table after all that was appended, as inserts, with its stable.
        """
        self.sync()
        if not self._tally.bytes and base is None:
            return
        if base is not None and self._bases.is_named(self.base_name()):
            self._commit(self._sealing)  # a base is never written over one that a commit names
        bases = () if base is None else (self._base(base),)
        self._commit(lambda commits: self._sealing(commits, bases))
        if bases:
            self._bases.bytes_since = 0

    @property
    def ended_by(self) -> str | None:
        """Why this writer writes no more; None while it does."""
        return self._ended_by

    @property
    def commit(self) -> int:
        """The number of the last commit: all that is sealed is in it."""
        return self._commits.head.number

    def base_name(self) -> str:
        """A name for a base that is made while this writer goes on: nobody takes that away, or
        takes it for itself, before the live segment is sealed with a base of its own.
        """
        return self._bases.name_for(self._tally.name)

    def put_base(self, base: Base) -> bool:
        """Commits a base as of an earlier commit, which somebody has written durably. False, and
        nothing has changed, where it is not there: retention takes away what no commit names.
        Raises as `seal`.
        """
        self.sync()
        self._check_claim()
        if self._disk.size(base.segment) != base.bytes:
            return False

        def adding(commits: Commits) -> Change:
            bases = sorted((*commits.head.bases, base))[-BASES_MAX:]
            return Change(replace(commits.head, bases=tuple(bases), at_ms=self._now_ms()), [])

        self._add(adding)
        self._bases.recount(self._tally.bytes)
        return True

    def seal_full(self) -> None:
        """Seals the live segment once it is full, as `append` does where it syncs. Where the disk
        has no room for the commit the segment goes on, and the next append tries again: what was
        appended is in the journal all the same.
        """
        if self._tally.bytes >= self._segment_bytes:
            try:
                self.seal()
            except DiskFull as e:
                self._room.alarm(str(e))

    def _base(self, live: Frame) -> Base:
        self._shares.frame(live)
        if live.stable != self.stable:
            raise Misuse(f"a base as of {live.stable}: the journal's stable is {self.stable}")
        try:
            return self._bases.write(live, self.base_name())
        except OSError as e:
            raise self._room.refused(e) from None

    def _sealing(self, commits: Commits, bases: tuple[Base, ...] = ()) -> Change:
        head, facts = sealed(commits.head, self._tally)
        number = commits.head.number + 1
        fresh = tuple(base._replace(commit=number) for base in bases)
        kept = (*commits.head.bases, *fresh)[-BASES_MAX:]
        doubted = doubted_after([self._plausible.doubts], self._reach)
        after = replace(head, live=head.live + 1, bases=kept, doubted=doubted, at_ms=self._now_ms())
        return Change(after, facts)

    def _commit(self, change: Callable[[Commits], Change]) -> None:
        self._check_claim()
        segment = self._tally
        self._add(change)
        self._on_disk(lambda: self._headroom.close(segment.name, segment.bytes))
        self._disk.close(segment.name)
        self._begin()

    def _check_claim(self) -> None:
        """Raises where the journal is not ours any more: a commit would damage it."""
        if not is_claimed(self._disk, self.epoch, self._token):
            raise self._gone()

    def _add(self, change: Callable[[Commits], Change]) -> None:
        try:
            self._commits.add(self.epoch, self._token, change, durable=self._durable)
        except OSError as e:
            raise self._room.refused(e) from None
        except JournalError:  # the commit is made, or is not: opening the journal shows it
            self._ended_by = "its last commit has failed; open the journal anew"
            raise
        self._commits.catch_up()

    def end(self) -> None:
        """Promises that nothing follows: the journal's stable is INF, and nobody can add to it."""
        self.sync()

        def ending(commits: Commits) -> Change:
            change = self._sealing(commits)
            facts = [fact._replace(stable=INF) for fact in change.added] or [watermark(INF)]
            return Change(replace(change.head, stable=INF), facts)

        self._commit(ending)
        self._ended_by = "it has been ended"
        self.stable = INF

    def close(self) -> None:
        """Seals what is there; this writer writes no more."""
        if self._ended_by is None:
            self.seal()
            self._ended_by = "it was closed"

    def _check_usable(self) -> None:
        if self._ended_by is not None:
            raise Misuse(f"this writer of {self._disk} writes no more: {self._ended_by}")

    def validate(self) -> None:
        """Raises `Bug` where what it counts and what is there are not the same."""
        if self._disk.size(self._tally.name) < self._tally.bytes:
            raise Bug(f"{self._tally.name} has fewer bytes than were written")
        if self.stable < self._commits.head.stable:
            raise Bug(f"stable {self.stable} is behind the last commit's")
