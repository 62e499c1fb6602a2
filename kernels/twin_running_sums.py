"""RunningSums in plain Python: a dict of cells for each id. The oracle of the native ones."""

from __future__ import annotations

import sys
from threading import Lock
from typing import Any

import numpy as np

from gapless.kernels.keys import Ids, Mask, as_int64
from gapless.kernels.twin_chains import ID_MAX

_LEAST, _MOST = -(2**63), 2**63 - 1


class RunningSums:
    """Sums over ranges of places, by id; see `gapless.kernels.running_sums`."""

    def __init__(self, columns: int) -> None:
        if columns < 1:
            raise ValueError("running sums: needs one column at least")
        self._columns = columns
        self._lock = Lock()
        self._lines: dict[int, dict[int, list[int]]] = {}  # by id and place, in order

    def add(self, ids: Any, places: Any, values: Any) -> bool:
        """Adds cells, by id and then place, `values` a row a column; False, with nothing changed,
        where a cell would leave int64.
        """
        columns = np.ascontiguousarray(values, np.int64)
        keys, at = as_int64("ids", ids).tolist(), as_int64("places", places).tolist()
        if len(columns) != self._columns or {len(keys)} != {len(at), columns.shape[1]}:
            raise ValueError("the arrays of one call need the same length")
        cells = list(zip(keys, at, columns.T.tolist(), strict=True))
        with self._lock:
            fits = self._check(cells)
            for key, place, row in cells if fits else ():
                line = self._lines.setdefault(key, {})
                before = line.get(place, [0] * len(row))
                line[place] = [x + y for x, y in zip(before, row, strict=True)]
        return fits

    def _check(self, cells: list[tuple[int, int, list[int]]]) -> bool:
        before: tuple[int, int] | None = None
        for key, place, row in cells:
            if not 0 <= key <= ID_MAX:
                raise ValueError(f"add: id {key} is not one of a KeyTable")
            if place == _LEAST:
                raise ValueError("add: the least place is none")
            if before is not None and before[0] == key and place <= before[1]:
                raise ValueError("add: places are out of order")
            if before is not None and before[0] > key:
                raise ValueError("add: ids are out of order")
            first = before is None or before[0] != key
            before = key, place
            line = self._lines.get(key)
            if not first or line is None:
                continue
            last = next(reversed(line))
            if place < last:
                raise ValueError("add: a place lies before the last one of its id")
            if place == last and not all(map(_fits, map(sum, zip(line[last], row, strict=True)))):
                return False
        return True

    def sums(self, ids: Any, low: Any, high: Any) -> Ids | None:
        """Of each range [low, high) of an id the sums, a row a column; None where one leaves int64.
        It is fastest where ranges of an id stand together, and go forward.
        """
        asked = [as_int64(*each).tolist() for each in (("ids", ids), ("low", low), ("high", high))]
        found = []
        with self._lock:
            for key, start, end in zip(*asked, strict=True):
                cells = self._lines.get(key, {}).items()
                within = [row for place, row in cells if start <= place < end]
                columns = zip([0] * self._columns, *within, strict=True)
                found.append([sum(column) for column in columns])
        if not all(_fits(total) for row in found for total in row):
            return None
        return np.array(found, np.int64).reshape(-1, self._columns).T.copy()

    def drop(self, ids: Any, places: Any) -> None:
        """Forgets the cells of each id before its place."""
        keys, before = as_int64("ids", ids).tolist(), as_int64("places", places).tolist()
        with self._lock:
            for key, place in zip(keys, before, strict=True):
                self._forget(key, place)

    def drop_before(self, place: int) -> None:
        """Forgets all cells before a place."""
        with self._lock:
            for key in [*self._lines]:
                self._forget(key, place)

    def _forget(self, key: int, before: int) -> None:
        line = self._lines.get(key, {})
        left = {place: row for place, row in line.items() if place >= before}
        if left:
            self._lines[key] = left
        else:
            self._lines.pop(key, None)

    def cells(self) -> tuple[Ids, Ids, Ids]:
        """All cells, by id and then place: ids, places, and values, a row a column."""
        with self._lock:
            found = [
                (key, place, *row)
                for key in sorted(self._lines)
                for place, row in self._lines[key].items()
            ]
        table = np.array(found, np.int64).reshape(-1, 2 + self._columns).T.copy()
        return table[0], table[1], table[2:]

    def has(self, ids: Any) -> Mask:
        """Which ids have a cell."""
        with self._lock:
            return np.array([key in self._lines for key in as_int64("ids", ids).tolist()], np.bool_)

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    @property
    def nbytes(self) -> int:
        """Bytes held, except for the integers."""
        with self._lock:
            lines = sum(map(sys.getsizeof, self._lines.values()))
            return sys.getsizeof(self._lines) + lines

    def validate(self) -> None:
        """Checks every invariant; `RuntimeError` where one is broken."""
        with self._lock:
            for line in self._lines.values():
                if not line or [*line] != sorted(line):
                    raise RuntimeError("twin running sums: an empty line, or one out of order")
                if not all(_fits(value) for row in line.values() for value in row):
                    raise RuntimeError("twin running sums: a value that int64 does not hold")


def _fits(value: int) -> bool:
    return _LEAST <= value <= _MOST
