"""The partitions that groups are in: groups of fewer columns.

    groups        (A, x): 0   (A, y): 1   (B, x): 2        by src and dst
    partitions    A: 0        B: 1                         by src
    of            0 0 1

Where both have the same columns a group is a partition, and nothing is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.operators.groups import Groups
from gapless.protocol.errors import Bug


class Partitions:
    """Ids of partitions, for groups whose columns begin with those of the partition."""

    def __init__(self, groups: Groups, rows: pa.Schema, partition_by: Sequence[str]) -> None:
        self._groups = groups
        self.are_groups = len(groups.schema) == len(partition_by)
        """Whether each group is a partition of the same id."""
        self._known = groups if self.are_groups else Groups(rows, partition_by)
        self._columns = len(partition_by)
        self._of = Column(-1)  # by group
        self._sizes = Column(0)  # by partition: how many groups are in it

    def know(self, groups: Ids) -> None:
        """These groups are there from now on."""
        if self.are_groups:
            return
        of = self._of.fit(self._groups.capacity)
        new = groups[of[groups] < 0]
        if len(new):
            places = np.arange(len(new))
            of[new] = places
            new = new[of[new] == places]  # each once: its last place has been written
            columns = self._groups.columns(new)[: self._columns]
            of[new] = partitions = self._known.intern(columns, len(new))
            np.add.at(self._sizes.fit(self.capacity), partitions, 1)

    def of(self, groups: Ids) -> Ids:
        """The partitions of groups."""
        return groups if self.are_groups else self._of.values[groups]

    def groups(self, partitions: Ids) -> Ids:
        """All groups of some partitions, a look at all that are known."""
        if self.are_groups:
            return partitions
        chosen = np.zeros(self.capacity + 1, np.bool_)  # the last is that of no group
        chosen[partitions] = True
        found: Ids = chosen[self._of.values].nonzero()[0]
        return found

    def release(self, partitions: Ids, groups: Ids) -> None:
        """Forgets groups, and those of the partitions that have none left."""
        if self.are_groups or not len(groups):
            return
        np.subtract.at(self._sizes.values, self._of.values[groups], 1)
        self._of.values[groups] = -1
        self._known.release(partitions[self._sizes.values[partitions] == 0])

    @property
    def capacity(self) -> int:
        """One above the largest id."""
        return self._known.capacity

    @property
    def nbytes(self) -> int:
        """Bytes of what is kept beside the groups."""
        if self.are_groups:
            return 0
        return self._known.nbytes + self._of.nbytes + self._sizes.nbytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        if self.are_groups:
            return
        self._known.validate()
        sizes = np.bincount(
            self._of.values[self._of.values >= 0], minlength=len(self._sizes.values)
        )
        if not np.array_equal(sizes, self._sizes.values):
            raise Bug("a partition has another number of groups than was counted")
        if self._columns and np.count_nonzero(sizes) != len(self._known):
            raise Bug(
                f"{np.count_nonzero(sizes)} partitions have groups, {len(self._known)} are known"
            )
