"""What is said of all rows of one window together: the largest of them, those that are many.

    ins((A,5),10,15) ins((B,7),10,15) ins((C,2),10,15) stable(11)

    top 2 by n        ->  ins((B,7,1),10,15) ins((A,5,2),10,15) stable(11)
    heavy, share 0.4  ->  ins((B,7),10,15) stable(11)                   of 14 together

The rows of a window are those of one start, which end together too: answers of a windowed
aggregate, or the pieces of a `Bucket`. They are held until the input promises that the window has
all of them, and what is said then is final: inserts alone, in order, those of one window in an
order that their content decides. So a plan that ends here leads to LMerge's case r1 (LMerge, IV-D).

What is said of a window is a `Choice`'s: `Top`, `Heavy`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids
from gapless.operators.operator import (
    ANSWER_ROWS_MAX,
    Marks,
    Operator,
    Out,
    check_schema,
    joined,
)
from gapless.operators.row_bytes import RowBytes
from gapless.operators.state import FACTS, State, check_names, facts, read_facts, table
from gapless.protocol.columns import concat_batches, take_rows
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Bug, Misuse
from gapless.protocol.frame import Frame, Times
from gapless.protocol.schema import StreamSchema

THIN_ROWS_MIN = 1 << 16
"""Rows held before it is worth a look which of them can be chosen at all."""


class Choice(Protocol):
    """What is said of the rows of each window."""

    schema: StreamSchema
    """Of what is said."""

    def usable(self, frame: Frame) -> Frame:
        """The rows that something can be said of; the others go aside."""

    def choose(self, starts: Times, rows: pa.RecordBatch) -> tuple[Ids, list[pa.Array]]:
        """The positions of the rows that are chosen, windows ascending, and columns to add."""

    def thinned(self, starts: Times, rows: pa.RecordBatch) -> Ids | None:
        """The positions of rows that may still be chosen, whatever comes; None where all may."""


class WindowRows(Operator):
    """Holds the rows of windows, and says of each complete one what `choice` chooses."""

    def __init__(self, schema: StreamSchema, choice: Choice) -> None:
        self._input = schema
        self._choice = choice
        self.schema = choice.schema
        self._held = _none(schema)
        self._row_bytes = RowBytes(self._held.schema)
        self._came: list[pa.RecordBatch] = []  # not yet among those held
        self._rows = 0
        self._thin_at = THIN_ROWS_MIN
        self._stable = BEGIN
        self._wanted = BEGIN  # rows that end before are of no use

    def push(self, source: int, frame: Frame, marks: Marks = ()) -> Out:
        """Takes the rows in, and says what has become complete."""
        return joined(self.schema, self.parts(source, frame, marks))

    def parts(self, source: int, frame: Frame, marks: Marks = ()) -> Iterator[Out]:
        """The same, some windows after the other."""
        check_schema(frame, self._input)
        stable = frame.stable
        if len(frame):
            self._take_in(frame)
        if stable is None or stable <= self._stable:
            yield Out(Frame.empty(self.schema))
            return
        rows = self._gathered()
        complete = rows.column(0).to_numpy() < stable
        self._hold(take_rows(rows, ~complete))
        self._stable = stable
        for part in self._in_parts(rows, complete.nonzero()[0]):
            yield Out(self._said(part))
        yield Out(Frame.empty(self.schema, stable))

    def _take_in(self, frame: Frame) -> None:
        if not frame.insert_only:
            raise Misuse("rows of windows are settled: put Settle first; got an adjust")
        frame = self._choice.usable(frame)
        wanted = frame.ve >= self._wanted
        if np.count_nonzero(wanted) < len(frame):
            frame = frame.take(wanted)
        self._came.append(_rows(frame))
        self._rows += len(frame)
        if self._rows > self._thin_at:
            rows = self._gathered()
            kept = self._choice.thinned(rows.column(0).to_numpy(), rows.drop_columns(_TIMES))
            self._hold(rows if kept is None else take_rows(rows, kept))
            self._thin_at = max(THIN_ROWS_MIN, 2 * self._rows)

    def _gathered(self) -> pa.RecordBatch:
        """All rows held, as one batch."""
        if self._came:
            self._hold(concat_batches([self._held, *self._came]))
        return self._held

    def _hold(self, rows: pa.RecordBatch) -> None:
        self._held, self._came, self._rows = rows, [], rows.num_rows

    def _in_parts(self, rows: pa.RecordBatch, at: Ids) -> Iterator[pa.RecordBatch]:
        """Whole windows of the rows that stand there, in ascending order, as many rows at a time as
        there is room for.
        """
        if not len(at):
            return
        row_bytes = self._row_bytes.of(rows)
        most = self.memory.rows(float(row_bytes.mean()), ANSWER_ROWS_MAX)
        starts = rows.column(0).to_numpy()[at]
        order = np.argsort(starts, kind="stable")
        at, starts = at[order], starts[order]
        ends = np.append((np.diff(starts) != 0).nonzero()[0] + 1, len(starts))
        begin = 0
        while begin < len(starts):
            within = np.searchsorted(ends, begin + most, side="right")
            whole = int(ends[max(int(within) - 1, int(np.searchsorted(ends, begin, side="right")))])
            part = at[begin:whole]
            self.memory.ask(int(row_bytes[part].sum()), "rows of windows")
            yield take_rows(rows, part)
            begin = whole

    def _said(self, rows: pa.RecordBatch) -> Frame:
        """What is chosen of the rows of whole windows."""
        starts, ends = (rows.column(i).to_numpy() for i in range(2))
        payload = rows.drop_columns(_TIMES)
        at, more = self._choice.choose(starts, payload)
        columns = [*take_rows(payload, at).columns, *more]
        return Frame.made(self.schema, starts[at], ends[at], columns)

    def fast_forward(self, t: int) -> int:
        """Rows that end before t are in no window that does not."""
        if t > self._wanted:
            self._wanted = t
            rows = self._gathered()
            self._hold(take_rows(rows, rows.column(1).to_numpy() >= t))
        return t

    def snapshot(self) -> State:
        """The rows held, and what has been promised."""
        return {FACTS: facts(stable=self._stable, wanted=self._wanted), "rows": self._gathered()}

    def restore(self, state: State) -> None:
        """Takes them back."""
        check_names(state, FACTS, "rows")
        self._stable, self._wanted = read_facts(state, "stable", "wanted")
        self._hold(table(state, "rows", self._held.schema))

    @property
    def nbytes(self) -> int:
        """Bytes of the rows held."""
        return sum(int(rows.nbytes) for rows in (self._held, *self._came))

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        held = (self._held, *self._came)
        if sum(rows.num_rows for rows in held) != self._rows:
            raise Bug("rows held are not as many as were counted")
        for rows in held:
            if (rows.column(0).to_numpy() < self._stable).any():
                raise Bug("a row of a window that has been told is still held")
            if (rows.column(1).to_numpy() < self._wanted).any():
                raise Bug("a row that is not wanted is still held")


_TIMES = ["_vs", "_ve"]


def _rows(frame: Frame) -> pa.RecordBatch:
    columns = [pa.array(frame.vs), pa.array(frame.ve), *frame.payload.columns]
    return pa.RecordBatch.from_arrays(columns, schema=_schema(frame.schema))


def _schema(schema: StreamSchema) -> pa.Schema:
    times = [pa.field(name, pa.int64(), nullable=False) for name in _TIMES]
    return pa.schema([*times, *schema.payload])


def _none(schema: StreamSchema) -> pa.RecordBatch:
    return _rows(Frame.empty(schema))
