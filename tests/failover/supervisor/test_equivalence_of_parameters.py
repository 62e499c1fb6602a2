"""One parameter of one step changed, whichever: a query that is written so is never taken for the
same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any, get_args

import pyarrow as pa
import pytest

from gapless.engine import nodes
from gapless.engine.comparison import first_difference
from gapless.engine.documents import content_of
from gapless.engine.functions import UserFunction
from gapless.engine.lateness import k_late
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.engine.row_counts import Rows
from gapless.engine.source import source
from gapless.failover.supervisor.equivalence import check_equivalent
from gapless.operators.aggregates import calls
from gapless.operators.aggregates.function import AggregateFunction
from gapless.operators.rank_keys import RankKey, asc
from gapless.protocol.errors import GaplessError, NotEquivalent
from gapless.protocol.expr import Expr, col, lit
from gapless.protocol.schema import StreamSchema
from tests.engine.queries import random_query

INT64 = pa.int64()
KINDS: tuple[type, ...] = get_args(nodes.Node)
NOT_OWN = {"input", "inputs", "left", "right"}
"""Fields that are other nodes: what changes there is another node's parameter."""
COLUMNS = {"ts": "int64", "k": "int64", "v": "int64", "x": "float64"}

every_aggregate: tuple[AggregateFunction, ...] = (
    calls.count("k"),
    calls.sum_("v"),
    calls.mean("x", scale=100),
    calls.var("x"),
    calls.min_("v"),
    calls.max_("v"),
    calls.first("v"),
    calls.last("v"),
    calls.count_distinct("v"),
    calls.count_distinct("v", method="hll"),
    calls.quantile("v", 0.5),
    calls.aggregate("v", len, returns="int64"),
)


def flows(name: str = "flows") -> Query:
    return source(name, COLUMNS, time="ts", lateness=5)


def twice(column: pa.Array) -> pa.Array:
    return pa.compute.add(column, column)


def whole_queries() -> Iterator[Query]:
    """Every kind of step, with every parameter set; and drawn ones."""
    rows = flows()
    by_k = rows.where(col("k") > 1).window(range=20, slide=5).group_by("k")
    for number, function in enumerate(every_aggregate):
        yield by_k.aggregate(early=3, n=calls.count(), **{f"a{number}": function})
    yield rows.select("k", "v", y=col("k") + lit(1, "int32"), u=UserFunction(twice, ("k",), INT64))
    yield rows.window(range=20, on="ts")
    yield source("flows", COLUMNS, time="ts", lateness=5, progress={"v": 9}).window(20, on="v")
    yield rows.window(range="all", slide=5, restart=20, origin=3).aggregate(n=calls.count())
    yield rows.lifetime(end=col("v") + 7)
    yield rows.lifetime(duration=7)
    yield rows.latest_by("k", "v")
    yield rows.window(range=Rows(3), partition_by="k")
    yield rows.join(flows("other"), on=[("k", "v")], where=col("x") > 1.5)
    others = flows("other")
    yield rows.followed_by(
        others, on=[("k", "v")], where=col("x") > 1.5, within=9, pick="chronicle"
    )
    yield rows.union(rows.where(col("k") > 3)).difference(rows.where(col("v") > 3))
    yield rows.select("k", "v").distinct()
    yield rows.top_k(3, by=["v", asc("x", nulls="first")], within="k")
    yield rows.lifetime(duration=3).normalise()
    yield rows.window(range=20, slide=5).top(3, by="v", within="k")
    yield rows.window(range=20, slide=5).heavy("k", share=0.25, method="count_min")
    for covers, every in ((Rows(20), Rows(5)), (20, Rows(5)), (Rows(20), 5)):
        counted = rows.window(range=covers, slide=every, partition_by="k")
        yield counted.group_by("k", "v").aggregate(n=calls.count())
    yield from (random_query(seed) for seed in range(60))


def changed(value: Any) -> Iterator[Any]:
    """Other values in the place of one."""
    match value:
        case bool():
            yield not value
        case int() | float():
            yield from (value + 1, value * 2)
        case None:
            yield from (1, "ts")
        case str():
            yield from (*COLUMNS, "full", "left", "recent", "exact", "hll", "elsewhere")
        case tuple():
            yield from (value[1:], value[::-1])
            for place, each in enumerate(value):
                for other in changed(each):
                    yield (*value[:place], other, *value[place + 1 :])
        case _:
            yield from changed_thing(value)


