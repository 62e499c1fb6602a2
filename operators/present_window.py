"""The window that is being answered, put together from complete panes (the WLQ of section 6.2).

    panes    p3 {A: 2, B: 1}   p4 {A: 5}   p5 {B: 4}        sub-aggregates of each pane's groups
    window   A: 7, B: 5                                     by group
    slide    p6 enters: added        p3 leaves: subtracted, where the function is differential;
                                     the others are recombined from p4 p5 p6 when asked

Panes enter in order and leave in order. A group is known as long as a pane with it is in the
window. In a landmark window panes enter and never leave, so nothing is kept of them but the sum.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.operators.answers import Answers, Grouping, read_cells, results
from gapless.operators.state import State
from gapless.protocol.errors import Bug


class Pane(NamedTuple):
    """A complete pane: what it has of each of its groups."""

    number: int
    groups: list[pa.Array]
    """Group columns."""
    partials: list[pa.RecordBatch]
    """Sub-aggregates, one batch a function."""

    @property
    def size(self) -> int:
        """How many groups it has."""
        return int(self.partials[0].num_rows)


class _Entered(NamedTuple):
    number: int
    ids: Ids
    partials: list[pa.RecordBatch]

    @property
    def nbytes(self) -> int:
        return int(self.ids.nbytes + sum(p.nbytes for p in self.partials))


class PresentWindow:
    """State by group, and the panes that it was put together from."""

    def __init__(self, grouping: Grouping, landmark: bool) -> None:
        self._grouping = grouping
        self._landmark = landmark
        self._table = KeyTable(grouping.groups) if grouping.group_by else None
        self._counts = Column(0)  # by group: panes of the window that it is in
        self._states = grouping.accumulators()
        self._slides = [state.differential or landmark for state in self._states]
        self._panes: deque[_Entered] = deque()
        self._pane_bytes = 0
        self._last: int | None = None  # the last pane that entered

    def enter(self, pane: Pane) -> None:
        """Adds a pane on the right."""
        ids = self._intern(pane.groups)
        capacity = self._capacity
        counts = self._counts.fit(capacity)
        if self._landmark:
            counts[ids] = 1
        else:
            counts[ids] += 1
        for state, slides, partial in zip(self._states, self._slides, pane.partials, strict=True):
            state.fit(capacity)
            if slides:
                state.merge(ids, partial)
        self._last = pane.number
        if not self._landmark:
            entered = _Entered(pane.number, ids, pane.partials)
            self._panes.append(entered)
            self._pane_bytes += entered.nbytes

    def leave_below(self, number: int) -> None:
        """Removes the panes below this one; nothing leaves a landmark window."""
        while self._panes and self._panes[0].number < number:
            self._leave(self._panes.popleft())

    def _leave(self, pane: _Entered) -> None:
        counts = self._counts.values
        counts[pane.ids] -= 1
        self._pane_bytes -= pane.nbytes
        for state, slides, partial in zip(self._states, self._slides, pane.partials, strict=True):
            if slides:
                state.unmerge(pane.ids, partial)
        gone = pane.ids[counts[pane.ids] == 0]
        if not len(gone):
            return
        for state in self._states:
            state.clear(gone)
        if self._table is not None:
            self._table.release(gone)
        capacity = self._capacity
        self._counts.fit(capacity)
        for state in self._states:
            state.fit(capacity)

    def _intern(self, groups: Sequence[pa.Array]) -> Ids:
        if self._table is None:
            return np.zeros(1, np.int64)
        batch = pa.RecordBatch.from_arrays(groups, schema=self._table.schema)
        ids, _ = self._table.intern(batch)
        return ids

    @property
    def _capacity(self) -> int:
        return 1 if self._table is None else self._table.capacity

    def results(self, window: int) -> Answers:
        """The answers of all groups, as those of this window."""
        ids = self._live()
        for i, state in enumerate(self._states):
            if not self._slides[i]:
                state.clear(ids)
                for pane in self._panes:
                    state.merge(pane.ids, pane.partials[i])
        windows = np.full(len(ids), window, np.int64)
        return results(self._grouping, windows, self._groups(ids), self._states, ids)

    def _live(self) -> Ids:
        return (self._counts.values > 0).nonzero()[0]

    def _groups(self, ids: Ids) -> list[pa.Array]:
        return [] if self._table is None else list(self._table.rows(ids).columns)

    def panes(self) -> list[Pane]:
        """What it was put together from, in order; a landmark window is one pane, the last."""
        if not self._landmark:
            return [Pane(p.number, self._groups(p.ids), p.partials) for p in self._panes]
        if self._last is None:
            return []
        ids = self._live()
        return [Pane(self._last, self._groups(ids), [state.take(ids) for state in self._states])]

    def numbers(self) -> list[int]:
        """The numbers of those panes."""
        if not self._landmark:
            return [pane.number for pane in self._panes]
        return [] if self._last is None else [self._last]

    def __bool__(self) -> bool:
        """Whether a pane is in it."""
        return bool(self._panes) or (self._landmark and self._last is not None)

    # -- as data ------------------------------------------------------------------------------

    def snapshot(self, name: str, schema: pa.Schema) -> State:
        """The panes, as cells of `schema`."""
        panes = self.panes()
        keys = [
            pa.RecordBatch.from_arrays(
                [pa.array(np.full(p.size, p.number, np.int64)), *p.groups], schema=schema
            )
            for p in panes
        ]
        tables = {name: _concat(schema, keys)}
        for i, state in enumerate(self._states):
            none = state.take(np.empty(0, np.int64))
            tables[f"{name}.{i}"] = _concat(none.schema, [p.partials[i] for p in panes])
        return tables

    def restore(self, name: str, schema: pa.Schema, state: State) -> None:
        """Lets the panes of a snapshot enter, first of all."""
        keys, partials = read_cells(name, schema, len(self._states), state)
        for pane in panes_of(keys.column(0).to_numpy(), keys.columns[1:], partials):
            self.enter(pane)

    # -- looking at it ------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of the groups, their state and the panes."""
        table = 0 if self._table is None else int(self._table.nbytes)
        held = sum(state.nbytes for state in self._states)
        return table + self._counts.nbytes + held + self._pane_bytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        for state in self._states:
            state.validate()
        numbers = self.numbers()
        if numbers != sorted(set(numbers)):
            raise Bug(f"complete panes out of order: {numbers}")
        if self._table is not None:
            self._table.validate()
            live = len(self._live())
            if live != len(self._table):
                raise Bug(f"{live} groups in the window, {len(self._table)} live keys")
        if not self._landmark:
            counts = np.zeros(len(self._counts.values), np.int64)
            for pane in self._panes:
                counts[pane.ids] += 1
            if (counts != self._counts.values).any():
                raise Bug("a group is counted in more or fewer panes than have it")
        if self._pane_bytes != sum(pane.nbytes for pane in self._panes):
            raise Bug("the count of bytes of complete panes is wrong")


def panes_of(
    numbers: Ids, groups: Sequence[pa.Array], partials: Sequence[pa.RecordBatch]
) -> list[Pane]:
    """Cells, in the order of their panes, cut into panes."""
    if not len(numbers):
        return []
    cuts = (numbers[1:] != numbers[:-1]).nonzero()[0] + 1
    starts = [0, *cuts.tolist()]
    ends = [*cuts.tolist(), len(numbers)]
    return [
        Pane(
            int(numbers[start]),
            [g.slice(start, end - start) for g in groups],
            [p.slice(start, end - start) for p in partials],
        )
        for start, end in zip(starts, ends, strict=True)
    ]


def _concat(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    empty = pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)
    return pa.concat_batches([empty, *batches])
