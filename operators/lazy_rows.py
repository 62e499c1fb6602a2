"""Rows that wait to be counted: the tuple buffer of section 6.3 of window-queries.

    put       A 7  B 7 | C 9 | A 8       copies, without what the aggregates do not read
    between   [8, 9)  A 8                 those of some time
    take      [8, 9)  A 8                 the same, and they are gone: A 7  B 7 | C 9

Rows stay as they were put, for all of them lie in a window or none does, mostly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids
from gapless.operators.pick import Picks
from gapless.protocol.columns import concat_batches
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Times
from gapless.protocol.schema import VS

PIECES_MAX = 64
"""More pieces become one: each is looked at whenever a window closes."""


class _Piece(NamedTuple):
    """Rows that were put at once, some."""

    times: Times
    rows: pa.RecordBatch
    low: int
    """The earliest time."""
    high: int
    """The latest."""


class LazyRows:
    """Rows and their times. A column of times among the rows is not kept twice."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._kept = [i for i, name in enumerate(schema.names) if name != VS]
        own = pa.schema([schema.field(i) for i in self._kept])
        self._picks = Picks(own)
        self._none = pa.RecordBatch.from_arrays([pa.nulls(0, t) for t in own.types], schema=own)
        self._pieces: list[_Piece] = []
        self._count = 0
        self.nbytes = 0
        """Bytes of all rows."""

    def __len__(self) -> int:
        return self._count

    def put(
        self, times: Times, rows: pa.RecordBatch, within: tuple[int, int] | None = None
    ) -> None:
        """Copies rows, for they are parts of larger batches. `within`: the earliest and the latest
        of their times.
        """
        if not len(times):
            return
        own = self._picked(rows.select(self._kept), np.arange(len(times)))
        self._add(_Piece(times.copy(), own, *(within or _ends(times))))
        if len(self._pieces) > PIECES_MAX:
            joined, own = self._joined(self._pieces)
            self._replace([_Piece(joined, own, *_ends(joined))])

    def _picked(self, rows: pa.RecordBatch, at: Ids) -> pa.RecordBatch:
        return self._picks.take(rows, at) if self._kept else self._none

    def _add(self, piece: _Piece) -> None:
        self._pieces.append(piece)
        self._count += len(piece.times)
        self.nbytes += piece.times.nbytes + int(piece.rows.nbytes)

    def _replace(self, pieces: list[_Piece]) -> None:
        self._pieces, self._count, self.nbytes = [], 0, 0
        for piece in pieces:
            self._add(piece)

    def _joined(self, pieces: list[_Piece]) -> tuple[Times, pa.RecordBatch]:
        if len(pieces) == 1:
            return pieces[0].times, pieces[0].rows
        times = np.concatenate([np.empty(0, np.int64), *(piece.times for piece in pieces)])
        some = self._kept and pieces
        return times, concat_batches([p.rows for p in pieces]) if some else self._none

    def _cut(self, low: int, end: int) -> tuple[list[_Piece], list[_Piece]]:
        """The pieces of times from `low` to below `end`, and the others."""
        inside, outside = [], []
        for piece in self._pieces:
            if low <= piece.low and piece.high < end:
                inside.append(piece)
            elif piece.high < low or piece.low >= end:
                outside.append(piece)
            else:
                here = (piece.times >= low) & (piece.times < end)
                for pieces, at in ((inside, here.nonzero()[0]), (outside, (~here).nonzero()[0])):
                    if len(at):
                        times = piece.times[at]
                        pieces.append(_Piece(times, self._picked(piece.rows, at), *_ends(times)))
        return inside, outside

    def _given(self, pieces: list[_Piece]) -> tuple[Times, pa.RecordBatch]:
        times, rows = self._joined(pieces)
        own = iter(rows.columns)
        columns = [pa.array(times) if name == VS else next(own) for name in self._schema.names]
        return times, pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def between(self, low: int = BEGIN, end: int = INF) -> tuple[Times, pa.RecordBatch]:
        """The rows of times from `low` to below `end`, and these times."""
        return self._given(self._cut(low, end)[0])

    def take(self, low: int, end: int) -> tuple[Times, pa.RecordBatch]:
        """The same; they wait no more."""
        inside, outside = self._cut(low, end)
        if inside:
            self._replace(outside)
        return self._given(inside)

    def forget_below(self, low: int) -> None:
        """Drops the rows before a time."""
        if any(piece.low < low for piece in self._pieces):
            self._replace(self._cut(low, INF)[0])

    def stretches(self) -> list[tuple[int, int]]:
        """The earliest and the latest time of each piece: all rows lie within one of these."""
        return [(piece.low, piece.high) for piece in self._pieces]

    @property
    def times(self) -> Times:
        """The times of all rows."""
        return self._joined(self._pieces)[0]

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        for times, rows, low, high in self._pieces:
            if self._kept and rows.num_rows != len(times):
                raise Bug("rows that wait are not as many as their times")
            if (low, high) != (times.min(), times.max()):
                raise Bug("rows that wait are of other times than is said")
        if self._count != sum(len(piece.times) for piece in self._pieces):
            raise Bug(f"{self._count} rows are said to wait")


def _ends(times: Times) -> tuple[int, int]:
    return int(times.min()), int(times.max())
