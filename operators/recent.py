"""Recent: a row follows the last one of its key before it (Stream Mill, figure 12).

    A at 3, 7      B at 5, 7, 9       5 follows 3, 7 follows 3, 9 follows 7

The paper's join has a window of one tuple on A: the next A takes the place of the one before. Here
B may come out of order, so an A is there until the next of its key comes, or for `within`; that is
as `latest_by` has it, and B looks at the instant before it. Of A at one time, the last by payload
is the most recent.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.operators.past_rows import PastRows, until
from gapless.protocol.columns import take_rows
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Times


class Recent:
    """Of each key the rows that later ones may follow, one at a time."""

    by_rank = False
    """Whether those that follow have to come in the order of key, time and payload."""

    def __init__(self, payload: pa.Schema, within: int | None) -> None:
        self.past = PastRows(payload)
        self._within = within
        self._last = Column(-1)  # by key, the row that the next one ends

    def fit(self, keys: int) -> None:
        """Keys are below this."""
        self._last.fit(keys)

    def take_in(self, keys: Ids, vs: Times, payload: pa.RecordBatch) -> None:
        """Rows by key, time and payload, none before one that is known."""
        ends = until(vs, self._within)
        goes_on = keys[1:] == keys[:-1]
        ends[:-1] = np.where(goes_on, np.minimum(ends[:-1], vs[1:]), ends[:-1])
        first = np.append(True, ~goes_on)
        before = self._last.values[keys[first]]
        known = before >= 0
        self.past.end(before[known], vs[first][known])
        there = (ends > vs).nonzero()[0]
        ids = np.full(len(keys), -1)
        if len(there) < len(keys):
            payload = take_rows(payload, there)
        ids[there] = self.past.add(keys[there], vs[there], ends[there], payload)
        last = np.append(~goes_on, True)
        self._last.values[keys[last]] = ids[last]

    def match(self, keys: Ids, vs: Times, rows: pa.RecordBatch) -> tuple[Ids, Ids]:
        """Which of these rows follow one, and the ids of those."""
        del rows
        _, met = self.past.before(keys, vs)
        return met.asked, met.id

    def take(self, ids: Ids) -> pa.RecordBatch:
        """The rows that are followed."""
        return self.past.rows(ids)

    def purge(self, before: int) -> None:
        """What is yet to come, or waits, is at this time or later."""
        ids = self.past.ended(before)
        if len(ids):
            keys = self.past.keys(ids)
            gone = keys[self._last.values[keys] == ids]
            self._last.values[gone] = -1
            self.past.release(ids)

    def forget_but(self, keys: Ids) -> None:
        """Other keys may become others'; they have no rows."""

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and of the last of each key."""
        return self.past.nbytes + self._last.nbytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self.past.validate()
        keys = (self._last.values >= 0).nonzero()[0]
        if (self.past.keys(self._last.values[keys]) != keys).any():
            raise Bug("the last row of a key has another key")
