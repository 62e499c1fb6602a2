"""FrequentValues: at most `most` values, among them each that came oftener than N / (most + 1).

    most 2      a a a b b c d        counts  a:3 b:2 c:1 d:1
                                     less the third largest, 1:  a:2 b:1     c and d are forgotten

Misra and Gries (Finding repeated elements, 1982), for many rows at a time (Agarwal et al.,
Mergeable summaries, 2012): once there are more than `most` counts, the largest of those beyond is
taken from all, and what is not above 0 goes. Each time most + 1 counts lose as much as one, so no
count is more than N / (most + 1) too low, and a value that came oftener is there. That holds of any
values, also of those that somebody has chosen. Equal counts go or stay together, so the order of
rows that are added at once does not show; in which lots they are added may.

A value is also held while a complete pane has it as a candidate: so a value is stored once, with
its hash.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.kernels.scatter import count_at
from gapless.operators.aggregates.hashing import Hashes, hash_column
from gapless.protocol.columns import take_rows
from gapless.protocol.errors import Bug


class FrequentValues:
    """Values as ids, with the counts of the open pane, and by how many complete ones each is
    held.
    """

    def __init__(self, schema: pa.Schema, most: int) -> None:
        self._most = most
        self._table = KeyTable(schema)
        self._counts = Column(0)
        self._holders = Column(0)
        self._hashes = Column(0)  # as they are, in int64

    @property
    def schema(self) -> pa.Schema:
        """Of the values."""
        return self._table.schema

    # -- the open pane ------------------------------------------------------------------------

    def add(self, rows: pa.RecordBatch) -> tuple[Ids, Ids]:
        """Counts rows; the different values among them, and how often each is. `cut` is to
        follow.
        """
        ids = self._ids(rows)
        sizes = np.zeros(self._table.capacity, np.int64)
        count_at(sizes, ids)
        here = sizes.nonzero()[0]
        sizes = sizes[here]
        self._counts.values[here] += sizes
        return here, sizes

    def _ids(self, rows: pa.RecordBatch) -> Ids:
        ids, is_new = self._table.intern(rows)
        self._fit()
        new = is_new.nonzero()[0]
        if len(new):
            hashes = hash_column(take_rows(rows, new).to_struct_array())
            self._hashes.values[ids[new]] = hashes.view(np.int64)
        return ids

    def cut(self) -> None:
        """Leaves `most` values, or fewer."""
        live = self.counted
        if len(live) <= self._most:
            return
        counts = self._counts.values[live]
        beyond = len(live) - self._most - 1  # its place among them, the smallest first
        counts = np.maximum(counts - np.partition(counts, beyond)[beyond], 0)
        self._counts.values[live] = counts
        self._release(live[counts == 0])

    @property
    def counted(self) -> Ids:
        """The values of the open pane."""
        found: Ids = self._counts.values.nonzero()[0]
        return found

    def close(self, kept: Ids) -> None:
        """The pane is complete: it holds these of its values, and counts begin anew."""
        live = self.counted
        self._counts.values[live] = 0
        self.hold(kept)
        self._release(live)

    # -- complete panes -----------------------------------------------------------------------

    def hold(self, ids: Ids) -> None:
        """A complete pane has these as candidates, each once."""
        self._holders.values[ids] += 1

    def drop(self, ids: Ids) -> None:
        """It has them no more."""
        self._holders.values[ids] -= 1
        self._release(ids)

    @property
    def held(self) -> Ids:
        """Those that some complete pane has."""
        found: Ids = self._holders.values.nonzero()[0]
        return found

    def _release(self, ids: Ids) -> None:
        """Forgets those of these that nobody has."""
        gone = ids[(self._counts.values[ids] == 0) & (self._holders.values[ids] == 0)]
        if len(gone):
            self._table.release(gone)
            self._fit()

    def _fit(self) -> None:
        for column in (self._counts, self._holders, self._hashes):
            column.fit(self._table.capacity)

    # -- values -------------------------------------------------------------------------------

    def hashes(self, ids: Ids) -> Hashes:
        """Of values."""
        return self._hashes.values[ids].view(np.uint64)

    def rows(self, ids: Ids) -> pa.RecordBatch:
        """The values themselves."""
        return self._table.rows(ids)

    def counts(self, ids: Ids) -> Ids:
        """What is left of their counts in the open pane."""
        found: Ids = self._counts.values[ids]
        return found

    @property
    def holders(self) -> Ids:
        """By id, how many complete panes have it."""
        found: Ids = self._holders.values[: self._table.capacity]
        return found

    @property
    def known(self) -> Ids:
        """All ids."""
        found: Ids = ((self._counts.values > 0) | (self._holders.values > 0)).nonzero()[0]
        return found

    @property
    def capacity(self) -> int:
        """One above the largest id."""
        return self._table.capacity

    def restore(self, rows: pa.RecordBatch, counts: Ids) -> Ids:
        """The ids of values that come back with their counts in the open pane."""
        ids = self._ids(rows)
        self._counts.values[ids] = counts
        return ids

    def __len__(self) -> int:
        return len(self._table)

    @property
    def nbytes(self) -> int:
        """Bytes of the values, and of what is known of each."""
        columns = (self._counts, self._holders, self._hashes)
        return int(self._table.nbytes) + sum(column.nbytes for column in columns)

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._table.validate()
        counts, holders = self._counts.values, self._holders.values
        if min(int(counts.min()), int(holders.min())) < 0:
            raise Bug("a value has been counted, or is held, less than never")
        if np.count_nonzero(counts) > self._most:
            raise Bug(f"{np.count_nonzero(counts)} values are counted, {self._most} are the most")
        if len(self.known) != len(self._table):
            raise Bug("a value is known that nobody has")
