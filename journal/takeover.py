"""Becoming the writer: fence off the former one, find where it ended, and commit that cut.

    | record | record | reco              a torn end, which no reader has seen: cut off
    | record | reco        ^              the live end says that it was read: JournalError
    | record | ###### | record |          a record behind one that does not read: JournalError
    | record | 0 0 0 0| follows unsafe    except where nothing between them was safe: cut off

A torn end is what a crash leaves of the last append, or of the last few where they were not synced
yet. What lay before the live end is more than that. The live end itself is not synced, though, and
a crash may take it: so a record that does not read, with one of the same writer behind it that was
appended when all before it was safe, is damage as well.

Of appends that lie in headroom (journal/headroom.py) a crash leaves any pages, not only the first
ones. The records of an append that is not synced yet say so, except for the first: where nothing
else is behind, nobody has seen those rows. A writer that does not sync says nothing; there a file
system that kept a later page and lost an earlier one has left what looks like damage, and what is
right then a person says, with `accept_loss`.
"""

from __future__ import annotations

from dataclasses import replace

from gapless.journal import rejects
from gapless.journal.commit import Change, Commits, check_committed, live_segment
from gapless.journal.disk import Disk
from gapless.journal.epoch import claim, read_live_end
from gapless.journal.segment import DamagedRecord, Index, next_header
from gapless.journal.tally import Tally, recount, sealed
from gapless.protocol.envelope import peek_header
from gapless.protocol.errors import JournalError

EPOCH_DIGITS = 10
"""That the names of an epoch's files begin with."""


def take_over(
    commits: Commits,
    who: str,
    token: str,
    now_ms: int,
    *,
    durable: bool,
    accept_loss: bool = False,
) -> int:
    """Begins an epoch and commits the end of the one before; returns the epoch.

    Whatever another writer has said was written is in that commit, and nothing that it says later.
    Raises `JournalError` where its live segment is damaged before its end; with `accept_loss` it is
    cut there, though readers may have seen what lay behind.
    """
    epoch = claim(commits.disk, commits.head.epoch, who, token)
    begin(commits, epoch, token, now_ms, durable=durable, accept_loss=accept_loss)
    return epoch


def begin(
    commits: Commits,
    epoch: int,
    token: str,
    now_ms: int,
    *,
    durable: bool,
    accept_loss: bool = False,
) -> None:
    """Begins an epoch that was claimed, by committing the end of the one before. Nothing happens
    where another process of the same writer has done it. `token` is this process's alone.
    """
    ended: Tally | None = None

    def cut(commits: Commits) -> Change | None:
        nonlocal ended
        if commits.head.epoch == epoch:
            ended = None  # the other process may have found more
            return None
        ended = _ended(commits, accept_loss=accept_loss)
        if durable:
            _make_safe(commits.disk, ended)
        head, facts = sealed(commits.head, ended)
        return Change(replace(head, live=0, at_ms=now_ms), facts)

    commits.add(epoch, token, cut, durable=durable)
    commits.catch_up()
    collect_garbage(commits)
    if ended is not None and commits.disk.size(ended.name) > ended.bytes:
        commits.disk.truncate(ended.name, ended.bytes)  # a torn end, and zeros written ahead


def _ended(commits: Commits, *, accept_loss: bool) -> Tally:
    """What the live segment of the last epoch holds, up to a torn end: whatever lies behind, or is
    still written there by somebody who is fenced, is behind the length that is committed.
    """
    disk, head = commits.disk, commits.head
    name = live_segment(head)
    size = disk.size(name)
    data = memoryview(disk.read(name, 0, size))
    index, damage = Index(name), None
    try:
        index.extend(data)
    except DamagedRecord as e:
        damage = e
    tally, unread = recount(index, data, commits.layout)
    damage = unread or damage
    if not accept_loss and (_was_said(commits, tally.bytes) or _goes_on(index, data, damage)):
        lost = (
            f"segment {name} ends at byte {tally.bytes}, and rows behind it have been read: the "
            "machine died before they were safe. Take the journal over with accept_loss, and "
            "readers start anew"
        )
        raise JournalError(f"{disk}: {damage or lost}")
    tally.rejected = rejects.cut(disk, rejects.beside(name), head.batches + tally.batches)
    return tally


def _make_safe(disk: Disk, tally: Tally) -> None:
    """Syncs what is about to be committed: its writer may have died before it had."""
    if tally.rejected:
        disk.sync(rejects.beside(tally.name))
    if tally.bytes:
        disk.sync(tally.name)


def _was_said(commits: Commits, end: int) -> bool:
    """Whether a reader may have seen, or a writer called durable, what lies behind `end`."""
    head = commits.head
    shown = read_live_end(commits.disk, head.epoch)
    if shown is not None and shown.number > head.live:
        check_committed(commits, head.epoch, shown.number)
    return shown is not None and shown.number == head.live and shown.end > end


def _goes_on(index: Index, data: memoryview, damage: DamagedRecord | None) -> bool:
    """Whether the segment's writer has written a record behind one that does not read, when that
    was safe: it was whole then. A torn end has none; where bytes are missing, and none is wrong,
    nothing is sought.
    """
    end = len(data)
    at = end if damage is None else damage.behind
    while (at := next_header(data, at, end)) < end:
        header = peek_header(data, at)
        if header.incarnation == index.writer and not header.place.follows_unsafe:
            return True
        at += 1
    return False


def collect_garbage(commits: Commits) -> None:
    """Takes away the files of earlier epochs that no commit names: nobody can commit them now.

    Names begin with the epoch of their maker.
    """
    disk, head = commits.disk, commits.head
    named = set(commits.facts.column("segment").to_pylist())
    named |= {base.segment for base in head.bases}
    for folder in ("segments", "bases", "commits", "live"):
        for name in disk.list(folder):
            path = f"{folder}/{name}"
            epoch = name[:EPOCH_DIGITS]
            is_commit = folder == "commits" and name.isdecimal()
            if (
                epoch.isdecimal()
                and int(epoch) < head.epoch
                and not is_commit
                and path not in named
            ):
                disk.unlink(path)
