"""By what rows are ranked: keys, each with a direction and a place for nulls.

    q.top(3, by=["n", gl.asc("src", nulls="first")])

    n, the largest first          rows of one n: by src, null before all, then the smallest first

NaN comes after the numbers in both directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from gapless.protocol.errors import ExpressionError, Misuse
from gapless.protocol.expr import Expr, col

KEYS_MAX = 64
"""Keys of one ranking: each sorts the different values of its own."""
_PLACES = ("first", "last")


@dataclass(frozen=True, eq=False, slots=True)
class RankKey:
    """What rows are ranked by, one thing of several. Made by `gl.asc` and `gl.desc`."""

    by: Expr
    largest: bool
    nulls_first: bool = False

    def __str__(self) -> str:
        first = "largest" if self.largest else "smallest"
        return f"{self.by}, {first} first{' after nulls' if self.nulls_first else ''}"


RankBy = str | Expr | RankKey
"""What `by` of a ranking takes, one or several."""


def asc(by: str | Expr, nulls: str = "last") -> RankKey:
    """In `by` of `top` and `top_k`: the smallest first, nulls "first" or "last"."""
    return _key("asc", by, False, nulls)


def desc(by: str | Expr, nulls: str = "last") -> RankKey:
    """In `by` of `top` and `top_k`: the largest first, nulls "first" or "last"."""
    return _key("desc", by, True, nulls)


def _key(what: str, by: str | Expr, largest: bool, nulls: str) -> RankKey:
    if nulls not in _PLACES:
        raise Misuse(f'{what} nulls={nulls!r}: they come "first" or "last"')
    if not isinstance(by, str | Expr):
        raise Misuse(f"{what}({by!r}): give a column's name or an expression")
    return RankKey(col(by) if isinstance(by, str) else by, largest, nulls == "first")


def rank_keys(what: str, by: RankBy | Sequence[RankBy], largest: bool) -> tuple[RankKey, ...]:
    """The keys that `by` says; those without a direction of their own go by `largest`."""
    listed = [by] if isinstance(by, str | Expr | RankKey) else by
    if not isinstance(listed, list | tuple) or not 1 <= len(listed) <= KEYS_MAX:
        given = f"{len(listed)} keys" if isinstance(listed, list | tuple) else repr(by)
        raise Misuse(
            f"{what} by {given}: a column, an expression, gl.asc(...), gl.desc(...), or a list of "
            f"1 to {KEYS_MAX} of these"
        )
    return tuple(
        each if isinstance(each, RankKey) else _key(f"{what} by", each, bool(largest), "last")
        for each in listed
    )


def check_ordered(what: str, by: object, values: pa.DataType) -> None:
    """Raises where values of a type have no order."""
    if pa.types.is_null(values) or pa.types.is_nested(values) or pa.types.is_interval(values):
        raise ExpressionError(f"{what} by {by}: is {values}, whose values have no order")
