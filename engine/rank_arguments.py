"""What `top`, `top_k` and `heavy` are given: keys and columns, and a method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from gapless.engine.names import check_column
from gapless.operators.rank_keys import RankBy, RankKey, rank_keys
from gapless.protocol.column_names import column_names
from gapless.protocol.errors import Misuse
from gapless.protocol.expr import Column, Expr

HeavyMethod = Literal["exact", "count_min"]
Within = str | Expr | Sequence[str | Expr]


def ranking(
    what: str,
    names: Sequence[str],
    by: RankBy | Sequence[RankBy],
    largest: bool,
    within: Within,
) -> tuple[tuple[RankKey, ...], tuple[str, ...]]:
    """The keys of `by`, and the columns of `within`; `names` are there to choose from."""
    keys = rank_keys(what, by, largest)
    for key in keys:
        if isinstance(key.by, Column):
            check_column(f"{what} by", key.by.name, names)
    groups = [within] if isinstance(within, str | Expr) else within
    return keys, column_names(f"{what} within", groups)


def is_sketched(method: HeavyMethod) -> bool:
    """Whether heavy values are estimated; raises where they are not found in this way."""
    if method not in get_args(HeavyMethod):
        raise Misuse(
            f"heavy: method {method!r}: 'exact' counts all values, 'count_min' estimates in little "
            "memory"
        )
    return method == "count_min"
