"""`followed_by` in queries: above steps of any kind, as users write it, and as it is refused."""

from __future__ import annotations

import random
from typing import Any

import pytest

import gapless as gl
from gapless.engine import nodes
from gapless.engine.query import Query
from gapless.protocol.elements import INF
from gapless.protocol.errors import DecodeError, ExpressionError, GaplessError, Misuse, SchemaError
from tests.effort import cases
from tests.engine.oracles.cases import Case
from tests.engine.oracles.checks import (
    check_claims,
    check_merge,
    check_restored,
    check_skipping,
    check_starting_late,
    check_table,
)
from tests.engine.oracles.random_queries import Taste, random_query
from tests.engine.oracles.random_streams import World, random_rows
from tests.engine.oracles.row_oracle import TooLarge

COLUMNS = {"ts": "int64", "k": "string", "w": "int64"}
A, B = (gl.source(name, COLUMNS, time="ts", lateness=5) for name in ("cases", "products"))
ANY: Any = A
"""For what a type checker would refuse."""


# -- above anything --------------------------------------------------------------------------------


def drawn(seed: int, taste: Taste | None = None) -> Case:
    """Two steps of a drawn query, one followed by the other."""
    rng = random.Random(f"followed {seed}")
    while True:
        query = pattern(rng, taste)
        rows = {
            name: random_rows(rng, s.schema, s.time, 15, World())
            for name, s in query.sources.items()
        }
        case = Case(seed, query, rows)
        try:
            if case.oracle.table(query.root) or rng.random() < 0.1:
                return case
        except TooLarge:
            continue


def pattern(rng: random.Random, taste: Taste | None) -> Query:
    while True:
        below = random_query(rng, taste)
        steps = nodes.walk(below.root)
        left, right = (Query(rng.choice([*steps[-3:], steps[0]])) for _ in range(2))
        types = right.schema.payload
        pairs = [(a.name, b.name) for a in left.schema.payload for b in types if a.type == b.type]
        try:
            query = left.followed_by(
                right,
                on=rng.sample(pairs, min(len(pairs), rng.choice((0, 1, 1)))),
                within=rng.choice((None, None, 3, 20)),
                pick=rng.choice(("recent", "chronicle")),
            )
            return with_condition(rng, query, query.root).on_error("aside")
        except GaplessError:
            continue


def with_condition(rng: random.Random, query: Query, node: Any) -> Query:
    numbers = [f.name for f in query.schema.payload if str(f.type) == "int64"]
    if not numbers or rng.random() < 0.5:
        return query
    where = gl.col(rng.choice(numbers)) % gl.lit(rng.choice((2, 3)), "int64") == 0
    return Query(nodes.FollowedBy(node.left, node.right, node.on, where, node.within, node.pick))


def test_in_any_query_the_table_is_what_rows_that_choose_in_turn_make(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Case, "draw", staticmethod(drawn))
    for seed in range(cases(60)):
        check_table(seed)
        check = (check_claims, check_restored, check_merge, check_skipping)[seed % 4]
        check(seed)
        check_starting_late(seed)


# -- as users write it -----------------------------------------------------------------------------


def test_as_users_write_it() -> None:
    q = A.followed_by(B, on="k", where=gl.col("w") < gl.col("w_right"), within=9, pick="chronicle")
    assert q.schema.names == ["k", "ts", "w", "ts_right", "w_right"]
    p = q.properties
    assert (p.insert_only, p.ordered, p.lasts, set(p.starts)) == (True, True, 1, {"ts_right"})
    assert dict(p.reach) == {"cases": INF, "products": INF}
    assert "followed by on k within 9 ms where (w < w_right), chronicle" in q.explain()
    assert "costs" not in q.explain()
    assert Query.from_document(q.to_document()).same_as(q)
    assert not q.same_as(A.followed_by(B, on="k", within=9))
    recent = A.followed_by(B.window(20), on=[("k", "k")], within="3ms")
    assert dict(recent.properties.reach) == {"cases": 23, "products": 43}
    assert (recent.properties.ordered, recent.properties.longest) == (False, 20)


def test_explain_says_what_is_held_for_ever() -> None:
    light = gl.col("w") < gl.col("w_right")
    for query, said in (
        (A.followed_by(B, on="k"), "the last row of each key of the left"),
        (A.followed_by(B, on="k", where=light), "each row of the left is held for ever, as where="),
        (A.followed_by(B, on="k", pick="chronicle"), "each row of the left that none follows"),
    ):
        assert said in query.explain()


def test_what_revises_is_settled_first() -> None:
    counts = B.window(10, 10).group_by("k").aggregate(early=True, n=gl.count())
    assert not counts.properties.insert_only
    steps = gl.Plan(A.latest_by("k").followed_by(counts, on="k")).compile().snapshot()
    assert any("held" in name for name in steps)  # of the settle
    assert A.followed_by(counts, on="k").properties.insert_only


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        (lambda: ANY.followed_by(B, pick="first"), Misuse, "'recent', the last row"),
        (lambda: A.followed_by(B, within=0), Misuse, "followed_by within.*at least 1"),
        (lambda: A.followed_by(B, within=-3), Misuse, "followed_by within"),
        (lambda: A.followed_by(B, on="kk"), SchemaError, "followed_by on, left side"),
        (lambda: A.followed_by(B, on=[("k", "x")]), SchemaError, "followed_by on, right side"),
        (lambda: A.followed_by(B, on=[("k", "w")]), SchemaError, "followed_by on 'k' = 'w'"),
        (lambda: A.followed_by(B, on=gl.col("k") == "a"), ExpressionError, "followed_by on"),
        (lambda: A.followed_by(B, where=gl.col("w")), ExpressionError, "a condition gives bool"),
        (lambda: ANY.followed_by(B, where=len), ExpressionError, "is not an expression"),
        (lambda: A.followed_by(B, where=gl.col("ww") > 0), ExpressionError, "ww"),
        (lambda: ANY.followed_by("products"), Misuse, "is not a query"),
        (lambda: A.window(5).followed_by(B, on="k"), Misuse, "say within="),
        (lambda: A.window("all").join(B, on="k"), Misuse, "followed_by pairs"),
        (lambda: ANY.join_asof(B), AttributeError, "followed_by"),
    ],
)
def test_what_has_no_meaning_is_refused(wrong: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        wrong()


@pytest.mark.parametrize(("field", "value"), [("within", 0), ("pick", "first"), ("on", [["k"]])])
def test_a_document_from_anybody_is_looked_at(field: str, value: Any) -> None:
    document: Any = A.followed_by(B, on="k").to_document()
    document["nodes"][-1][field] = value
    with pytest.raises(DecodeError):
        Query.from_document(document)
