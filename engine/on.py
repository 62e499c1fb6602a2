"""What a join's `on` may be written as, and what it means: pairs of columns, left and right.

on="src"                          src = src
on=["src", ("dst", "to")]         src = src and dst = to
on={"src": "from"}                src = from
on=col("src") == col("from")      refused: other conditions go into `where`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gapless.protocol.column_names import column_name
from gapless.protocol.errors import ExpressionError, Misuse
from gapless.protocol.expr import Column, Expr

Named = str | Expr
"""A column, or its name."""
On = Named | Sequence[Named | tuple[Named, Named]] | Mapping[str, str] | None
"""Columns that a join compares: one, several, pairs of left and right, or a mapping from left to
right.
"""


def pairs_of(on: On, step: str = "join") -> tuple[tuple[str, str], ...]:
    """The names of the columns to compare. Raises `Misuse` or `ExpressionError`."""
    if on is None:
        return ()
    what = f"{step} on"
    if isinstance(on, str | Column):
        return ((column_name(what, on),) * 2,)
    if isinstance(on, Expr):
        raise ExpressionError(
            f"{what} {on}: name the columns to compare, as in on='src' or "
            "on=[('src', 'dst')]; put other conditions in where=, over the columns of both"
        )
    if isinstance(on, Mapping):
        return tuple((column_name(what, a), column_name(what, b)) for a, b in on.items())
    pairs = []
    each: Any
    for each in on:
        if isinstance(each, str | Expr):
            pairs.append((column_name(what, each),) * 2)
        elif isinstance(each, tuple | list) and len(each) == 2:
            pairs.append((column_name(what, each[0]), column_name(what, each[1])))
        else:
            raise Misuse(f"{what} {each!r:.100}: a column, or a pair (left, right)")
    return tuple(pairs)
