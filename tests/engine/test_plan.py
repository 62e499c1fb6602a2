from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from gapless.engine.graph import Graph
from gapless.engine.nodes import Node
from gapless.engine.plan import Choice, Plan, plan_of
from gapless.engine.query import Query, race
from gapless.engine.race import Race
from gapless.engine.source import source
from gapless.merge.choose import StreamProperties
from gapless.operators.aggregates import count, sum_
from gapless.operators.aside import Aside
from gapless.operators.free_aggregate import FreeAggregate
from gapless.operators.hopping_aggregate import HoppingAggregate, Implementation
from gapless.operators.two_level import two_level
from gapless.protocol.documents import Document
from gapless.protocol.elements import INF, Insert
from gapless.protocol.errors import DecodeError, Misuse, RowError
from gapless.protocol.expr import col
from gapless.protocol.frame import Frame
from gapless.protocol.tdb import Tdb

a = source("a", {"ts": "int64", "k": "int32", "n": "int64"}, time="ts", lateness=5)
b = source("b", {"ts": "int64", "k": "int32", "n": "int64"}, time="ts", lateness=5)


def steps(query: Query | Plan) -> list[tuple[str, tuple[str | int, ...]]]:
    """What runs it: each operator's class and what it reads."""
    graph = plan_of(query).compile()
    return [(type(step.operator).__name__, step.inputs) for step in graph.steps]


def rows(seed: int, size: int = 60) -> Iterator[tuple[int, int, int]]:
    rng = np.random.default_rng(seed)
    for t in np.sort(rng.integers(0, 100, size)):
        yield int(max(0, t - rng.integers(0, 5))), int(rng.integers(0, 3)), int(rng.integers(0, 9))


def table_of(plan: Plan, seed: int = 1) -> Tdb:
    """The table that it puts out over random rows, mixed among its sources in order of time."""
    graph = plan.compile()
    table = Tdb(graph.schema)
    for t, name, payload in told(graph, seed):
        table.fold(graph.push(name, at(graph, name, t, payload).with_stable(max(0, t - 5))))
        graph.validate()
    for name in graph.sources:
        table.fold(graph.finish(name))
    assert graph.stable == INF
    return table


def told(graph: Graph, seed: int = 1) -> list[tuple[int, str, tuple[int, int, int]]]:
    """Rows for all sources, in order of time within the bound."""
    named = [(i, name) for i, name in enumerate(graph.sources)]
    given = [(t, i, name, (t, k, n)) for i, name in named for t, k, n in rows(seed + i)]
    return [(t, name, payload) for t, _, name, payload in sorted(given)]


def at(graph: Graph, name: str, t: int, payload: tuple[int, int, int]) -> Frame:
    return Frame.from_elements(graph.sources[name], [Insert(payload, t, t + 1)])


# -- from nodes to operators ------------------------------------------------------------------


def test_most_nodes_become_their_operator() -> None:
    query = a.where(col("n") > 0).select("k", m=col("n") * 2).latest_by("k").distinct()
    names = [name for name, _ in steps(query)]
    assert names == ["Filter", "Select", "LatestBy", "Distinct"]
    query = a.difference(b).top_k(3, by="n", within="k").normalise()
    assert steps(query) == [("Difference", ("a", "b")), ("TopK", (0,)), ("Normalise", (1,))]
    assert steps(a.lifetime(duration=5)) == [("SetLifetimes", ("a",))]
    assert steps(a.lifetime(end=col("ts") + 3)) == [("SetLifetimes", ("a",))]


def test_a_source_alone_is_a_graph_without_steps() -> None:
    assert steps(a) == []
    assert len(table_of(Plan(a)).events) == 60


def test_a_window_with_a_slide_is_part_of_the_aggregate_above_it() -> None:
    windowed = a.window(10, slide=5)
    assert steps(windowed.aggregate(n=count())) == [("HoppingAggregate", ("a",))]
    above = windowed.where(col("n") > 0).select("k", "n").group_by("k").aggregate(s=sum_("n"))
    assert steps(above) == [("Filter", ("a",)), ("Select", (0,)), ("HoppingAggregate", (1,))]


