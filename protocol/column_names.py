"""The name of a column where people may write the column itself: "src", or col("src")."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gapless.protocol.errors import ExpressionError, Misuse
from gapless.protocol.expr import Column, Expr


def column_name(what: str, given: Any) -> str:
    """The name of one column. Raises `Misuse` where it is not one, and says what to write."""
    if isinstance(given, str):
        return given
    if isinstance(given, Column):
        return given.name
    if isinstance(given, Expr):
        raise ExpressionError(
            f"{what}: {given} is computed, and a column is wanted: give it a name before, as in "
            f".map(x={given}), and write 'x'"
        )
    if isinstance(given, list | tuple | set):
        shown = ", ".join(repr(each) for each in given)
        raise Misuse(
            f"{what}: a {type(given).__name__}: write the columns one by one: {shown:.100}"
        )
    raise Misuse(f"{what}: {given!r:.100} is not a column: write its name, as in 'src'")


def column_names(what: str, given: Iterable[Any]) -> tuple[str, ...]:
    """Those of several."""
    return tuple(column_name(what, each) for each in given)
