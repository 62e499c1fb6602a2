"""Answers of windows: which window, which group, which aggregates; as columns.

What the implementations of a windowed aggregate have in common: they keep rows by cell, a place in
time (a window, or a pane of one) and a group, and give answers when asked.

    cells       (place, group columns) -> id            a KeyTable
    state       accumulators by id, one for each aggregate

An answer that cannot be given (an integer sum beyond int64) goes aside with its group and window.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.operators.aggregates.function import Accumulator, AggregateFunction
from gapless.operators.aside import Aside
from gapless.operators.state import State, table
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug, DecodeError
from gapless.protocol.frame import Times

PLACE = "_place"


class Answers(NamedTuple):
    """Rows in ascending order of their windows."""

    windows: Times
    columns: list[pa.Array]
    """Group columns, then aggregates."""


@dataclass(frozen=True)
class Grouping:
    """What is computed of which rows."""

    payload: pa.Schema
    """Of the rows."""
    group_by: tuple[str, ...]
    functions: tuple[AggregateFunction, ...]
    aside: Aside

    @property
    def groups(self) -> pa.Schema:
        """The group columns."""
        return pa.schema([self.payload.field(name) for name in self.group_by])

    def accumulators(self) -> list[Accumulator]:
        """New state, for ids of any kind."""
        count = next((f for f in self.functions if f.name == "count" and not f.columns), None)
        rows = None if count is None else count.accumulator(self.payload)
        return [
            rows if rows is not None and f is count else f.accumulator(self.payload, rows)
            for f in self.functions
        ]


class Windowed(ABC):
    """An implementation of a windowed aggregate."""

    @abstractmethod
    def add(self, times: Times, rows: pa.RecordBatch) -> None:
        """Takes rows in; each lies in a window that has not been answered."""

    @abstractmethod
    def answer(self, complete: int) -> list[Answers]:
        """Answers all windows below `complete`, each once, and forgets what only they needed."""

    @abstractmethod
    def provisional(self, window: int) -> Answers:
        """What is known now of a window that has not been answered."""

    @abstractmethod
    def open_windows(self, limit: int) -> Sequence[int]:
        """The windows below `limit` that have rows and have not been answered, ascending."""

    @abstractmethod
    def skip_to(self, window: int) -> None:
        """Windows below are not wanted any more."""

    @abstractmethod
    def snapshot(self) -> State:
        """All of its state."""

    @abstractmethod
    def restore(self, state: State) -> None:
        """Takes a snapshot back, first of all."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of state."""

    @abstractmethod
    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""


class Cells:
    """State by place and group."""

    def __init__(self, grouping: Grouping) -> None:
        self.schema = pa.schema([pa.field(PLACE, pa.int64(), nullable=False), *grouping.groups])
        self.states = grouping.accumulators()
        self._table = KeyTable(self.schema)
        self._places = Column(INF)  # by id; INF where the id is free
        self._columns = [grouping.payload.get_field_index(name) for name in grouping.group_by]

    def add(self, places: Times, times: Times, rows: pa.RecordBatch) -> None:
        """Row i counts at places[i], for its group."""
        groups = [rows.column(i) for i in self._columns]
        keys = pa.RecordBatch.from_arrays([pa.array(places), *groups], schema=self.schema)
        ids, new = self._table.intern(keys)
        if np.count_nonzero(new):
            capacity = self._table.capacity
            self._places.fit(capacity)[ids[new]] = places[new]
            for state in self.states:
                state.fit(capacity)
        for state in self.states:
            state.add(ids, rows, times)

    def below(self, place: int) -> Ids:
        """The cells at places below this one, in the order of places."""
        places = self._places.values
        ids = (places < max(BEGIN, min(place, INF))).nonzero()[0]
        if len(ids) < 2:
            return ids
        order: Ids = ids[np.argsort(places[ids], kind="stable")]
        return order

    def at(self, place: int) -> Ids:
        """The cells at this place."""
        ids: Ids = (self._places.values == place).nonzero()[0]
        return ids

    def places(self, ids: Ids) -> Times:
        """Where cells are."""
        places: Times = self._places.values[ids]
        return places

    def groups(self, ids: Ids) -> list[pa.Array]:
        """The group columns of cells."""
        return list(self._table.rows(ids).columns[1:])

    def forget(self, ids: Ids) -> None:
        """Frees cells."""
        if not len(ids):
            return
        for state in self.states:
            state.clear(ids)
        self._table.release(ids)
        self._places.values[ids] = INF
        capacity = self._table.capacity
        self._places.fit(capacity)
        for state in self.states:
            state.fit(capacity)

    def __len__(self) -> int:
        return len(self._table)

    def snapshot(self, name: str) -> State:
        """The cells and their sub-aggregates, row by row."""
        ids = self.below(INF)
        tables = {name: self._table.rows(ids)}
        for i, state in enumerate(self.states):
            tables[f"{name}.{i}"] = state.take(ids)
        return tables

    def restore(self, name: str, state: State) -> None:
        """Takes cells back, into none."""
        keys, partials = read_cells(name, self.schema, len(self.states), state)
        ids, new = self._table.intern(keys)
        if not new.all():
            raise DecodeError(f"snapshot.{name}", "a cell stands there twice", "each once")
        capacity = self._table.capacity
        self._places.fit(capacity)[ids] = keys.column(0).to_numpy()
        for accumulator, partial in zip(self.states, partials, strict=True):
            accumulator.fit(capacity)
            accumulator.merge(ids, partial)

    @property
    def nbytes(self) -> int:
        """Bytes of the table, the places and the states."""
        held = sum(state.nbytes for state in self.states)
        return int(self._table.nbytes) + self._places.nbytes + held

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._table.validate()
        live = int(np.count_nonzero(self._places.values < INF))
        if live != len(self._table):
            raise Bug(f"{live} cells with a place, {len(self._table)} live keys")
        for state in self.states:
            state.validate()


def read_cells(
    name: str, schema: pa.Schema, states: int, state: State
) -> tuple[pa.RecordBatch, list[pa.RecordBatch]]:
    """The keys of cells in a snapshot, and their sub-aggregates, one batch an aggregate."""
    keys = table(state, name, schema)
    partials = []
    for i in range(states):
        partial = state.get(f"{name}.{i}")
        if partial is None or partial.num_rows != keys.num_rows:
            raise DecodeError(f"snapshot.{name}.{i}", "is not there, or too short", "a row a cell")
        partials.append(partial)
    return keys, partials


def results(
    grouping: Grouping,
    windows: Times,
    groups: Sequence[pa.Array],
    states: Sequence[Accumulator],
    ids: Ids,
) -> Answers:
    """The answers of ids of `states`; those that cannot be given go aside."""
    unanswerable = [u for state in states if (u := state.unanswerable(ids)) is not None]
    if not unanswerable:
        return Answers(windows, [*groups, *(state.results(ids) for state in states)])
    good = np.ones(len(ids), np.bool_)
    for mask, reason in unanswerable:
        rows = pa.RecordBatch.from_arrays(
            [pa.array(windows[mask]), *(g.filter(pa.array(mask)) for g in groups)],
            names=["_window", *grouping.group_by],
        )
        grouping.aside.put("aggregate", rows, reason)
        good &= ~mask
    kept = [g.filter(pa.array(good)) for g in groups]
    return Answers(windows[good], [*kept, *(state.results(ids[good]) for state in states)])
