"""Each way to write what a join compares means pairs of columns, and what means none is refused."""

from __future__ import annotations

from typing import Any

import pytest

from gapless.engine.on import pairs_of
from gapless.protocol.errors import ExpressionError, Misuse
from gapless.protocol.expr import col


@pytest.mark.parametrize(
    ("on", "pairs"),
    [
        (None, ()),
        ("src", (("src", "src"),)),
        (col("src"), (("src", "src"),)),
        (["src", "dst"], (("src", "src"), ("dst", "dst"))),
        (["src", ("dst", "to")], (("src", "src"), ("dst", "to"))),
        ([(col("dst"), col("to"))], (("dst", "to"),)),
        ({"src": "from", "dst": "to"}, (("src", "from"), ("dst", "to"))),
        ([], ()),
    ],
    ids=repr,
)
def test_columns_are_compared_in_pairs(on: Any, pairs: tuple[tuple[str, str], ...]) -> None:
    assert pairs_of(on) == pairs


@pytest.mark.parametrize("on", [[7], [("a", "b", "c")], [None]], ids=repr)
def test_what_is_no_column_and_no_pair_is_misuse(on: Any) -> None:
    with pytest.raises(Misuse, match="a column, or a pair"):
        pairs_of(on)


def test_a_condition_is_sent_to_where() -> None:
    with pytest.raises(ExpressionError, match="put other conditions in where="):
        pairs_of(col("a") == col("b"))
