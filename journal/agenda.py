"""What a reader has still to read: the facts of commits, one commit after another.

    commit 16   segment a, partitions 0 and 3       read in the order of its records
    commit 17   segments b, c: partitions 0, 3      each with its own stables: read side by side
    commit 18   (no rows) stable 17:30:05

Facts are columns, and stay so: of a journal of ten thousand segments only those are looked at one
by one that are read next. What is not wanted, for its partition or for its times, is passed over
unread, and counts as read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.journal.facts import Fact, facts_list
from gapless.protocol.elements import BEGIN

Offsets = npt.NDArray[np.int64]


class Group(NamedTuple):
    """What one commit has for us; without facts, what some that have nothing promise."""

    stable: int
    """Of all partitions, once it is read."""
    by_partition: bool
    facts: list[Fact]


class Agenda:
    """The facts of commits that were not read yet."""

    def __init__(self, facts: pa.RecordBatch, wanted: Sequence[int], partitions: int) -> None:
        """All facts that the journal has; `wanted` are those of its partitions that are read."""
        self._wanted = np.zeros(partitions, np.bool_)
        self._wanted[wanted] = True
        self._from = BEGIN  # rows before it are not needed
        self._at = 0
        self._read_to = 0  # the last commit taken
        self.replace(facts)

    def replace(self, facts: pa.RecordBatch) -> None:
        """All facts that the journal has now; those of commits already taken are left out."""
        self._facts = facts
        columns = ("commit", "partition", "first", "rows", "largest", "stable")
        self._columns = {name: facts.column(name).to_numpy() for name in columns}
        self._at = int(np.searchsorted(self._columns["commit"], self._read_to, side="right"))

    def skip_before(self, t: int) -> None:
        """Segments whose rows are all before t are passed over from now on."""
        self._from = max(self._from, t)

    def next(self, read: Offsets) -> Group | None:
        """The next commit that has rows for us, or what is promised by those before it.

        `read` has the offset of the next row of each partition; it is moved over what is passed
        over.
        """
        commits, at = self._columns["commit"], self._at
        if at == len(commits):
            return None
        wanted = self._needed(at, read)
        i = int(wanted.argmax())
        if not wanted[i]:
            return self._pass_over(len(commits), read)
        first = int(np.searchsorted(commits, commits[at + i]))
        if first > at:
            return self._pass_over(first, read)
        end = int(np.searchsorted(commits, commits[at], side="right"))
        rows = wanted[: end - at].nonzero()[0] + at
        self._pass_over(end, read, but=rows)
        facts = self._listed(rows)
        return Group(facts[-1].stable, facts[-1].by_partition, facts)

    def _needed(self, at: int, read: Offsets) -> npt.NDArray[np.bool_]:
        c = {name: column[at:] for name, column in self._columns.items()}
        needed: npt.NDArray[np.bool_] = self._wanted[c["partition"]] & (c["rows"] > 0)
        needed &= c["largest"] >= self._from
        needed &= c["first"] + c["rows"] > read[c["partition"]]
        return needed

    def _pass_over(self, end: int, read: Offsets, but: Offsets | None = None) -> Group:
        passed = np.ones(end - self._at, np.bool_)
        if but is not None:
            passed[but - self._at] = False
        c = {name: column[self._at : end][passed] for name, column in self._columns.items()}
        np.maximum.at(read, c["partition"], c["first"] + c["rows"])
        self._at = end
        self._read_to = int(self._columns["commit"][end - 1])
        return Group(int(self._columns["stable"][end - 1]), False, [])

    def sealed(self, segment: str) -> list[Fact]:
        """What a commit that was not taken yet says of a segment; nothing where none does."""
        names = self._facts.column("segment").slice(self._at)
        same = pc.equal(names, segment).to_numpy(zero_copy_only=False)
        return self._listed(same.nonzero()[0] + self._at)

    def _listed(self, rows: Offsets) -> list[Fact]:
        """The facts in these rows, which mostly stand together: a slice costs next to nothing."""
        if not len(rows):
            return []
        first = int(rows[0])
        if int(rows[-1]) - first < len(rows):
            return facts_list(self._facts.slice(first, len(rows)))
        return facts_list(self._facts.take(pa.array(rows)))
