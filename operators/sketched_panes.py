"""SketchedPanes: the heavy values of windows, from a sketch and some candidates of each pane.

    rows 3:a 4:a 7:b 11:a     panes of 10:  p0 {candidates a b, sketch, 3 rows}   p1 {a, .., 1 row}
    window of both            candidates a b, sketch p0 + p1, 4 rows: a 3 of 4, b 1 of 4

A sketch (`count_min.py`) says how often a value came, never too little, but names none. So each
pane has candidates (`frequent_values.py`): no more than 1 / share, and none that has the share of
the pane's rows is missing. A value that has the share of a window has it in one of its panes: else
it had less in each, and so in all. So what is asked of a window's sketch, the sum of its panes', is
what one of its panes has as a candidate; it is told where the estimate is the share or more.

What is told may depend on nothing but the rows. Sums do not depend on their order, candidates may.
So rows are taken in order of time, once a stable has passed them and none can come between: one
pane is open at a time. Its rows go in lots: of `LOT_ROWS`, and those that have the last one's time.
A lot ends at the same row in each replica, however the stream is cut, and so do all that follow.

Of a pane that is complete there stay the candidates whose estimate in it is the share or more, and
the counters that are not 0, to be subtracted when it leaves. In windows that cumulate all panes
leave at once: they are put together into one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids
from gapless.operators.count_min import Cells, CountMin, width_of
from gapless.operators.frequent_values import FrequentValues
from gapless.operators.memory import UNBOUNDED, Memory
from gapless.operators.numbers import at_places, numbers, read_numbers
from gapless.operators.operator import ANSWER_ROWS_MAX
from gapless.operators.paned import WINDOWS_OF_PART_MAX, check_windows_at_once
from gapless.operators.panes import Panes
from gapless.operators.rank_order import by_places, places_of_values
from gapless.operators.state import FACTS, State, check_names, facts, read_facts, table
from gapless.operators.waiting_rows import WaitingRows
from gapless.operators.window_choices import MILLION
from gapless.protocol.columns import compact_batch, concat_batches, take_rows
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug, DecodeError
from gapless.protocol.frame import Times

LOT_ROWS = 1 << 13
"""Enough that calls cost little beside rows, few enough to be held. Part of what is told: which
lots rows come in decides which values of less than the share are candidates."""


ANSWER_BYTES = 32
"""Of each answer, beside its value: two times and a count, and what finds its place."""

_LOT, _VALUES, _COUNTS = "lot", "values", "counts"
_PANES, _CANDIDATES, _CELLS = "panes", "candidates", "cells"
_TABLES = (_LOT, _VALUES, _COUNTS, _PANES, _CANDIDATES, _CELLS)


class Told(NamedTuple):
    """Heavy values of some windows: windows ascending, in each the most frequent first."""

    windows: Times
    values: pa.RecordBatch
    n: Ids
    below: int
    """All windows below this one have been told."""


class ClosedPane(NamedTuple):
    """What stays of a complete pane, or of several that leave together."""

    number: int
    """Of the last of them."""
    rows: int
    cells: Cells
    candidates: Ids


class _Alike(NamedTuple):
    """Windows that tell the same."""

    windows: range
    values: pa.RecordBatch
    n: Ids


class SketchedPanes:
    """The open pane, and those that a window still has."""

    def __init__(self, empty: pa.RecordBatch, panes: Panes, millionths: int) -> None:
        """`empty`: a batch of the columns of rows, the first of which is their time, without
        rows.
        """
        self.memory: Memory = UNBOUNDED
        self._panes = panes
        self._millionths = millionths
        self._empty = empty
        columns = pa.schema(list(empty.schema)[1:])
        self._values = FrequentValues(columns, MILLION // millionths)
        self._closed: list[ClosedPane] = []
        self._sum = CountMin(width_of(millionths))  # of the closed ones
        self._open = BEGIN  # the pane that is open; BEGIN: none is
        self._open_rows = 0  # those that are counted
        self._sketch = CountMin(width_of(millionths))  # of them
        self._lot = WaitingRows(empty)  # its rows that are not counted yet
        self._next = BEGIN  # the next window to tell

    # -- rows ---------------------------------------------------------------------------------

    def take(self, rows: pa.RecordBatch, complete: int) -> Iterator[Told]:
        """Takes rows in, in order of time and none before any that came; tells what is heavy in
        the windows below `complete`.
        """
        numbers = rows.column(0).to_numpy() // self._panes.length
        ends = np.append((np.diff(numbers) != 0).nonzero()[0] + 1, len(numbers))
        start = 0
        for end in ends.tolist() if len(numbers) else ():
            number = int(numbers[start])
            if number != self._open:
                self._close()
                yield from self._tell(number // self._panes.step)
                self._open = number
            self._add(rows.slice(start, end - start))
            start = end
        if self._open < complete * self._panes.step:
            self._close()
        yield from self._tell(complete)

    def _add(self, rows: pa.RecordBatch) -> None:
        """Rows of the open pane: all up to some time."""
        if len(self._lot) + rows.num_rows >= LOT_ROWS:
            self._lot.add(rows)
            rows = self._lot.take(INF)
            times, start = rows.column(0).to_numpy(), 0
            while start + LOT_ROWS <= len(times):
                end = _end_of_lot(times, start)
                self._count(rows.slice(start, end - start))
                start = end
            rows = rows.slice(start)
        self._lot.add(compact_batch(rows))

    def _count(self, lot: pa.RecordBatch) -> None:
        columns = lot.columns[1:]
        rows = pa.RecordBatch.from_arrays(columns, schema=self._values.schema)
        ids, counts = self._values.add(rows)
        self._sketch.add(self._values.hashes(ids), counts)
        self._open_rows += lot.num_rows
        self._values.cut()

    def _close(self) -> None:
        """The open pane is complete."""
        if self._open == BEGIN:
            return
        if len(self._lot):
            self._count(self._lot.take(INF))
        candidates = self._heavy(self._values.counted, self._sketch, self._open_rows)[0]
        pane = ClosedPane(self._open, self._open_rows, self._sketch.cells(), candidates)
        self._leave_open(candidates)
        self._enter(pane)

    def _leave_open(self, held: Ids) -> None:
        """No pane is open any more; of the values of the one that was these are held."""
        self._values.close(held)
        self._sketch.clear()
        self._open, self._open_rows, self._lot = BEGIN, 0, WaitingRows(self._empty)

    def _heavy(self, ids: Ids, sketch: CountMin, rows: int) -> tuple[Ids, Ids]:
        """Those of these that have the share of so many rows, and their estimates."""
        n = sketch.estimates(self._values.hashes(ids))
        heavy = n * MILLION >= rows * self._millionths
        return ids[heavy], n[heavy]

    # -- complete panes -----------------------------------------------------------------------

    def _enter(self, pane: ClosedPane) -> None:
        """A pane that is complete, its candidates held."""
        self._sum.plus(pane.cells)
        if self._panes.cumulate and self._closed and self._leave_together(pane):
            last = self._closed.pop()
            rows = last.rows + pane.rows
            both = np.union1d(last.candidates, pane.candidates)
            kept = self._heavy(both, self._sum, rows)[0]
            self._values.hold(kept)
            self._values.drop(last.candidates)
            self._values.drop(pane.candidates)
            pane = ClosedPane(pane.number, rows, self._sum.cells(), kept)
        self._closed.append(pane)

    def _leave_together(self, pane: ClosedPane) -> bool:
        span = self._panes.span
        return self._closed[-1].number // span == pane.number // span

    def _leave(self, first: int) -> None:
        """The panes before this one leave."""
        staying = next((i for i, p in enumerate(self._closed) if p.number >= first), None)
        gone = self._closed[:staying]
        del self._closed[:staying]
        for pane in gone:
            self._sum.minus(pane.cells)
            self._values.drop(pane.candidates)

    # -- telling ------------------------------------------------------------------------------

    def _tell(self, below: int) -> Iterator[Told]:
        """What is heavy in the windows up to this one; all of their panes are complete."""
        part, rows, windows = list[_Alike](), 0, 0
        for alike in self._windows(below):
            part.append(alike)
            windows += 1
            rows += len(alike.n) * len(alike.windows)
            if rows >= ANSWER_ROWS_MAX or windows >= WINDOWS_OF_PART_MAX:
                yield self._told(part, alike.windows.stop)
                part, rows, windows = [], 0, 0
        self._next = max(self._next, below)
        if part:
            yield self._told(part, below)

    def _windows(self, below: int) -> Iterator[_Alike]:
        """The same, window by window; those between which no pane enters or leaves together."""
        window, told = self._next, 0
        while window < below and self._closed:
            self._leave(self._panes.first(window))
            if not self._closed:
                return
            until = min(below, self._panes.windows(self._closed[0].number)[1])
            ids, n = self._heavy(self._values.held, self._sum, sum(p.rows for p in self._closed))
            told += until - window
            check_windows_at_once(told)
            if len(ids):
                values = self._values.rows(ids)
                most = self.memory.rows(_bytes_of(values) / len(ids), ANSWER_ROWS_MAX)
                several = max(1, most // len(ids))
                for start in range(window, until, several):
                    yield _Alike(range(start, min(start + several, until)), values, n)
            window = until

    def _told(self, part: list[_Alike], below: int) -> Told:
        """Windows after each other, and the values of each in rank order."""
        needed = sum(_bytes_of(alike.values) * len(alike.windows) for alike in part)
        self.memory.ask(needed, "answers of windows")
        n = np.concatenate([alike.n for alike in part])
        values = concat_batches([alike.values for alike in part])
        sizes = [len(alike.n) for alike in part]
        of = np.arange(len(part)).repeat(sizes)
        best = by_places(places_of_values(pa.array(n), largest=True), values)
        best = best[np.argsort(of[best], kind="stable")]
        ends = np.cumsum(sizes)
        at, windows = list[Ids](), list[Times]()
        for alike, size, end in zip(part, sizes, ends.tolist(), strict=True):
            at.append(np.tile(best[end - size : end], len(alike.windows)))
            windows.append(np.arange(alike.windows.start, alike.windows.stop).repeat(size))
        order = np.concatenate(at)
        return Told(np.concatenate(windows), take_rows(values, order), n[order], below)

    def skip_to(self, window: int) -> None:
        """Windows below are not wanted any more."""
        self._next = max(self._next, window)
        first = self._panes.first(window)
        if self._open < first:
            self._leave_open(np.empty(0, np.int64))
        self._leave(first)

    # -- as data ------------------------------------------------------------------------------

    def snapshot(self) -> State:
        """The values, what panes have of them, their counters, and the rows of the lot."""
        places = np.zeros(self._values.capacity, np.int64)
        ids = self._values.known
        places[ids] = np.arange(len(ids))
        closed = self._closed
        sketches = [*(pane.cells for pane in closed), self._sketch.cells()]
        cells = [(c.at_all(len(self._sum.counters)), c.counts) for c in sketches]
        return {
            FACTS: facts(open=self._open, open_rows=self._open_rows, next=self._next),
            _LOT: self._lot.rows,
            _VALUES: self._values.rows(ids),
            _COUNTS: numbers(count=self._values.counts(ids)),
            _PANES: numbers(
                pane=np.array([pane.number for pane in closed], np.int64),
                rows=np.array([pane.rows for pane in closed], np.int64),
            ),
            _CANDIDATES: numbers(
                place=_numbered([pane.candidates for pane in closed]),
                value=places[_joined([pane.candidates for pane in closed])],
            ),
            _CELLS: numbers(
                place=_numbered([at for at, _ in cells]),
                cell=_joined([at for at, _ in cells]),
                count=_joined([counts for _, counts in cells]),
            ),
        }

    def restore(self, state: State) -> None:
        """Takes them back."""
        check_names(state, FACTS, *_TABLES)
        self._open, self._open_rows, self._next = read_facts(state, "open", "open_rows", "next")
        self._lot.add(table(state, _LOT, self._empty.schema))
        rows = table(state, _VALUES, self._values.schema)
        (counts,) = read_numbers(state, _COUNTS, "count")
        if len(counts) != rows.num_rows:
            raise DecodeError(f"snapshot.{_COUNTS}", f"{len(counts)} counts", rows.num_rows)
        ids = self._values.restore(rows, counts)
        if len(self._values) != rows.num_rows:
            raise DecodeError(f"snapshot.{_VALUES}", "a value comes twice", "each once")
        panes, pane_rows = read_numbers(state, _PANES, "pane", "rows")
        of, values = read_numbers(state, _CANDIDATES, "place", "value")
        candidates = at_places(ids, values, _CANDIDATES)
        place, cell, count = read_numbers(state, _CELLS, "place", "cell", "count")
        at_places(self._sum.counters, cell, _CELLS)
        for i, (number, n) in enumerate(zip(panes.tolist(), pane_rows.tolist(), strict=True)):
            cells = Cells.of(cell[place == i], count[place == i])
            pane = ClosedPane(number, n, cells, candidates[of == i])
            self._values.hold(pane.candidates)
            self._sum.plus(cells)
            self._closed.append(pane)
        own = place == len(panes)
        self._sketch.plus(Cells.of(cell[own], count[own]))

    # -- looking at it ------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of sketches, values, and rows of the lot."""
        sketches = self._sum.nbytes + self._sketch.nbytes
        closed = sum(pane.cells.nbytes + pane.candidates.nbytes for pane in self._closed)
        return sketches + closed + self._values.nbytes + self._lot.nbytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._values.validate()
        numbers = [pane.number for pane in self._closed]
        if self._open > BEGIN:
            numbers.append(self._open)
        if any(a >= b for a, b in pairwise(numbers)):
            raise Bug(f"panes {numbers} are not in order of time")
        for sketch, rows in (
            (self._sum, sum(pane.rows for pane in self._closed)),
            (self._sketch, self._open_rows),
        ):
            sketch.validate(rows)
        holders = np.zeros(self._values.capacity, np.int64)
        for pane in self._closed:
            holders[pane.candidates] += 1
        if (holders != self._values.holders).any():
            raise Bug("values are held by other panes than have them")
        if len(self._lot) >= LOT_ROWS:
            raise Bug(f"{len(self._lot)} rows wait for a lot of {LOT_ROWS}")
        if self._open == BEGIN and (len(self._lot) or self._open_rows):
            raise Bug("rows are in a pane, and none is open")


def _end_of_lot(times: Times, start: int) -> int:
    """Where the lot ends that begins there: all rows of one time are in it, or none."""
    end: int = times.searchsorted(times[start + LOT_ROWS - 1], "right").item()
    return end


def _bytes_of(values: pa.RecordBatch) -> int:
    """Of values, each with its times and count."""
    return int(values.nbytes) + ANSWER_BYTES * int(values.num_rows)


def _numbered(parts: Sequence[np.typing.NDArray[Any]]) -> Ids:
    """By element of these, which of them it is in."""
    return np.arange(len(parts)).repeat([len(part) for part in parts])


def _joined(parts: Sequence[np.typing.NDArray[Any]]) -> Ids:
    return np.concatenate([np.empty(0, np.int64), *(part.astype(np.int64) for part in parts)])
