"""One task's rows, from batches of Spark into a journal's: what is data, and what is not.

    ts        src  len   _why                               row of the journal?
    12:00:00  7    80    null                               yes
    null      null null  {"reason": "len < 0", ...}         no: somebody else has found it bad
    12:00:01  7    2^40  null                               no: the journal's len is int32
    11:59:00  7    80    null                               the journal says: late, or not

Good rows are never looked at one by one. Rows that are not taken are few, and go to the reject file
with a reason, where they come from, and themselves.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.journal.batch import TaskWriter
from gapless.journal.layout import Layout
from gapless.protocol.casts import misfit
from gapless.protocol.columns import take_rows
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Times
from gapless.protocol.plain_rows import plain_rows
from gapless.spark_sources.conform import Bad, conformed, either
from gapless.spark_sources.options import SORTED, WriteOptions


class TaskRows:
    """Gives a writer the rows of Spark's batches, in the journal's columns."""

    def __init__(
        self, layout: Layout, options: WriteOptions, names: Sequence[str], writer: TaskWriter
    ) -> None:
        """`names` are those of Spark's columns, in Spark's order."""
        self._layout = layout
        self._payload = layout.schema.payload
        self._writer = writer
        self._data = [names.index(name) for name in self._payload.names]
        at = {name: names.index(name) for name in options.extra}
        self._reject = at.get(options.reject_column or "")
        self._origin = at.get(options.origin_column or "")
        self._promise = at.get(options.promise_column or "")
        self._sorted = options.by_partition == SORTED

    def take(self, batch: pa.RecordBatch) -> None:
        """Takes one batch of Spark's."""
        if self._reject is not None:
            batch = self._without_rejected(batch, self._reject)
        if not batch.num_rows:
            return
        origins = None if self._origin is None else batch.column(self._origin)
        columns, misfits = [], []
        bad: Bad = None
        for place, field in zip(self._data, self._payload, strict=True):
            column, wrong = conformed(batch.column(place), field.type)
            columns.append(column)
            if wrong is not None:
                misfits.append((misfit(field.name, field.type), wrong))
                bad = either(bad, wrong)
        rows = pa.RecordBatch.from_arrays(columns, schema=self._payload)
        promises = self._promises(batch, rows)
        if bad is not None:
            self._reject_misfits(batch, bad, misfits, origins)
            good = ~bad
            rows = take_rows(rows, good)
            promises = None if promises is None else promises[good]
            origins = None if origins is None else origins.filter(pa.array(good))
        self._writer.add(rows, promises, origins)

    def _promises(self, batch: pa.RecordBatch, rows: pa.RecordBatch) -> Times | None:
        """What may be promised of a partition behind each row; of a row without a time anything,
        as it is not taken.
        """
        if self._promise is not None:
            column = batch.column(self._promise)
            if column.null_count:
                raise Misuse(f"{batch.schema.names[self._promise]} is null: each row has a promise")
        elif self._sorted:
            column = pc.fill_null(rows.column(self._layout.time).view(pa.int64()), 0)
        else:
            return None
        promises: Times = column.to_numpy()
        return promises

    def _without_rejected(self, batch: pa.RecordBatch, place: int) -> pa.RecordBatch:
        """Hands on what somebody else has found bad; the rows that are left are data."""
        said = batch.column(place)
        if said.null_count == len(said):
            return batch
        self._writer.reject([_told(text) for text in said.drop_null().to_pylist()])
        return batch.filter(said.is_null())

    def _reject_misfits(
        self,
        batch: pa.RecordBatch,
        bad: npt.NDArray[np.bool_],
        misfits: Sequence[tuple[str, npt.NDArray[np.bool_]]],
        origins: pa.Array | None,
    ) -> None:
        at = np.flatnonzero(bad)
        reasons = [next(why for why, wrong in misfits if wrong[row]) for row in at]
        where = [None] * len(at) if origins is None else origins.take(pa.array(at)).to_pylist()
        rows = plain_rows(batch.select(self._data).take(pa.array(at)))
        self._writer.reject(
            [
                (why, origin or "Spark", row)
                for why, origin, row in zip(reasons, where, rows, strict=True)
            ]
        )


def _told(text: str) -> tuple[str, str, Any]:
    """A rejected row, as the JSON text of the reject column has it."""
    try:
        told = json.loads(text)
        return str(told["reason"]), str(told["origin"]), told["row"]
    except (ValueError, KeyError, TypeError):
        raise Misuse(
            f'the reject column has {text!r}: it is to be JSON {{"reason", "origin", "row"}}'
        ) from None
