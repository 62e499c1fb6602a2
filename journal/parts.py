"""The parts of a journal that retention looks at, as columns: one a partition of each segment.

Segments of several partitions are one file with several parts: it goes when all of them have.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Parts:
    """Facts that have rows, in the order of commits; `file` is an index into `names`."""

    commit: Ints
    partition: Ints
    first: Ints
    rows: Ints
    end: Ints
    """Behind the last row."""
    largest: Ints
    file: Ints
    age: Ints
    """By file: in which order they go where the oldest are to go."""
    names: list[str]
    file_bytes: Ints
    has_rows: Mask
    """Which facts are parts."""

    @staticmethod
    def of(facts: pa.RecordBatch) -> Parts:
        """The parts that facts name."""
        has_rows = facts.column("rows").to_numpy() > 0
        facts = facts.filter(pa.array(has_rows))
        names = ("commit", "partition", "first", "rows", "largest", "bytes")
        commit, partition, first, rows, largest, size = (
            facts.column(name).to_numpy() for name in names
        )
        coded = facts.column("segment").dictionary_encode()
        file = coded.indices.to_numpy().astype(np.int64)
        file_bytes = np.zeros(len(coded.dictionary), np.int64)
        file_bytes[file] = size
        alone = facts.column("by_partition").to_numpy(zero_copy_only=False)
        age = np.zeros(len(file_bytes), np.int64)
        np.maximum.at(age, file, _ages(commit, partition, largest, alone))
        return Parts(
            commit,
            partition,
            first,
            rows,
            first + rows,
            largest,
            file,
            age,
            coded.dictionary.to_pylist(),
            file_bytes,
            has_rows,
        )

    @property
    def all(self) -> Mask:
        """Every part."""
        return np.ones(len(self.rows), np.bool_)

    def of_facts(self, mask: Mask) -> Mask:
        """Parts as facts."""
        facts = np.zeros(len(self.has_rows), np.bool_)
        facts[self.has_rows] = mask
        return facts

    def leading(self, mask: Mask) -> Mask:
        """Of each partition those of `mask` that have none before them that is not in it."""
        order = np.argsort(self.partition, kind="stable")
        ends, starts = _ends_before(~mask[order], self.partition[order])
        leading = np.zeros(len(mask), np.bool_)
        leading[order] = ends == starts
        return leading

    def whole(self, mask: Mask) -> Ints:
        """The files that have all their parts in `mask`."""
        others = np.bincount(self.file[~mask], minlength=len(self.names))
        return np.flatnonzero(others == 0)

    def files(self, mask: Mask) -> int:
        """How many files have a part in `mask`."""
        return len(np.unique(self.file[mask]))

    def down_to(self, keep_bytes: int, gone: Mask, may_go: Mask) -> Mask:
        """What has gone once the oldest files that may go have, too, down to so many bytes."""
        excess = int(self.file_bytes.sum() - self.file_bytes[self.whole(gone)].sum()) - keep_bytes
        if excess <= 0:
            return gone
        candidates = self._whole_files(may_go | gone)
        candidates = np.setdiff1d(candidates, self.whole(gone))
        candidates = candidates[np.argsort(self.age[candidates])]
        sizes = np.cumsum(self.file_bytes[candidates])
        picked = candidates[: int(np.searchsorted(sizes, excess)) + 1]
        return gone | np.isin(self.file, picked)

    def _whole_files(self, may_go: Mask) -> Ints:
        """The files that may go with all their parts, each of them leading."""
        while True:
            files = self.whole(may_go)
            inside = self.leading(may_go & np.isin(self.file, files))
            if (inside == may_go).all():
                return files
            may_go = inside


def _ends_before(bad: Mask, partition: Ints) -> tuple[Ints, Ints]:
    """By row of sorted partitions: how many are bad up to it, and before its partition."""
    count = np.cumsum(bad, dtype=np.int64)
    is_first = np.ones(len(bad), np.bool_)
    is_first[1:] = partition[1:] != partition[:-1]
    starts = np.maximum.accumulate(np.where(is_first, np.arange(len(bad)), 0))
    return count, count[starts] - bad[starts]


def _ages(commit: Ints, partition: Ints, largest: Ints, alone: Mask) -> Ints:
    """The order in which parts go: by commit; in one whose partitions stand alone by time, so that
    they go side by side, else as they were written.
    """
    rank = np.unique(largest, return_inverse=True)[1].astype(np.int64)
    order = np.lexsort((np.arange(len(commit)), partition, commit))
    is_next = np.zeros(len(commit), np.bool_)
    c, p = commit[order], partition[order]
    is_next[1:] = (c[1:] == c[:-1]) & (p[1:] == p[:-1])
    group = np.cumsum(~is_next) * (len(commit) + 1)
    reached = np.zeros(len(commit), np.int64)  # the largest time of the partition up to here
    reached[order] = np.maximum.accumulate(group + rank[order]) - group
    by_time = np.where(alone, reached, 0)
    ages = np.empty(len(commit), np.int64)
    ages[np.lexsort((np.arange(len(commit)), by_time, commit))] = np.arange(len(commit))
    return ages
