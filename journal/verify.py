"""Looks at every byte of a journal: what is damaged, what that means, and what can be done.

    layout -> commits, one after another -> every record of every segment -> bases, live segment
    epochs, rejected rows, registered readers, files that no commit names

It does not stop at what it finds: a finding is yielded, and the rest is looked at as far as that
can be. It changes nothing, and may run beside a writer and beside trims. It holds one record's rows
and the facts of the journal in memory, however long the journal is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import chain, pairwise

import numpy as np
import pyarrow as pa

from gapless.journal import epoch, readers, rejects
from gapless.journal.base import read_base
from gapless.journal.commit import (
    FOLDER,
    NEWEST,
    Commits,
    check_follows,
    live_segment,
    read_commit,
    read_newest,
)
from gapless.journal.disk import Disk
from gapless.journal.facts import Fact, facts_batch, facts_list
from gapless.journal.head import Head
from gapless.journal.layout import NAME, Layout, opened
from gapless.journal.parts import Ints
from gapless.journal.takeover import EPOCH_DIGITS
from gapless.journal.walk import RESTORE, Finding, Walk, by_segment
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import DecodeError, JournalError

REJECT_FINDINGS_MAX = 100
"""Of one file of rejected rows: each of its lines may be one."""
LINE_KEYS = frozenset({"batch", "reason", "origin", "row"})
_RESTORE_REJECTS = "restore the file, if it is needed"


class Verifier:
    """One look at a journal; `findings` does it, the counts say how far it is."""

    def __init__(self, disk: Disk, progress: Callable[[int, int], None] | None = None) -> None:
        """`progress` is called with bytes looked at and bytes to look at, segment by segment.

        Raises `Misuse` where there is no journal.
        """
        self._disk = disk
        self._progress = progress
        self._layout: Layout | None = None
        self._by_now: _ByNow | None = None
        self._damage: Finding | None = None
        self.segments = 0
        self.rows = 0
        self.bytes = 0
        try:
            self._layout = opened(disk)
        except JournalError as e:
            self._damage = Finding("damage", NAME, None, str(e), "take it from a copy")

    def findings(self) -> Iterator[Finding]:
        """All that there is to say, damage or not."""
        if self._layout is None:
            if self._damage is not None:
                yield self._damage
            return
        commits, self._by_now = _Chain(self._disk, self._layout), _ByNow(self._disk, self._layout)
        yield from commits.findings()
        yield from self._segments(self._layout, commits.head, commits.facts)
        yield from self._bases(self._layout, commits.head, commits.facts)
        yield from self._live(self._layout, commits.head)
        yield from self._epochs(commits.head)
        yield from self._rejects()
        yield from self._readers(commits.head)
        yield from self._orphans(commits.head, commits.facts)

    # -- segments -----------------------------------------------------------------------------

    def _segments(self, layout: Layout, head: Head, facts: pa.RecordBatch) -> Iterator[Finding]:
        total = self._total(facts) + self._disk.size(live_segment(head))
        promised = np.full(layout.partitions, BEGIN, np.int64)
        commits = facts.column("commit").to_numpy()
        bounds = np.flatnonzero(np.diff(commits, prepend=-1, append=-1)).tolist()
        for start, end in pairwise(bounds):
            of_commit = facts_list(facts.slice(start, end - start))
            stable = of_commit[-1].stable
            yield from _about_times(of_commit, promised)
            for name, parts in by_segment(of_commit).items():
                walk = Walk(
                    layout,
                    name,
                    promised,
                    {fact.partition: fact for fact in parts},
                    by_partition=parts[0].by_partition,
                    first={fact.partition: fact.first for fact in parts},
                    stable=stable,
                )
                yield from self._segment(walk, parts[0].bytes)
                self.segments += 1
                if self._progress is not None:
                    self._progress(self.bytes, total)
            np.maximum(promised, stable, out=promised)

    def _total(self, facts: pa.RecordBatch) -> int:
        sizes = dict(zip(facts["segment"].to_pylist(), facts["bytes"].to_pylist(), strict=True))
        return sum(sizes.values())

    def _segment(self, walk: Walk, end: int) -> Iterator[Finding]:
        size = self._disk.size(walk.name)
        if not self._disk.exists(walk.name):
            if not self._was_trimmed(walk.name):
                yield Finding("damage", walk.name, None, "it is missing", RESTORE)
            return
        try:
            data = memoryview(self._disk.map(walk.name, min(size, end)).data)
        except OSError as e:
            if not self._was_trimmed(walk.name):
                yield Finding("damage", walk.name, None, f"it does not read: {e}", RESTORE)
            return
        yield from walk.findings(data, end)
        self.rows += walk.rows
        self.bytes += min(size, end)
        if size > end:
            what = f"{size - end} bytes behind its end, of a writer that was fenced off or died"
            yield Finding("note", walk.name, end, what)

    def _was_trimmed(self, name: str) -> bool:
        """Whether a file went while we looked."""
        return self._by_now is not None and self._by_now.has_lost(name)

    # -- bases, live segment ------------------------------------------------------------------

    def _bases(self, layout: Layout, head: Head, facts: pa.RecordBatch) -> Iterator[Finding]:
        stables = dict(zip(facts["commit"].to_pylist(), facts["stable"].to_pylist(), strict=True))
        for base in head.bases:
            try:
                frame = read_base(self._disk, layout, base)
            except JournalError as e:
                yield Finding("damage", base.segment, None, _short(self._disk, e), RESTORE)
                continue
            self.bytes += base.bytes
            if frame.stable is None or not frame.insert_only:
                yield _wrong(base.segment, "it is no table: it has adjusts, or no stable")
            elif len(frame) and int(frame.ve.min()) < frame.stable:
                yield _wrong(base.segment, "it has events that were settled before it")
            elif stables.get(base.commit, frame.stable) != frame.stable:
                yield _wrong(base.segment, f"it is not as of commit {base.commit}")

    def _live(self, layout: Layout, head: Head) -> Iterator[Finding]:
        shown = epoch.read_live_end(self._disk, head.epoch)
        name, live_end_name = live_segment(head), epoch.live_end_name(head.epoch)
        size = self._disk.size(name)
        if shown is None:
            if size or self._disk.exists(live_end_name):
                what = "missing, or does not read: live rows are not seen until the next append"
                yield Finding("warning", live_end_name, None, what, "append, or open a writer")
            return
        if shown.number > head.live:
            what = f"it is of segment {shown.number}, and {name} is not committed"
            if self._by_now is None or not self._by_now.has_sealed(name):
                advice = f"restore the last file of {FOLDER}/ from a copy"
                yield Finding("damage", live_end_name, None, what, advice)
            return
        if shown.number < head.live:
            return
        promised = np.full(layout.partitions, head.stable, np.int64)
        walk = Walk(layout, name, promised, first=dict(enumerate(head.rows)))
        data = memoryview(self._disk.read(name, 0, min(size, shown.end)))
        yield from walk.findings(data, shown.end)
        self.rows += walk.rows
        self.bytes += len(data)
        if size > shown.end:
            written = self._disk.read(name, shown.end, size - shown.end).strip(b"\0")
            what = "that are not said to be written yet" if written else "of zeros, for appends"
            yield Finding("note", name, shown.end, f"{size - shown.end} bytes {what}")

    # -- what lies beside ---------------------------------------------------------------------

    def _epochs(self, head: Head) -> Iterator[Finding]:
        names = self._disk.list("epochs")
        for path in (f"epochs/{name}" for name in names):
            try:
                epoch.check_marker(self._disk.read(path, 0, epoch.MARKER_BYTES_MAX))
            except DecodeError as e:
                what = f"{e}: who wrote, or followed, is not known; the epoch counts all the same"
                yield Finding("warning", path, None, what)
        before = [name for name in names if name.isdecimal() and int(name) < head.epoch]
        if before and not epoch.is_marked(self._disk, int(before[-1])):
            what = "a later one has committed, and it is not marked: by an earlier release, or cut"
            yield Finding("note", f"epochs/{before[-1]}", None, what)
        newest = epoch.marker(head.epoch)
        if head.epoch and not self._disk.exists(newest):
            what = "it is missing: a writer that was fenced off by it may not notice at once"
            yield Finding("warning", newest, None, what, "restore it from a copy")
        elif head.epoch and not epoch.has_fenced(self._disk, head.epoch):
            yield Finding("note", newest, None, "does not say that it has fenced those before it")
        last = max((name for name in names if name.isdecimal()), default="0")
        if int(last) > head.epoch:
            yield Finding("note", f"epochs/{last}", None, "a writer takes over now, or died there")

    def _rejects(self) -> Iterator[Finding]:
        for name in self._disk.list(rejects.FOLDER):
            path, bad = f"{rejects.FOLDER}/{name}", 0
            for at, line in chain.from_iterable(rejects.read_lines(self._disk, path)):
                if not line.endswith(b"\n"):
                    yield Finding("note", path, at, "its last line is not whole yet")
                elif not _is_rejected(line):
                    bad += 1
                    if bad <= REJECT_FINDINGS_MAX:
                        what = "a line that is no rejected row; the journal's rows are not touched"
                        yield Finding("warning", path, at, what, _RESTORE_REJECTS)
            if bad > REJECT_FINDINGS_MAX:
                what = f"{bad - REJECT_FINDINGS_MAX} more lines that are no rejected rows"
                yield Finding("warning", path, None, what, _RESTORE_REJECTS)

    def _readers(self, head: Head) -> Iterator[Finding]:
        for reader in readers.registered(self._disk):
            path = f"{readers.FOLDER}/{reader.name}"
            if reader.position is None:
                what = "it does not read: nothing is trimmed until this reader registers again"
                advice = f"or forget it: `gapless journal trim {self._disk} --forget {reader.name}`"
                yield Finding("warning", path, None, what, advice)
                continue
            for p, offset in reader.position.items():
                if p >= len(head.rows):
                    yield Finding("warning", path, None, f"there is no partition {p}")
                elif offset < head.first[p]:
                    what = f"row {offset} of partition {p} is trimmed, up to row {head.first[p]}"
                    yield Finding("warning", path, None, what, "it must start anew")

    def _orphans(self, head: Head, facts: pa.RecordBatch) -> Iterator[Finding]:
        named = set(facts.column("segment").to_pylist())
        named |= {base.segment for base in head.bases}
        live = live_segment(head).rpartition("/")[2]
        named |= {f"{folder}/{live}" for folder in ("segments", "bases")}
        for folder in ("segments", "bases", FOLDER, "live"):
            for name in self._disk.list(folder):
                path, of = f"{folder}/{name}", name[:EPOCH_DIGITS]
                is_commit = folder == FOLDER and (name.isdecimal() or path == NEWEST)
                is_live_end = folder == "live" and of.isdecimal() and int(of) >= head.epoch
                if path in named or is_commit or is_live_end:
                    continue
                is_old = of.isdecimal() and int(of) < head.epoch
                what = f"{self._disk.size(path)} bytes that no commit names: " + (
                    "of a writer before, left over" if is_old else "being written, or left over"
                )
                advice = "the next trim takes it away" if is_old else "the next writer may take it"
                yield Finding("note", path, None, what, advice)


# -- the chain ------------------------------------------------------------------------------------


class _Chain:
    """All commit files that are there, and where they lead."""

    def __init__(self, disk: Disk, layout: Layout) -> None:
        self._disk = disk
        self._layout = layout
        zeros = (0,) * layout.partitions
        self.head = Head(rows=zeros, first=zeros)
        """After the last commit that stands on all before it."""
        self.facts = facts_batch([])

    def findings(self) -> Iterator[Finding]:
        newest = read_newest(self._disk)
        if not newest and self._disk.exists(NEWEST):
            yield Finding("warning", NEWEST, None, "it does not read; the next commit makes it new")
        numbers = [int(name) for name in self._disk.list(FOLDER) if name.isdecimal()]
        heads: dict[int, tuple[Head, pa.RecordBatch]] = {}
        for number in numbers:
            try:
                heads[number] = read_commit(self._disk, self._layout, number)
            except JournalError as e:
                if self._disk.exists(_path(number)):
                    yield Finding("damage", _path(number), None, _short(self._disk, e), RESTORE)
        needed = heads[max(heads)][0].full if heads else 1  # the full commit, and those behind it
        for number in range(min([needed, *numbers]), max([newest, *numbers]) + 1):
            if number not in numbers and number >= needed:
                what = "it is missing: no later row can be trusted"
                yield Finding("damage", _path(number), None, what, "restore it from a copy")
            elif number in heads:
                yield from self._step(number, *heads[number])

    def _step(self, number: int, head: Head, facts: pa.RecordBatch) -> Iterator[Finding]:
        is_full = head.full == number
        follows = self.head.number == number - 1
        if follows:
            try:
                check_follows(self._disk, self.head, head, facts)
            except JournalError as e:
                yield Finding("damage", _path(number), None, _short(self._disk, e), RESTORE)
            if is_full and number > 1 and not _same(self.facts, facts, head):
                what = "it does not have the segments that the commits before it have"
                yield Finding("damage", _path(number), None, what, RESTORE)
        if is_full:
            self.head, self.facts = head, facts
        elif follows:
            self.head, self.facts = head, pa.concat_batches([self.facts, facts])


class _ByNow:
    """The chain as it is by now: opened once, where something is missing, and read on from there.

    Where it does not open, nothing is known to have changed since.
    """

    def __init__(self, disk: Disk, layout: Layout) -> None:
        self._disk = disk
        self._layout = layout
        self._commits: Commits | None = None
        self._is_damaged = False
        self._number = -1
        self._named: frozenset[str] = frozenset()

    def has_lost(self, segment: str) -> bool:
        """Whether no commit names it any more."""
        commits = self._read_on()
        if commits is None:
            return False
        if commits.head.number != self._number:
            self._number = commits.head.number
            self._named = frozenset(commits.facts.column("segment").to_pylist())
        return segment not in self._named

    def has_sealed(self, segment: str) -> bool:
        """Whether it is not the live one any more."""
        commits = self._read_on()
        return commits is not None and live_segment(commits.head) != segment

    def _read_on(self) -> Commits | None:
        if self._is_damaged:
            return None
        try:
            if self._commits is None:
                self._commits = Commits(self._disk, self._layout)
            else:
                self._commits.catch_up()
        except JournalError:
            self._is_damaged = True
            return None
        return self._commits


def _same(before: pa.RecordBatch, full: pa.RecordBatch, head: Head) -> bool:
    """Whether a full commit has the facts of those before it, except for what was trimmed."""

    def rows(facts: pa.RecordBatch) -> pa.RecordBatch:
        partition, start, count, commit = (
            facts.column(name).to_numpy() for name in ("partition", "first", "rows", "commit")
        )
        stays = (count > 0) & (start >= np.array(head.first)[partition]) & (commit < head.number)
        return facts.filter(pa.array(stays))

    return bool(rows(before).equals(rows(full)))


def _about_times(facts: list[Fact], promised: Ints) -> Iterator[Finding]:
    path = _path(facts[0].commit)
    stables = {fact.stable for fact in facts}
    if len(stables) > 1 or min(stables) < int(promised.min()):
        yield Finding("damage", path, None, "what it promises is less than before", RESTORE)
    for fact in facts:
        if fact.rows and not BEGIN < fact.least <= fact.largest < INF:
            yield Finding("damage", path, None, f"times of {fact.segment}: {fact}", RESTORE)
    for name, parts in by_segment(facts).items():
        if len({(fact.bytes, fact.crc) for fact in parts}) > 1:
            yield Finding("damage", path, None, f"it says two things of {name}", RESTORE)


# -- small things ---------------------------------------------------------------------------------


def _path(number: int) -> str:
    return f"{FOLDER}/{number:010}"


def _short(disk: Disk, error: JournalError) -> str:
    """What an error says, without the place and the advice."""
    return str(error).removeprefix(f"{disk}: ").partition("; ")[0]


def _wrong(file: str, what: str) -> Finding:
    return Finding("damage", file, None, what, "seal with a new base, or restore the file")


def _is_rejected(line: bytes) -> bool:
    try:
        row = json.loads(line)
    except ValueError:
        return False
    return isinstance(row, dict) and row.keys() >= LINE_KEYS and type(row["batch"]) is int
