"""Writing a journal in batches that many tasks make and one place commits: what Spark does.

    task 0   rows -> segments/00000003-q7.12.0.a91f-000000      nobody sees them yet
    task 1   rows -> segments/00000003-q7.12.1.77c0-000000
    driver   the tasks' results -> commit 41: both segments, the watermark, "q7 is in up to 12"

A batch is in when its commit is there. A task that died or ran twice has left files that no commit
names; a batch that comes again after its commit is found by its query's name and number, and
changes nothing. Each row is judged by the watermark before its batch, which is the last commit's:
so the verdict does not depend on which task saw the row, or how often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from gapless.journal import rejects
from gapless.journal.commit import Change, Commits, fenced
from gapless.journal.disk import Disk
from gapless.journal.epoch import claim, epoch_of, is_fenced
from gapless.journal.head import Head
from gapless.journal.judge import parted, watermark_after
from gapless.journal.layout import Layout
from gapless.journal.partition import partitions_of, split
from gapless.journal.plausible import NO_DOUBTS, Doubts, Plausible, Run, doubted_after
from gapless.journal.room import Room
from gapless.journal.segment import SEGMENT_BYTES, records_of, times_of, writer_of
from gapless.journal.takeover import begin
from gapless.journal.tally import Tally, watermark
from gapless.protocol.columns import concat_batches, take_rows
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import JournalError, Misuse
from gapless.protocol.frame import Times

RECORD_ROWS = 1 << 16
"""Rows that are cut into records at once: of narrow ones a megabyte, four frames of the engine."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What one task has written, for the commit."""

    watermark: int
    """By which its rows were judged."""
    by_partition: bool
    tallies: list[Tally] = field(default_factory=list)
    rejects: str = ""
    """The file with its rejected rows, if it has any."""
    rejected: int = 0
    late: int = 0
    doubts: Doubts = NO_DOUBTS
    """What it has found ahead, by its own rows."""
    reach: int | None = None
    """By which."""


