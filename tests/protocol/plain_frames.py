"""Batches of one text column, row by row, also such as no frame may have."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from gapless.protocol.schema import StreamSchema

SCHEMA = StreamSchema({"p": "string"})
TIME_COLUMNS = range(3)


def batch_of(*rows: tuple[Any, Any, Any], payload: list[Any] | None = None) -> pa.RecordBatch:
    """Rows of (`_vs`, `_ve`, `_was`)."""
    columns = [pa.array([row[i] for row in rows], pa.int64()) for i in TIME_COLUMNS]
    values = ["A"] * len(rows) if payload is None else payload
    return pa.RecordBatch.from_arrays([*columns, pa.array(values)], schema=SCHEMA.arrow)
