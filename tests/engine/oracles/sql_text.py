"""Expressions and aggregates in DuckDB's SQL, with our meaning where the two differ.

(x % 3) == 1        (((x % 3) + 3) % 3) = 1          % takes the divisor's sign
f > 0.5             (f > 0.5 and not isnan(f))       NaN is no number, and equals nothing
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from gapless.operators.aggregates.counted import ExactQuantile
from gapless.operators.aggregates.filtered import Filtered
from gapless.operators.aggregates.window_bounds import WindowBound
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
    test = ""
    if isinstance(function, WindowBound):
        raise CannotSay("which window it is")
    if isinstance(function, Filtered):
        test = f"case when {expression_text(function.where, schema)} then "
        function = function.unfiltered
    if not function.columns:
        return f"count({test}1 end)" if test else "count(*)"
    name = name_text(function.columns[0])
    if test:
        name = f"({test}{name} end)"
    is_float = pa.types.is_floating(schema.payload.field(function.columns[0]).type)
    exact = not is_float and getattr(function, "scale", None) is None
    match function.name:
        case "count" | "min" | "max" | "bool_and" | "bool_or":
            return f"{function.name}({name})"
        case "count_distinct":
            return f"count(distinct {name})"
        case "sum" if exact:
            return f"sum({name})::bigint"
        case "mean" if exact:
            return f"avg({name})"
        case "var" | "stddev" if exact:
            return _spread_text(function, name)
        case "aggregate" if function.function is spread:
            return f"max({name}) - min({name})"
    return _chosen_text(function, name, times)


def _chosen_text(function: Any, name: str, times: str | None) -> str:
    """Of those that give one of the values, or all."""
    there = f"filter ({name} is not null)"
    way = "asc" if function.name in ("first", "arg_min") else "desc"
    match function.name:
        case "mode":
            often = f"histogram({name})"
            most = f"lambda e: e.value = list_max(map_values({often}))"
            entries = f"list_filter(map_entries({often}), {most})"
            return f"list_min(list_transform({entries}, lambda e: e.key))"
        case "arg_min" | "arg_max":
            by = name_text(function.by)
            there = f"filter ({name} is not null and {by} is not null)"
            return f"first({name} order by {by} {way}, {name} {way}) {there}"
        case "quantile" if isinstance(function, ExactQuantile):
            ordered = f"list({name} order by {name}) {there}"
            return f"({ordered})[floor({function.q} * (count({name}) - 1))::bigint + 1]"
        case "array_agg" if times is not None:
            return f"list({name} order by {times}, {name}) {there}"
        case "string_agg" if times is not None:
            return f"string_agg({name}, '{function.separator}' order by {times}, {name})"
        case "first" | "last" if times is not None:
            return f"first({name} order by {times} {way}, {name} {way}) {there}"
    raise CannotSay(str(function))


def _spread_text(function: Any, name: str) -> str:
    """Of exact sums, as DuckDB's own functions round on the way."""
    n, square = f"count({name})", f"sum({name}::hugeint * {name})"
    numerator = f"{n} * {square} - sum({name}::hugeint) * sum({name}::hugeint)"
    variance = f"({numerator})::double / nullif({n} * ({n} - {function.ddof}), 0)::double"
    return f"sqrt({variance})" if function.name == "stddev" else variance
