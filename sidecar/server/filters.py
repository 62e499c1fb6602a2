"""Filters: what a subscriber writes to have some rows only, as an expression over the payload.

    len > 100 and src in ("A", "B")     -->   (col("len") > 100) & col("src").is_in(["A", "B"])
    not (port == 80) or name is None

Python's notation, of which only this is taken: columns by name, numbers, texts, True, False, None,
comparisons (also `a < b < c`, `in`, `not in`, `is None`), `and`, `or`, `not`, and `+ - * / // %`.
It is parsed and never run. A filter looks at the payload alone, which no adjust changes: so a
subscriber sees all of an event or nothing.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from gapless.protocol.errors import ExpressionError, GaplessError
from gapless.protocol.expr import Expr, col, lit
from gapless.protocol.schema import StreamSchema

CHARS_MAX = 4096
"""Of a filter: longer ones are made by programs, which can filter by themselves."""

_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.And: lambda a, b: a & b,
    ast.Or: lambda a, b: a | b,
}


def parse_filter(text: str, schema: StreamSchema) -> Expr:
    """The filter. Raises `GaplessError` where it is invalid, or fits no row of the schema."""
    if len(text) > CHARS_MAX:
        raise ExpressionError(f"a filter of {len(text)} characters: {CHARS_MAX} are the most")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", SyntaxWarning)  # a stranger's `1or 2` is no news of ours
            tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        raise ExpressionError(f"the filter {text!r:.200} does not parse: {e}") from None
    try:
        made = _expr(tree)
    except RecursionError:
        raise ExpressionError("the filter nests too deep") from None
    try:
        t = made.type(schema.payload)
    except GaplessError as e:
        raise ExpressionError(f"the filter {text!r:.200}: {e}") from None
    if not pa.types.is_boolean(t):
        raise ExpressionError(f"the filter {text!r:.200} gives {t}, and not true or false")
    return made


def _expr(node: ast.expr) -> Expr:
    match node:
        case ast.Name(id=name):
            return col(name)
        case ast.Constant(value=value) if value is None or isinstance(value, _CONSTANTS):
            return lit(value)
        case ast.BoolOp(op=op, values=values):
            first, *rest = map(_expr, values)
            for each in rest:
                first = _OPERATORS[type(op)](first, each)
            return first
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            made: Expr = _OPERATORS[type(op)](_expr(left), _expr(right))
            return made
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return ~_expr(operand)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_expr(operand)
        case ast.Compare(left=left, ops=ops, comparators=rights):
            return _comparison(left, ops, rights)
    raise ExpressionError(f"the filter has {ast.unparse(node)!r:.100}, which is not taken")


_CONSTANTS = (bool, int, float, str)


def _comparison(left: ast.expr, ops: list[ast.cmpop], rights: list[ast.expr]) -> Expr:
    made: Expr | None = None
    for op, right in zip(ops, rights, strict=True):
        each = _compared(left, op, right)
        made = each if made is None else made & each
        left = right
    if made is None:
        raise ExpressionError("the filter compares nothing")
    return made


def _compared(left: ast.expr, op: ast.cmpop, right: ast.expr) -> Expr:
    if isinstance(op, ast.In | ast.NotIn):
        if not isinstance(right, ast.Tuple | ast.List | ast.Set):
            raise ExpressionError(f"after `in` comes a list: {ast.unparse(right)!r:.100}")
        found = _expr(left).is_in([_constant(each) for each in right.elts])
        return found if isinstance(op, ast.In) else ~found
    if isinstance(op, ast.Is | ast.IsNot):
        if not (isinstance(right, ast.Constant) and right.value is None):
            raise ExpressionError("`is` is for None; compare values with ==")
        null = _expr(left).is_null()
        return null if isinstance(op, ast.Is) else ~null
    made: Expr = _OPERATORS[type(op)](_expr(left), _expr(right))
    return made


def _constant(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):  # the latter of what cannot be in a set
        raise ExpressionError(f"a list has constants: {ast.unparse(node)!r:.100}") from None
