"""Payloads of what an operator holds, each stored once however many events share it.

    table       id 0: A   id 1: B            a KeyTable over the payload columns
    uses            2         1              how many things the operator holds under each id

An operator that keeps events as numbers (payload id, times) hashes a payload once a row and never
again, and stores a long string once. What is used by nothing any more is forgotten.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.kernels.columns import Column
from gapless.kernels.keys import Ids
from gapless.protocol.errors import Bug


class Payloads:
    """A KeyTable whose rows live as long as they are used."""

    def __init__(self, payload: pa.Schema) -> None:
        self._table = KeyTable(payload)
        self._uses = Column(0)

    def intern(self, payload: pa.RecordBatch) -> Ids:
        """The id of each row. Each must then be used: what never is stays for good."""
        ids, _ = self._table.intern(payload)
        self._uses.fit(self._table.capacity)
        return ids

    def use(self, ids: Ids) -> None:
        """One use more for each mention of an id."""
        np.add.at(self._uses.values, ids, 1)

    def drop(self, ids: Ids) -> None:
        """One use less for each mention of an id; forgets those that have none left."""
        uses = self._uses.values
        np.subtract.at(uses, ids, 1)
        unused = np.unique(ids[uses[ids] == 0])
        if len(unused):
            self._table.release(unused)
            self._uses.fit(self._table.capacity)

    def rows(self, ids: Ids) -> pa.RecordBatch:
        """The payloads of these ids."""
        return self._table.rows(ids)

    def __len__(self) -> int:
        return len(self._table)

    @property
    def nbytes(self) -> int:
        """Bytes of the table and its counts."""
        return int(self._table.nbytes) + self._uses.nbytes

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
