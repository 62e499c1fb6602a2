"""Landmark windows: answers are held, and no order of arrival, or of ends, shows in them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.engine.plan import Plan
from gapless.engine.properties import properties_of
from gapless.engine.query import Query
from gapless.engine.source import source
from gapless.merge.lmerge import LMerge
from gapless.operators.aggregates.calls import count
from gapless.operators.aggregates.calls import sum_ as sum_of
from gapless.protocol.elements import INF
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb

COLUMNS = {"ts": "int64", "k": "string"}
SCHEMA = StreamSchema(COLUMNS)
A, B = (source(name, COLUMNS, time="ts", lateness=100) for name in "ab")

Row = tuple[int, str]


def held(early: Any = None) -> Query:
    return A.union(B).window("all", slide=5).group_by("k").aggregate(n=count(), early=early)


def frames(rows: list[Row], cuts: list[int], *, at_end: int | None = None) -> list[Frame]:
    """A source's frames, each with the stable of what follows; the end of the source last."""
    out, at = [], 0
    rows = sorted(rows)
    for length in (*cuts, len(rows)):
        part, rest = rows[at : at + length], rows[at + length :]
        at = min(len(rows), at + length)
        stable = rest[0][0] if rest else at_end
        times = np.array([ts for ts, _ in part], np.int64)
        columns = [pa.array(times), pa.array([k for _, k in part], pa.string())]
        out.append(Frame.from_columns(SCHEMA, times, times + 1, columns, stable=stable))
    return [*out, Frame.empty(SCHEMA, INF)]


def answered(query: Query, told: list[tuple[str, Frame]]) -> tuple[Tdb, list[Frame]]:
    graph = Plan(query).compile()
    table, said = Tdb(graph.schema), []
    for name, frame in told:
        out = graph.push(name, frame)
        table.fold(out)
        said.append(out)
        graph.validate()
    assert table.stable == INF
    return table, said


ROWS = st.lists(st.tuples(st.integers(-20, 60), st.sampled_from("xy")), max_size=12)
CUTS = st.lists(st.integers(1, 4), max_size=4)
EARLY = st.sampled_from([None, 0, 7, True])


@st.composite
def tellings(draw: st.DrawFn, a: list[Row], b: list[Row]) -> list[tuple[str, Frame]]:
    """Two sources, side by side in any order; either may be the last to end, at any stable."""
    waiting = {
        name: frames(rows, draw(CUTS), at_end=draw(st.sampled_from([None, 100, 250])))
        for name, rows in (("a", a), ("b", b))
    }
    told = []
    while any(waiting.values()):
        name = draw(st.sampled_from([name for name in waiting if waiting[name]]))
        told.append((name, waiting[name].pop(0)))
    return told


@settings(max_examples=60)
@given(st.data(), ROWS, ROWS, EARLY, EARLY)
def test_any_order_in_which_sources_end_gives_one_table(
    data: st.DataObject, a: list[Row], b: list[Row], one: Any, other: Any
) -> None:
    first, _ = answered(held(one), data.draw(tellings(a, b)))
    second, _ = answered(held(other), data.draw(tellings(a, b)))
    assert first == second


@settings(max_examples=40)
@given(st.data(), ROWS, ROWS)
def test_two_runs_of_a_union_merge_without_a_difference(
    data: st.DataObject, a: list[Row], b: list[Row]
) -> None:
    runs = [answered(held(), data.draw(tellings(a, b))) for _ in range(2)]
    known = properties_of(held().root).merge
    merger = LMerge(held().schema, properties=[known, known])
    merged = Tdb(held().schema)
    for _, said in runs:
        number = merger.attach(properties=known)
        for frame in said:
            merged.fold(merger.push(number, frame))
    assert merger.divergences.count == 0
    assert merged == runs[0][0]


def test_an_answer_is_held_until_the_next_with_new_rows_of_its_group() -> None:
    told = [("a", f) for f in frames([(1, "x"), (3, "y"), (17, "x")], [])]
    told += [("b", Frame.empty(SCHEMA, INF))]
    table, _ = answered(held(), told)
    assert Counter(table.events) == Counter(
        [
            Event(("x", 1), 5, 20),
            Event(("y", 1), 5, INF),
            Event(("x", 2), 20, INF),
        ]
    )


def test_equal_answers_one_after_the_other_are_two_events() -> None:
    """Else which they are would depend on whether rows that cancel came in one pane."""
    query = A.window("all", slide=5).aggregate(s=sum_of("ts"))
    told = [("a", f) for f in frames([(-5, "x"), (5, "x"), (0, "x")], [])]
    table, _ = answered(query, told)
    assert Counter(table.events) == Counter(
        [Event((-5,), 0, 5), Event((-5,), 5, 10), Event((0,), 10, INF)]
    )


def test_a_group_without_new_rows_costs_nothing() -> None:
    """A jump over many slides makes no answers in between."""
    rows = [(i, f"k{i}") for i in range(100)] + [(50_000_000, "k0")]
    _, said = answered(
        held(), [("b", Frame.empty(SCHEMA, INF))] + [("a", f) for f in frames(rows, [])]
    )
    assert sum(map(len, said)) == 102  # an answer each, then the end of one and a new one


def test_what_is_told_early_and_stays_is_not_said_again_while_nothing_is_complete() -> None:
    graph = Plan(held(early=True)).compile()
    first = graph.push("a", frames([(1, "x")], [], at_end=None)[0].with_stable(0))
    graph.push("b", Frame.empty(SCHEMA, 0))
    again = graph.push("b", Frame.empty(SCHEMA, 1))
    more = graph.push("a", Frame.empty(SCHEMA, 1))
    assert len(again) + len(more) <= len(first) + 1


@pytest.mark.parametrize("early", [None, True])
def test_a_graph_that_is_restored_goes_on_as_the_old_one(early: Any) -> None:
    told = [("b", Frame.empty(SCHEMA, INF))]
    told += [("a", f) for f in frames([(i, "xyz"[i % 3]) for i in range(0, 60, 4)], [3, 3, 3])]
    whole, _ = answered(held(early), told)
    for moment in range(len(told)):
        graph, table = Plan(held(early)).compile(), Tdb(whole.schema)
        for n, (name, frame) in enumerate(told):
            if n == moment:
                other = Plan(held(early)).compile()
                other.restore(graph.snapshot())
                other.validate()
                graph = other
            table.fold(graph.push(name, frame))
        assert table == whole
