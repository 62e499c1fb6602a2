"""Arrow types and payload values as the plain data of control documents, and back.

    int32                      "int32"                         a type that Arrow knows by name
    decimal128(5, 2)           b"..."                          any other: an Arrow schema message
    7, 1.5, "A", b"A", None    as they are
    Decimal("1.50")            {"decimal": "1.50"}
    (1, "A")                   {"struct": [1, "A"]}            a struct, a list, an interval

Values are canonical ones (see `values`): timestamps are ticks, dictionaries are decoded. Reading
takes bytes from anybody: each failure is a `DecodeError`.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from gapless.protocol.documents import Document, Fields
from gapless.protocol.errors import DecodeError, FrameError, Misuse, SchemaError
from gapless.protocol.ipc_guard import read_schema
from gapless.protocol.schema import check_type
from gapless.protocol.values import canonical_float, from_values

PLAIN = (bool, int, float, str, bytes)
"""Types of values that are themselves in a document."""
DECIMAL_CHARS_MAX = 160
"""Characters of a decimal: 76 digits is the widest type; an exponent may say the rest."""
DECIMAL_EXPONENT_MAX = 128
"""Largest power of ten in a decimal: Arrow's scales fit in a byte."""


def type_to_plain(t: pa.DataType) -> Document:
    """The type as plain data."""
    name = str(t)
    try:
        if pa.type_for_alias(name) == t:
            return name
    except ValueError:
        pass  # a type with parameters has no name of its own
    data: bytes = pa.schema([pa.field("", t)]).serialize().to_pybytes()
    return data


def type_from_plain(plain: Document) -> pa.DataType:
    """The inverse of `type_to_plain`: null, or a type that payloads may have."""
    if isinstance(plain, str):
        try:
            t = pa.type_for_alias(plain)
        except ValueError:
            raise DecodeError("type", repr(plain[:50]), "a name that Arrow knows") from None
    elif isinstance(plain, bytes):
        schema = read_schema(plain)
        if len(schema) != 1:
            raise DecodeError("type", f"a schema of {len(schema)} fields", 1)
        t = schema.field(0).type
    else:
        raise DecodeError("type", f"is a {type(plain).__name__}", "str or bytes")
    try:
        if not pa.types.is_null(t):
            check_type("value", t)
    except (SchemaError, UnicodeError) as e:
        raise DecodeError("type", str(e)) from None
    return t


def value_to_plain(value: Any) -> Document:
    """The canonical value as plain data."""
    if isinstance(value, tuple):
        return {"struct": [value_to_plain(v) for v in value]}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if value is None or isinstance(value, PLAIN):
        return value
    raise Misuse(f"{value!r} is not a payload value")


def value_from_plain(plain: Document) -> Any:
    """The inverse of `value_to_plain`, by itself: whether it fits a type is seen in `column`."""
    if isinstance(plain, float):
        return canonical_float(plain)
    if isinstance(plain, list):
        raise DecodeError("value", "is a list", "a plain value")
    if not isinstance(plain, dict):
        return plain
    fields = Fields(plain, "value")
    if "decimal" in plain:
        text = fields.take("decimal", str)
        fields.done()
        return _decimal(text)
    items = fields.take("struct", list)
    fields.done()
    return tuple(map(value_from_plain, items))


def column(values: list[Any], t: pa.DataType) -> pa.Array:
    """Decoded values as a column of type `t`."""
    try:
        return from_values(values, t)
    except (FrameError, AttributeError, KeyError) as e:
        raise DecodeError("value", f"does not fit {t}: {e}") from None


def _decimal(text: str) -> Decimal:
    if len(text) > DECIMAL_CHARS_MAX:
        raise DecodeError("decimal", f"{len(text)} characters", f"<= {DECIMAL_CHARS_MAX}")
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise DecodeError("decimal", repr(text), "a number") from None
    exponent = value.as_tuple().exponent
    if not value.is_finite() or abs(int(exponent)) > DECIMAL_EXPONENT_MAX:
        raise DecodeError("decimal", repr(text), f"an exponent <= {DECIMAL_EXPONENT_MAX}")
    return value
