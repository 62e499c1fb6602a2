"""Rows as people read them: times as timestamps, and nothing where a time is none.

    _vs    _ve    _was               _vs                  _ve                  _was
    6000   INF    BEGIN       -->    1970-01-01 00:00:06  (null)               (null)
    6000   30000  INF                1970-01-01 00:00:06  1970-01-01 00:00:30  (null)

Programs read the int64 columns of a frame's batch: there INF and BEGIN are two things, and every
time has its place. A timestamp has no room for either.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.protocol.elements import BEGIN, INF, format_time
from gapless.protocol.schema import TIME_COLUMNS
from gapless.protocol.values import to_values

ROWS_SHOWN_MAX = 20
"""Of a table in a notebook: what fits a window."""
CELL_CHARS_MAX = 100
"""Of one of its cells."""


def readable(rows: pa.RecordBatch | pa.Table, unit: str) -> pa.Table:
    """The rows with those of the columns `_vs`, `_ve` and `_was` that are there as timestamps in
    the stream's unit, null for INF and BEGIN.
    """
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    for place, field in enumerate(table.schema):
        if field.name in TIME_COLUMNS and field.type == pa.int64():
            times = table.column(place)
            none = pc.or_(pc.equal(times, INF), pc.equal(times, BEGIN))
            known = pc.if_else(none, pa.scalar(None, pa.int64()), times)
            stamps = known.cast(pa.timestamp(unit))
            table = table.set_column(place, pa.field(field.name, pa.timestamp(unit)), stamps)
    return table.replace_schema_metadata(None)


def time_text(t: int, unit: str) -> str:
    """One time: as ISO 8601 has it, or "begin" or "inf"."""
    if t in (BEGIN, INF):
        return format_time(t)
    return str(np.array(t, np.int64).view(f"datetime64[{unit}]"))


def html_of(rows: pa.RecordBatch | pa.Table, unit: str, note: str) -> str:
    """The first rows as a table of a notebook, and a line about all of them."""
    first = readable(rows.slice(0, ROWS_SHOWN_MAX), unit)
    columns = [_texts(column) for column in first.columns]
    more = rows.num_rows - first.num_rows
    told = f"{note}; {more} more rows" if more > 0 else note
    return html_table(first.schema.names, zip(*columns, strict=True), told)


def html_table(names: Sequence[str], rows: Iterable[Sequence[object]], note: str) -> str:
    """A table with its head, and a line below it."""
    head = "".join(f"<th>{_cell(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return (
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{escape(note)}</p>"
    )


def html_text(text: str) -> str:
    """Lines as they are."""
    return f"<pre>{escape(text)}</pre>"


def _texts(column: pa.ChunkedArray) -> list[Any]:
    t = column.type
    whole = column.combine_chunks()
    if pa.types.is_date(t):
        return list(whole.cast(pa.string()).to_pylist())
    if not pa.types.is_timestamp(t):
        return to_values(whole)
    zone = "" if t.tz is None else "Z"  # not by way of Python, whose times end with the year 9999
    ticks = whole.cast(pa.int64()).to_pylist()
    return [None if at is None else f"{time_text(at, t.unit)}{zone}" for at in ticks]


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    return escape(text if len(text) <= CELL_CHARS_MAX else f"{text[:CELL_CHARS_MAX]}...")
