"""Aggregates over free lifetimes: at every instant, of the rows alive then, group by group.

    count() of ins(A,0,9) ins(A,4,9) stable(9)      ->  ins((A,1),0,4) ins((A,2),4,9) stable(9)
                                                                 in normal form, as everywhere

The accumulators of `aggregates/` hold state by id; here an id is a node of the tree over the
pieces (`pieces.py`). Each row is added to the few nodes that make up its lifetime; then, level by
level from the top, what a node has is taken and merged into both of its children. So n rows over p
pieces cost n log p adds and 2p merges, where adding each row to each of its pieces would cost n
times p, and aggregates need no subtracting. Nothing is kept from one stable to the next.

A group without rows alive gives no row. An answer that cannot be given goes aside, once for each
piece that begins: which ones do not depends on the rows alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids
from gapless.operators.aggregates.function import Accumulator, AggregateFunction
from gapless.operators.aside import Aside
from gapless.operators.per_snapshot import ENTRIES_MAX, PerSnapshot
from gapless.operators.pieces import Pieces, Rows, Spans
from gapless.protocol.columns import take_rows
from gapless.protocol.frame import Mask
from gapless.protocol.schema import StreamSchema

ENTRY_BYTES = 64
"""Of sub-aggregates, so that what `ENTRIES_MAX` allows takes some 100 MB with the tree above it."""

Aggregates = Sequence[tuple[str, AggregateFunction]]


class FreeAggregate(PerSnapshot):
    """One row a group and instant: the group's columns, then the aggregates by their names."""

    def __init__(
        self, schema: StreamSchema, group_by: Sequence[str], aggregates: Aggregates, aside: Aside
    ) -> None:
        fields = [schema.payload.field(g) for g in group_by if g in schema.names]
        fields += [pa.field(name, f.result(schema.payload)) for name, f in aggregates]
        super().__init__(schema, group_by, StreamSchema(pa.schema(fields), schema.time_unit))
        self._functions = [function for _, function in aggregates]
        states = [f.accumulator(schema.payload) for f in self._functions]
        widths = [_bytes_of(f.type) for state in states for f in state.partial_schema]
        self._entries_of_piece = 1 + sum(width or 0 for width in widths) // ENTRY_BYTES
        self._keeps_rows = None in widths
        self._aside = aside

    def _entries(self, pieces: Pieces, spans: Spans) -> Ids:
        """By the width of a sub-aggregate; one that has lists has an entry a row, at the most."""
        entries = np.full(len(pieces), self._entries_of_piece)
        if self._keeps_rows:
            entries += spans.covered(len(pieces), self._events.count.values[spans.event])
        return entries

    def _answer(self, pieces: Pieces, spans: Spans) -> Rows:
        states = [f.accumulator(self._input.payload) for f in self._functions]
        filled = self._accumulate(states, spans, len(pieces))
        answerable = self._set_aside(states, filled, pieces)
        filled = filled[answerable]
        columns = [state.results(filled) for state in states]
        if self._events.group_by:
            columns = [*self._events.groups.rows(pieces.group[filled]).columns, *columns]
        answers = pa.RecordBatch.from_arrays(columns, schema=self.schema.payload)
        return Rows(filled, self._payloads.intern(answers), np.ones(len(filled), np.int64))

    def _accumulate(self, states: list[Accumulator], spans: Spans, pieces: int) -> Ids:
        """Aggregates the rows of each piece under the piece's number; which pieces have any."""
        spans = spans.repeated(self._events.count.values[spans.event])
        rows = self._events.payloads.rows(self._events.payload.values[spans.event])
        times = self._events.vs.values[spans.event]
        levels = list(spans.nodes())
        sizes = [-(-pieces >> level) for level in range(len(levels))]
        base = np.cumsum([0, *sizes])
        for state in states:
            state.fit(int(base[-1]))
        has_rows = [np.zeros(size, np.bool_) for size in sizes]
        for level, (nodes, places) in enumerate(levels):
            has_rows[level][nodes] = True
            for i in range(0, len(nodes), ENTRIES_MAX):
                at = places[i : i + ENTRIES_MAX]
                picked = take_rows(rows, at)
                for state in states:
                    state.add(base[level] + nodes[i : i + ENTRIES_MAX], picked, times[at])
        for level in range(len(levels) - 1, 0, -1):
            _hand_down(states, has_rows[level], has_rows[level - 1], base[level], base[level - 1])
        return has_rows[0].nonzero()[0] if levels else np.zeros(0, np.int64)

    def _set_aside(self, states: list[Accumulator], filled: Ids, pieces: Pieces) -> Mask:
        """Which of the pieces have an answer; those that begin and have none go aside."""
        answerable = np.ones(len(filled), np.bool_)
        for state in states:
            found = state.unanswerable(filled)
            if found is None:
                continue
            for mask, reason in found.by_reason():
                begun = filled[mask & answerable & pieces.begins[filled]]
                self._aside.put("aggregate", self._named(pieces, begun), reason)
            answerable &= ~found.mask
        return answerable

    def _named(self, pieces: Pieces, which: Ids) -> pa.RecordBatch:
        """The groups of pieces, and since when."""
        since = pa.array(pieces.start[which])
        names, columns = ["_vs"], [since]
        if self._events.group_by:
            groups = self._events.groups.rows(pieces.group[which])
            names, columns = [*names, *groups.schema.names], [since, *groups.columns]
        return pa.RecordBatch.from_arrays(columns, names=names)


def _bytes_of(t: pa.DataType) -> int | None:
    """The width of values of a type; None where they have no one width."""
    try:
        return int(t.bit_width) // 8
    except ValueError:  # how Arrow says so
        return None


def _hand_down(
    states: list[Accumulator], has_rows: Mask, below: Mask, base: int, base_below: int
) -> None:
    """Merges what the nodes of a level have into both children of each."""
    nodes = has_rows.nonzero()[0]
    for child in (2 * nodes, 2 * nodes + 1):
        below[child] = True
    for state in states:
        partial = state.take(base + nodes)
        state.merge(base_below + 2 * nodes, partial)
        state.merge(base_below + 2 * nodes + 1, partial)