def test_windows_above_and_below_conditions_and_unions_mean_the_same() -> None:
    keep = col("n") > 3
    above = a.where(keep).select("k").window(10, slide=5).group_by("k").aggregate(c=count())
    below = a.window(10, slide=5).where(keep).select("k").group_by("k").aggregate(c=count())
    assert table_of(Plan(above)) == table_of(Plan(below))
    assert table_of(Plan(above)).events
    one = a.union(b).window(10, slide=5).aggregate(c=count())
    each = a.window(10, slide=5).union(b.window(10, slide=5)).aggregate(c=count())
    assert steps(each) == [("Meld", ("a", "b")), ("HoppingAggregate", (0,))]
    assert table_of(Plan(one)) == table_of(Plan(each))


def test_other_windows_set_lifetimes() -> None:
    sliding = a.window(10).group_by("k").aggregate(c=count())
    assert [name for name, _ in steps(sliding)] == ["SetLifetimes", "FreeAggregate"]
    unequal = a.window(10, slide=5).union(b.window(20, slide=5)).aggregate(c=count())
    assert [n for n, _ in steps(unequal)] == [*["SetLifetimes"] * 2, "Meld", "FreeAggregate"]
    joined = a.window(10, slide=5).join(b.window(10, slide=5), on="k")
    assert steps(joined)[2] == ("Join", (0, 1))
    assert [n for n, _ in steps(a.window("all", slide=5).distinct())] == [
        "SetLifetimes",
        "Distinct",
    ]


def test_a_window_that_an_aggregate_takes_over_still_sets_lifetimes_for_others() -> None:
    windowed = a.window(10, slide=5)
    query = windowed.aggregate(c=count()).union(windowed.select(c=col("n")))
    found = steps(query)
    assert [name for name, _ in found] == ["HoppingAggregate", "SetLifetimes", "Select", "Meld"]
    assert found[0][1] == found[1][1] == ("a",)


def test_a_revising_input_of_a_windowed_aggregate_is_settled_first() -> None:
    latest = a.latest_by("k").window(10, slide=5)
    assert [n for n, _ in steps(latest.aggregate(c=count()))] == [
        "LatestBy",
        "Settle",
        "HoppingAggregate",
    ]
    assert table_of(Plan(latest.aggregate(c=count()))).events
    twice = a.window(10, slide=5).group_by("k").aggregate(s=sum_("n"))
    again = twice.window(20, slide=10).aggregate(m=sum_("s"))
    assert [n for n, _ in steps(again)] == ["HoppingAggregate"] * 2
    early = a.window(10, slide=5).aggregate(early=True, s=sum_("n"))
    assert [n for n, _ in steps(early.window(20, slide=10).aggregate(m=sum_("s")))] == [
        "HoppingAggregate",
        "Settle",
        "HoppingAggregate",
    ]


def test_a_revising_input_of_latest_by_is_settled_first() -> None:
    lasting = a.select(k=col("k")).window(5).distinct()
    assert [n for n, _ in steps(lasting.latest_by("k"))][-3:] == ["Distinct", "Settle", "LatestBy"]
    assert "Settle" not in [n for n, _ in steps(a.latest_by("k"))]
    assert table_of(Plan(lasting.latest_by("k"))).events


def test_a_step_that_two_others_read_is_run_once() -> None:
    big = a.where(col("n") > 5)
    joined = big.window(5).join(big.latest_by("k"), on="k")
    assert steps(joined) == [
        ("Filter", ("a",)),
        ("SetLifetimes", (0,)),
        ("LatestBy", (0,)),
        ("Join", (1, 2)),
    ]
    assert table_of(Plan(joined)).events


def test_the_steps_of_a_graph_are_titled_as_the_query_says_them() -> None:
    query = a.where(col("n") > 0).window("1s", slide="1s").group_by("k").aggregate(c=count())
    assert [step.title for step in Plan(query).compile().steps] == [
        "where (n > 0)",
        "aggregate by k: c=count() (paned)",
    ]


