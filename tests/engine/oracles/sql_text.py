"""Expressions and aggregates in DuckDB's SQL, with our meaning where the two differ.

(x % 3) == 1        (((x % 3) + 3) % 3) = 1          % takes the divisor's sign
f > 0.5             (f > 0.5 and not isnan(f))       NaN is no number, and equals nothing
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from gapless.protocol.expr import Call, Column, Expr, Literal
from gapless.protocol.schema import StreamSchema
from tests.engine.oracles.random_queries import spread


class CannotSay(Exception):  # no error: a question that is not asked
    """SQL has no words of its own for this."""


def name_text(name: str) -> str:
    """A column's or table's name."""
    return '"' + name.replace('"', '""') + '"'


_INFIX = {
    "add_checked": "+",
    "subtract_checked": "-",
    "multiply_checked": "*",
    "and_kleene": "and",
    "or_kleene": "or",
}
_COMPARE = {
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}


def expression_text(
    computed: Any, schema: StreamSchema, columns: Mapping[str, str] | None = None
) -> str:
    """An expression; `columns` says what a column is called, if not by its name."""
    if not isinstance(computed, Expr):
        raise CannotSay("a function of a user")
    return _text(computed, schema, columns or {})


def _text(e: Expr, schema: StreamSchema, columns: Mapping[str, str]) -> str:
    match e:
        case Column():
            return columns.get(e.name, name_text(e.name))
        case Literal():
            return value_text(e.constant.scalar.as_py())
        case Call():
            args = [_text(a, schema, columns) for a in e.args]
            return f"({_call_text(e, args, schema)})"
    raise CannotSay(str(e))


def _call_text(e: Call, args: list[str], schema: StreamSchema) -> str:
    if e.function in _INFIX:
        return f" {_INFIX[e.function]} ".join(args)
    if e.function in _COMPARE:
        test = f"{args[0]} {_COMPARE[e.function]} {args[1]}"
        floats = [t for t, a in zip(args, e.args, strict=True) if _is_float(a, schema)]
        if not floats:
            return test
        nan = " or ".join(f"isnan({f}::double)" for f in floats)
        no_number = str(e.function == "not_equal").lower()
        return f"case when {test} is null then null when {nan} then {no_number} else {test} end"
    match e.function:
        case "modulo_checked":
            return f"(({args[0]} % {args[1]}) + {args[1]}) % {args[1]}"
        case "negate_checked":
            return f"-{args[0]}"
        case "invert":
            return f"not {args[0]}"
        case "is_null":
            return f"{args[0]} is null"
        case "is_in":
            listed = ", ".join(value_text(v) for v in e.options["value_set"].to_pylist())
            return f"{args[0]} is not null and {args[0]} in ({listed})"
        case "if_else":
            test, then, otherwise = args
            return f"case when {test} then {then} when not {test} then {otherwise} end"
        case "cast":
            return f"{args[0]}::{type_text(e.options['type'])}"
    raise CannotSay(e.function)


def _is_float(e: Expr, schema: StreamSchema) -> bool:
    return bool(pa.types.is_floating(e.type(schema.payload)))


def value_text(value: Any) -> str:
    """A constant."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int():
            return f"{value}::bigint"
        case float():
            text = "nan" if math.isnan(value) else repr(value)
            return f"'{text}'::double"
        case str():
            return "'" + value.replace("'", "''") + "'"
    raise CannotSay(repr(value))


def type_text(t: pa.DataType) -> str:
    """A type."""
    known = {"int32": "integer", "int64": "bigint", "double": "double", "string": "varchar"}
    if str(t) not in known:
        raise CannotSay(str(t))
    return known[str(t)]


def aggregate_text(function: Any, schema: StreamSchema, times: str | None) -> str:
    """An aggregate; `times` is the column of the rows' times, None where they have none."""
    if not function.columns:
        return "count(*)"
    name = name_text(function.columns[0])
    is_float = pa.types.is_floating(schema.payload.field(function.columns[0]).type)
    match function.name:
        case "count" | "min" | "max":
            return f"{function.name}({name})"
        case "count_distinct":
            return f"count(distinct {name})"
        case "sum" if not is_float and function.scale is None:
            return f"sum({name})::bigint"
        case "mean" if not is_float and function.scale is None:
            return f"avg({name})"
        case "aggregate" if function.function is spread:
            return f"max({name}) - min({name})"
        case "first" | "last" if times is not None:
            way = "asc" if function.name == "first" else "desc"
            return f"first({name} order by {times} {way}, {name} {way}) filter ({name} is not null)"
    raise CannotSay(str(function))
