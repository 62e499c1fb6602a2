"""LMerge, case R2: inserts only, in order; ties in any order, and equal events may repeat.

    newest = 8       (payload, ve)   out   input 0   input 1
                     (A, 9)            1         1         0
                     (B, 9)            1         1         1
    input 1: ins(A,8,9) ins(C,8,9)  ->  ins(C,8,9)

The paper's hash table of the payloads at the newest start, here a `KeyTable`, with counts in place
of mere presence: an element goes out when its input has now said it more often than it was put
out. Rows behind the newest start are all new; only those of the last start are hashed.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.kernels.columns import Column
from gapless.merge.divergence import Divergences
from gapless.merge.in_order import InOrder
from gapless.merge.policy import Policy
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame, Times
from gapless.protocol.schema import VE, StreamSchema


class R2(InOrder):
    """Ties in any order, matched by content."""

    name = "r2"

    def __init__(self, schema: StreamSchema, policy: Policy, divergences: Divergences) -> None:
        super().__init__(schema, policy, divergences)
        self._key_schema = pa.schema([schema.arrow.field(VE), *schema.payload])
        self._counts: dict[int, Column] = {}
        self._clear()

    def _clear(self) -> None:
        """A new newest start: nothing has been said at it."""
        self._table = KeyTable(self._key_schema)
        self._out = Column(0)
        self._counts = {number: Column(0) for number in self._last}

    def attach(self, number: int) -> None:
        """Opens the state of an input."""
        super().attach(number)
        self._counts[number] = Column(0)

    def detach(self, number: int) -> None:
        """Frees the state of an input; what it led to stays counted."""
        super().detach(number)
        del self._counts[number]

    def _pass(self, number: int, frame: Frame, vs: Times) -> list[Frame]:
        n = len(vs)
        start = int(vs.searchsorted(max(self.newest, self.stable)))
        if start == n:
            return []
        out = []
        if vs[start] == self.newest:
            behind = n if vs[-1] == self.newest else int(vs.searchsorted(self.newest + 1))
            out = self._tied(number, frame.slice(start, behind - start))
            start = behind
        if start < n:
            out.append(frame.slice(start) if start else frame.with_stable(None))
            self.newest = int(vs[-1])
            self._clear()
            self._tied(number, frame.slice(max(start, int(vs.searchsorted(self.newest)))))
        return out

    def _tied(self, number: int, rows: Frame) -> list[Frame]:
        """Counts rows at the newest start; gives those that go out."""
        columns = rows.batch.columns
        keys = pa.RecordBatch.from_arrays([columns[1], *columns[3:]], schema=self._key_schema)
        ids, _ = self._table.intern(keys)
        capacity = self._table.capacity
        counts, out = self._counts[number].fit(capacity), self._out.fit(capacity)
        order = np.argsort(ids, kind="stable")
        grouped = ids[order]
        starts = np.flatnonzero(np.r_[True, grouped[1:] != grouped[:-1]])
        rank = np.empty(len(ids), np.int64)
        rank[order] = np.arange(len(ids)) - np.repeat(starts, np.diff(np.r_[starts, len(ids)]))
        new = counts[ids] + rank + 1 > out[ids]
        counts += np.bincount(ids, minlength=len(counts))
        np.maximum(out, counts, out=out)
        if not new.any():
            return []
        return [rows.with_stable(None) if new.all() else rows.take(new)]

    def __len__(self) -> int:
        return len(self._table)

    @property
    def nbytes(self) -> int:
        """Bytes of state: the table of the newest start, and the counts."""
        columns = (self._out, *self._counts.values())
        return super().nbytes + int(self._table.nbytes) + sum(c.nbytes for c in columns)

    def validate(self) -> None:
        """No input has said more than was put out."""
        super().validate()
        self._table.validate()
        for number, column in self._counts.items():
            n = min(len(column.values), len(self._out.values))
            if (column.values[:n] > self._out.values[:n]).any() or column.values[n:].any():
                raise Bug(f"input {number} has said more than was put out")

    def live(self) -> Frame:
        """What was put out at the newest start."""
        return self._tell(self._out)

    def told(self, number: int) -> Frame:
        """What an input has said at the newest start."""
        return self._tell(self._counts[number])

    def _tell(self, column: Column) -> Frame:
        capacity = self._table.capacity
        ids = np.repeat(np.arange(capacity), column.fit(capacity)[:capacity])
        rows = self._table.rows(ids)
        ends = rows.column(0).to_numpy()
        starts = np.full(len(ids), self.newest, np.int64)
        return Frame.from_columns(self.schema, starts, ends, rows.columns[1:])

    def adopt_output(self, live: Frame) -> None:
        """Goes on behind the newest rows."""
        super().adopt_output(live)
        self._clear()
        newest = live.take(live.vs == self.newest)
        if len(newest):
            self._count(self._out, newest)

    def adopt_input(self, number: int, told: Frame) -> None:
        """Counts what the input said at the newest start."""
        super().adopt_input(number, told)
        newest = told.take(told.vs == self.newest)
        if len(newest):
            self._count(self._counts[number], newest)

    def _count(self, column: Column, rows: Frame) -> None:
        columns = rows.batch.columns
        keys = pa.RecordBatch.from_arrays([columns[1], *columns[3:]], schema=self._key_schema)
        ids, _ = self._table.intern(keys)
        values = column.fit(self._table.capacity)
        values += np.bincount(ids, minlength=len(values))