def test_rows_that_cannot_be_processed_go_where_the_query_says() -> None:
    query = a.where((col("n") // col("k")) > 0)
    zero = Frame.from_elements(query.sources["a"].schema, [Insert((1, 0, 5), 1, 2)])
    with pytest.raises(RowError, match="divide by zero"):
        Plan(query).compile().push("a", zero)
    aside = Aside("aside")
    assert not Plan(query.on_error("aside")).compile(aside).push("a", zero)
    assert aside.count == 1


# -- marks and grids --------------------------------------------------------------------------


def test_stables_are_thinned_to_the_slides_that_alone_look_at_them() -> None:
    by = {
        a.window(10, slide=4).aggregate(c=count()): {"a": 4},
        a.where(col("n") > 0).window(10, slide=4).aggregate(c=count()): {"a": 4},
        a.window(12, slide=4)
        .aggregate(c=count())
        .union(a.window(12, slide=6).aggregate(c=count())): {"a": 2},
        a.window(10, slide=4).aggregate(early=True, c=count()): {"a": 1},
        a.window(10).aggregate(c=count()): {"a": 1},
        a.window(10, slide=4).join(b.window(10), on="k"): {"a": 4, "b": 1},
        a.union(b).window(10, slide=4).aggregate(c=count()): {"a": 4, "b": 4},
        a.latest_by("k").window(10, slide=4).aggregate(c=count()): {"a": 1},
        a: {"a": 1},
    }
    for query, grids in by.items():
        assert Plan(query).compile().grids == grids


def test_a_window_on_another_column_is_answered_by_marks() -> None:
    joined = a.window(10).join(b.window(10), on="k")
    query = joined.window(10, slide=5, on="ts_right").aggregate(c=count())
    graph = Plan(query).compile()
    for t, name, payload in told(graph):
        graph.push(name, at(graph, name, t, payload).with_stable(max(0, t - 5)))
    assert graph.stable > 70, "answers are promised while rows come"
    found = table_of(Plan(query))
    pairs = [
        (t, u) for t, k, _ in rows(1) for u, m, _ in rows(2) if k == m and t < u + 10 and u < t + 10
    ]
    expected = {e: sum(e - 10 <= u < e for _, u in pairs) for e in range(0, 120, 5)}
    assert {e.vs: e.payload[0] for e in found.events} == {e: n for e, n in expected.items() if n}


def test_pairs_that_a_joint_mark_closes_are_held_no_longer() -> None:
    """Query Q7-1 of Li's thesis: pairs of rows that are near, counted by the times of both."""
    near = 30
    joined = a.window(near + 1).join(b.window(near + 1), on="k")
    query = joined.group_by("ts", "ts_right").aggregate(c=count())
    expected = Counter(
        (t, u) for t, k, _ in rows(1) for u, m, _ in rows(2) if k == m and abs(t - u) <= near
    )
    table = table_of(Plan(query))
    assert {e.payload[:2]: e.payload[2] for e in table.events} == expected
    graph = Plan(query).compile()
    for t, name, payload in told(graph):
        graph.push(name, at(graph, name, t, payload))
    pairs = graph.steps[-1].operator
    assert isinstance(pairs, FreeAggregate)
    for t in range(0, 110, 5):
        for name in graph.sources:
            graph.push(name, Frame.empty(graph.sources[name], t))
        # Else those were held that end at t or later: all that are `near` behind it.
        assert len(pairs) <= sum(n for times, n in expected.items() if max(times) >= t)
    assert len(pairs) == 0


def test_a_window_on_the_time_column_is_one_on_the_time() -> None:
    plain = a.window(10, slide=5).aggregate(c=count())
    named = a.select("k", "ts").window(10, slide=5, on="ts").aggregate(c=count())
    [*_, step] = Plan(named).compile().steps
    assert isinstance(step.operator, HoppingAggregate)
    assert table_of(Plan(named)) == table_of(Plan(plain))


# -- choices ----------------------------------------------------------------------------------


def two_aggregates() -> Query:
    inner = a.window(10, slide=5).group_by("k").aggregate(s=sum_("n"))
    return inner.window(20, slide=10).aggregate(m=sum_("s"), c=count())


def test_implementations_are_chosen_for_all_or_by_what_is_computed() -> None:
    query = two_aggregates()
    assert Plan(query).implementations == ("paned", "paned")
    assert Plan(query, "wid").implementations == ("wid", "wid")
    assert Plan(query, {"m": "wid"}).implementations == ("paned", "wid")
    assert Plan(query, {query.root: "wid"}).implementations == ("paned", "wid")
    assert table_of(Plan(query, {"m": "wid"})) == table_of(Plan(query))
    assert plan_of(query, {"s": "wid"}).implementations == ("wid", "paned")


def automatic() -> Plan:
    inner = a.window(10, slide=10).group_by("k").aggregate(s=sum_("n"))
    outer = inner.window(60, slide=10).aggregate(m=sum_("s"))
    return Plan(outer.window(30).aggregate(c=count()), "auto")


def test_auto_chooses_for_each_and_the_choice_travels() -> None:
    plan = automatic()
    assert plan.implementations == ("wid", "paned", "paned"), "the last is over free lifetimes"
    again = Plan.from_document(plan.to_document())
    assert again.implementations == plan.implementations
    assert steps(again) == steps(plan)
    assert Plan(plan.query, {"m": "auto"}).implementations == ("paned", "paned", "paned")
    assert table_of(plan) == table_of(Plan(plan.query))


def test_a_snapshot_of_auto_is_that_of_what_it_chose() -> None:
    plan = automatic()
    chosen = Plan.from_document(plan.to_document())
    assert "auto" not in str(chosen.to_document())
    old, new, table = plan.compile(), chosen.compile(), Tdb(plan.query.schema)
    given = told(old)
    for i, (t, name, payload) in enumerate(given):
        if i == len(given) // 2:
            new.restore(old.snapshot())
            old = new
        frame = at(old, name, t, payload).with_stable(max(0, t - 5))
        table.fold(old.push(name, frame))
    table.fold(old.finish("a"))
    assert table == table_of(plan)


RACING: tuple[Choice, ...] = ("auto", "paned", "wid", "adaptive", two_level(slots=2))


def raced(plans: Sequence[Plan], known: StreamProperties) -> Tdb:
    """The table of their race: each reads in its own order, with stables of its own."""
    merged, table = Race(plans[0].query.schema, [known] * len(plans)), Tdb(plans[0].query.schema)
    told_to = [(plan.compile(), i) for i, plan in enumerate(plans)]
    given = told(told_to[0][0])
    for n in range(len(given)):
        for graph, i in told_to:
            t, name, payload = given[n ^ 1] if i % 2 else given[n]  # neighbours change places
            frame = at(graph, name, t, payload)
            if n % 2:
                frame = frame.with_stable(max(0, t - 10 - i))
            table.fold(merged.push(i, graph.push(name, frame)).frame)
    for graph, i in told_to:
        table.fold(merged.push(i, graph.finish("a")).frame)
    merged.validate()
    return table


def test_plans_of_every_implementation_race_to_one_table() -> None:
    for covers, chosen in ((10, "wid"), (65, "paned")):
        query = a.window(covers, slide=10).group_by("k").aggregate(s=sum_("n"), n=count())
        plans = [Plan(query, each) for each in RACING]
        assert plans[0].implementations == (chosen,)
        known = StreamProperties(insert_only=True, ordered=True)
        assert raced(plans, known) == table_of(plans[1])


def test_explain_says_what_auto_chose_and_why() -> None:
    told = automatic().explain()
    assert "wid (auto: a window of a group takes 5 steps, 7 by panes); reach 20 ms" in told
    assert "paned (auto: " in told
    assert told.count("auto") == 2
    asked = automatic().query
    assert told.startswith(asked.explain("auto"))
    assert asked.explain("auto").count("auto") == 2


def test_choices_that_choose_nothing_are_misuse() -> None:
    query = two_aggregates()
    for choice, message in [
        (
            "fast",
            "use one of paned, wid, two_level, adaptive, auto, or gl.two_level",
        ),
        ({"m": "fast"}, "use one of paned, wid"),
        ({"x": "wid"}, "no aggregate computes 'x'; these are computed: s, m, c"),
    ]:
        with pytest.raises(Misuse, match=message):
            Plan(query, choice)  # type: ignore[arg-type]  # that is the test
    with pytest.raises(Misuse, match="whose implementation is chosen"):
        plan_of(Plan(query), "wid")
    with pytest.raises(Misuse, match="not of a Frame"):
        Plan(Frame.empty(query.schema))  # type: ignore[arg-type]  # that is the test


def test_every_graph_of_a_plan_is_a_new_one() -> None:
    plan = Plan(two_aggregates())
    first, second = plan.compile(), plan.compile()
    assert first.steps[0].operator is not second.steps[0].operator
    assert table_of(plan) == table_of(plan)


def test_a_plan_travels_with_its_query_and_its_choices() -> None:
    choices: dict[str | Node, Implementation] = {"m": "wid", "s": two_level(slots=8, late=1)}
    plan = Plan(two_aggregates().on_error("aside"), choices)
    again = Plan.from_document(plan.to_document())
    assert again.implementations == plan.implementations
    assert again.query.same_as(plan.query)
    assert steps(again) == steps(plan)
    document = plan.to_document()
    assert isinstance(document, dict)
    wrongs: list[Document] = [
        {**document, "implementations": ["wid"]},
        {**document, "implementations": ["wid", "fast"]},
        {**document, "implementations": ["wid", {"slots": 0}]},
        {**document, "implementations": ["wid", 7]},
        {**document, "implementations": ["wid", "auto"]},
        {**document, "implementations": "wid"},
        {**document, "more": 1},
        {"query": document["query"]},
    ]
    for wrong in wrongs:
        with pytest.raises(DecodeError):
            Plan.from_document(wrong)


def test_a_plan_explains_what_runs_it() -> None:
    text = Plan(a.where(col("n") > 0).window(10, slide=5).aggregate(c=count()), "wid").explain()
    assert "0  where (n > 0)  reads a\n" in text
    assert "1  aggregate: c=count() (wid)  reads 0\n" in text
    assert text.endswith("stables of a are thinned to multiples of 5")


# -- whole plans ------------------------------------------------------------------------------


def plans() -> dict[str, Query]:
    counted = a.window(10, slide=5).group_by("k").aggregate(c=count(), s=sum_("n"))
    return {
        "chain": two_aggregates(),
        "join": a.window(10).join(b.window(5), on="k").select("k", "n", "n_right"),
        "outer": a.window(10).join(b.window(5), on="k", how="left"),
        "diamond": counted.union(counted.where(col("c") > 2)),
        "race": race(counted, counted.where(col("c") > 0)),
        "per instant": a.window(7).distinct("k").union(b.latest_by("k").select("k")),
    }


@pytest.mark.parametrize("name", plans())
def test_a_plan_snapshotted_anywhere_goes_on_as_it_would_have(name: str) -> None:
    plan = Plan(plans()[name])
    graph = plan.compile()
    out = Tdb(graph.schema)
    for i, (t, source_name, payload) in enumerate(told(graph)):
        frame = at(graph, source_name, t, payload).with_stable(max(0, t - 5))
        out.fold(graph.push(source_name, frame))
        if i % 25 == 0:
            state = graph.snapshot()
            graph = plan.compile()
            graph.restore(state)
            graph.validate()
    for source_name in graph.sources:
        out.fold(graph.finish(source_name))
    assert out == table_of(plan)


@pytest.mark.parametrize("name", plans())
def test_fast_forward_changes_nothing_that_ends_later(name: str) -> None:
    plan = Plan(plans()[name])
    graph = plan.compile()
    out = Tdb(graph.schema)
    for t, source_name, payload in told(graph):
        assert set(graph.fast_forward(min(t, 60))) == set(graph.sources)
        frame = at(graph, source_name, t, payload).with_stable(max(0, t - 5))
        out.fold(graph.push(source_name, frame))
    for source_name in graph.sources:
        out.fold(graph.finish(source_name))
    assert out.since(60) == table_of(plan).since(60)


@pytest.mark.parametrize("name", [n for n in plans() if n not in ("per instant", "race")])
def test_starting_at_t_less_reach_gives_everything_from_t_on(name: str) -> None:
    plan = Plan(plans()[name])
    graph = plan.compile()
    out = Tdb(graph.schema)
    assert graph.reach == dict(plan.query.properties.reach)
    for t, source_name, payload in told(graph):
        if t >= 60 - graph.reach[source_name]:
            out.fold(graph.push(source_name, at(graph, source_name, t, payload)))
    for source_name in graph.sources:
        out.fold(graph.finish(source_name))
    assert out.since(60) == table_of(plan).since(60)
