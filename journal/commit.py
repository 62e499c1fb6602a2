"""Commits: what a journal consists of, one numbered file after another.

    commits/0000000016    full: every segment so far               16 = 0000000016.full's number
    commits/0000000017    segment 00000003-00000041, partitions 0, 3: rows, times; stable 17:30:05
    commits/0000000018    ...

A commit is drafted under a name of its own and then linked to the next number: it is there whole or
not at all, and of two that want the same number one gets it. The other reads what the winner did
and tries again behind it; if that was a later epoch, it is fenced. So the chain is the truth, and
whatever no commit names does not exist.

A commit has a *head*, what holds after it (journal/head.py), and the *facts* of the segments that
it adds. Every 64th is *full*: it has the facts of all segments. Opening a journal costs one
listing, a full commit and those after it, however long the journal is.
"""

from __future__ import annotations

import errno
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

from gapless.journal.disk import Disk
from gapless.journal.epoch import NAMES_KEPT, claimed_by
from gapless.journal.facts import Fact, facts_batch, rows_in
from gapless.journal.head import Head, decode, encode
from gapless.journal.layout import NAME as LAYOUT
from gapless.journal.layout import Layout, identity
from gapless.protocol.errors import DecodeError, Fenced, JournalError

FULL_EVERY = 64
"""Commits from one full commit to the next: what opening a journal reads at most, twice over."""
TRIES_MAX = 100
"""Others that may commit while one tries to: more means that something is wrong."""

FOLDER = "commits"
NEWEST = f"{FOLDER}/newest"
"""Beside the chain: which commit was made last. It may be behind, and then says nothing; where it
is ahead of the chain, the last commits have been lost."""
_NEWEST = struct.Struct("<QI")


@dataclass(frozen=True, slots=True)
class Change:
    """What one commit does: the head after it, and the facts of what it adds."""

    head: Head
    added: list[Fact] = field(default_factory=list)
    kept: pa.RecordBatch | None = None
    """All facts that remain of those before, where it takes some away."""


def live_segment(head: Head) -> str:
    """The name of the live segment."""
    return _segment(head.epoch, head.live)


@lru_cache(NAMES_KEPT)
def _segment(epoch: int, live: int) -> str:
    return f"segments/{epoch:010}-{live:010}"


@lru_cache(NAMES_KEPT)
def _name(number: int) -> str:
    return f"{FOLDER}/{number:010}"


class Commits:
    """The chain of commits as far as it has been read. `poll` reads on, `add` adds to it."""

    def __init__(self, disk: Disk, layout: Layout) -> None:
        """Reads the newest full commit and what follows it."""
        self.disk = disk
        self.layout = layout
        self._identity = identity(disk)
        zeros = (0,) * layout.partitions
        self.head = Head(rows=zeros, first=zeros)
        self.facts = facts_batch([])
        """Of all segments that are there, in the order of commits."""
        self._open()

    def _open(self) -> None:
        newest = read_newest(self.disk)  # before the listing: it is never ahead of that
        numbers = self._numbers()
        if newest > max(numbers, default=0):
            raise JournalError(
                f"{self.disk}: {_name(newest)} has been made, and is missing: restore it from a "
                f"copy. To go on without what it had, remove {NEWEST}"
            )
        if not numbers:
            return
        last, facts = read_commit(self.disk, self.layout, numbers[-1])
        start = last.full
        if start != last.number:
            self.head, self.facts = read_commit(self.disk, self.layout, start)
            while self.poll():
                pass
        else:
            self.head, self.facts = last, facts
        if self.head.number < numbers[-1]:
            raise JournalError(
                f"{self.disk}: {_name(self.head.number + 1)} is missing, and {numbers[-1]} is "
                "there: restore it from a copy; without it no later row can be trusted"
            )

    def _numbers(self) -> list[int]:
        names = (name for name in self.disk.list(FOLDER) if name.isdecimal())
        return [int(name) for name in names]

    def poll(self) -> bool:
        """Reads the next commit, if there is one: one stat where there is none."""
        number = self.head.number + 1
        if not self.disk.exists(_name(number)):
            return False
        self.check_identity()
        head, facts = read_commit(self.disk, self.layout, number)
        check_follows(self.disk, self.head, head, facts)
        if head.full == number:
            self.facts = facts
        else:
            self.facts = pa.concat_batches([self.facts, facts]) if facts.num_rows else self.facts
        self.head = head
        return True

    def check_identity(self) -> None:
        """Raises `JournalError` where another journal stands in the place of the one we know."""
        known = self._identity
        if self.disk.read(LAYOUT, 0, len(known) + 1) != known:
            raise JournalError(
                f"{self.disk}: its file {LAYOUT} is not the one that it had: the journal was made "
                "anew, or the file is damaged; open it anew, and read it from its begin"
            )

    def catch_up(self) -> bool:
        """Reads all that there is, also where retention has taken the next ones away."""
        moved = False
        while self.poll():
            moved = True
        newest = max(self._numbers(), default=0)
        if newest > self.head.number:
            self._open()
            moved = True
        return moved

    # -- adding -------------------------------------------------------------------------------

    def add(
        self, epoch: int, token: str, change: Callable[[Commits], Change | None], *, durable: bool
    ) -> bool:
        """Makes the next commit: what `change` says, asked again behind whatever came before it.

        False where `change` says None: there is nothing to do any more. Raises `Fenced` where a
        later epoch has committed. `token` is the writer's own, for the draft's name.
        """
        for _ in range(TRIES_MAX):
            self.catch_up()
            if self.head.epoch > epoch:
                raise fenced(self.disk, epoch, self.head.epoch)
            made = change(self)
            if made is None:
                return False
            if self._link(epoch, token, made, durable=durable):
                return True
        raise JournalError(f"{self.disk}: {TRIES_MAX} others have committed meanwhile; try again")

    def _link(self, epoch: int, token: str, made: Change, *, durable: bool) -> bool:
        number = self.head.number + 1
        is_full = made.kept is not None or number - self.head.full >= FULL_EVERY or number == 1
        head = replace(
            made.head, number=number, epoch=epoch, full=number if is_full else self.head.full
        )
        facts = facts_batch([fact._replace(commit=number) for fact in made.added])
        if is_full:
            before = self.facts if made.kept is None else made.kept
            facts = pa.concat_batches([before, facts])
        draft = f"{FOLDER}/{epoch:010}.{token}"
        self.disk.unlink(draft)
        self.disk.append(draft, encode(head, facts))
        if durable:
            self.disk.sync(draft)
        try:
            self.disk.link(draft, _name(number))
        except (FileExistsError, FileNotFoundError):  # without a draft: a later epoch took it away
            self.disk.unlink(draft)
            return False
        except OSError as e:
            if e.errno in (errno.ENOSPC, errno.EDQUOT):
                raise  # there was no room for the name: it is not made
            raise JournalError(
                f"{self.disk}: whether {_name(number)} is made nobody knows: {e}; open the journal "
                "anew"
            ) from None
        try:
            if durable:
                self.disk.sync(_name(number))
            self.disk.unlink(draft)
            put_newest(self.disk, number)
            if is_full:
                self._forget(self.head.full)
        except OSError as e:
            raise JournalError(
                f"{self.disk}: {_name(number)} is made, and then the disk failed: {e}; open the "
                "journal anew"
            ) from None
        return True

    def _forget(self, full: int) -> None:
        """Takes away the commits before the full one before: followers may still be that slow."""
        for number in self._numbers():
            if number < full:
                self.disk.unlink(_name(number))


