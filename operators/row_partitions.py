"""The partitions of a window that counts rows, and the groups of each.

    partition_by src, group by src, dst      group (A, x) and group (A, y) are of partition A

Where both are the same columns a group is its partition. A partition is never forgotten: how many
rows it has had decides which windows its next ones are in.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.operators.groups import Groups
from gapless.operators.state import State, table
from gapless.protocol.errors import Bug, DecodeError, Misuse

_COUNT = "_count"


class Partitions:
    """Ids of groups and of partitions, and how many rows each partition has had."""

    def __init__(
        self, rows: pa.Schema, partition_by: Sequence[str], group_by: Sequence[str]
    ) -> None:
        if not {*partition_by} <= {*group_by}:
            raise Misuse(
                f"window partition_by={', '.join(partition_by)}: answers are by partition, so "
                "group_by has its columns, too"
            )
        self.groups = Groups(rows, group_by)
        self.groups_are_partitions = {*partition_by} == {*group_by}
        self._own = self.groups if self.groups_are_partitions else Groups(rows, partition_by)
        self._of = Column(-1)  # by group its partition, where they are not the same
        self._counts = Column(0)

    def of(self, rows: pa.RecordBatch) -> tuple[Ids, Ids]:
        """The partition and the group of each row."""
        groups = self.groups.of(rows)
        if self.groups_are_partitions:
            return groups, groups
        partitions = self._own.of(rows)
        self._of.fit(self.groups.capacity)[groups] = partitions
        return partitions, groups

    def of_groups(self, groups: Ids) -> Ids:
        """The partition of each group."""
        return groups if self.groups_are_partitions else self._of.values[groups]

    @property
    def counts(self) -> Ids:
        """By partition, the rows that it has had; to be written to."""
        return self._counts.fit(self._own.capacity)

    @property
    def capacity(self) -> int:
        """One above the largest partition."""
        return self._own.capacity

    def release(self, groups: Ids) -> None:
        """Forgets groups that nothing is held of; partitions stay."""
        if not self.groups_are_partitions and len(groups):
            self._of.values[groups] = -1
            self.groups.release(groups)
            self._of.fit(self.groups.capacity)

    # -- as data ------------------------------------------------------------------------------

    def snapshot(self) -> pa.RecordBatch:
        """The partitions that have had rows, and how many."""
        ids = self.counts.nonzero()[0]
        columns = [pa.array(self.counts[ids]), *self._own.columns(ids)]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def restore(self, state: State, name: str) -> None:
        """Takes them back, before groups."""
        rows = table(state, name, self._schema)
        ids = self._own.intern(rows.columns[1:], rows.num_rows)
        counts = rows.column(0).to_numpy()
        if len(np.unique(ids)) < len(ids) or (len(counts) and int(counts.min()) < 1):
            raise DecodeError(f"snapshot.{name}", "a partition twice, or without rows", "each once")
        self.counts[ids] = counts

    def restored(self, groups: Ids) -> None:
        """Finds the partitions of groups that were taken back."""
        if self.groups_are_partitions or not len(groups):
            return
        names = self._own.schema.names
        columns = dict(zip(self.groups.schema.names, self.groups.columns(groups), strict=True))
        ids = self._own.intern([columns[name] for name in names], len(groups))
        self._of.fit(self.groups.capacity)[groups] = ids

    @property
    def _schema(self) -> pa.Schema:
        return pa.schema([pa.field(_COUNT, pa.int64(), nullable=False), *self._own.schema])

    # -- looking at it ------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of the tables and the counts."""
        own = 0 if self.groups_are_partitions else self._own.nbytes + self._of.nbytes
        return self.groups.nbytes + own + self._counts.nbytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self.groups.validate()
        self._own.validate()
        if int(self.counts.min()) < 0:
            raise Bug("a partition has had less than no rows")