class TaskWriter:
    """Writes the rows of one task of one batch. `token` is this attempt's alone."""

    def __init__(
        self,
        disk: Disk,
        layout: Layout,
        epoch: int,
        token: str,
        watermark: int,
        *,
        batch: int,
        durable: bool,
        by_partition: bool = False,
        sorts: bool = False,
        segment_bytes: int = SEGMENT_BYTES,
        reach: int | None = None,
        doubted: Sequence[Run] = (),
    ) -> None:
        """`by_partition`: segments of one partition each, whose records promise for it alone.

        `reach`: how far ahead a row may be (plausible.py), of the rows of each `add`; None where
        somebody has looked at all rows of the batch, or nobody is to. `doubted` is what the journal
        says of the batches before. A task sees its own rows alone: where a batch that lies behind a
        gap is spread over many, it is rejected, and the next one is taken.

        `sorts`: the rows that are cut into records at once are put in the order of their time.
        """
        self._disk = disk
        self._layout = layout
        self._name = f"{epoch:010}-{token}"
        self._batch = batch
        self._durable = durable
        self._segment_bytes = segment_bytes
        self._watermark = watermark
        self._plausible = Plausible(layout, reach, doubted)
        self._by_partition = by_partition
        self._sorts = sorts
        self._room = Room(disk)
        self._segments = 0
        self._open: dict[int, Tally] = {}  # by partition; under 0 where a segment has several
        self._done: list[Tally] = []
        self._waiting: list[tuple[pa.RecordBatch, Times | None]] = []
        self._waiting_rows = 0
        self._late = self._rejected = 0

    def add(
        self,
        batch: pa.RecordBatch,
        promises: Times | None = None,
        origins: pa.Array | None = None,
    ) -> None:
        """Takes rows of the journal's schema.

        `promises` says of each row what may be promised of its partition behind it: only where
        segments are by partition. `origins` says where each comes from, for those that are late.
        """
        verdict = parted(batch, self._layout, self._watermark, self._plausible)
        if verdict.mask is not None:
            self._late += verdict.late
            self._rejected += len(verdict.reasons)
            lines = rejects.lines_of(self._batch, verdict, self._origin(origins))
            self._append(self._rejects, lines)
            promises = None if promises is None else promises[verdict.mask]
        self._waiting.append((verdict.kept, promises))
        self._waiting_rows += verdict.kept.num_rows
        if self._waiting_rows >= RECORD_ROWS:
            self._write()

    def _origin(self, origins: pa.Array | None) -> str | rejects.Origin:
        here = f"batch {self._batch}"
        return here if origins is None else lambda row: origins[row].as_py() or here

    def reject(self, rejected: Sequence[tuple[str, str, Any]]) -> None:
        """Takes rows that somebody else has found bad: reason, origin, the row as plain data."""
        if rejected:
            self._rejected += len(rejected)
            self._append(self._rejects, rejects.lines(self._batch, rejected))

    def finish(self) -> TaskResult:
        """Writes what is left; what was written counts once it is committed."""
        if self._waiting_rows:
            self._write()
        for tally in self._open.values():
            self._close(tally)
        has_rejects = self._rejected > 0
        if has_rejects:
            if self._durable:
                self._disk.sync(self._rejects)
            self._disk.close(self._rejects)
        return TaskResult(
            self._watermark,
            self._by_partition,
            self._done,
            self._rejects if has_rejects else "",
            self._rejected,
            self._late,
            self._plausible.doubts,
            self._plausible.reach,
        )

    def abandon(self) -> None:
        """Takes away what was written; nothing follows."""
        for tally in [*self._open.values(), *self._done]:
            self._disk.unlink(tally.name)
        self._disk.unlink(self._rejects)

    @property
    def _rejects(self) -> str:
        return f"{rejects.FOLDER}/{self._name}.jsonl"

    def _write(self) -> None:
        """Cuts what waits into records."""
        batch = concat_batches([rows for rows, _ in self._waiting])
        of_rows = [promises for _, promises in self._waiting if promises is not None]
        promises = np.concatenate(of_rows) if of_rows else None
        self._waiting, self._waiting_rows = [], 0
        if self._sorts:
            batch = take_rows(batch, np.argsort(times_of(batch, self._layout), kind="stable"))
        count = self._layout.partitions
        key = [batch.column(name) for name in self._layout.key]
        places = partitions_of(key, count) if count > 1 else np.zeros(batch.num_rows, np.int64)
        if not self._by_partition:
            self._records(0, list(split(batch, places, count)), None)
            return
        for partition, rows in split(batch, places, count):
            promise = None
            if promises is not None:
                mine = promises[places == partition]
                if len(mine) > 1 and bool((mine[1:] < mine[:-1]).any()):
                    raise Misuse(f"the rows of partition {partition} do not come in their order")
                promise = int(mine[-1])
            self._records(partition, [(partition, rows)], promise)

    def _records(
        self, under: int, parts: list[tuple[int, pa.RecordBatch]], promise: int | None
    ) -> None:
        tally = self._open.get(under)
        if tally is None:
            tally = Tally(f"segments/{self._name}-{self._segments:06}")
            self._open[under] = tally
            self._segments += 1
        promise = None if promise is None or promise <= tally.stable else promise
        rows = [(p, tally.part(p).rows, part) for p, part in parts]
        records = records_of(self._layout, writer_of(tally.name), rows, promise)
        tally.wrote(records, self._append(tally.name, b"".join(records)))
        for p, part in parts:
            tally.part(p).add(times_of(part, self._layout))
        tally.stable = tally.stable if promise is None else promise
        if tally.bytes >= self._segment_bytes:
            self._close(self._open.pop(under))

    def _append(self, name: str, data: bytes) -> int:
        self._room.need(len(data))
        try:
            return self._disk.append(name, data)
        except OSError as e:
            raise self._room.refused(e) from None

    def _close(self, tally: Tally) -> None:
        if self._durable:
            self._disk.sync(tally.name)
        self._disk.close(tally.name)
        self._done.append(tally)


