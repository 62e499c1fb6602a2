"""Tallies: how often each id has seen each value.

    entries     0: (id 7, "a")   1: (id 7, "b")   2: (id 9, "a")      a KeyTable
    counts            3                1                4
    of 7     -> 0, 1                                                  Chains

What a holistic aggregate has to keep: no constant bounds it. Since values are counted, one that is
taken out again leaves no trace: holistic and still differential ("pseudo-differential", 6.2.2).

In sub-aggregates an id's values stand in a list, and their counts in another.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from gapless.kernels import Chains, KeyTable
from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.kernels.scatter import add_at, count_at
from gapless.operators.aggregates.parts import Part
from gapless.operators.aggregates.plain import plain_type
from gapless.operators.order import by_time_and_payload
from gapless.protocol.columns import take
from gapless.protocol.errors import Bug, Misuse


class Tally(Part):
    """Counts by id and value. Values are plain (`plain.py`), and never null."""

    def __init__(self, t: pa.DataType) -> None:
        if not plain_type(t).equals(t):
            raise Misuse(f"a tally takes plain values, not {t}")
        self._keys = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("value", t)])
        self.fields = [
            pa.field("values", pa.list_(t), nullable=False),
            pa.field("counts", pa.list_(pa.int64()), nullable=False),
        ]
        self._table = KeyTable(self._keys)
        self._counts = Column(0)  # by entry
        self._of_id = Chains()  # id -> its entries
        self._sizes = Column(0)  # by id: how many entries it has

    def fit(self, capacity: int) -> None:
        """Makes room."""
        self._sizes.fit(capacity)

    def add(self, ids: Ids, values: pa.Array) -> None:
        """Each value again for its id."""
        entries = self._enter(ids, values)  # first, for it may replace the counts by larger ones
        count_at(self._counts.values, entries)

    def _enter(self, ids: Ids, values: pa.Array) -> Ids:
        """The entry of each pair, which then has a count to get."""
        entries, first = self._table.intern(self._pairs(ids, values))
        new = first.nonzero()[0]
        if len(new):
            self._counts.fit(self._table.capacity)
            self._of_id.add(ids[new], entries[new])
            count_at(self._sizes.values, ids[new])
        return entries

    def _pairs(self, ids: Ids, values: pa.Array) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pa.array(ids), values], schema=self._keys)

    def entries(self, ids: Ids) -> tuple[Ids, pa.Array, Ids]:
        """All that these ids have seen: positions in `ids`, ascending, values, and counts."""
        positions, entries = self._of_id.probe(ids)
        return positions, self._table.rows(entries).column(1), self._counts.values[entries]

    def in_order(self, ids: Ids) -> tuple[Ids, pa.Array, Ids]:
        """The same, of each position the values in ascending order (`operators/order.py`)."""
        positions, values, counts = self.entries(ids)
        batch = pa.RecordBatch.from_arrays([values], ["value"])
        order = by_time_and_payload(positions, np.zeros(len(positions), np.int64), batch)
        return positions[order], take(values, pa.array(order)), counts[order]

    def sizes(self, ids: Ids) -> Ids:
        """How many different values these ids have seen."""
        sizes: Ids = self._sizes.values[ids]
        return sizes

    def take(self, ids: Ids) -> list[pa.Array]:
        """Lists of values, and of counts."""
        _, values, counts = self.entries(ids)
        offsets = np.zeros(len(ids) + 1, np.int32)
        np.cumsum(self._sizes.values[ids], out=offsets[1:])
        places = pa.array(offsets)
        return [
            pa.ListArray.from_arrays(places, column, type=field.type)
            for column, field in zip((values, pa.array(counts)), self.fields, strict=True)
        ]

    def merge(self, ids: Ids, columns: Sequence[pa.Array], subtract: bool = False) -> None:
        """Adds counts, or subtracts them and forgets values of which none are left."""
        values, counts = (column.flatten() for column in columns)
        owners = np.repeat(ids, columns[0].value_lengths().to_numpy())
        if not subtract:
            entries = self._enter(owners, values)
            add_at(self._counts.values, entries, counts.to_numpy())
            return
        entries = self._table.find(self._pairs(owners, values))
        if len(entries) and entries.min() < 0:
            raise Misuse("a sub-aggregate is subtracted that was not added")
        add_at(self._counts.values, entries, counts.to_numpy(), True)
        gone = (self._counts.values[entries] == 0).nonzero()[0]
        add_at(self._sizes.values, owners[gone], np.ones(len(gone), np.int64), True)
        self._forget(entries[gone])

    def clear(self, ids: Ids) -> None:
        """Back to no values."""
        _, entries = self._of_id.probe(ids)
        self._sizes.values[ids] = 0
        self._forget(entries)

    def _forget(self, entries: Ids) -> None:
        if not len(entries):
            return
        self._of_id.remove(entries)
        self._table.release(entries)
        self._counts.values[entries] = 0
        self._counts.fit(self._table.capacity)

    @property
    def nbytes(self) -> int:
        """Bytes of the entries and of what is kept by id."""
        tables = int(self._table.nbytes) + int(self._of_id.nbytes)
        return tables + self._counts.nbytes + self._sizes.nbytes

    def validate(self) -> None:
        """Every entry is counted, once in its chain and once in its id's size."""
        self._table.validate()
        self._of_id.validate()
        counts, sizes = self._counts.values, self._sizes.values
        live = int(np.count_nonzero(counts))
        if counts.min() < 0 or sizes.min() < 0:
            raise Bug("a tally below 0: more was subtracted than had been added")
        if not live == len(self._table) == len(self._of_id) == int(sizes.sum()):
            raise Bug(
                f"{live} entries counted, {len(self._table)} in the table, {len(self._of_id)} in "
                f"chains, {int(sizes.sum())} by id"
            )


def at_rank(sizes: Ids, counts: Ids, q: float) -> Ids:
    """Where, of each id that has values, the one of rank floor(q (n - 1)) of its n stands.

    Entries are in order: of the first id that has any its `sizes[0]` values, ascending, each there
    so often as `counts` says; then those of the next.
    """
    sizes = sizes[sizes > 0]
    if not len(sizes):
        return sizes
    begins, ends = np.cumsum(sizes) - sizes, np.cumsum(counts)
    before = np.repeat((ends - counts)[begins], sizes)
    rows = np.add.reduceat(counts, begins)
    ranks = np.floor(q * (rows - 1).astype(np.float64)).astype(np.int64)
    below = ends - before <= np.repeat(ranks, sizes)
    places: Ids = begins + np.add.reduceat(below, begins, dtype=np.int64)
    return places
