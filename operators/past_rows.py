"""Rows that later ones may follow, each until a time of its own.

    add(A at 3, until 13)   add(B at 5, until 15)      a row at 4 to 13 may follow A
    end(A, 5)                                          only one at 4 or 5 may
    ended(6)                A                          no row from 6 on may follow it

A row at t follows those that are there at t - 1, the instant before it: A row lives
`[vs, until)`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.kernels.live_rows import NO_BOUND, LiveRows, Met
from gapless.operators.agenda import Agenda
from gapless.operators.numbers import unique
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Times

STALE_MIN = 1024
"""Fewer entries of rows that have gone are not worth entering all again."""


class PastRows:
    """Rows with a key and a lifetime each."""

    def __init__(self, payload: pa.Schema) -> None:
        self._rows = LiveRows(payload)
        self._until = Column(BEGIN)  # by id; BEGIN where it is free
        self._ending = Agenda()  # of those that end; some have gone, or end earlier by now

    def add(self, keys: Ids, vs: Times, until: Times, payload: pa.RecordBatch) -> Ids:
        """The ids of new rows."""
        ids = self._rows.add(payload, keys, vs, until)
        self._until.fit(self._rows.capacity)[ids] = until
        self._enter(ids, until)
        return ids

    def end(self, ids: Ids, until: Times) -> None:
        """Ends rows that are there longer."""
        longer = self._until.values[ids] > until
        if not longer.all():
            ids, until = ids[longer], until[longer]
        if len(ids):
            self._rows.set_ends(ids, until)
            self._until.values[ids] = until
            self._enter(ids, until)

    def _enter(self, ids: Ids, until: Times) -> None:
        ends = until < INF
        if not ends.all():
            ids, until = ids[ends], until[ends]
        self._ending.add(until, ids)

    def ended(self, before: int) -> Ids:
        """Those that no row at this time or later may follow; they are told once."""
        if before == INF:
            self._ending = Agenda()
            return self.ids
        times, ids = self._ending.due(before)
        if not len(ids):
            return ids
        known = ids < len(self._until.values)
        ids, times = ids[known], times[known]
        return unique(ids[self._until.values[ids] == times])

    def release(self, ids: Ids) -> None:
        """Forgets rows."""
        if not len(ids):
            return
        self._rows.release(ids)
        self._until.values[ids] = BEGIN
        self._until.fit(self._rows.capacity)
        if len(self._ending) > STALE_MIN + 2 * len(self):
            self._ending = Agenda()
            left = self.ids
            self._enter(left, self._until.values[left])

    # -- looking at them ----------------------------------------------------------------------

    def before(self, keys: Ids, vs: Times, start: int = 0, most: int = NO_BOUND) -> tuple[int, Met]:
        """The rows that each of these may follow, from row `start` on, until there are `most`; and
        how far that is.
        """
        return self._rows.meet(keys, vs - 1, vs, start, most)

    def times(self, ids: Ids) -> Times:
        """When rows start."""
        return self._rows.lives(ids).vs

    def keys(self, ids: Ids) -> Ids:
        """The keys of rows."""
        return self._rows.lives(ids).keys

    def rows(self, ids: Ids) -> pa.RecordBatch:
        """Their payloads."""
        return self._rows.rows(ids)

    @property
    def ids(self) -> Ids:
        """All of them."""
        return (self._until.values > BEGIN).nonzero()[0]

    @property
    def capacity(self) -> int:
        """One above the largest id."""
        return int(self._rows.capacity)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        """Bytes of rows and times."""
        return int(self._rows.nbytes) + self._until.nbytes + self._ending.nbytes

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._rows.validate()
        ids = self.ids
        if len(ids) != len(self._rows):
            raise Bug(f"{len(ids)} rows of the past have an end, {len(self._rows)} are held")
        if (self._rows.lives(ids).ve != self._until.values[ids]).any():
            raise Bug("a row of the past ends elsewhere than is known")


def until(vs: Times, within: int | None) -> Times:
    """When rows at these times end that are followed within so long."""
    if within is None:
        return np.full(len(vs), INF)
    return np.where(vs > INF - within, INF, np.minimum(vs, INF - within) + within)
