"""What a preparation has done: the journal as it was before, held against what it is now.

                      before    after
    journal   rows     7,000    9,950      2,950 written
              rejected    12       17          5 rejected
    Spark     dropped                         45 dropped     -> 3,000 rows in

What is in the journal is counted by its commits, whatever Spark has tried twice. Which rows were
dropped, and which of the rejected ones were late, Spark alone knows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from gapless.journal import rejects
from gapless.journal.disk import LocalDisk
from gapless.journal.head import Head
from gapless.journal.partition import PARTITIONS_MAX
from gapless.journal.reasons import counted as by_kind
from gapless.spark_sources.job import Job

DROPPED_ROWS, LATE_ROWS, REJECTED_ROWS = "dropped", "late", "rejected"
"""How Spark is told to call what it counts."""
REJECT_FILES_MAX = PARTITIONS_MAX
"""Reject files that are named: all of a batch, whose tasks write one each at most. A stream makes
some with each micro-batch, for as long as it runs."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a preparation has done."""

    journal: str
    rows_in: int
    """Rows that were read: the sum of the next three."""
    written: int
    rejected: int
    """Late ones included: they are in the reject files."""
    dropped: int
    """Left out by a rule."""
    late: int
    seconds: float
    partitions: int
    files: int
    """Of a directory that is followed: those that were there at the start."""
    rejects: tuple[str, ...] = ()
    """The reject files that are new, the first `REJECT_FILES_MAX` of them."""
    reject_files: int = 0
    """How many are new."""
    reasons: tuple[tuple[str, int], ...] = ()
    """By kind of reason, how many rows were rejected (journal/reasons.py)."""
    already: bool = False
    """The journal had this job already, and nothing was done."""

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {**asdict(self), "rejects": list(self.rejects), "reasons": dict(self.reasons)}


Watch = Callable[[Prepared], None]
"""Is told how far a stream is; of reject files nothing, which are looked for at its end."""


@dataclass(frozen=True, slots=True)
class Before:
    """What there was when a preparation of a job began."""

    job: Job
    head: Head
    began_s: float
    reject_files: frozenset[str]

    @staticmethod
    def of(job: Job, head: Head) -> Before:
        """What there is now; the head is the journal's."""
        return Before(job, head, time.monotonic(), frozenset(_reject_files(job)))

    def so_far(self, head: Head, counted: Mapping[str, int]) -> Prepared:
        """What was done until this head, and Spark has counted. Does not look at the disk."""
        job = self.job
        written = sum(head.rows) - sum(self.head.rows)
        rejected = head.rejected - self.head.rejected
        dropped = counted.get(DROPPED_ROWS, 0)
        if job.files.rows is not None:
            dropped = job.files.rows - written - rejected
        late = counted.get(LATE_ROWS, 0)
        if job.follow:
            late = rejected - counted.get(REJECTED_ROWS, 0)
        return Prepared(
            journal=job.out,
            rows_in=written + rejected + dropped,
            written=written,
            rejected=rejected,
            dropped=dropped,
            late=max(0, late),
            seconds=round(time.monotonic() - self.began_s, 3),
            partitions=job.layout.partitions,
            files=len(job.files.paths),
        )

    def done(self, head: Head, counted: Mapping[str, int]) -> Prepared:
        """All that was done, with the reject files that are new."""
        fresh = [name for name in _reject_files(self.job) if name not in self.reject_files]
        folder = f"{self.job.out}/{rejects.FOLDER}"
        named = tuple(f"{folder}/{name}" for name in fresh[:REJECT_FILES_MAX])
        so_far = self.so_far(head, counted)
        reasons = by_kind(LocalDisk(self.job.out), fresh)
        if self.job.follow and sum(reasons.values()) == so_far.rejected:
            so_far = replace(so_far, late=reasons.get("late", 0))  # and not what is ahead
        return replace(
            so_far, rejects=named, reject_files=len(fresh), reasons=tuple(reasons.items())
        )


def nothing_done(job: Job) -> Prepared:
    """Of a job that the journal has already."""
    return Prepared(
        journal=job.out,
        rows_in=0,
        written=0,
        rejected=0,
        dropped=0,
        late=0,
        seconds=0.0,
        partitions=job.layout.partitions,
        files=len(job.files.paths),
        already=True,
    )


def _reject_files(job: Job) -> list[str]:
    return LocalDisk(job.out).list(rejects.FOLDER)
