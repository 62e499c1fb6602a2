"""Types as SQL writes them, and the Arrow types that they are here.

TIMESTAMP has the precision that is said, TIMESTAMP(3) milliseconds; without one microseconds, as in
Postgres and Flink.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from gapless.protocol.expr import Expr, lit
from gapless.sql_queries.places import Text

_T = exp.DType
_TYPES: dict[exp.DType, pa.DataType] = {
    _T.BOOLEAN: pa.bool_(),
    _T.TINYINT: pa.int8(),
    _T.SMALLINT: pa.int16(),
    _T.INT: pa.int32(),
    _T.BIGINT: pa.int64(),
    _T.UTINYINT: pa.uint8(),
    _T.USMALLINT: pa.uint16(),
    _T.UINT: pa.uint32(),
    _T.UBIGINT: pa.uint64(),
    _T.FLOAT: pa.float32(),
    _T.DOUBLE: pa.float64(),
    _T.TEXT: pa.string(),
    _T.VARCHAR: pa.string(),
    _T.CHAR: pa.string(),
    _T.VARBINARY: pa.binary(),
    _T.BINARY: pa.binary(),
    _T.DATE: pa.date32(),
}
_UNITS = {0: "s", 3: "ms", 6: "us", 9: "ns"}
_DECIMAL = (38, 9)
_KNOWN = (
    "BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, REAL, DOUBLE, DECIMAL(p, s), VARCHAR, BYTEA, DATE, "
    "TIMESTAMP(0 | 3 | 6 | 9), TIMESTAMPTZ, and lists of them, as INT[]"
)


def arrow_type(node: exp.Expr, text: Text) -> pa.DataType:
    """The Arrow type of a type in the text."""
    kind = node.this if isinstance(node, exp.DataType) else None
    sizes = [int(p.name) for p in node.expressions if p.name.isdigit()]
    if kind in (_T.TIMESTAMP, _T.TIMESTAMPNTZ, _T.TIMESTAMPTZ, _T.TIMESTAMPLTZ, _T.DATETIME):
        unit = _UNITS.get(sizes[0] if sizes else 6)
        if unit is None:
            raise text.error("TIMESTAMP has a precision of 0, 3, 6 or 9", node)
        zone = "UTC" if kind in (_T.TIMESTAMPTZ, _T.TIMESTAMPLTZ) else None
        return pa.timestamp(unit, zone)
    if kind == _T.DECIMAL:
        precision, scale = sizes[0] if sizes else _DECIMAL[0], 0
        if not sizes:
            scale = _DECIMAL[1]
        elif len(sizes) > 1:
            scale = sizes[1]
        if not 1 <= precision <= _DECIMAL[0] or scale > precision:
            raise text.error(f"DECIMAL(p, s) has p from 1 to {_DECIMAL[0]}, and s up to p", node)
        return pa.decimal128(precision, scale)
    if kind == _T.ARRAY and len(node.expressions) == 1:
        return pa.list_(arrow_type(node.expressions[0], text))
    found = _TYPES.get(kind) if kind is not None else None
    if found is None:
        raise text.error(f"this is none of the types {_KNOWN}", node)
    return found


def read_as(written: str, to: pa.DataType, node: exp.Expr, text: Text) -> Expr:
    """A text that is written out, as a constant of a type; a time without a zone is in UTC."""
    value = pa.scalar(written)
    try:
        return lit(value.cast(to))
    except (pa.ArrowException, ValueError):
        if pa.types.is_timestamp(to) and to.tz is not None:
            try:
                return lit(value.cast(pa.timestamp(to.unit)).cast(to))
            except (pa.ArrowException, ValueError):
                pass
        raise text.error(f"{written!r} is no {to}", node) from None