def read_commit(disk: Disk, layout: Layout, number: int) -> tuple[Head, pa.RecordBatch]:
    """One commit, checked by itself: the head after it, and the facts that it has."""
    name = _name(number)
    data = disk.read(name, 0, disk.size(name))
    if not data:
        raise JournalError(
            f"{disk}: {name} is missing or empty, and others refer to it: restore it from a copy; "
            "without it no later row can be trusted"
        )
    try:
        head, facts = decode(data, layout)
    except DecodeError as e:
        advice = (
            "read it with that release"
            if e.field == "commit.format"
            else "restore it from a copy; `gapless journal verify` shows all damage"
        )
        raise JournalError(f"{disk}: {name}: {e}; {advice}") from None
    if head.number != number:
        raise JournalError(
            f"{disk}: {name} says that it is commit {head.number}: it was copied or "
            "renamed; restore the journal's files as they were"
        )
    return head, facts


def check_follows(disk: Disk, before: Head, head: Head, facts: pa.RecordBatch) -> None:
    """Raises `JournalError` where a commit does not stand on the one before it."""
    rows = head.rows
    if head.full != head.number:
        added = rows_in(facts, len(rows))
        rows = tuple(int(n) for n in np.array(head.rows) - added)
    is_next = head.epoch >= before.epoch and head.stable >= before.stable
    is_next &= all(now >= was for now, was in zip(head.first, before.first, strict=True))
    if head.full != head.number:
        is_next &= rows == before.rows and head.full == before.full
    else:
        is_next &= all(now >= was for now, was in zip(rows, before.rows, strict=True))
    if not is_next:
        raise JournalError(
            f"{disk}: {_name(head.number)} does not follow {_name(before.number)}: it is another "
            "journal's, or of another time; restore the journal's files as they were"
        )


def check_committed(commits: Commits, epoch: int, live: int) -> None:
    """Raises `JournalError` where the epoch's writer has gone on to a live segment, and the commit
    that sealed the one before is not there.
    """
    head = commits.head
    is_behind = head.epoch == epoch and head.live < live
    if is_behind and not commits.disk.exists(_name(head.number + 1)):
        raise JournalError(
            f"{commits.disk}: {live_segment(head)} was sealed, and {_name(head.number + 1)}, which "
            "says so, is missing: restore it from a copy; without it no later row can be trusted"
        )


def put_newest(disk: Disk, number: int) -> None:
    """Notes which commit was made last."""
    data = number.to_bytes(8, "little")
    disk.put(NEWEST, _NEWEST.pack(number, zlib.crc32(data)))


def read_newest(disk: Disk) -> int:
    """The commit that was made last, as far as anything says; 0 where nothing does."""
    data = disk.read(NEWEST, 0, _NEWEST.size)
    if len(data) < _NEWEST.size:
        return 0
    number, crc = _NEWEST.unpack(data)
    return int(number) if zlib.crc32(data[:8]) == crc else 0


def fenced(disk: Disk, epoch: int, by: int) -> Fenced:
    """Says who has taken over."""
    return Fenced(
        f"{disk}: this writer is of epoch {epoch}, and {claimed_by(disk, by)} has taken the "
        f"journal over with epoch {by}; what it had said was written is there, and it writes no "
        "more"
    )
