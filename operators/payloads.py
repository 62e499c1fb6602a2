"""Payloads of what an operator holds, each stored once however many events share it.

    table       id 0: A   id 1: B            a KeyTable over the payload columns
    uses            2         1              how many things the operator holds under each id

An operator that keeps events as numbers (payload id, times) hashes a payload once a row and never
again, and stores a long string once. What is used by nothing any more is forgotten.

In a snapshot ids become places: the payloads are written one after the other, and each user of them
writes where each of its own stands. Restoring the snapshot uses them again.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids, Mask
from gapless.operators.memory import UNBOUNDED
from gapless.operators.numbers import unique
from gapless.operators.row_bytes import RowBytes
from gapless.operators.state import State, table
from gapless.protocol.errors import Bug, DecodeError


class Payloads:
    """A KeyTable whose rows live as long as they are used."""

    def __init__(self, payload: pa.Schema) -> None:
        self._table = KeyTable(payload)
        self._uses = Column(0)
        self.memory = UNBOUNDED
        """Asked for the rows that it gives."""
        self._row_bytes = RowBytes(payload)
        self._came_rows, self._came_bytes = 0, 0  # of all that came, under a limit

    def intern(self, payload: pa.RecordBatch) -> Ids:
        """The id of each row. Each must then be used: what never is stays for good."""
        return self.intern_new(payload)[0]

    def intern_new(self, payload: pa.RecordBatch) -> tuple[Ids, Mask]:
        """The same, and where a row was not there yet: its id may have been another's before."""
        ids, new = self._table.intern(payload)
        self._uses.fit(self._table.capacity)
        self._weigh(payload)
        return ids, new

    def _weigh(self, payload: pa.RecordBatch) -> None:
        if self.memory.limit is not None and not self._row_bytes.is_fixed:
            self._came_rows += payload.num_rows
            self._came_bytes += int(self._row_bytes.of(payload).sum())

    @property
    def row_bytes(self) -> float:
        """What a row takes, laid out, in the mean of those that came."""
        if not self._came_rows:
            return self._row_bytes.least
        return self._came_bytes / self._came_rows

    def find(self, payload: pa.RecordBatch) -> Ids:
        """The id of each row, -1 where it has none."""
        return self._table.find(payload)

    def use(self, ids: Ids) -> None:
        """One use more for each mention of an id."""
        np.add.at(self._uses.values, ids, 1)

    def drop(self, ids: Ids) -> None:
        """One use less for each mention of an id; forgets those that have none left."""
        uses = self._uses.values
        np.subtract.at(uses, ids, 1)
        unused = unique(ids[uses[ids] == 0])
        if len(unused):
            self._table.release(unused)
            self._uses.fit(self._table.capacity)

    def uses(self, ids: Ids) -> Ids:
        """How often each is used."""
        uses: Ids = self._uses.values[ids]
        return uses

    def rows(self, ids: Ids) -> pa.RecordBatch:
        """The payloads of these ids."""
        if self.memory.limit is not None:
            self.memory.ask(int(len(ids) * self.row_bytes), "rows of its state")
        return self._table.rows(ids)

    @property
    def schema(self) -> pa.Schema:
        """The columns of a payload."""
        return self._table.schema

    def __len__(self) -> int:
        return len(self._table)

    @property
    def capacity(self) -> int:
        """One above the largest id: how long an array over the ids has to be."""
        return self._table.capacity

    @property
    def nbytes(self) -> int:
        """Bytes of the table and its counts."""
        return int(self._table.nbytes) + self._uses.nbytes

    # -- snapshots ----------------------------------------------------------------------------

    def snapshot(self) -> tuple[pa.RecordBatch, Ids]:
        """All payloads, and by id where each stands among them."""
        ids = self._uses.values.nonzero()[0]
        places = np.full(len(self._uses.values), -1, np.int64)
        places[ids] = np.arange(len(ids))
        return self._table.rows(ids), places

    def restore(self, state: State, name: str) -> Ids:
        """Takes back the payloads of a snapshot; their ids, to be used, by where they stood.

        Called on an empty one. Raises `DecodeError` where two of them are the same.
        """
        payloads = table(state, name, self._table.schema)
        ids, first = self._table.intern(payloads)
        self._weigh(payloads)
        if not first.all():
            repeats = len(first) - int(np.count_nonzero(first))
            raise DecodeError(f"snapshot.{name}", f"{repeats} repeated rows", "each row once")
        self._uses.fit(self._table.capacity)
        return ids

    def validate(self, used: Ids) -> None:
        """Raises `Bug` unless the ids in use, each as often as it is used, are exactly `used`."""
        self._table.validate()
        uses = self._uses.values
        if len(used) and int(used.max()) >= len(uses):
            raise Bug("a payload in use has no count")
        if (np.bincount(used, minlength=len(uses)) != uses).any():
            raise Bug("payloads are counted as used more or less often than they are")
        if int((uses > 0).sum()) != len(self._table):
            raise Bug(f"{int((uses > 0).sum())} payloads in use, {len(self._table)} live keys")