def changed_thing(value: Any) -> Iterator[Any]:
    """The same of what is no plain value."""
    match value:
        case Expr():
            yield from (value + 1, value & (col("k") > 7), lit(1, "int64"))
        case UserFunction():
            yield UserFunction(lambda column: column, value.columns, value.returns, value.name)
            yield UserFunction(value.function, ("v",), value.returns, value.name)
        case RankKey():
            for name in ("by", "largest", "nulls_first"):
                for other in changed(getattr(value, name)):
                    yield replace(value, **{name: other})
        case AggregateFunction():
            for name in parameters(value):
                for other in changed(getattr(value, name)):
                    yield replaced(value, name, other)
        case StreamSchema():
            yield StreamSchema(value.payload.append(pa.field("more", INT64)), value.time_unit)
            yield StreamSchema(value.payload, "s")
        case pa.DataType():
            yield pa.int32()
        case Rows():
            yield Rows(value.count + 1)
        case _:
            yield max if callable(value) else k_late(9)


def parameters(thing: Any) -> list[str]:
    return [f.name for f in fields(thing) if f.name not in NOT_OWN]


def replaced(thing: Any, name: str, value: Any) -> Any:
    """A dataclass with one field changed, or None where that has no meaning."""
    given = {f.name: getattr(thing, f.name) for f in fields(thing)}
    try:
        return type(thing)(**{**given, name: value})
    except (GaplessError, TypeError, ValueError, AttributeError, LookupError):
        return None


def with_another(query: Query, node: nodes.Node, other: nodes.Node) -> Query | None:
    """The query with another step in the place of one, or None where that has no meaning."""
    made: dict[nodes.Node, nodes.Node] = {node: other}
    try:
        for each in nodes.walk(query.root):
            if each not in made:
                made[each] = above(each, made)
        return Query(made[query.root], query.on_error_mode)
    except GaplessError:
        return None


def above(node: nodes.Node, made: dict[nodes.Node, nodes.Node]) -> nodes.Node:
    """A step over what its inputs have become."""
    if all(made[below] is below for below in node.inputs):
        return node
    given: dict[str, Any] = {}
    for f in fields(node):
        value = getattr(node, f.name)
        if f.name in NOT_OWN:
            value = tuple(made[n] for n in value) if f.name == "inputs" else made[value]
        given[f.name] = value
    return type(node)(**given)


def mutants() -> Iterator[tuple[str, Query, Query]]:
    """The name of a parameter, a query, and the query with that parameter changed."""
    for query in whole_queries():
        for node in nodes.walk(query.root):
            for name in parameters(node):
                old = getattr(node, name)
                for value in changed(old):
                    other = None if said(value) == said(old) else replaced(node, name, value)
                    mutant = None if other is None else with_another(query, node, other)
                    if mutant is not None:
                        yield f"{type(node).__name__}.{name}", query, mutant


def said(value: Any) -> str:
    """To tell parameters apart: expressions compare as expressions, and print as they are."""
    if isinstance(value, UserFunction):
        return f"{value} {id(value.function)}"
    if isinstance(value, tuple):
        return str([said(each) for each in value])
    return str(value.payload) + value.time_unit if isinstance(value, StreamSchema) else str(value)


def check_every_parameter_counts() -> set[str]:
    seen: set[str] = set()
    for name, old, new in mutants():
        assert first_difference(old, new) is not None, (name, old, new)
        with pytest.raises(NotEquivalent) as refused:
            check_equivalent(Plan(old), Plan(new, "wid"))
        assert re.search(r"the new (plan|one)", str(refused.value)), name
        seen.add(name)
    return seen


def test_a_query_with_any_one_parameter_changed_is_refused() -> None:
    seen = check_every_parameter_counts()
    wanted = {
        f"{kind.__name__}.{f.name}" for kind in KINDS for f in fields(kind) if f.name not in NOT_OWN
    }
    assert seen >= wanted, f"no test changes {sorted(wanted - seen)}"


def test_another_answer_to_errors_is_another_query() -> None:
    with pytest.raises(NotEquivalent, match="on error: stop in the old plan, on error: aside"):
        check_equivalent(Plan(flows()), Plan(flows().on_error("aside")))


@pytest.mark.parametrize("forgotten", ["range", "how", "by", "aggregates", "predicate"])
def test_a_parameter_that_is_not_compared_is_caught(
    monkeypatch: pytest.MonkeyPatch, forgotten: str
) -> None:
    def without(node: nodes.Node) -> dict[str, Any]:
        return {name: value for name, value in content_of(node).items() if name != forgotten}

    monkeypatch.setattr("gapless.engine.comparison.content_of", without)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check_every_parameter_counts()


def test_a_function_of_one_name_and_another_body_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gapless.engine.comparison._code", lambda _: ())
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check_every_parameter_counts()
