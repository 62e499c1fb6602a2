"""Oracle: what a query says at an instant is what DuckDB says of the whole input."""

from __future__ import annotations

from contextlib import suppress

from gapless.engine import nodes
from tests.engine.oracles.cases import Case, seeds
from tests.engine.oracles.checks import check_snapshots
from tests.engine.oracles.random_queries import Taste
from tests.engine.oracles.sql_text import CannotSay

ASKED_LEAST = 0.5
"""Of the queries drawn, the share that SQL can say at least: else this tests little."""
SEEDS_MORE = 500
ALL_NODES = frozenset(nodes.Node.__args__) - {nodes.FollowedBy}
"""Except for patterns, whose rows choose in turn: tests/engine/test_followed_by.py draws them."""


def test_snapshots_are_what_duckdb_says() -> None:
    drawn = seeds(120, start=60_000)
    asked, kinds = 0, set[type]()
    for seed in drawn:
        with suppress(CannotSay):
            kinds |= check_snapshots(seed)
            asked += 1
    assert asked > ASKED_LEAST * len(drawn)
    for seed in range(drawn.stop, drawn.stop + SEEDS_MORE):  # of kinds that are rare
        query = Case.draw(seed, Taste(odd=False)).query if kinds < ALL_NODES else None
        if query is not None and not kinds.issuperset(map(type, query.derived)):
            with suppress(CannotSay):
                kinds |= check_snapshots(seed)
    assert kinds == ALL_NODES
