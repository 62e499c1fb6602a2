"""One question, asked in many ways: whichever rows came first, and however they were put together.

A `Told` is what an oracle looks at: the values and times of each group, in no order. `ask` adds the
same rows to an accumulator in some order, in some cut, in some panes, takes panes and merges them,
some by way of a file, and where the function is differential subtracts rows that never were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from gapless.operators.aggregates.counts import Count
from gapless.operators.aggregates.function import Accumulator, AggregateFunction
from gapless.protocol.values import from_values, to_values

GROUPS = 4
PANES = 3
COLUMN = "x"


@dataclass(frozen=True)
class Told:
    """Rows: a group, a time and a value each."""

    type: pa.DataType
    groups: Sequence[int]
    times: Sequence[int]
    values: Sequence[Any]

    @property
    def others(self) -> list[int | None]:
        """What stands beside each value, in column `other`."""
        beside = [hash((i, t)) % 4 for i, t in enumerate(self.times)]
        return [None if x == 3 else x for x in beside]

    def of(self, group: int) -> list[tuple[int, Any]]:
        """Times and values of a group; None is a null."""
        rows = zip(self.groups, self.times, self.values, strict=True)
        return [(t, v) for g, t, v in rows if g == group]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([("other", pa.int8()), (COLUMN, self.type)])

    def rows(self, which: Sequence[int]) -> tuple[Any, pa.RecordBatch, Any]:
        """Groups, rows and times at some places."""
        column = from_values([self.values[i] for i in which], self.type)
        beside = self.others
        other = pa.array([beside[i] for i in which], pa.int8())
        batch = pa.RecordBatch.from_arrays([other, column], schema=self.schema)
        groups, times = ([xs[i] for i in which] for xs in (self.groups, self.times))
        return np.array(groups, np.int64), batch, np.array(times, np.int64)


@dataclass
class _Asking:
    """An accumulator, maybe with one that counts rows for it, and where panes are."""

    states: list[Accumulator]
    rng: np.random.Generator

    def ids(self, pane: int, groups: Any) -> Any:
        return np.asarray(groups, np.int64) + GROUPS * pane

    def add(self, pane: int, groups: Any, batch: pa.RecordBatch, times: Any) -> None:
        for state in self.states:
            state.add(self.ids(pane, groups), batch, times)
            state.validate()

    def take(self, pane: int, groups: Any) -> list[pa.RecordBatch]:
        taken = [state.take(self.ids(pane, groups)) for state in self.states]
        for state, partial in zip(self.states, taken, strict=True):
            assert partial.schema.equals(state.partial_schema)
        return [self._travelled(partial) for partial in taken]

    def _travelled(self, partial: pa.RecordBatch) -> pa.RecordBatch:
        how = self.rng.integers(4)
        if how == 0:
            return partial
        if how == 1:  # a slice of something longer
            longer = pa.concat_batches([partial, partial])
            return longer.slice(partial.num_rows)
        if how == 2:  # rows of another order, put right again
            order = self.rng.permutation(partial.num_rows)
            return partial.take(pa.array(order)).take(pa.array(np.argsort(order)))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, partial.schema) as writer:
            writer.write_batch(partial)
        with pa.ipc.open_file(sink.getvalue()) as reader:
            return reader.get_batch(0)

    def merge(self, pane: int, groups: Any, taken: list[pa.RecordBatch]) -> None:
        for state, partial in zip(self.states, taken, strict=True):
            state.merge(self.ids(pane, groups), partial)
            state.validate()

    def unmerge(self, pane: int, groups: Any, taken: list[pa.RecordBatch]) -> None:
        for state, partial in zip(self.states, taken, strict=True):
            state.unmerge(self.ids(pane, groups), partial)
            state.validate()

    def clear(self, pane: int) -> None:
        for state in self.states:
            state.clear(self.ids(pane, range(GROUPS)))
            state.validate()


def accumulators(
    function: AggregateFunction, schema: pa.Schema, shared: bool = False
) -> list[Accumulator]:
    """The function's state first, and that of the rows if it is not to count them itself."""
    if not shared:
        return [function.accumulator(schema)]
    rows = Count().accumulator(schema)
    return [function.accumulator(schema, rows), rows]


def ask(function: AggregateFunction, told: Told, seed: int) -> list[Any]:
    """The answer of each group, by some way that the seed decides; "aside" where there is none."""
    rng = np.random.default_rng(seed)
    asking = _Asking(accumulators(function, told.schema, bool(rng.integers(2))), rng)
    state = asking.states[0]
    everyone = np.arange(GROUPS)
    for s in asking.states:
        s.fit(int(rng.choice([GROUPS * (PANES + 1), 1000])))
    never: list[pa.RecordBatch] = []
    if state.differential and rng.random() < 0.7:
        junk = rng.integers(0, max(1, len(told.values)), int(rng.integers(0, 9)))
        groups, batch, times = told.rows(junk.tolist() if len(told.values) else [])
        asking.add(PANES, rng.permutation(groups), batch, times)
        never = asking.take(PANES, everyone)
        asking.merge(0, everyone, never)
        asking.clear(PANES)
    order = rng.permutation(len(told.values)).tolist()
    while order:  # panes are used again once they have been merged and cleared
        for _ in range(int(rng.integers(1, 4))):
            n = int(rng.integers(0, len(order) + 1))
            asking.add(int(rng.integers(PANES)), *told.rows(order[:n]))
            order = order[n:]
        for pane in rng.permutation(np.arange(1, PANES)).tolist():
            some = rng.permutation(everyone)
            asking.merge(0, some, asking.take(pane, some))
            asking.clear(pane)
    if never:
        asking.unmerge(0, everyone, never)
    for s in asking.states:
        s.fit(GROUPS)
    return answers(state, everyone)


def answers(state: Accumulator, ids: Any) -> list[Any]:
    """What `results` says, with "aside" where there is no answer."""
    unanswerable, results = state.unanswerable(ids), state.results(ids)
    state.validate()
    said = to_values(results)
    if unanswerable is not None:
        assert unanswerable.mask.any()
        assert unanswerable.reason
        for i in unanswerable.mask.nonzero()[0]:
            assert said[i] is None
            said[i] = "aside"
    return said
