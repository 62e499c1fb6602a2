"""min, max, first and last of values that are no numbers: strings, structs, wide decimals, ...

    values     0: "b"   1: "a"             each stored once (`Payloads`), however many ids hold it
    id         0  1  2                     a value's number, -1 for none; and with `timed` a time
    picked     1  0  1

A call ranks the values that meet in it, once, in the order of `operators/order.py`, and continues
with ranks as with any number. The smallest is what comes first where all times are equal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.kernels.scatter import HIGHEST, LOWEST, first_at, last_at
from gapless.operators.aggregates.function import Accumulator
from gapless.operators.aggregates.inputs import valid_rows
from gapless.operators.aggregates.plain import plain_type, plain_values, restored
from gapless.operators.order import by_time_and_payload
from gapless.operators.payloads import Payloads
from gapless.protocol.columns import take
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Times

_NONE = -1


class _Candidates(NamedTuple):
    """What may be picked: for the id at a place, at a time, a value."""

    places: Ids
    times: Times
    values: Ids


class PickedValues(Accumulator):
    """The smallest or the largest value by id; with `timed`, of the earliest or latest time."""

    differential = False

    def __init__(self, place: int, t: pa.DataType, largest: bool, timed: bool) -> None:
        self._place = place
        self._type = t
        self._schema = pa.schema([pa.field("value", plain_type(t))])
        self._largest = largest
        self._values = Payloads(self._schema)
        self._picked = Column(_NONE)
        self._times = Column(0) if timed else None
        time = [pa.field("time", pa.int64(), nullable=False)] if timed else []
        self.partial_schema = pa.schema([*self._schema, *time])

    def fit(self, capacity: int) -> None:
        """Makes room."""
        self._picked.fit(capacity)
        if self._times is not None:
            self._times.fit(capacity)

    def add(self, ids: Ids, rows: pa.RecordBatch, times: Times) -> None:
        """Offers each value."""
        self._offer(ids, plain_values(rows.column(self._place)), times)

    def merge(self, ids: Ids, partial: pa.RecordBatch) -> None:
        """Offers the values that were picked there."""
        times = ids if self._times is None else partial.column(1).to_numpy()
        self._offer(ids, partial.column(0), times)

    def _offer(self, ids: Ids, column: pa.Array, times: Times) -> None:
        valid = valid_rows(column)
        if valid is not None:
            ids, times, column = ids[valid], times[valid], take(column, pa.array(valid))
        if not len(ids):
            return
        values = self._values.intern(pa.RecordBatch.from_arrays([column], schema=self._schema))
        self._values.use(values)
        touched, places = np.unique(ids, return_inverse=True)
        held = self._picked.values[touched]
        has = (held != _NONE).nonzero()[0]
        if self._times is None:
            when = np.zeros(len(places) + len(has), np.int64)
        else:
            when = np.concatenate([times, self._times.values[touched[has]]])
        met = np.concatenate([values, held[has]])
        best = self._best(len(touched), _Candidates(np.concatenate([places, has]), when, met))
        self._values.use(best.values)
        self._picked.values[touched] = best.values
        if self._times is not None:
            self._times.values[touched] = best.times
        self._values.drop(met)

    def _best(self, count: int, among: _Candidates) -> _Candidates:
        """One for each place below `count`."""
        met, which = np.unique(among.values, return_inverse=True)
        zeros = np.zeros(len(met), np.int64)
        ascending = met[by_time_and_payload(zeros, zeros, self._values.rows(met))]
        ranks = np.empty(len(met), np.int64)
        ranks[np.searchsorted(met, ascending)] = np.arange(len(met))
        none = LOWEST if self._largest else HIGHEST
        times, best = np.full((2, count), none, np.int64)
        offer = last_at if self._largest else first_at
        offer(times, best, among.places, among.times, ranks[which])
        return _Candidates(np.arange(count), times, ascending[best])

    def take(self, ids: Ids) -> pa.RecordBatch:
        """The values, null where there is none, and their times."""
        columns = [self._of(ids)]
        if self._times is not None:
            columns.append(pa.array(self._times.values[ids]))
        return pa.RecordBatch.from_arrays(columns, schema=self.partial_schema)

    def clear(self, ids: Ids) -> None:
        """Back to none."""
        held = self._picked.values[ids]
        self._values.drop(held[held != _NONE])
        self._picked.values[ids] = _NONE
        if self._times is not None:
            self._times.values[ids] = 0

    def results(self, ids: Ids) -> pa.Array:
        """The values, in their own layout."""
        return restored(self._of(ids), self._type)

    def _of(self, ids: Ids) -> pa.Array:
        picked = self._picked.values[ids]
        has = picked != _NONE
        values = self._values.rows(picked[has]).column(0)
        if len(values) == len(ids):
            return values
        return values.take(pa.array(np.maximum(np.cumsum(has) - 1, 0), mask=~has))

    @property
    def nbytes(self) -> int:
        """Bytes of the values, and of what refers to them."""
        times = 0 if self._times is None else self._times.nbytes
        return self._values.nbytes + self._picked.nbytes + times

    def validate(self) -> None:
        """Each value is used as often as it is held."""
        picked = self._picked.values
        if picked.min() < _NONE:
            raise Bug("an id holds a value that there cannot be")
        self._values.validate(picked[picked != _NONE])
