"""Live keys of r3 and r4: (vs, payload) as ids, and the rows of a frame in terms of them.

    id   vs   payload
     0    6   A            ids are dense and recycled; vs is INF where an id is free
     1    7   B

A row whose `vs` lies below the output's stable and whose key has no id is about something that has
been settled and forgotten: it is set apart (`Rows.settled`). Every other row gets an id.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.kernels.columns import Column
from gapless.protocol.elements import INF
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame, Mask, Times
from gapless.protocol.schema import VS, StreamSchema

Ids = npt.NDArray[np.int64]

NONE = np.empty(0, np.int64)


@dataclass(slots=True)
class Rows:
    """The rows of a frame that have an id, in order."""

    ids: Ids
    new: Ids
    """Rows, by their place here, whose key is new."""
    vs: Times
    ve: Times
    is_insert: Mask
    was: Times
    position: Ids | None
    """Where in the frame each row stands; None where all rows are here."""
    settled: Ids
    """Positions of the rows that have none."""
    repeats: bool
    """Some key stands here more than once."""

    def __len__(self) -> int:
        return len(self.ids)

    def rounds(self) -> list[Ids]:
        """The rows as groups without a repeated key: first all first occurrences, and so on."""
        if not self.repeats:
            return [np.arange(len(self.ids))]
        order = np.argsort(self.ids, kind="stable")
        grouped = self.ids[order]
        starts = positions(np.r_[True, grouped[1:] != grouped[:-1]])
        sizes = np.diff(np.r_[starts, len(grouped)])
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order)) - np.repeat(starts, sizes)
        return [positions(rank == r) for r in range(int(sizes.max()))]

    def places(self, rows: Ids) -> Ids:
        """Positions in the frame of some of the rows."""
        return rows if self.position is None else self.position[rows]


def positions(mask: npt.NDArray[np.bool_]) -> Ids:
    """Where a mask is true; `np.flatnonzero` without its wrapper, which costs as much again."""
    return mask.nonzero()[0]


class Keys:
    """The live keys, and the columns that hold something for each of them."""

    def __init__(self, schema: StreamSchema) -> None:
        self.schema = pa.schema([schema.arrow.field(VS), *schema.payload])
        self.vs = Column(INF)
        self._table = KeyTable(self.schema)
        self._columns = [0, *range(3, 3 + len(schema.payload))]  # of a frame's batch
        self._scratch = np.empty(0, np.int64)  # by id, for `_repeats`
        self._counting = np.empty(0, np.int64)  # 0, 1, 2, ... as far as frames are long

    @property
    def capacity(self) -> int:
        """One above the largest live id."""
        return int(self._table.capacity)

    def of(self, frame: Frame) -> pa.RecordBatch:
        """The keys of a frame's rows."""
        return frame.batch.select(self._columns)

    def intern(self, frame: Frame, stable: int) -> Rows:
        """Ids for the rows of a frame. New ids have their `vs`, nothing else."""
        keys, vs = self.of(frame), frame.vs
        settled = NONE
        if len(vs) and np.maximum.reduce(vs) < stable:
            # A laggard: what it says may find a key, not make one.
            ids, new = self._table.find(keys), NONE
            if np.minimum.reduce(ids) < 0:
                settled = positions(ids < 0)
        else:
            ids, first = self._table.intern(keys)
            new = positions(first)
            late = new[vs[new] < stable]
            if len(late):
                self._table.release(ids[late])
                settled = positions(np.isin(ids, ids[late]))
        rows = Rows(ids, new, vs, frame.ve, frame.is_insert, frame.was, None, settled, False)
        if len(settled):
            rows = self._without_settled(rows)
        if len(rows.new):
            self.vs.fit(self.capacity)[rows.ids[rows.new]] = rows.vs[rows.new]
        rows.repeats = len(rows.new) < len(rows.ids) and self._repeats(rows.ids)
        return rows

    @staticmethod
    def _without_settled(rows: Rows) -> Rows:
        live = np.ones(len(rows.ids), np.bool_)
        live[rows.settled] = False
        here = positions(live)
        new = np.zeros(len(rows.ids), np.bool_)
        new[rows.new] = True
        return Rows(
            rows.ids[here],
            positions(new[here]),
            rows.vs[here],
            rows.ve[here],
            rows.is_insert[here],
            rows.was[here],
            here,
            rows.settled,
            False,
        )

    def _repeats(self, ids: Ids) -> bool:
        if len(self._scratch) < self.capacity:
            self._scratch = np.empty(len(self.vs.values), np.int64)
        if len(self._counting) < len(ids):
            self._counting = np.arange(2 * len(ids))
        position = self._counting[: len(ids)]
        self._scratch[ids] = position
        return bool(np.count_nonzero(self._scratch[ids] != position))

    def rows(self, ids: Ids) -> pa.RecordBatch:
        """`_vs` and the payload of live ids."""
        return self._table.rows(ids)

    def release(self, ids: Ids) -> None:
        """Frees ids; the caller has reset its own columns."""
        self._table.release(ids)
        self.vs.values[ids] = INF
        self.vs.fit(self.capacity)
        if len(self._scratch) > 4 * len(self.vs.values):
            self._scratch = np.empty(len(self.vs.values), np.int64)

    def __len__(self) -> int:
        return len(self._table)

    @property
    def nbytes(self) -> int:
        """Bytes of state."""
        return int(self._table.nbytes) + self.vs.nbytes + int(self._scratch.nbytes)

    def validate(self) -> None:
        """Free ids have no start, live ones have theirs."""
        self._table.validate()
        live = positions(self.vs.values < INF)
        if len(live) != len(self._table):
            raise Bug(f"{len(live)} live starts, {len(self._table)} live keys")
        if len(live) and (self.rows(live).column(0).to_numpy() != self.vs.values[live]).any():
            raise Bug("a key's start is not that of its id")
