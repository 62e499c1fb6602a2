"""Columns of a source that progress: windows on them answer what a slow oracle does, in time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gapless as gl
from gapless.engine import compile as compiling
from gapless.engine import lifetime_rules
from gapless.engine.execute import Execution
from gapless.engine.graph import Graph
from gapless.engine.known import Properties
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.operators import hopping_aggregate
from gapless.operators.aside import Aside
from gapless.operators.bounded_columns import BoundedColumns
from gapless.operators.hopping_aggregate import HoppingAggregate
from gapless.operators.operator import Marks, Out
from gapless.operators.progress import Progress
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import DecodeError, GaplessError, Misuse, RowError
from gapless.protocol.expr import Column
from gapless.protocol.frame import Frame
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb
from tests.effort import cases
from tests.engine.oracles.row_oracle import RowOracle

COLUMNS = {"ts": "int64", "start": "int64", "k": "int64"}
BEFORE, LATE = 12, 6
Row = tuple[Any, ...]


def calls(name: str = "a", lateness: Any = LATE, before: int = BEFORE) -> Query:
    made = gl.source(name, COLUMNS, time="ts", lateness=lateness, progress={"start": before})
    return made.on_error("aside")


A, B = calls("a"), calls("b")


def hopping(rows: Query) -> Query:
    return rows.window(10, 5, on="start").group_by("k").aggregate(n=gl.count())


def above_a_join(at: gl.Expr) -> Query:
    """Windows on rows' times below the join, on other columns above it."""
    joined = A.window(7).join(B.window(4), on="k")
    on = at if isinstance(at, Column) else gl.col("at")
    joined = joined if isinstance(at, Column) else joined.map(at=at)
    return joined.window(10, 10, on=on).aggregate(n=gl.count())


STARTS = gl.col("start"), gl.col("start_right")
QUERIES: dict[str, Query] = {
    "hopping": hopping(A),
    "each tick": A.window(3, 1, on="start").aggregate(n=gl.count()),
    "rolled up": hopping(A).window(20, 20).aggregate(n=gl.sum("n")),
    "landmark": A.window("all", 10, on="start").group_by("k").aggregate(n=gl.count()),
    "session": A.window(session=3, on="start", partition_by="k")
    .group_by("k")
    .aggregate(n=gl.count()),
    "union": hopping(A.union(calls("b", before=5).where(gl.col("k") > 0))),
    "join on starts": A.window(6, on="start").join(B.window(3, on="start"), on="k"),
    "start behind a join": above_a_join(STARTS[1]),
    "greatest behind a join": above_a_join(gl.greatest(*STARTS)),
    "least behind a join": above_a_join(gl.least(*STARTS, gl.col("ts"))),
    "counted by start": A.window(7)
    .join(B, on="k")
    .group_by("start", "ts_right")
    .aggregate(n=gl.count()),
    "greatest of a source": A.map(at=gl.greatest(gl.col("start"), gl.col("ts")))
    .window(10, 10, on="at")
    .aggregate(n=gl.count()),
}


# -- streams --------------------------------------------------------------------------------------


def random_rows(rng: random.Random, count: int = 40) -> list[Row]:
    """Rows in order of arrival, none of them late: of negative times too, in bunches, with lulls;
    some further before their time than may be, or without a start.
    """
    t, rows = -60, []
    for _ in range(count):
        t += rng.choice((0, 0, 1, 2, 3, 6, 25))
        start = rng.choice((t, t - BEFORE, t - BEFORE - 1, t + 9, None, t - rng.randrange(15)))
        rows.append((t, start, rng.randrange(3)))
    return sorted(rows, key=lambda row: (row[0] + rng.choice((0, 0, 3, LATE)), rng.random()))


def batches(rng: random.Random, rows: list[Row]) -> Iterator[pa.RecordBatch]:
    schema = pa.schema(COLUMNS.items())
    while rows:
        cut = rng.choice((1, 1, 2, 7, 50))
        columns = zip(*rows[:cut], strict=True)
        yield pa.record_batch([pa.array(c, pa.int64()) for c in columns], schema)
        rows = rows[cut:]


def run(query: Query, inputs: dict[str, list[Row]], rng: random.Random) -> tuple[Tdb, Aside]:
    given = {name: batches(rng, rows) for name, rows in inputs.items()}
    execution = Execution(Plan(query), given)
    tdb = Tdb(query.schema)
    for frame in execution:
        tdb.fold(frame)
        execution.graph.validate()
    return tdb, execution.aside


def table(events: Any) -> Counter[Any]:
    return Counter(events)


