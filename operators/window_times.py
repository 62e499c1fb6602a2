"""The times that a window reads of rows, where that is another column than `_vs`."""

from __future__ import annotations

import pyarrow as pa

from gapless.operators.operator import Marks
from gapless.protocol.elements import INF
from gapless.protocol.frame import Times
from gapless.protocol.values import ticks_type


def ticks_of(rows: pa.RecordBatch, name: str) -> Times:
    """A progressing column as times; INF where it is null."""
    column = rows.column(rows.schema.get_field_index(name))
    ticks = ticks_type(column.type)
    if ticks is not None:
        column = column.view(ticks)
    column = column.cast(pa.int64())
    times: Times = (column.fill_null(INF) if column.null_count else column).to_numpy()
    return times


def promised(marks: Marks, attribute: str) -> int | None:
    """The largest time that marks promise of an attribute alone."""
    return max((t for mark in marks if (t := mark.as_stable(attribute)) is not None), default=None)
