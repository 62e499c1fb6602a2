"""Columns of JSON: as what Arrow reads them, and what is made of that.

    declared                     read as      then
    int32, bool, string          the same     as it is
    float                        double       the nearest, if that is not infinite
    timestamp, date, binary ...  string       by the rule of texts (protocol/text_fields.py)
    duration                     int64        counts of its unit
    decimal                      the widest   exactly
    struct, list                 a struct, a list of those

A kind of JSON stays a kind: a quoted number is a text, and no number.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gapless.protocol.casts import Made, Mask, by_elements, encoded, exact
from gapless.protocol.text_fields import read

_is = pa.types
_DIGITS_MAX = 76


def read_type(t: pa.DataType) -> pa.DataType:
    """The type in which Arrow's reader is to give a column of type `t`; `SchemaError` where JSON
    has none.
    """
    if _is.is_struct(t):
        return pa.struct([pa.field(f.name, read_type(f.type)) for f in t])
    if _is.is_list(t):
        return pa.list_(read_type(t.value_type))
    if _is.is_dictionary(t):
        return read_type(t.value_type)
    if _is.is_integer(t) or _is.is_boolean(t):
        return t
    if _is.is_floating(t):
        return pa.float64()
    if _is.is_duration(t):
        return pa.int64()
    if _is.is_decimal(t):
        return pa.decimal256(_DIGITS_MAX, t.scale)
    read(pa.array([], pa.string()), t)
    return pa.string()


def made(column: pa.Array, t: pa.DataType) -> Made:
    """A column as it was read, in the type `t`."""
    if column.type == t:
        return Made(column, None)
    if _is.is_struct(t):
        return _struct(column, t)
    if _is.is_list(t):
        return by_elements(column, t, made)
    if _is.is_dictionary(t):
        values, misfits = made(column, t.value_type)
        return Made(encoded(values, t), misfits)
    if _is.is_string(column.type):
        return read(column, t)
    if _is.is_duration(t):
        return Made(column.view(t), None)
    return exact(column, t)


def _struct(column: pa.StructArray, t: pa.StructType) -> Made:
    """Field by field; of a struct that is null its fields are null, so nothing in it misfits."""
    children, misfits = [], np.zeros(len(column), np.bool_)
    for child, field in zip(column.flatten(), t, strict=True):
        values, wrong = made(child, field.type)
        children.append(values)
        if wrong is not None:
            misfits |= wrong
    nulls = column.is_null() if column.null_count else None
    whole = pa.StructArray.from_arrays(children, fields=list(t), mask=nulls)
    found: Mask | None = misfits if misfits.any() else None
    return Made(whole, found)
