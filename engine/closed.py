"""What a source has said of groups and of columns other than its time, held against its rows.

    Punctuation.of({"src": 3}, ts=30)     a row src = 3, ts = 7 is late now, one of src = 4 is not
    Punctuation.of({"src": 5})            so is every row of src = 5
    Punctuation.of(seq=100)               and one with seq = 99

The groups are keys of a table, so a row is judged in one lookup, however many groups are closed.
What a source says of several columns at once is passed on and not held against its rows: that
would cost a pass over the rows for each thing said.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gapless.kernels import KeyTable
from gapless.kernels.columns import Column
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import MemoryLimit
from gapless.protocol.frame import Mask, Times
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.values import from_values

CLOSED_GROUPS_MAX = 1 << 20
"""Groups that are closed further than all rows: a source that closes a million and lets time stand
still has a group for each row, and the source's own stable serves better."""


class _Groups:
    """Closed groups that are named by the same columns: by group, the time below which no row
    comes any more.
    """

    def __init__(self, groups: pa.Schema) -> None:
        self.names = groups.names
        self._groups = groups
        self._table = KeyTable(groups)
        self._before = Column(BEGIN)

    def close(self, values: tuple[object, ...], t: int) -> None:
        columns = [
            from_values([value], field.type, field.name)
            for value, field in zip(values, self._groups, strict=True)
        ]
        ids, _ = self._table.intern(pa.RecordBatch.from_arrays(columns, schema=self._groups))
        if len(self._table) > CLOSED_GROUPS_MAX:
            raise MemoryLimit(
                f"{len(self._table)} groups of {', '.join(self.names)} are closed by punctuation: "
                f"{CLOSED_GROUPS_MAX} are the most until the source's own stable passes them"
            )
        before = self._before.fit(self._table.capacity)
        before[ids] = np.maximum(before[ids], t)

    def late(self, batch: pa.RecordBatch, times: Times) -> Mask:
        columns = [batch.column(name) for name in self.names]
        ids = self._table.find(pa.RecordBatch.from_arrays(columns, schema=self._groups))
        late: Mask = (ids >= 0) & (times < self._before.values[ids])
        return late

    def forget_before(self, t: int) -> None:
        before = self._before.values
        ids = ((before > BEGIN) & (before <= t)).nonzero()[0]
        if len(ids):
            self._table.release(ids)
            before[ids] = BEGIN
            self._before.fit(self._table.capacity)

    def __len__(self) -> int:
        return len(self._table)


class Closed:
    """What one source has closed: groups before a time, other columns before a bound."""

    def __init__(self, payload: pa.Schema, time: str) -> None:
        self._payload = payload
        self._time = time
        self._groups: dict[tuple[str, ...], _Groups] = {}
        self._columns: dict[str, Punctuation] = {}

    def note(self, said: Punctuation) -> None:
        """Remembers what a source says of groups before a time, or of one other column."""
        bounds = dict(said.bounds)
        t = bounds.pop(self._time, INF)
        if said.group and not bounds:
            names = tuple(name for name, _ in said.group)
            if names not in self._groups:
                fields = [self._payload.field(name) for name in names]
                self._groups[names] = _Groups(pa.schema(fields))
            self._groups[names].close(tuple(value for _, value in said.group), t)
        elif not said.group and len(said.bounds) == 1 and bounds:
            column = said.bounds[0][0]
            last = self._columns.get(column)
            if last is None or said.implies(last):
                self._columns[column] = said

    def late(self, batch: pa.RecordBatch, times: Times) -> Mask | None:
        """The rows that should not have come any more; None where there are none."""
        late: Mask | None = None
        for groups in self._groups.values():
            if len(groups):
                of_groups = groups.late(batch, times)
                late = of_groups if late is None else late | of_groups
        for said in self._columns.values():
            of_column = said.matches(batch)
            late = of_column if late is None else late | of_column
        return late if late is not None and np.count_nonzero(late) else None

    def forget_before(self, t: int) -> None:
        """Every row before t is late anyway."""
        for groups in self._groups.values():
            groups.forget_before(t)

    def __bool__(self) -> bool:
        return bool(self._groups) or bool(self._columns)
