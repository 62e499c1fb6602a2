"""Nulls in columns that allow none, at whatever level: a struct's field, a list's element."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.protocol.columns import take
from gapless.protocol.errors import FrameError
from gapless.protocol.lists import elements, lengths


def check_nulls(field: pa.Field, column: pa.Array) -> None:
    """Raises `FrameError` where a field that is not nullable holds a null."""
    if not field.nullable and column.null_count:
        raise FrameError(f"column {field.name}: nulls in a column that is not nullable")
    if pa.types.is_struct(field.type):
        present = column.is_valid() if column.null_count else None
        for i, child in enumerate(field.type):
            values = column.field(i)
            check_nulls(child, values if present is None else take(values, present))
    elif pa.types.is_list(field.type):
        item = field.type.value_field.with_name(f"{field.name}.item")
        check_nulls(item, elements(column))


def null_rows(field: pa.Field, column: pa.Array) -> pa.Array:
    """True for the rows for which `check_nulls` would raise."""
    bad = pc.and_(column.is_null(), not field.nullable)
    if pa.types.is_struct(field.type):
        for i, child in enumerate(field.type):
            inside = null_rows(child, column.field(i))
            bad = pc.or_(bad, pc.and_(column.is_valid(), inside))
    elif pa.types.is_list(field.type):
        inside = null_rows(field.type.value_field, elements(column))
        owners = np.repeat(np.arange(len(column)), lengths(column))
        wrong = np.zeros(len(column), np.bool_)
        wrong[owners[inside.to_numpy(zero_copy_only=False)]] = True
        bad = pc.or_(bad, pa.array(wrong))
    return bad
