"""Live keys of r3 and r4: (vs, payload) as ids, dense and recycled.

    id   vs   payload
     0    6   A
     1    7   B

A row whose `vs` lies below the output's stable and whose key has no id is about something that has
been settled and forgotten: it makes no key, and its id is `SETTLED`. Every other row gets one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.kernels.pick import Picker
from gapless.protocol.elements import INF
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame, Mask, Times
from gapless.protocol.schema import VS, StreamSchema

Ids = npt.NDArray[np.int64]

SETTLED = -1


def positions(mask: npt.NDArray[np.bool_]) -> Ids:
    """Where a mask is true; `np.flatnonzero` without its wrapper, which costs as much again."""
    return mask.nonzero()[0]


class Keys:
    """The live keys. What is known of each is the caller's, in arrays over the ids."""

    def __init__(self, schema: StreamSchema) -> None:
        self.schema = pa.schema([schema.arrow.field(VS), *schema.payload])
        self._table = KeyTable(self.schema)
        self._picker = Picker(schema.arrow)
        self._columns = [0, *range(3, 3 + len(schema.payload))]  # of a frame's batch

    @property
    def capacity(self) -> int:
        """One above the largest live id."""
        return self._table.capacity

    def of(self, frame: Frame) -> pa.RecordBatch:
        """The keys of a frame's rows."""
        return frame.batch.select(self._columns)

    def intern(self, frame: Frame, stable: int) -> tuple[Ids, Mask]:
        """The id of each row, and where it is new; `SETTLED` where a row makes no key."""
        return self._table.intern_since(self.of(frame), frame.vs, stable)

    def pick(self, frame: Frame, positions: Ids) -> Frame:
        """Some rows of a frame, without its stable; ascending positions."""
        n = len(positions)
        if n == len(frame):
            return frame.with_stable(None)
        if n and positions[-1] - positions[0] == n - 1:
            return frame.slice(int(positions[0]), n)
        batch = self._picker.take(frame.batch, positions)
        return frame.take(positions) if batch is None else frame.picked(batch)

    def rows(self, ids: Ids) -> pa.RecordBatch:
        """`_vs` and the payload of live ids."""
        return self._table.rows(ids)

    def release(self, ids: Ids) -> None:
        """Frees ids; the caller has reset its own arrays."""
        self._table.release(ids)

    def __len__(self) -> int:
        return len(self._table)

    @property
    def nbytes(self) -> int:
        """Bytes of state."""
        return self._table.nbytes

    def validate(self, starts: Times) -> None:
        """`starts`, by id, has those of live keys, and INF where an id is free."""
        self._table.validate()
        live = positions(starts < INF)
        if len(live) != len(self._table):
            raise Bug(f"{len(live)} live starts, {len(self._table)} live keys")
        if len(live) and (self.rows(live).column(0).to_numpy() != starts[live]).any():
            raise Bug("a key's start is not that of its id")