def check_answers(names: Any = tuple(QUERIES), seeds: int = 6) -> None:
    for name in names:
        query = QUERIES[name]
        for seed in range(cases(seeds)):
            rng = random.Random(f"{name} {seed}")
            inputs = {source: random_rows(rng) for source in query.sources}
            tdb, aside = run(query, inputs, rng)
            assert table(tdb.events) == table(RowOracle(inputs).table(query.root)), (name, seed)
            bad = sum(
                row[1] is None or row[1] < row[0] - by
                for source, node in query.sources.items()
                for _, by in node.progress
                for row in inputs[source]
            )
            assert (aside.count, aside.lost) == (bad, 0), (name, seed)


def test_any_order_and_cut_answers_what_the_oracle_does() -> None:
    check_answers()


def test_the_same_rows_are_aside_however_they_come() -> None:
    rng = random.Random(3)
    rows = random_rows(rng)
    seen = set()
    for _ in range(4):
        _, aside = run(hopping(A), {"a": rows}, rng)
        gone = [row for each in aside.take() for row in map(str, each.rows.to_pylist())]
        seen.add(tuple(sorted(gone)))
    assert len(seen) == 1


# -- in time --------------------------------------------------------------------------------------


def frame(*rows: Row, stable: int | None = None) -> Frame:
    columns = [pa.array([row[i] for row in rows], pa.int64()) for i in range(3)]
    vs = np.array([row[0] for row in rows], np.int64)
    return Frame.from_columns(StreamSchema(COLUMNS), vs, vs + 1, columns, stable=stable)


def told(graph: Graph, name: str, *rows: Row, stable: int) -> list[Row]:
    out = graph.push(name, frame(*rows, stable=stable))
    graph.validate()
    return [tuple(row.values()) for row in out.inserts.payload.to_pylist()]


def test_a_window_is_answered_once_no_start_in_it_can_come() -> None:
    graph = Plan(A.window(10, 10, on="start").aggregate(n=gl.count())).compile()
    assert told(graph, "a", (8, 3, 1), (12, 9, 1), (15, 11, 1), stable=21) == []
    assert told(graph, "a", stable=22) == [(2,)]
    assert graph.stable == 20


def test_behind_a_join_a_start_progresses_by_its_own_bound_and_by_the_other_side() -> None:
    query = A.window(5).join(B.window(5), on="k").window(10, 10, on="start")
    graph = Plan(query.aggregate(n=gl.count())).compile()
    told(graph, "a", (10, 5, 1), (30, 25, 1), stable=60)
    assert told(graph, "b", (12, 12, 1), stable=25) == []
    # A row of `a` whose start is below 10 has ended by 26: 12 before its time, 5 of its window.
    assert told(graph, "b", stable=26) == [(1,)]


def test_a_closed_group_is_answered_before_the_others() -> None:
    watermarked = calls(lateness=gl.watermarks())
    aside = Aside("aside")
    schema = StreamSchema(COLUMNS)
    graph = Plan(hopping(watermarked).on_error("aside")).compile(aside)
    graph.push("a", frame((8, 8, 1), (9, 9, 2)))
    # That none with ts < 10 comes says nothing of start < 10; that none with ts < 22 comes does.
    out = graph.push("a", Frame.empty(schema), (Punctuation.of({"k": 1}, _vs=10),))
    assert not len(out)
    out = graph.push("a", Frame.empty(schema), (Punctuation.of({"k": 1}, _vs=22),))
    assert out.payload.to_pylist() == [{"k": 1, "n": 1}]


def test_what_is_held_is_what_progress_allows() -> None:
    graph = Plan(hopping(A)).compile()
    held = []
    for t in range(0, 4000, 20):
        rows = [(t + i, t + i - i % BEFORE, i % 3) for i in range(20)]
        graph.push("a", frame(*rows, stable=t))
        held.append(graph.nbytes)
    assert max(held[100:]) <= max(held[:20])


def test_a_snapshot_anywhere_goes_on_as_if_nothing_had_been() -> None:
    for name in ("hopping", "start behind a join", "session", "counted by start"):
        query, rng = QUERIES[name], random.Random(name)
        plan = Plan(query)
        whole, resumed = plan.compile(Aside("aside")), plan.compile(Aside("aside"))
        streams = {source: random_rows(rng, 15) for source in query.sources}
        while streams:
            source = rng.choice([*streams])
            one, left = streams[source][:1], streams[source][1:]
            streams[source] = left
            if not one:
                del streams[source]
            given = frame(*one, stable=min((row[0] for row in left), default=INF))
            snapshot = resumed.snapshot()
            resumed = plan.compile(Aside("aside"))
            resumed.restore(snapshot)
            outs = [graph.push(source, given) for graph in (whole, resumed)]
            assert Counter(outs[0].elements()) == Counter(outs[1].elements()), name
        assert whole.stable == INF


# -- writing it -----------------------------------------------------------------------------------


