"""Rows that wait to be counted: the tuple buffer of section 6.3 of window-queries.

    put      [A 7, B 7]  [A 9]          copies, without what the aggregates do not read
    keep     [B 7] [A 9]                what is dropped has been counted for the last time

Rows stay in the order in which they came, as one batch once somebody asks for them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gapless.kernels.keys import Ids, Mask
from gapless.operators.cells import distinct
from gapless.operators.pick import Picks
from gapless.protocol.columns import concat_batches, take_rows
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Times
from gapless.protocol.schema import VS


class LazyRows:
    """Rows and their times. A column of times among the rows is not kept twice."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._picks = Picks(schema)
        self._kept = [i for i, name in enumerate(schema.names) if name != VS]
        self._times: list[Times] = []
        self._rows: list[pa.RecordBatch] = []
        self._count = 0
        self.nbytes = 0
        """Bytes of all rows."""
        self.fresh = 0
        """So many of the last rows have come since somebody set this to 0."""

    def __len__(self) -> int:
        return self._count

    def put(self, times: Times, rows: pa.RecordBatch, chosen: Ids | None = None) -> None:
        """Copies rows, those that are chosen, for they are parts of larger batches."""
        at = np.arange(len(times)) if chosen is None else chosen
        if len(at):
            batch = self._picks.take(rows, at).select(self._kept)
            self._append(times[at], batch)
            self.fresh += len(at)

    def _append(self, times: Times, batch: pa.RecordBatch) -> None:
        self._times.append(times)
        self._rows.append(batch)
        self._count += len(times)
        self.nbytes += times.nbytes + int(batch.nbytes)

    @property
    def times(self) -> Times:
        """The times of all rows."""
        if len(self._times) != 1:
            self._times = [np.concatenate((np.empty(0, np.int64), *self._times))]
        return self._times[0]

    def panes(self, length: int) -> Times:
        """The panes that have a row, each once."""
        if not self._count:
            return self.times
        panes = self.times // length
        return distinct(panes, int(panes.min()), int(panes.max()))

    @property
    def rows(self) -> pa.RecordBatch:
        """All rows, as they were put."""
        own = iter(self._own.columns)
        columns = [pa.array(self.times) if name == VS else next(own) for name in self._schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    @property
    def _own(self) -> pa.RecordBatch:
        """All rows without their times."""
        if not self._rows:
            return _none(self._schema).select(self._kept)
        if len(self._rows) > 1:
            self._rows = [concat_batches(self._rows)]
        return self._rows[0]

    def keep(self, kept: Mask) -> None:
        """Drops all others."""
        if kept.all():
            return
        times, rows, fresh = self.times[kept], self._own, kept[self._count - self.fresh :]
        self._times, self._rows, self._count, self.nbytes = [], [], 0, 0
        if len(times):
            self._append(times, take_rows(rows, kept) if self._kept else rows)
        self.fresh = int(np.count_nonzero(fresh))

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""
        rows = self._count if not self._kept else self.rows.num_rows
        if not self._count == len(self.times) == rows:
            raise Bug("rows that wait are not as many as their times")
        if not 0 <= self.fresh <= self._count:
            raise Bug(f"{self.fresh} of {self._count} waiting rows are new")


def _none(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, t) for t in schema.types], schema=schema)
