"""What a stream of changes has built up, as columns; and what a subscriber's program holds.

    id   _vs  _ve  payload   count          ins(A,6,20) ins(B,7,9) adj(A,6,20,30)
     0     6   20  A             0    <--   taken away by the adjust: the id is free again
     1     7    9  B             1
     2     6   30  A             1

`LiveTable` is the table: each row adds an event at its end, each adjust takes one away where it
was. `Received` is what the program of a subscriber holds if it does with each `Emit` what it says;
programs may use it as it is, and tests and the simulator hold it against the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.failover.messages import Token
from gapless.failover.subscriber.effects import Emit
from gapless.kernels import KeyTable
from gapless.kernels.columns import Column
from gapless.protocol.elements import BEGIN, INF, format_time
from gapless.protocol.errors import Bug, StreamViolation
from gapless.protocol.frame import Frame, Mask, Times
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import format_element

Ids = npt.NDArray[np.int64]

Deliver = Literal["changes", "final"]


def check_promise(frame: Frame, stable: int) -> None:
    """Raises `StreamViolation` for a row that may not follow a stable."""
    if stable == BEGIN or not len(frame):
        return
    if frame.insert_only:
        bad = frame.vs < stable
    else:
        bad = np.where(frame.is_insert, frame.vs, np.minimum(frame.was, frame.ve)) < stable
    if bad.any():
        row = frame.slice(int(bad.argmax()), 1).elements()[0]
        raise StreamViolation(format_element(row), f"stable({format_time(stable)}) was promised")


class LiveTable:
    """A multiset of events that frames change, in time that grows with the frame."""

    def __init__(self, schema: StreamSchema) -> None:
        self.schema = schema
        self._keys = KeyTable(pa.schema([*list(schema.arrow)[:2], *schema.payload]))
        self._counts = Column(0)  # by id; 0 where an id is free
        self._starts = Column(INF)
        self._ends = Column(INF)
        self._capacity = 0  # that the columns were last fitted to
        self._after = [0, 1, *range(3, 3 + len(schema.payload))]  # of a frame's columns

    def change(self, frame: Frame) -> None:
        """Takes in the rows of a frame; raises `StreamViolation`, and takes none, where an adjust
        is of an event that is not there.
        """
        if not len(frame):
            return
        if frame.insert_only:
            self._add(frame)
            return
        there = (frame.ve != frame.vs).nonzero()[0]
        added = self._add(frame if len(there) == len(frame) else frame.take(there))
        adjusts = frame.adjusts
        columns = adjusts.batch.columns
        before = pa.RecordBatch.from_arrays([columns[0], *columns[2:]], schema=self._keys.schema)
        taken, _ = self._keys.intern(before)
        self._fit()
        counts = self._counts.values
        np.subtract.at(counts, taken, 1)
        missing = counts[taken] < 0
        if missing.any():
            np.add.at(counts, taken, 1)
            np.subtract.at(counts, added, 1)
            self._release_unused(np.concatenate([added, taken]))
            row = adjusts.slice(int(missing.argmax()), 1)
            raise StreamViolation(
                format_element(row.elements()[0]), "an adjust changes an event that is there"
            )
        self._release_unused(taken)

    def _add(self, frame: Frame) -> Ids:
        ids, _ = self._keys.intern(frame.batch.select(self._after))
        self._fit()
        np.add.at(self._counts.values, ids, 1)
        self._starts.values[ids] = frame.vs
        self._ends.values[ids] = frame.ve
        return ids

    def _fit(self) -> None:
        capacity = self._keys.capacity
        if capacity == self._capacity:
            return
        self._capacity = capacity
        self._counts.fit(capacity)
        self._starts.fit(capacity)
        self._ends.fit(capacity)

    def _release_unused(self, ids: Ids) -> None:
        unused = np.unique(ids[self._counts.values[ids] == 0])
        if len(unused):
            self._release(unused)

    def _release(self, ids: Ids) -> None:
        self._counts.values[ids] = 0
        self._starts.values[ids] = INF
        self._ends.values[ids] = INF
        self._keys.release(ids)
        self._fit()

    # -- parts of it --------------------------------------------------------------------------

    @property
    def starts(self) -> Times:
        """Starts by id; INF where an id is free."""
        return self._starts.values

    @property
    def ends(self) -> Times:
        """Ends by id; INF where an id is free."""
        return self._ends.values

    def ids(self, chosen: Mask | None = None) -> Ids:
        """The ids of the events that are there, of those that a mask by id names."""
        there = self._counts.values > 0
        ids: Ids = (there if chosen is None else there & chosen).nonzero()[0]
        return ids

    def rows(self, ids: Ids) -> Frame:
        """Those events as inserts, each as often as it is there."""
        if not len(ids):
            return Frame.empty(self.schema)
        counts = self._counts.values[ids]
        rows = self._keys.rows(ids if counts.max() == 1 else np.repeat(ids, counts))
        starts, ends = rows.column(0).to_numpy(), rows.column(1).to_numpy()
        return Frame.made(self.schema, starts, ends, rows.columns[2:])

    def drop(self, ids: Ids) -> None:
        """Forgets events."""
        if len(ids):
            self._release(ids)

    def __len__(self) -> int:
        return int(self._counts.values.sum())

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        columns = self._counts.nbytes + self._starts.nbytes + self._ends.nbytes
        return int(self._keys.nbytes) + columns

    def validate(self) -> None:
        """Raises `Bug` where ids, counts and times are not of each other."""
        self._keys.validate()
        counts = self._counts.values
        there = np.flatnonzero(counts)
        if (counts < 0).any() or len(there) != len(self._keys):
            raise Bug(f"{len(there)} counts, {len(self._keys)} keys")
        rows = self._keys.rows(there)
        same = (rows.column(0).to_numpy() == self.starts[there]).all()
        if not same or (rows.column(1).to_numpy() != self.ends[there]).any():
            raise Bug("an event's times are not those of its id")
        if (self.starts[counts == 0] != INF).any() or (self.ends[counts == 0] != INF).any():
            raise Bug("a free id has times")


class Received:
    """What a program holds that does with each `Emit` what it says.

    Strict: a row or a stable that breaks what the stream has promised before is a
    `StreamViolation`. In `final` there is only one promise, that stables never go back: an event
    comes once nothing about it can change, so behind stables that lie above its start.
    """

    def __init__(
        self,
        schema: StreamSchema,
        deliver: Deliver = "changes",
        held: Frame | None = None,
        tokens: Mapping[str, Token] | None = None,
        since: int = BEGIN,
    ) -> None:
        """The last three: what it has kept of a time before, as `frame()`, `tokens`, `since`."""
        self.schema = schema
        self.deliver = deliver
        self.tokens: Mapping[str, Token] = tokens or {}
        """The last that it was handed: hand them back to go on from here."""
        self.stable = BEGIN
        """The last stable that it was handed."""
        self.since = since
        """It holds every event with `ve` from here on; of `final` not known here."""
        self._is_new = held is None
        self._table = LiveTable(schema)
        if held is not None:
            self._table.change(held)
            self.stable = BEGIN if held.stable is None else held.stable

    def take(self, emit: Emit) -> None:
        """Applies an `Emit`."""
        frame = emit.frame
        if emit.reset:
            self._table.drop(self._table.ids(self._table.ends >= emit.since))
            self.since = emit.since if self._is_new else min(self.since, emit.since)
            self.stable = BEGIN
        elif self.deliver == "changes":
            check_promise(frame, self.stable)
        if frame.stable is not None and frame.stable < self.stable:
            raise StreamViolation(
                f"stable({format_time(frame.stable)})",
                f"stables never go back, and {format_time(self.stable)} was promised",
            )
        if self.deliver == "final" and not frame.insert_only:
            raise StreamViolation(
                format_element(frame.adjusts.elements()[0]), "what is final is never adjusted"
            )
        self._table.change(frame)
        self.stable = self.stable if frame.stable is None else frame.stable
        self.tokens = emit.tokens
        self._is_new = False

    def frame(self) -> Frame:
        """All that it holds as inserts, followed by the last stable."""
        rows = self._table.rows(self._table.ids())
        return rows.with_stable(None if self.stable == BEGIN else self.stable)

    def tdb(self) -> Tdb:
        """All that it holds, to be compared."""
        table = Tdb(self.schema)
        table.fold(self.frame())
        return table

    def __len__(self) -> int:
        return len(self._table)

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        self._table.validate()
