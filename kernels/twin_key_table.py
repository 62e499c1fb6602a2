"""KeyTable in plain Python: a dict from canonical rows to ids.

The oracle of the native table, and what serves where no compiler was available.
"""

from __future__ import annotations

import heapq
import sys
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Gate, Ids, Mask, as_int64
from gapless.kernels.twin_rows import Row, batch_of, rows_of

SHRINK_MIN = 1024
"""Smaller dicts are not rebuilt: what they could give back is not worth the walk."""


class KeyTable:
    """Rows of one schema as dense, recycled ids; see `gapless.kernels`."""

    def __init__(self, schema: pa.Schema) -> None:
        self._gate = Gate(schema)
        self._lock = Lock()
        self._ids: dict[Row, int] = {}
        self._rows: list[Row | None] = []  # by id; None where the id is free; never ends in None
        # Every free id below len(_rows), and stale ones that a look at _rows tells apart.
        self._free: list[int] = []
        self._peak = 0  # the largest len(_ids) since the dict was last rebuilt

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self._gate.schema

    def intern(self, batch: pa.RecordBatch) -> tuple[Ids, Mask]:
        """The id of each row, and where the row was new and got one."""
        self._gate.check(batch)
        return self._intern(batch, np.ones(batch.num_rows, np.bool_))

    def intern_since(self, batch: pa.RecordBatch, times: Ids, since: int) -> tuple[Ids, Mask]:
        """The same, but rows with a time below `since` get no new id: -1 where they have none."""
        self._gate.check(batch)
        if as_int64("times", times) is not times:
            raise TypeError("times: needs a contiguous int64 array")
        if len(times) != batch.num_rows:
            raise ValueError("the arrays of one call need the same length")
        return self._intern(batch, times >= since)

    def _intern(self, batch: pa.RecordBatch, may_be_new: Mask) -> tuple[Ids, Mask]:
        rows = rows_of(batch)
        first_seen = np.zeros(len(rows), np.bool_)
        with self._lock:
            ids = list(map(self._ids.get, rows))
            for i, key_id in enumerate(ids):
                if key_id is not None:
                    continue
                row = rows[i]
                ids[i] = self._ids.get(row)  # it may have come earlier in this batch
                if ids[i] is None and may_be_new[i]:
                    ids[i] = self._add(row)
                    first_seen[i] = True
            self._peak = max(self._peak, len(self._ids))
        return np.array([-1 if key_id is None else key_id for key_id in ids], np.int64), first_seen

    def _add(self, row: Row) -> int:
        key_id = self._lowest_free()
        if key_id == len(self._rows):
            self._rows.append(row)
        else:
            self._rows[key_id] = row
        self._ids[row] = key_id
        return key_id

    def _lowest_free(self) -> int:
        while self._free and self._free[0] < len(self._rows):
            key_id = heapq.heappop(self._free)
            if self._rows[key_id] is None:
                return key_id
        self._free.clear()  # what is left lies above every id in use
        return len(self._rows)

    def find(self, batch: pa.RecordBatch) -> Ids:
        """The id of each row, -1 where it has none."""
        self._gate.check(batch)
        rows = rows_of(batch)
        with self._lock:
            get = self._ids.get
            return np.array([get(row, -1) for row in rows], np.int64)

    def _row(self, key_id: int, call: str) -> Row:
        row = self._rows[key_id] if 0 <= key_id < len(self._rows) else None
        if row is None:
            raise ValueError(f"{call}: id {key_id} is not live")
        return row

    def release(self, ids: Any) -> None:
        """Forgets rows; their ids will be used again. `ValueError` unless all are live, once."""
        wanted = as_int64("ids", ids).tolist()
        with self._lock:
            seen: set[int] = set()
            for key_id in wanted:
                self._row(key_id, "release")
                if key_id in seen:
                    raise ValueError(f"release: id {key_id} comes twice")
                seen.add(key_id)
            for key_id in wanted:
                del self._ids[self._row(key_id, "release")]
                self._rows[key_id] = None
                heapq.heappush(self._free, key_id)
            while self._rows and self._rows[-1] is None:
                self._rows.pop()
            few = len(self._ids) < self._peak // 4 or len(self._rows) < len(self._free) // 4
            if few and max(self._peak, len(self._free)) >= SHRINK_MIN:
                self._rebuild()

    def _rebuild(self) -> None:
        """Gives memory back: a dict never shrinks by itself."""
        self._ids = dict(self._ids)
        self._rows = list(self._rows)
        self._free = [key_id for key_id, row in enumerate(self._rows) if row is None]
        self._peak = len(self._ids)

    def rows(self, ids: Any) -> pa.RecordBatch:
        """The rows of live ids, in the order asked for."""
        wanted = as_int64("ids", ids).tolist()
        with self._lock:
            rows = [self._row(key_id, "rows") for key_id in wanted]
        return batch_of(rows, self._gate.schema)

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def nbytes(self) -> int:
        """Bytes held; the values inside the rows are estimated from a sample of one."""
        with self._lock:
            n = sys.getsizeof(self._ids) + sys.getsizeof(self._rows) + sys.getsizeof(self._free)
            for row in self._ids:
                return n + len(self._ids) * _size(row)
            return n

    @property
    def capacity(self) -> int:
        """One above the largest live id: how long an array over the ids has to be."""
        return len(self._rows)

    def validate(self) -> None:
        """Checks every invariant; `RuntimeError` where one is broken."""
        with self._lock:
            held = {row: key_id for key_id, row in enumerate(self._rows) if row is not None}
            if held != self._ids:
                raise RuntimeError("twin key table: rows and ids disagree")
            if self._rows and self._rows[-1] is None:
                raise RuntimeError("twin key table: the largest id is not live")
            free = {key_id for key_id, row in enumerate(self._rows) if row is None}
            if not free <= set(self._free):
                raise RuntimeError("twin key table: a free id would never be used again")


def _size(value: Any) -> int:
    inside = sum(map(_size, value)) if isinstance(value, tuple) else 0
    return sys.getsizeof(value) + inside