def writing_epoch(
    commits: Commits, who: str, token: str, now_ms: int, *, durable: bool, process: str = ""
) -> int:
    """The epoch of a run, whichever of its processes asks first, and however many at once. Raises
    `Fenced` where another writer has taken over since.

    `token` is the run's; `process` is this process's alone, where the run has several.
    """
    commits.catch_up()
    disk = commits.disk
    epoch = epoch_of(disk, token, commits.head.epoch)
    if epoch is None:
        epoch = claim(disk, commits.head.epoch, who, token, shared=True)
    if is_fenced(disk, epoch):
        raise fenced(disk, epoch, epoch + 1)
    if commits.head.epoch < epoch:  # its claimant is not so far yet, or has died
        begin(commits, epoch, process or token, now_ms, durable=durable)
    return epoch


def is_in(commits: Commits, query: str, batch: int) -> bool:
    """Whether a batch of a query has been committed, or one after it."""
    return commits.head.queries.get(query, -1) >= batch


def commit_batch(
    commits: Commits,
    epoch: int,
    token: str,
    results: Sequence[TaskResult],
    *,
    query: str | None,
    batch: int,
    now_ms: int,
    durable: bool,
    ends: bool = False,
) -> bool:
    """Makes a batch part of the journal; False where it was already, and nothing changes.

    `query` and `batch` are what it is known by; without a query nothing finds it again.
    `ends`: nothing follows, the journal's stable becomes INF.
    """

    def change(commits: Commits) -> Change | None:
        head = commits.head
        if query is not None and is_in(commits, query, batch):
            return None
        if head.ended:
            raise Misuse(f"{commits.disk} has ended: nothing can be added to it")
        _check(commits, results)
        tallies = [tally for result in results for tally in result.tallies]
        largest = max((p.largest for t in tallies for p in t.parts.values()), default=BEGIN)
        stable = INF if ends else watermark_after(largest, commits.layout, head.stable)
        rows = list(head.rows)
        alone = any(result.by_partition for result in results)
        facts = [f for t in tallies for f in t.facts(rows, stable, by_partition=alone)]
        if not facts and stable > head.stable:
            facts = [watermark(stable)]
        queries = {name: last for name, last in head.queries.items() if name != query}
        if query is not None:
            queries[query] = batch
        after = replace(
            head,
            stable=stable,
            rows=tuple(rows),
            rejected=head.rejected + sum(result.rejected for result in results),
            queries=queries,
            doubted=_doubted(head, results),
            at_ms=now_ms,
        )
        return Change(after, facts)

    try:
        return commits.add(epoch, token, change, durable=durable)
    except OSError as e:
        raise Room(commits.disk).refused(e) from None


def _doubted(head: Head, results: Sequence[TaskResult]) -> tuple[Run, ...]:
    """What is doubted behind a batch; a task that had no rows has nothing to say."""
    if any(result.reach is None and result.tallies for result in results):
        return ()  # somebody else has judged, and what is there is believed
    judged = [result for result in results if result.reach is not None]
    return doubted_after([r.doubts for r in judged], judged[0].reach) if judged else head.doubted


def _check(commits: Commits, results: Sequence[TaskResult]) -> None:
    """That the tasks have judged by what holds now, and have not shared a partition."""
    for result in results:
        if result.watermark != commits.head.stable:
            raise JournalError(
                f"{commits.disk}: a task judged its rows by the watermark {result.watermark}, the "
                f"journal's is {commits.head.stable}: somebody else has written; run it again"
            )
    if len({result.by_partition for result in results}) > 1:
        raise Misuse("some tasks have written by partition, and some have not")
    if results and results[0].by_partition:
        seen: set[int] = set()
        for result in results:
            mine = {p for tally in result.tallies for p in tally.parts}
            if shared := seen & mine:
                raise Misuse(f"two tasks have written partition {min(shared)}: it has no order")
            seen |= mine


def discard(commits: Commits, results: Sequence[TaskResult]) -> None:
    """Takes away what the tasks of a batch have written, unless a commit names any of it: one may
    have been made by somebody who failed before he could say so.
    """
    commits.catch_up()
    segments = {tally.name for result in results for tally in result.tallies}
    if segments and segments.isdisjoint(commits.facts.column("segment").to_pylist()):
        for name in [*segments, *(result.rejects for result in results if result.rejects)]:
            commits.disk.unlink(name)
