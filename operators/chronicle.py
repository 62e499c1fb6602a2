"""Chronicle: a row follows the earliest of its key that none has followed (Stream Mill, fig. 13).

    A at 3, 4, 8     B at 5, 6, 7, 9        5 follows 3, 6 follows 4, 7 follows none, 9 follows 8

Each A is followed once (the paper's key-join), then purged. The A of a key are numbered from 0 in
the order of time and payload, and taken in that order. A B takes number x, the first that is left,
unless that A is at B's time or later. So x walks: with `since` and `upto` the numbers of the first
A that is not too old and of the first that is too late,

    x  ->  min(max(x, since) + 1, upto)

one walk a key, reflected at its bounds. Such steps have the form min(max(x + a, b), c), and two of
them are one of that form. So all walks are computed together in log n rounds: 1, 2, 4, ... steps.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.operators.numbers import numbers, numbers_schema
from gapless.operators.past_rows import PastRows, until
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Times


class Chronicle:
    """Of each key the rows that none has followed, in their order."""

    by_rank = True
    """Whether those that follow have to come in the order of key, time and payload."""

    def __init__(self, payload: pa.Schema, within: int | None) -> None:
        self.past = PastRows(payload)
        self._within = within
        self._places = KeyTable(numbers_schema("key", "number"))
        self._id = Column(-1)  # by place, of the row
        self._place = Column(-1)  # by id of a row, as is `_number`
        self._number = Column(0)
        self._first = Column(0)  # by key, the number that is taken next
        self._end = Column(0)  # by key, the number of the next row

    def fit(self, keys: int) -> None:
        """Keys are below this."""
        self._first.fit(keys)
        self._end.fit(keys)

    def take_in(self, keys: Ids, vs: Times, payload: pa.RecordBatch) -> None:
        """Rows by key, time and payload, none before one that is known."""
        number = self._end.values[keys] + places_in_runs(keys)
        self._end.values[keys] = number + 1  # of each key, numpy keeps the last
        places, _ = self._places.intern(numbers(key=keys, number=number))
        ids = self.past.add(keys, vs, until(vs, self._within), payload)
        self._id.fit(self._places.capacity)[places] = ids
        self._place.fit(self.past.capacity)[ids] = places
        self._number.fit(self.past.capacity)[ids] = number

    def match(self, keys: Ids, vs: Times, rows: pa.RecordBatch) -> tuple[Ids, Ids]:
        """Which of these rows, by key and rank, follow one, and the ids of those."""
        del rows
        first = self._first.values[keys]
        upto = self._numbers_at(keys, vs, first, self._end.values[keys])
        since = first
        if self._within is not None:
            oldest = np.maximum(vs, BEGIN + self._within) - self._within
            since = self._numbers_at(keys, oldest, first, upto)
        taken, left = walks(keys, first, since, upto)
        self._first.values[keys] = left  # of each key, numpy keeps the last
        at = (taken < upto).nonzero()[0]
        return at, self._ids(keys[at], taken[at])

    def _numbers_at(self, keys: Ids, times: Times, low: Ids, high: Ids) -> Ids:
        """By question, the number in `[low, high]` of the first row at this time or later."""
        low, high = low.copy(), high.copy()
        left = (low < high).nonzero()[0]
        middle = high[left] - 1  # mostly all are before: then this is the only round
        while len(left):
            ids = self._ids(keys[left], middle)
            earlier = self.past.times(ids) < times[left]
            low[left[earlier]] = middle[earlier] + 1
            high[left[~earlier]] = middle[~earlier]
            left = left[low[left] < high[left]]
            middle = (low[left] + high[left]) // 2
        return low

    def _ids(self, keys: Ids, number: Ids) -> Ids:
        ids: Ids = self._id.values[self._places.find(numbers(key=keys, number=number))]
        return ids

    def take(self, ids: Ids) -> pa.RecordBatch:
        """The rows that are followed: no other row will follow them."""
        rows = self.past.rows(ids)
        self._release(ids)
        return rows

    def purge(self, before: int) -> None:
        """What is yet to come, or waits, is at this time or later."""
        ids = self.past.ended(before)
        if len(ids):
            np.maximum.at(self._first.values, self.past.keys(ids), self._number.values[ids] + 1)
            self._release(ids)

    def _release(self, ids: Ids) -> None:
        if len(ids):
            self._places.release(self._place.values[ids])
            self._place.values[ids] = -1
            self._number.values[ids] = 0
            self.past.release(ids)
            for column in (self._place, self._number):
                column.fit(self.past.capacity)
            self._id.fit(self._places.capacity)

    def forget_but(self, keys: Ids) -> None:
        """Other keys may become others'; they have no rows."""
        for column in (self._first, self._end):
            kept = column.values[keys]
            column.values[:] = 0
            column.values[keys] = kept

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and their numbers."""
        columns = self._id, self._place, self._number, self._first, self._end
        own = int(self._places.nbytes) + sum(column.nbytes for column in columns)
        return self.past.nbytes + own

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self.past.validate()
        self._places.validate()
        ids = self.past.ids
        if len(ids) != len(self._places):
            raise Bug(f"{len(ids)} rows, {len(self._places)} of them have a number")
        keys, number = self.past.keys(ids), self._number.values[ids]
        if (self._ids(keys, number) != ids).any() or (number >= self._end.values[keys]).any():
            raise Bug("a row has another number than it is known by")


def places_in_runs(keys: Ids) -> Ids:
    """By row, how many before it have its key; equal keys stand together."""
    at = np.arange(len(keys))
    begins = np.ones(len(keys), np.bool_)
    begins[1:] = keys[1:] != keys[:-1]
    return at - np.maximum.accumulate(np.where(begins, at, 0))


def walks(keys: Ids, first: Ids, since: Ids, upto: Ids) -> tuple[Ids, Ids]:
    """By step, the number that is taken, `upto` where none is, and the one that is next. The steps
    of a key stand together; `first` is where its walk begins.
    """
    place = places_in_runs(keys)
    more, least, most = np.ones(len(keys), np.int64), since + 1, upto.copy()
    steps = 1
    while steps <= int(place.max(initial=0)):
        here = (place >= steps).nonzero()[0]
        a, b, c = (column[here - steps] for column in (more, least, most))
        own, low = more[here], least[here]
        most[here] = np.minimum(np.maximum(c + own, low), most[here])
        least[here] = np.maximum(b + own, low)
        more[here] = a + own
        steps *= 2
    left = np.minimum(np.maximum(first + more, least), most)
    now = np.where(place > 0, np.roll(left, 1), first)
    return np.maximum(now, since), left