def test_it_is_said_by_plans_and_documents() -> None:
    assert "time ts, lateness 6 ms, start at most 12 ms before ts" in A.explain()
    assert "0  a: start at most 12 ms before ts  reads a" in Plan(A).explain()
    assert "progress of start" not in Plan(A).explain()
    assert A.properties.progress == {"ts": 1, "start": 13}
    again = Query.from_document(hopping(A).to_document())
    assert again.same_as(hopping(A))
    assert not again.same_as(hopping(calls(before=13)))
    document: Any = A.to_document()
    for wrong in ([["start"]], [["start", "12"]], [["ts", 1]], [["start", -1]], [["start", 1]] * 2):
        document["nodes"][0]["progress"] = wrong
        with pytest.raises(DecodeError):
            Query.from_document(document)
    plain: Any = gl.source("a", COLUMNS, time="ts").to_document()
    assert "progress" not in plain["nodes"][0]


def test_one_source_written_twice_is_looked_at_once() -> None:
    query = hopping(A.union(calls("a")))
    rows = [(1, 1, 1), (40, 1, 1)]
    tdb, aside = run(query, {"a": rows}, random.Random(1))
    assert [e.payload for e in tdb.events] == [(1, 2), (1, 2)]
    assert aside.count == 1
    with pytest.raises(Misuse, match="two sources are called 'a' and differ"):
        A.union(calls("a", before=1))


def test_a_row_that_is_too_far_before_its_time_stops_a_query_that_says_so() -> None:
    query = hopping(A.on_error("stop"))
    with pytest.raises(
        RowError, match=r"too far before .* start at most 12 ms before ts"
    ) as stopped:
        run(query, {"a": [(40, 27, 1)]}, random.Random(1))
    assert "ts=40, start=27" in str(stopped.value)


@pytest.mark.parametrize(
    ("progress", "problem"),
    [
        ({"begin": 5}, "no column 'begin'"),
        ({"ts": 5}, "that is the source's time"),
        ({"name": 5}, "is string: a time is an int64"),
        ({"start": -5}, "at least 0"),
        ({"start": "soon"}, "duration|soon"),
        ({"start": INF}, "does not hold it"),
        ("start", "say by how much, as in progress="),
    ],
)
def test_what_cannot_progress_is_refused(progress: Any, problem: str) -> None:
    with pytest.raises(GaplessError, match=problem):
        gl.source("a", {**COLUMNS, "name": "string"}, time="ts", progress=progress)


def test_a_window_on_a_column_that_does_not_progress_says_what_to_write() -> None:
    with pytest.raises(Misuse, match=r"gl\.source\(\.\., progress=\{'k': '60s'\}\)"):
        A.window(10, 10, on="k")


def test_times_near_both_ends_of_time_are_judged_as_others_are() -> None:
    rows = [(BEGIN + 2, BEGIN + 1, 1), (INF - 2, INF - 2 - BEFORE, 1), (INF - 2, 0, 1)]
    aside = Aside("aside")
    out = Plan(A).compile(aside).push("a", frame(*rows))
    assert (len(out), aside.count) == (2, 1)


# -- deliberately broken --------------------------------------------------------------------------


def let_all_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def pass_on(_: BoundedColumns, source: int, given: Frame, marks: Marks = ()) -> Out:
        del source
        return Out(given, marks)

    monkeypatch.setattr(BoundedColumns, "push", pass_on)


def promise_one_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_more(schema: StreamSchema, offsets: Any) -> Progress:
        return Progress(schema, {name: offset + 1 for name, offset in offsets.items()})

    monkeypatch.setattr(compiling, "Progress", one_more)


def forget_the_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    def as_times(p: Properties, _: str | None, lag: int) -> dict[str, int]:
        return dict.fromkeys(p.progress, lag)

    monkeypatch.setattr(lifetime_rules, "_lagging", as_times)


BROKEN: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "rows that are too far pass": (let_all_pass, "each tick"),
    "a promise one too large": (promise_one_more, "each tick"),
    "behind joins a column is as far as its time": (forget_the_distance, "start behind a join"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_build_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken, query = BROKEN[name]
    broken(monkeypatch)
    if query == "start behind a join":  # what is known of it was derived before
        monkeypatch.setitem(QUERIES, query, above_a_join(STARTS[1]))
    with pytest.raises(AssertionError):
        check_answers((query,), 40)


def test_a_group_that_closes_by_the_time_alone_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    made = HoppingAggregate.__init__

    def by_the_time(self: HoppingAggregate, *args: Any, **named: Any) -> None:
        made(self, *args, **named)
        self._time_names = {"_vs", "start"}

    monkeypatch.setattr(hopping_aggregate.HoppingAggregate, "__init__", by_the_time)
    with pytest.raises(AssertionError):
        test_a_closed_group_is_answered_before_the_others()
