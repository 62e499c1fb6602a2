"""What fits what: the checks that nodes make when they are built, each with a sentence that helps.

where(gl.col("lenn") > 0)    where (lenn > 0): no column 'lenn' among ts, len (did you ...?)
lifetime(end="name")         lifetime end name is string: a time is an int64, or a timestamp[ms]
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from gapless.engine.functions import UserFunction
from gapless.engine.names import check_column, unknown
from gapless.protocol.elements import INF
from gapless.protocol.errors import ExpressionError, Misuse, SchemaError
from gapless.protocol.expr import Column, Expr
from gapless.protocol.schema import StreamSchema

Computed = Expr | UserFunction
"""What stands in `where` and `select`."""


def check_time(what: str, t: pa.DataType, unit: str) -> None:
    """Raises unless values of `t` are times in this unit."""
    if t == pa.int64() or (pa.types.is_timestamp(t) and t.unit == unit):
        return
    if pa.types.is_date64(t) and unit == "ms":
        return
    if pa.types.is_timestamp(t) or pa.types.is_date64(t):
        own = t.unit if pa.types.is_timestamp(t) else "ms"
        raise SchemaError(
            f"{what} is {t}, and times are in {unit}: cast it to timestamp[{unit}], or say "
            f"time_unit={own!r} at the source"
        )
    raise SchemaError(f"{what} is {t}: a time is an int64, or a timestamp[{unit}]")


def check_columns(what: str, names: Sequence[str], known: Sequence[str]) -> None:
    """Raises unless all are columns, each named once."""
    for name in names:
        check_column(what, name, known)
    if len(set(names)) != len(names):
        raise SchemaError(f"{what}: {', '.join(names)}: a column comes twice")


def type_of(what: str, computed: Computed, payload: pa.Schema) -> pa.DataType:
    """The type of what is computed; an unknown column is told with the nearest name."""
    if callable(getattr(computed, "__func__", None)):  # a method of an expression
        name = getattr(computed, "__name__", "")
        raise ExpressionError(f"{what}: {name} is a function: call it, {name}(...)")
    if not isinstance(computed, Expr | UserFunction):
        raise ExpressionError(
            f"{what}: {computed!r} is not an expression; write it with gl.col(...), gl.lit(...) "
            "or gl.function(...)"
        )
    for column in sorted(computed.columns):
        if column not in payload.names:
            raise ExpressionError(unknown(f"{what} {computed}", column, payload.names))
    try:
        return computed.type(payload)
    except ExpressionError as e:
        raise ExpressionError(f"{what}: {e}") from None


def check_alike(what: str, first: StreamSchema, other: StreamSchema, which: str) -> None:
    """Raises at the first difference of two schemas that have to be equal."""
    if first == other:
        return
    if first.time_unit != other.time_unit:
        raise SchemaError(
            f"{what}: times are in {first.time_unit}, of {which} in {other.time_unit}"
        )
    if len(first.names) != len(other.names):
        raise SchemaError(
            f"{what}: the first has the columns {', '.join(first.names)}, {which} has "
            f"{', '.join(other.names)}: select the same ones"
        )
    for i, (a, b) in enumerate(zip(first.payload, other.payload, strict=True)):
        if not a.equals(b):
            raise SchemaError(
                f"{what}: column {i} is {_field_text(a)} in the first and {_field_text(b)} in "
                f"{which}: {_advice(a, b)}"
            )


def _advice(a: pa.Field, b: pa.Field) -> str:
    if a.name != b.name:
        return "select them in one order, under one name"
    if a.type != b.type:
        return "cast one in a select"
    return "say the same of nulls at both sources"


def _field_text(f: pa.Field) -> str:
    return f"{f.name}: {f.type}" + ("" if f.nullable else " not null")


def check_condition(what: str, predicate: Computed, payload: pa.Schema) -> None:
    """Raises unless it gives true or false."""
    t = type_of(what, predicate, payload)
    if not pa.types.is_boolean(t):
        raise ExpressionError(f"{what} {predicate}: gives {t}, a condition gives bool")


def computed_field(name: str, computed: Computed, payload: pa.Schema) -> pa.Field:
    """The output column of a select; a column that is only renamed stays what it is."""
    t = type_of(f"select {name}", computed, payload)
    if pa.types.is_null(t):
        raise SchemaError(f"select {name} = {computed}: has no type; lit(None, type) gives it one")
    if isinstance(computed, Column):
        return payload.field(computed.name).with_name(name)
    return pa.field(name, t)


def check_names(what: str, names: Sequence[str]) -> None:
    """Raises where two output columns would have one name."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SchemaError(f"{what}: two columns would be called {twice!r}")


def check_span(what: str, span: int) -> None:
    """Raises unless it is a length of time."""
    if type(span) is not int or not 1 <= span < INF:
        raise Misuse(f"{what} {span!r}: it is at least 1, and less than all of time")
