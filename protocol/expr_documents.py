"""Expressions as plain data, and back: what goes into queries' documents, pickles and messages.

    (col("len") > lit(0, "int32")) & col("ok")

    ["call", "and_kleene", {},
        ["call", "greater", {}, ["col", "len"], ["lit", "int32", 0]],
        ["col", "ok"]]

A document may come from anybody: whatever is wrong with it is one kind of error, and one that nests
too deep is refused before it is followed.
"""

from __future__ import annotations

from gapless.protocol.constant import Constant
from gapless.protocol.documents import Document
from gapless.protocol.errors import DecodeError, ExpressionError
from gapless.protocol.expr import DEPTH_MAX, NODES_MAX, Call, Column, Expr, Literal
from gapless.protocol.functions import option_from_plain, option_to_plain
from gapless.protocol.plain import PLAIN


def document_of(expr: Expr) -> Document:
    """`["call", function, options, *arguments]`, `["col", name]`, or `["lit", type, value]`."""
    match expr:
        case Column():
            return ["col", expr.name]
        case Literal():
            return ["lit", *expr.constant.to_plain()]
        case Call():
            options: Document = {k: option_to_plain(v) for k, v in sorted(expr.options.items())}
            return ["call", expr.function, options, *map(document_of, expr.args)]
    raise ExpressionError(f"an expression of type {type(expr).__name__} has no plain form")


def read_expression(document: Document) -> Expr:
    """The inverse of `document_of`. Raises `DecodeError`."""
    try:
        return _read(document, 1)
    except ExpressionError as e:
        raise DecodeError("expression", str(e)) from None


def _read(document: Document, depth: int) -> Expr:
    if depth > DEPTH_MAX:
        raise DecodeError("expression", "nests too deep", f"<= {DEPTH_MAX} levels")
    match document:
        case ["col", str(name)]:
            return Column(name)
        case ["lit", None, value] if value is None or isinstance(value, PLAIN):
            return Literal(Constant.of(value))
        case ["lit", (str() | bytes()) as t, value]:
            return Literal(Constant.from_plain(t, value))
        case ["call", str(function), dict(options), *args]:
            if len(args) > NODES_MAX:
                raise DecodeError("expression", f"{len(args)} arguments", f"<= {NODES_MAX}")
            decoded = tuple(_read(a, depth + 1) for a in args)
            return Call(function, decoded, {k: option_from_plain(v) for k, v in options.items()})
    raise DecodeError("expression", "a node of no known form", "col, lit or call")
