r"""Retention: what of a journal goes, and why the rest stays.

    partition 0   | 1:00 | 2:00 | 3:00 | 4:00 |        before 3:00, a reader at R:
    partition 1   | 1:00 R 2:00 | 3:00 | 4:00 |        of 0 go two parts, of 1 one

Offsets stay contiguous, so of each partition only leading parts go: the facts of a part, and the
file once no fact names it. A trim is a plan and then a commit, with the facts that stay; the files
are unlinked behind it. A death in between leaves files that no commit names, which the next
trim or the next writer takes away.

A trim is no writer: it commits under the epoch that is, beside a writer that is at work. Live rows
are not touched, and nothing that a registered reader has not read (journal/readers.py). An output
journal's frames go only up to its last base, which stands for them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gapless.journal import rejects
from gapless.journal.commit import TRIES_MAX, Change, Commits, live_segment
from gapless.journal.facts import Fact
from gapless.journal.parts import Mask, Parts
from gapless.journal.readers import FOLDER, Registered, registered
from gapless.journal.room import Room
from gapless.journal.takeover import EPOCH_DIGITS, collect_garbage
from gapless.journal.tally import watermark
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Fenced, JournalError, Misuse


@dataclass(frozen=True, slots=True)
class Retention:
    """Which rows go: those that any of these names; with none of them no row does, and a trim takes
    away only what others have left.
    """

    before: int | None = None
    """Segments whose rows are all before this time."""
    keep_bytes: int | None = None
    """The oldest segments, until no more than this is left."""
    read: bool = False
    """What all registered readers of a partition have read."""

    def __post_init__(self) -> None:
        if self.keep_bytes is not None and self.keep_bytes < 0:
            raise Misuse(f"keep_bytes {self.keep_bytes}: it is not negative")


class Plan(NamedTuple):
    """What goes."""

    first: tuple[int, ...]
    """By partition, the first row that stays."""
    segments: tuple[str, ...]
    """Files that go, whole."""
    rows: int
    bytes: int
    """Of those files."""
    kept_bytes: int
    """Of all segments that stay, the live one included."""
    stays: tuple[str, ...]
    """Why something is kept that the rules would let go: a sentence each."""


def plan(commits: Commits, retention: Retention, forget: Collection[str] = ()) -> Plan:
    """What a trim would do now. `forget`: registered readers that do not count."""
    return _plan(commits, retention, forget)[0]


def trim(
    commits: Commits,
    retention: Retention,
    *,
    token: str,
    now_ms: int,
    forget: Collection[str] = (),
) -> Plan:
    """Takes away what the rules let go, and files that nobody can commit any more.

    The commit is safe before any file goes. `token` is this trim's alone. A reader that needs what
    went, and had not registered, gets `Trimmed`.
    """
    done: list[Plan] = []

    def change(commits: Commits) -> Change | None:
        made, gone = _plan(commits, retention, forget)
        done[:] = [made]
        return _change(commits, made, gone, now_ms) if gone.any() else None

    for _ in range(TRIES_MAX):
        commits.catch_up()
        try:
            commits.add(commits.head.epoch, token, change, durable=True)
        except Fenced:
            continue  # a writer took over meanwhile: trim under its epoch
        except OSError as e:
            raise Room(commits.disk).refused(e) from None
        commits.catch_up()
        _unlink(commits, done[0].segments)
        return done[0]
    raise JournalError(f"{commits.disk}: {TRIES_MAX} writers have taken over meanwhile; try again")


# -- the plan -------------------------------------------------------------------------------------


class _Limit(NamedTuple):
    """Something that keeps parts from going."""

    passes: Mask
    """The parts that it does not hold."""
    why: str


def _plan(commits: Commits, retention: Retention, forget: Collection[str]) -> tuple[Plan, Mask]:
    """What goes, and which facts that is."""
    disk, head = commits.disk, commits.head
    parts = Parts.of(commits.facts)
    readers = [reader for reader in registered(disk) if reader.name not in forget]
    limits = [_limit_of(parts, reader) for reader in readers]
    if not commits.layout.has_rows:
        limits.append(_limit_of_base(commits, parts))
    may_go = parts.leading(np.logical_and.reduce([parts.all, *(each.passes for each in limits)]))
    notes: list[str] = []
    wanted = ~parts.all
    if retention.before is not None:
        wanted |= parts.leading(parts.largest < retention.before)
    if retention.read:
        wanted |= parts.leading(_read_by_all(parts, readers, notes))
    gone = wanted & may_go
    if retention.keep_bytes is not None:
        keep = retention.keep_bytes - disk.size(live_segment(head))
        gone = parts.down_to(keep, gone, may_go)
        wanted = parts.down_to(keep, wanted, parts.all)
    held = wanted & ~gone
    notes += [
        f"{limit.why}: {count:,} segment{'s' if count > 1 else ''} stay"
        for limit in limits
        if (count := parts.files(held & ~limit.passes))
    ]
    files = parts.whole(gone)
    first = np.array(head.rows, np.int64)
    np.minimum.at(first, parts.partition[~gone], parts.first[~gone])
    left = int(parts.file_bytes.sum()) - int(parts.file_bytes[files].sum())
    made = Plan(
        tuple(first.tolist()),
        tuple(parts.names[i] for i in files.tolist()),
        int(parts.rows[gone].sum()),
        int(parts.file_bytes[files].sum()),
        left + disk.size(live_segment(head)),
        tuple(notes),
    )
    return made, parts.of_facts(gone)


def _limit_of(parts: Parts, reader: Registered) -> _Limit:
    if reader.position is None:
        return _Limit(
            ~parts.all,
            f"{FOLDER}/{reader.name} does not read, so its reader may need everything until it "
            "registers again, or is forgotten",
        )
    passes = parts.all.copy()
    for partition, offset in reader.position.items():
        passes &= (parts.partition != partition) | (parts.end <= offset)
    return _Limit(passes, f"reader {reader.name} has not read them")


def _limit_of_base(commits: Commits, parts: Parts) -> _Limit:
    if not commits.head.bases:
        return _Limit(~parts.all, "there is no base to stand for them")
    base = commits.head.bases[-1]
    return _Limit(parts.commit <= base.commit, f"the last base, {base.segment}, is before them")


def _read_by_all(parts: Parts, readers: list[Registered], notes: list[str]) -> Mask:
    """The parts that somebody reads, and all who read them have read."""
    if not readers:
        notes.append("no reader is registered: nothing is known to have been read")
    partitions = {p for reader in readers for p in reader.position or {}}
    unread = set(parts.partition.tolist()) - partitions
    if readers and unread:
        least = ", ".join(map(str, sorted(unread)[:10]))
        notes.append(f"no registered reader reads partition {least}: nothing of them goes as read")
    return np.isin(parts.partition, list(partitions))  # the readers' own limits say the rest


def _change(commits: Commits, made: Plan, gone: Mask, now_ms: int) -> Change:
    kept = _kept(commits.facts, gone)
    head = replace(commits.head, first=made.first, at_ms=now_ms)
    stables = kept.column("stable").to_numpy()
    promised = int(stables[-1]) if len(stables) else BEGIN
    added: list[Fact] = [] if promised >= head.stable else [watermark(head.stable)]
    return Change(head, added, kept)


def _kept(facts: pa.RecordBatch, gone: Mask) -> pa.RecordBatch:
    """The facts that stay. What was promised before the first of them is promised after it, too."""
    stays = ~gone
    with_rows = stays & (facts.column("rows").to_numpy() > 0)
    start = int(with_rows.argmax()) if with_rows.any() else len(stays)
    stays[:start] = False
    return facts.filter(pa.array(stays))


# -- files ----------------------------------------------------------------------------------------


def _unlink(commits: Commits, segments: tuple[str, ...]) -> None:
    """Takes away segments that have gone, their rejected rows, and what others have left."""
    disk = commits.disk
    named = set(commits.facts.column("segment").to_pylist())
    for name in segments:
        disk.unlink(name)
    named.discard("")  # of facts that have no segment
    beside = {_rejects_of(name) for name in segments} - {_rejects_of(name) for name in named}
    for name in beside:
        disk.unlink(name)
    collect_garbage(commits)
    _collect_own(commits, named)


def _rejects_of(segment: str) -> str:
    """The file with the rejected rows of a segment's writer: a writer has one each, a task one
    for all of its segments.
    """
    epoch, *token, _ = segment.rpartition("/")[2].split("-")
    return rejects.beside("-".join((epoch, *token)) if token else segment)


def _collect_own(commits: Commits, named: set[str]) -> None:
    """Takes away what this epoch's writer has sealed, or written as a base, and no commit names;
    and the rejected rows of epochs of which nothing is left.
    """
    disk, head = commits.disk, commits.head
    named |= {base.segment for base in head.bases}
    for folder in ("segments", "bases"):
        for name in disk.list(folder):
            epoch, _, live = name.partition("-")
            is_sealed = epoch == f"{head.epoch:010}" and live.isdecimal() and int(live) < head.live
            if is_sealed and f"{folder}/{name}" not in named:
                disk.unlink(f"{folder}/{name}")
    epochs = [name.rpartition("/")[2][:EPOCH_DIGITS] for name in named]
    oldest = min([f"{head.epoch:010}", *epochs])
    for name in disk.list(rejects.FOLDER):
        if name[:EPOCH_DIGITS].isdecimal() and name[:EPOCH_DIGITS] < oldest:
            disk.unlink(f"{rejects.FOLDER}/{name}")
