"""What a user's function with `merge` needs: one answer by id, of all rows that came so far.

    rows of a frame by id    ->  function   ->  an answer each
    with what is there       ->  merge      ->  one answer

So the function sees the rows of a frame and a pane, and `merge` does the rest. An id of which a
call failed has the reason in place of an answer, for good.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.operators.aggregates.custom import Custom, Said
from gapless.operators.aggregates.function import Accumulator, Unanswerable, place_of
from gapless.operators.aggregates.inputs import valid_rows
from gapless.operators.aggregates.plain import plain_type, plain_values, restored
from gapless.operators.order import by_key_and_rank
from gapless.operators.payloads import Payloads
from gapless.protocol.columns import take_rows
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Times

_NONE = -1


class CustomAnswers(Accumulator):
    """Answers by id, each stored once; or why there is none."""

    differential = False

    def __init__(self, custom: Custom, schema: pa.Schema) -> None:
        self._custom = custom
        self._reads = [place_of(custom, schema, name) for name in custom.names]
        answer = pa.field("answer", plain_type(custom.returns))
        self.partial_schema = pa.schema([answer, ("reason", pa.string())])
        self._answers = Payloads(self.partial_schema)
        self._held = Column(_NONE)

    def fit(self, capacity: int) -> None:
        """Makes room."""
        self._held.fit(capacity)

    def add(self, ids: Ids, rows: pa.RecordBatch, times: Times) -> None:
        """Asks the function about the rows of each id, and merges what it says."""
        columns = [rows.column(place) for place in self._reads]
        rows = pa.RecordBatch.from_arrays(columns, [str(i) for i in range(len(columns))])
        if not self._custom.of_rows:
            times = np.zeros(len(ids), np.int64)
            valid = valid_rows(rows.column(0))
            if valid is not None:
                ids, times, rows = ids[valid], times[valid], take_rows(rows, valid)
        if not len(ids):
            return
        order = by_key_and_rank(ids, times, rows)
        rows, ids = take_rows(rows, order), ids[order]
        begins = np.concatenate([[0], np.diff(ids).nonzero()[0] + 1, [len(ids)]])
        touched = ids[begins[:-1]]
        parts = (rows.slice(b, e - b) for b, e in pairwise(begins.tolist()))
        self._take_in(touched, self._batch(self._custom.ask(part.columns) for part in parts))

    def merge(self, ids: Ids, partial: pa.RecordBatch) -> None:
        """Merges answers."""
        self._take_in(ids, partial)

    def _take_in(self, ids: Ids, partial: pa.RecordBatch) -> None:
        held = self._held.values[ids]
        both = (held != _NONE).nonzero()[0]
        if len(both):
            merged = self._batch(self._merged(self._answers.rows(held[both]), partial, both))
            alone = (held == _NONE).nonzero()[0]
            partial = pa.concat_batches([take_rows(partial, alone), merged])
            ids, held = np.concatenate([ids[alone], ids[both]]), held[both]
        else:
            held = held[:0]
        answers = self._answers.intern(partial)
        self._answers.use(answers)
        self._answers.drop(held)
        self._held.values[ids] = answers

    def _merged(self, held: pa.RecordBatch, new: pa.RecordBatch, places: Ids) -> Iterator[Said]:
        """What `merge` makes of each pair; of reasons the smaller, so that order does not show."""
        ones = restored(held.column(0), self._custom.returns)
        others = restored(new.column(0), self._custom.returns)
        reasons, more = held.column(1).to_pylist(), new.column(1)
        for i, at in enumerate(places.tolist()):
            why = [each for each in (reasons[i], more[at].as_py()) if each is not None]
            yield min(why) if why else self._custom.merged(ones[i], others[at])

    def _batch(self, said: Iterator[Said]) -> pa.RecordBatch:
        column, unanswerable = self._custom.column(said)
        reasons: list[str | None] = [None] * len(column)
        if unanswerable is not None:
            for mask, reason in unanswerable.by_reason():
                for at in mask.nonzero()[0].tolist():
                    reasons[at] = reason
        arrays = [plain_values(column), pa.array(reasons, pa.string())]
        return pa.RecordBatch.from_arrays(arrays, schema=self.partial_schema)

    def take(self, ids: Ids) -> pa.RecordBatch:
        """The answers, null where there is none, and reasons."""
        held = self._held.values[ids]
        has = held != _NONE
        rows = self._answers.rows(held[has])
        if rows.num_rows == len(ids):
            return rows
        at = pa.array(np.maximum(np.cumsum(has) - 1, 0), mask=~has)
        return pa.RecordBatch.from_arrays(
            [column.take(at) for column in rows.columns], schema=self.partial_schema
        )

    def clear(self, ids: Ids) -> None:
        """Back to no answer."""
        held = self._held.values[ids]
        self._answers.drop(held[held != _NONE])
        self._held.values[ids] = _NONE

    def results(self, ids: Ids) -> pa.Array:
        """The answers, in the type that the function returns."""
        return restored(self.take(ids).column(0), self._custom.returns)

    def unanswerable(self, ids: Ids) -> Unanswerable | None:
        """Where a call failed."""
        reasons = self.take(ids).column(1)
        if reasons.null_count == len(reasons):
            return None
        mask = reasons.is_valid().to_numpy(zero_copy_only=False)
        said = {at: reasons[at].as_py() for at in mask.nonzero()[0].tolist()}
        first = next(iter(said.values()))
        return Unanswerable(mask, first, {at: why for at, why in said.items() if why != first})

    @property
    def nbytes(self) -> int:
        """Bytes of the answers, and of what refers to them."""
        return self._answers.nbytes + self._held.nbytes

    def validate(self) -> None:
        """Each answer is used as often as it is held."""
        held = self._held.values
        if held.min() < _NONE:
            raise Bug("an id holds an answer that there cannot be")
        self._answers.validate(held[held != _NONE])
