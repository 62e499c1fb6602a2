"""LiveRows in plain Python: a dict of rows, and a dict of ids for each key.

The oracle of the native one, and what serves where no compiler was available.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Gate, Ids, Mask, as_int64
from gapless.kernels.twin_chains import ID_MAX
from gapless.kernels.twin_rows import Row, batch_of, rows_of

EVER = -(2**63)
"""Rows that end whenever are stored."""
NO_BOUND = 2**62
"""More answers than there are."""


class Lives(NamedTuple):
    """Keys and lifetimes of rows, column by column."""

    keys: Ids
    vs: Ids
    ve: Ids


class Met(NamedTuple):
    """Stored rows that were found."""

    asked: Ids
    """For which of the rows that asked."""
    id: Ids
    vs: Ids
    ve: Ids

    def pick(self, mask: Mask) -> Met:
        """Those that a mask picks."""
        return self if mask.all() else Met(*(column[mask] for column in self))

    def and_also(self, others: Met) -> Met:
        """These, then the others."""
        return Met(*(np.concatenate(pair) for pair in zip(self, others, strict=True)))


class _Entry(NamedTuple):
    key: int
    vs: int
    ve: int
    row: Row


class LiveRows:
    """Rows of one schema with keys and lifetimes; see `gapless.kernels.live_rows`."""

    def __init__(self, schema: pa.Schema) -> None:
        self._gate = Gate(schema)
        self._lock = Lock()
        self._entries: dict[int, _Entry] = {}
        self._of_key: dict[int, dict[int, None]] = {}  # a dict keeps the order of its keys
        self._free: list[int] = []  # every id below the capacity that is not live
        self._capacity = 0

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self._gate.schema

    def add(self, batch: pa.RecordBatch, keys: Any, vs: Any, ve: Any, since: int = EVER) -> Ids:
        """Stores the rows that end at `since` or later; their ids, -1 for those not stored.

        `ValueError` for a negative key or a row that does not end after it starts.
        """
        self._gate.check(batch)
        lives = _lives(keys, vs, ve)
        rows = rows_of(batch)
        if len(rows) != len(lives):
            raise ValueError("the arrays of one call need the same length")
        for i, (key, start, end) in enumerate(lives):
            if not 0 <= key <= ID_MAX:
                raise ValueError(f"add: key {key} is not an id of a KeyTable")
            if start >= end:
                raise ValueError(f"add: row {i} ends before it starts")
        with self._lock:
            return np.array(
                [
                    self._put(_Entry(*life, row)) if life[2] >= since else -1
                    for life, row in zip(lives, rows, strict=True)
                ],
                np.int64,
            )

    def _put(self, entry: _Entry) -> int:
        if self._free:
            row_id = heapq.heappop(self._free)
        else:
            row_id, self._capacity = self._capacity, self._capacity + 1
        self._entries[row_id] = entry
        self._of_key.setdefault(entry.key, {})[row_id] = None
        return row_id

    def meet(
        self, keys: Any, vs: Any, ve: Any, start: int = 0, most: int = NO_BOUND
    ) -> tuple[int, Met]:
        """Stored rows of the same key and with an instant in common, from row `start` on.

        Stops behind the row with which there are `most` or more; the first is where.
        """
        return self._look(lambda vs, ve, s, e: s < ve and vs < e, (keys, vs, ve), start, most)

    def equals(
        self, keys: Any, vs: Any, ve: Any, start: int = 0, most: int = NO_BOUND
    ) -> tuple[int, Met]:
        """The same for stored rows of the same key with exactly the same lifetime."""
        return self._look(lambda vs, ve, s, e: (vs, ve) == (s, e), (keys, vs, ve), start, most)

    def _look(
        self,
        is_it: Callable[[int, int, int, int], bool],
        columns: tuple[Any, Any, Any],
        start: int,
        most: int,
    ) -> tuple[int, Met]:
        lives = _lives(*columns)
        found: list[tuple[int, int, int, int]] = []
        with self._lock:
            for i in range(start, len(lives)):
                key, vs, ve = lives[i]
                found += [m for m in self._of(key, i) if is_it(vs, ve, m[2], m[3])]
                if len(found) >= most:
                    return i + 1, _met(found)
        return len(lives), _met(found)

    def _of(self, key: int, asked: int) -> list[tuple[int, int, int, int]]:
        ids = self._of_key.get(key, ())
        return [(asked, i, self._entries[i].vs, self._entries[i].ve) for i in ids]

    def _entry(self, row_id: int, call: str) -> _Entry:
        if row_id not in self._entries:
            raise ValueError(f"{call}: id {row_id} is not live")
        return self._entries[row_id]

    def lives(self, ids: Any) -> Lives:
        """Keys and lifetimes of live ids."""
        with self._lock:
            found = [self._entry(i, "lives")[:3] for i in as_int64("ids", ids).tolist()]
        return Lives(*np.array(found, np.int64).reshape(-1, 3).T.copy())

    def set_ends(self, ids: Any, ve: Any) -> None:
        """Lets live rows end at other times. `ValueError` unless those are after their starts."""
        wanted, ends = as_int64("ids", ids).tolist(), as_int64("ve", ve).tolist()
        if len(wanted) != len(ends):
            raise ValueError("the arrays of one call need the same length")
        with self._lock:
            for row_id, end in zip(wanted, ends, strict=True):
                if end <= self._entry(row_id, "set_ends").vs:
                    raise ValueError(f"set_ends: row {row_id} would end before it starts")
            for row_id, end in zip(wanted, ends, strict=True):
                self._entries[row_id] = self._entries[row_id]._replace(ve=end)

    def rows(self, ids: Any) -> pa.RecordBatch:
        """The rows of live ids, in the order asked for."""
        with self._lock:
            rows = [self._entry(i, "rows").row for i in as_int64("ids", ids).tolist()]
        return batch_of(rows, self._gate.schema)

    def release(self, ids: Any) -> None:
        """Forgets rows; their ids will be used again. `ValueError` unless all are live, once."""
        wanted = as_int64("ids", ids).tolist()
        with self._lock:
            seen: set[int] = set()
            for row_id in wanted:
                self._entry(row_id, "release")
                if row_id in seen:
                    raise ValueError(f"release: id {row_id} comes twice")
                seen.add(row_id)
            for row_id in wanted:
                of_key = self._of_key[self._entries.pop(row_id).key]
                del of_key[row_id]
            self._of_key = {key: ids for key, ids in self._of_key.items() if ids}
            self._capacity = max(self._entries, default=-1) + 1
            self._free = [i for i in range(self._capacity) if i not in self._entries]

    @property
    def ids(self) -> Ids:
        """The live ids, from the lowest on."""
        return np.array(sorted(self._entries), np.int64)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def capacity(self) -> int:
        """One above the largest live id: how long an array over the ids has to be."""
        return self._capacity

    @property
    def nbytes(self) -> int:
        """Bytes held; the values inside the rows are estimated from a sample of one."""
        n = sys.getsizeof(self._entries) + sys.getsizeof(self._of_key) + sys.getsizeof(self._free)
        for entry in self._entries.values():
            each = sys.getsizeof(entry) + sum(map(sys.getsizeof, entry.row))
            return n + len(self._entries) * each
        return n

    def validate(self) -> None:
        """Checks every invariant; `RuntimeError` where one is broken."""
        held = {row_id: key for key, ids in self._of_key.items() for row_id in ids}
        if held != {row_id: entry.key for row_id, entry in self._entries.items()}:
            raise RuntimeError("twin live rows: rows and keys disagree")
        if {*self._free, *self._entries} != set(range(self._capacity)):
            raise RuntimeError("twin live rows: an id is neither free nor live")
        if any(entry.vs >= entry.ve for entry in self._entries.values()):
            raise RuntimeError("twin live rows: a row ends before it starts")


def _lives(keys: Any, vs: Any, ve: Any) -> list[tuple[int, int, int]]:
    columns = [as_int64(n, a).tolist() for n, a in (("keys", keys), ("vs", vs), ("ve", ve))]
    if len({len(c) for c in columns}) > 1:
        raise ValueError("the arrays of one call need the same length")
    return list(zip(*columns, strict=True))


def _met(found: list[tuple[int, int, int, int]]) -> Met:
    return Met(*np.array(found, np.int64).reshape(-1, 4).T.copy())
