"""Functions that choose between expressions: `gl.coalesce`, `gl.case`, `gl.greatest`, ..."""

from __future__ import annotations

from functools import partial
from typing import Any

from gapless.protocol.errors import ExpressionError
from gapless.protocol.expr import Expr, call
from gapless.protocol.function_table import Spelling, listed

_of_package = partial(listed, "gl")


@_of_package("coalesce", "any, ... -> the same", "COALESCE(x, ...)")
def coalesce(*values: Any) -> Expr:
    """The first of them that is not null."""
    if not values:
        raise ExpressionError("coalesce: give at least one expression")
    return call("coalesce", *values)


@_of_package(
    "case_when (case)",
    "(bool, any), ... -> the same",
    "CASE WHEN condition THEN value ... ELSE otherwise END",
)
def case(*branches: tuple[Any, Any], otherwise: Any = None) -> Expr:
    """The value of the first pair `(condition, value)` whose condition is true."""
    if not branches:
        raise ExpressionError("case: give pairs, as in gl.case((x > 9, 'many'), otherwise='few')")
    flat: list[Any] = []
    for branch in branches:
        if len(branch) != 2:
            raise ExpressionError(f"case: {branch!r} is no pair of a condition and a value")
        flat += branch
    return call("case", *flat, otherwise)


@_of_package(
    "max_element_wise",
    "any, ... -> the same",
    "GREATEST(x, ...)",
    note="Of numbers and NaN the number; DuckDB has NaN.",
)
def greatest(*values: Any) -> Expr:
    """The greatest of them that is not null."""
    return _extreme("greatest", "max_element_wise", values)


@_of_package(
    "min_element_wise",
    "any, ... -> the same",
    "LEAST(x, ...)",
)
def least(*values: Any) -> Expr:
    """The least of them that is not null."""
    return _extreme("least", "min_element_wise", values)


def _extreme(name: str, function: str, values: tuple[Any, ...]) -> Expr:
    if not values:
        raise ExpressionError(f"{name}: give at least one expression")
    return call(function, *values, skip_nulls=True)


def _concat_ws(separator: str, *texts: Any) -> Expr:
    return call("text_join", *texts, separator=separator)


@_of_package(
    "binary_join_element_wise (text_join)",
    "text, ... -> text",
    "CONCAT(x, ...)",
    Spelling("CONCAT_WS(separator, x, ...)", _concat_ws),
)
def concat(*texts: Any, separator: str = "") -> Expr:
    """The texts one behind another, without those that are null."""
    if not texts:
        raise ExpressionError("concat: give at least one expression")
    return call("text_join", *texts, separator=separator)
