"""A frame's rows in terms of live keys, for r4: what numpy can do at once to all of them.

frame                       ids   new   settled
ins((6,A),20)                0     x
ins((3,B),9)                             x        below the output's stable, and no such key
ins((6,A),25)                0                    the same key: it comes in the second round
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gapless.kernels.columns import Column
from gapless.merge.keys import Ids, Keys, positions
from gapless.protocol.elements import INF
from gapless.protocol.frame import Frame, Mask, Times
from gapless.protocol.schema import StreamSchema

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
        order = np.argsort(self.ids, kind="stable")
        grouped = self.ids[order]
        starts = positions(np.r_[True, grouped[1:] != grouped[:-1]])
        sizes = np.diff(np.r_[starts, len(grouped)])
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order)) - np.repeat(starts, sizes)
        return [positions(rank == r) for r in range(int(sizes.max()))]

    def __getitem__(self, some: Ids) -> Rows:
        """Some of the rows, of which no two have one key."""
        return Rows(
            self.ids[some],
            NONE,
            self.vs[some],
            self.ve[some],
            self.is_insert[some],
            self.was[some],
            self.places(some),
            NONE,
            False,
        )

    def places(self, rows: Ids) -> Ids:
        """Positions in the frame of some of the rows."""
        return rows if self.position is None else self.position[rows]


class StartedKeys(Keys):
    """Live keys with their starts by id; INF where an id is free."""

    def __init__(self, schema: StreamSchema) -> None:
        super().__init__(schema)
        self.vs = Column(INF)
        self._scratch = np.empty(0, np.int64)  # by id, for `_repeats`

    def rows_of(self, frame: Frame, stable: int) -> Rows:
        """The rows of a frame that have an id once new keys have theirs; their starts are there."""
        ids, first = self.intern(frame, stable)
        new = positions(first)
        rows = Rows(ids, new, frame.vs, frame.ve, frame.is_insert, frame.was, None, NONE, False)
        if np.minimum.reduce(ids, initial=0) < 0:
            rows = self._without_settled(rows, first)
        if len(new):
            self.vs.fit(self.capacity)[rows.ids[rows.new]] = rows.vs[rows.new]
        rows.repeats = len(rows.new) < len(rows.ids) and self._repeats(rows.ids)
        return rows

    @staticmethod
    def _without_settled(rows: Rows, first: Mask) -> Rows:
        here = positions(rows.ids >= 0)
        some = rows[here]
        some.new = positions(first[here])
        some.settled = positions(rows.ids < 0)
        return some

    def _repeats(self, ids: Ids) -> bool:
        if len(self._scratch) < self.capacity:
            self._scratch = np.empty(len(self.vs.values), np.int64)
        position = np.arange(len(ids))
        self._scratch[ids] = position
        return bool(np.count_nonzero(self._scratch[ids] != position))

    def release(self, ids: Ids) -> None:
        """Frees ids; the caller has reset its own arrays."""
        super().release(ids)
        self.vs.values[ids] = INF
        self.vs.fit(self.capacity)
        if len(self._scratch) > 4 * len(self.vs.values):
            self._scratch = np.empty(len(self.vs.values), np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes of state."""
        return super().nbytes + self.vs.nbytes + int(self._scratch.nbytes)
