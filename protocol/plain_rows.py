"""Rows as plain data, for people and for JSON, also of what Python has no form for.

    ts: timestamp[s] 2024-05-01 12:00:01    "2024-05-01 12:00:01"
    ts: timestamp[s] of the year 300,000    9404934393600            its ticks
    src: bytes that are no UTF-8            "caf�"

Rejected rows are shown so, and what is rejected may well be what nobody else can read.
"""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

from gapless.protocol.columns import without_views
from gapless.protocol.lists import elements
from gapless.protocol.values import to_values

NO_FORM = (OverflowError, ValueError, LookupError, pa.ArrowException)
"""What is raised for a value that Python has no form for: a year, a zone, no text."""


def plain_rows(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows by the names of their columns; what JSON has no form for is text."""
    columns = [plain_column(column) for column in rows.columns]
    return [dict(zip(rows.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def plain_column(column: pa.Array) -> list[Any]:
    """The values of one column."""
    try:
        return [_plain(value) for value in column.to_pylist()]
    except NO_FORM:
        return [_shown(column.slice(i, 1)) for i in range(len(column))]


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, list):
        return list(map(_plain, value))
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def _shown(value: pa.Array) -> Any:
    """One value: as text or a number, or the ticks of a time, or the letters that can be read."""
    try:
        return _plain(value[0].as_py())
    except NO_FORM:
        pass  # so it is taken apart
    t = value.type
    if pa.types.is_struct(t):
        fields = zip(t, value.flatten(), strict=True)
        return str({field.name: _shown(child) for field, child in fields})
    if pa.types.is_list(t):
        inside = elements(value)
        return [_shown(inside.slice(i, 1)) for i in range(len(inside))]
    if pa.types.is_dictionary(t):
        return _shown(value.dictionary.slice(value.indices[0].as_py(), 1))
    if pa.types.is_temporal(t):
        return to_values(value)[0]
    is_large = pa.types.is_large_string(without_views(t))
    raw = value.cast(pa.large_binary() if is_large else pa.binary())
    return raw[0].as_py().decode(errors="replace")
