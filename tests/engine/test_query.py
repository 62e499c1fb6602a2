"""Queries as they are written, and the schemas that their steps have."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from gapless.engine import nodes
from gapless.engine.functions import function, name_of
from gapless.engine.lateness import KLate, TimeLate, Watermarks, k_late
from gapless.engine.query import Query, race
from gapless.engine.source import source
from gapless.operators.aggregates import calls
from gapless.operators.aggregates.calls import count, mean, sum_
from gapless.protocol.elements import INF
from gapless.protocol.errors import ExpressionError, Misuse
from gapless.protocol.expr import col
from gapless.protocol.schema import StreamSchema
from tests.engine.queries import some_source, twice

FLOWS = source(
    "netflow",
    {"ts": "timestamp[ms]", "src": "int32", "len": "int32"},
    time="ts",
    lateness="5s",
)


NO_COLUMN: Any = 7
NO_COLUMNS: Any = ["k"]


def types(query: Query) -> dict[str, str]:
    return {f.name: str(f.type) for f in query.schema.payload}


def test_the_example_of_the_front_page() -> None:
    talkers = (
        FLOWS.where(col("len") > 0)
        .window(range="10s", slide="1s")
        .group_by("src")
        .aggregate(packets=count(), bytes=sum_("len"), early=None)
    )
    assert types(talkers) == {"src": "int32", "packets": "int64", "bytes": "int64"}
    assert talkers.schema.time_unit == "ms"
    assert list(talkers.sources) == ["netflow"]
    assert talkers.sources["netflow"].lateness == TimeLate(5_000)
    assert [type(node).__name__ for node in nodes.walk(talkers.root)] == [
        "Source", "Where", "Window", "Aggregate",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("time", "given", "unit"),
    [
        ("timestamp[s]", None, "s"),
        ("timestamp[ns]", None, "ns"),
        ("timestamp[us]", "us", "us"),
        ("int64", None, "ms"),
        ("int64", "s", "s"),
        ("date64", None, "ms"),
    ],
)
def test_the_unit_of_time_is_that_of_the_time_column(
    time: str, given: str | None, unit: str
) -> None:
    q = source("a", {"t": time}, time="t", time_unit=given)
    assert q.schema.time_unit == unit
    assert q.sources["a"].lateness == Watermarks()


def test_a_source_takes_an_arrow_schema_and_a_kind_of_lateness() -> None:
    schema = pa.schema([pa.field("t", pa.timestamp("us", "UTC"), nullable=False), ("x", "string")])
    q = source("a", schema, time="t", lateness=k_late(9))
    assert q.schema == StreamSchema(schema, "us")
    assert q.sources["a"].lateness == KLate(9)


def test_steps_leave_the_query_that_they_are_taken_on_as_it_is() -> None:
    before = FLOWS.to_document()
    FLOWS.where(col("len") > 0).window("1s")
    assert FLOWS.to_document() == before


def test_select_gives_what_is_named_then_what_is_computed() -> None:
    q = FLOWS.select("len", "ts", double=col("len") * 2, who=col("src"))
    assert types(q) == {
        "len": "int32", "ts": "timestamp[ms]", "double": "int64", "who": "int32",
    }  # fmt: skip


def test_map_keeps_the_others_in_their_places() -> None:
    q = FLOWS.map(src=col("src").cast("string"), big=col("len") > 1000)
    assert types(q) == {"ts": "timestamp[ms]", "src": "string", "len": "int32", "big": "bool"}


def test_a_column_that_is_only_renamed_stays_without_nulls() -> None:
    schema = pa.schema([pa.field("t", pa.int64(), nullable=False)])
    q = source("a", schema, time="t").select(u=col("t"), v=col("t") + 0)
    assert [f.nullable for f in q.schema.payload] == [False, True]


def test_functions_of_users_stand_where_expressions_may() -> None:
    score = function(twice, "k", returns="int64")
    big = function(twice, "k", returns="bool")
    q = some_source().map(score=score).where(big).select("score")
    assert types(q) == {"score": "int64"}
    assert str(score) == f"{name_of(twice)}(k)" == "tests.engine.queries:twice(k)"


def test_a_function_gets_its_columns_as_arrow_arrays() -> None:
    got: list[Any] = []

    def note(*columns: pa.Array) -> pa.Array:
        got.extend(columns)
        return columns[0]

    batch = pa.record_batch({"x": pa.array([1, 2]), "y": pa.array(["a", "b"])})
    f = function(note, "y", "x", returns="string")
    assert f.evaluate(batch).to_pylist() == ["a", "b"]
    assert [column.to_pylist() for column in got] == [["a", "b"], [1, 2]]


def test_windows_count_in_the_unit_of_the_stream() -> None:
    at = FLOWS.window(range="10s", slide="500ms").root
    assert isinstance(at, nodes.Window)
    assert (at.range, at.slide, at.on) == (10_000, 500, None)
    landmark = FLOWS.window(range="all", slide="1m").root
    assert isinstance(landmark, nodes.Window)
    assert (landmark.range, landmark.slide) == (None, 60_000)


def test_a_window_on_the_time_of_the_source_is_one_without_on() -> None:
    assert FLOWS.window("1s", on="ts").same_as(FLOWS.window("1s"))
    renamed = FLOWS.select("len", at=col("ts"))
    assert renamed.window("1s", on="at").same_as(renamed.window("1s"))


def test_a_window_on_another_column_keeps_its_name() -> None:
    joined = FLOWS.window("5s").join(FLOWS.window("5s"), on="src")
    windowed = joined.window("1s", on="ts_right").root
    assert isinstance(windowed, nodes.Window)
    assert windowed.on == "ts_right"


def test_lifetimes_by_a_column_an_expression_or_a_duration() -> None:
    q = source("a", {"ts": "int64", "until": "int64"}, time="ts", time_unit="s")
    assert q.lifetime("until").same_as(q.lifetime(end=col("until")))
    lasting = q.lifetime(duration="1m").root
    assert isinstance(lasting, nodes.Lifetime)
    assert lasting.duration == 60


@pytest.mark.parametrize(
    ("early", "kept"), [(None, None), (False, None), (True, INF), ("2s", 2_000), (0, 0)]
)
def test_early_is_a_horizon(early: Any, kept: int | None) -> None:
    node = FLOWS.window("10s", "1s").aggregate(n=count(), early=early).root
    assert isinstance(node, nodes.Aggregate)
    assert node.early == kept


@pytest.mark.parametrize(
    ("on", "pairs"),
    [
        ("k", (("k", "k"),)),
        (["k", ("ts", "ts")], (("k", "k"), ("ts", "ts"))),
        ({"k": "ts"}, (("k", "ts"),)),
        (None, ()),
    ],
)
def test_the_columns_of_a_join_in_all_their_forms(on: Any, pairs: object) -> None:
    node = some_source("a").join(some_source("b"), on=on).root
    assert isinstance(node, nodes.Join)
    assert node.on == pairs


def test_a_join_has_the_on_columns_then_the_others_of_both() -> None:
    a = source("a", {"ts": "int64", "k": "int32", "x": "string"}, time="ts")
    b = source("b", {"ts": "int64", "key": "int32", "x": "string", "x_right": "bool"}, time="ts")
    q = a.join(b, on={"k": "key"}, where=col("x") != col("x_right"), how="left")
    assert q.schema.names == ["k", "ts", "x", "ts_right", "x_right", "x_right_right"]
    assert [f.nullable for f in q.schema.payload] == [True] * 6


def test_outer_joins_have_nulls_on_the_side_that_may_be_missing() -> None:
    strict = pa.schema([pa.field(n, pa.int64(), nullable=False) for n in ("ts", "k")])
    a, b = source("a", strict, time="ts"), source("b", strict, time="ts")

    def nullable(how: Any) -> list[bool]:
        return [f.nullable for f in a.join(b, on="k", how=how).schema.payload]

    assert nullable("inner") == [False, False, False]
    assert nullable("left") == [False, False, True]
    assert nullable("right") == [False, True, False]
    assert nullable("full") == [False, True, True]


def test_distinct_of_some_columns_selects_them_first() -> None:
    assert FLOWS.distinct("src").same_as(FLOWS.select("src").distinct())
    assert FLOWS.distinct().schema == FLOWS.schema


def test_top_k_by_a_column_or_an_expression() -> None:
    a = FLOWS.top_k(10, by="len", within="src")
    assert a.same_as(FLOWS.top_k(10, by=col("len"), largest=True, within=("src",)))
    assert not a.same_as(FLOWS.top_k(10, by="len", largest=False, within="src"))


def test_a_step_that_is_used_twice_is_one_step() -> None:
    big = FLOWS.where(col("len") > 1000)
    q = big.window("1s").join(big.latest_by("src"), on="src")
    assert len(nodes.walk(q.root)) == 5
    assert len(q.sources) == 1


def test_two_sources_of_one_name_that_say_the_same_are_one_source() -> None:
    q = some_source("a").union(some_source("a"))
    assert list(q.sources) == ["a"]


def test_on_error_is_the_first_query_s() -> None:
    aside = FLOWS.on_error("aside")
    assert FLOWS.on_error_mode == "stop"
    assert aside.on_error_mode == "aside"
    assert aside.where(col("len") > 1).on_error_mode == "aside"
    assert aside.union(FLOWS).on_error_mode == "aside"
    assert FLOWS.union(aside).on_error_mode == "stop"


def test_same_as_compares_by_content() -> None:
    def made(limit: int) -> Query:
        return race(FLOWS.where(col("len") > limit), FLOWS.where(col("len") > 3))

    assert made(3).same_as(made(3))
    assert not made(3).same_as(made(4))
    assert not made(3).same_as(made(3).on_error("aside"))
    shared = FLOWS.where(col("len") > 3)
    assert race(shared, shared).same_as(made(3))


def test_same_as_tells_functions_of_one_name_apart() -> None:
    def made(factor: int) -> Query:
        return FLOWS.map(x=function(lambda c: factor, "len", returns="int64"))

    assert not made(1).same_as(made(2))


def test_a_query_prints_on_one_line() -> None:
    q = FLOWS.window("10s", "1s").aggregate(n=count())
    assert repr(q) == "Query(aggregate: n=count() -> (n), reads netflow)"
    assert repr(FLOWS.group_by("src")).endswith("grouped by src: call aggregate(...)")


def test_a_query_is_pickled_with_and_without_functions() -> None:
    with_function = FLOWS.map(x=function(twice, "len", returns="int32"))
    shared = with_function.union(with_function.where(col("x") > 0))
    for q in (FLOWS.where(col("len") > 3).on_error("aside"), shared):
        back = pickle.loads(pickle.dumps(q))  # noqa: S301  # our own bytes
        assert back.same_as(q)
        assert len(nodes.walk(back.root)) == len(nodes.walk(q.root))


def test_mean_of_an_aggregate_over_an_aggregate() -> None:
    counts = FLOWS.window("10s", "1s").group_by("src").aggregate(n=count())
    q = counts.window("1m", "10s").aggregate(m=mean("n"))
    assert types(q) == {"m": "double"}


# -- columns as people write them -----------------------------------------------------------------


def test_a_column_may_be_written_as_itself_wherever_its_name_may_be() -> None:
    k, v = col("k"), col("v")
    rows = source("rows", {"ts": "int64", "k": "int64", "v": "int64"}, time="ts")
    other = source("other", {"ts": "int64", "k": "int64", "v": "int64"}, time="ts")
    pairs = [
        (rows.group_by(k).aggregate(n=count()), rows.group_by("k").aggregate(n=count())),
        (rows.select(k, "v"), rows.select("k", "v")),
        (rows.distinct(k), rows.distinct("k")),
        (rows.latest_by(k), rows.latest_by("k")),
        (rows.top_k(2, by=v, within=k), rows.top_k(2, by="v", within="k")),
        (rows.top_k(2, by=v, within=[k, "ts"]), rows.top_k(2, by="v", within=["k", "ts"])),
        (rows.join(other, on=k), rows.join(other, on="k")),
        (rows.join(other, on=[(k, v)]), rows.join(other, on=[("k", "v")])),
        (rows.window(5, on=col("ts")), rows.window(5)),
        (rows.aggregate(n=calls.sum_(v)), rows.aggregate(n=calls.sum_("v"))),
        (rows.aggregate(n=calls.quantile(v, 0.5)), rows.aggregate(n=calls.quantile("v", 0.5))),
    ]
    for as_itself, by_name in pairs:
        assert as_itself.same_as(by_name), by_name


@pytest.mark.parametrize(
    ("write", "why"),
    [
        (lambda q: q.group_by(col("k") + 1), r"group_by: \(k \+ 1\) is computed.*\.map\(x="),
        (
            lambda q: q.group_by(["k", "v"]),
            "group_by: a list: write .* one by one: 'k', 'v'",
        ),
        (lambda q: q.group_by(7), "group_by: 7 is not a column: write its name"),
        (lambda q: q.latest_by(["k"]), "latest_by: a list: write the columns one by one"),
        (
            lambda q: q.select(col("k") + 1),
            r"select: give \(k \+ 1\) a name, as in select",
        ),
        (lambda q: q.top_k(1, by="v", within=col("k") + 1), "top_k within: .* is computed"),
        (lambda q: q.join(q, on=col("k") == col("v")), "join on .*: name the columns to compare"),
        (lambda q: q.join(q, on=[7]), r"join on 7: a column, or a pair"),
        (lambda q: q.aggregate(n=calls.sum_(col("v") * 2)), "sum: .* is computed"),
        (lambda q: q.aggregate(n=calls.max_(NO_COLUMN)), "max: 7 is not a column"),
        (lambda q: q.aggregate(n=calls.count(NO_COLUMNS)), "count: a list"),
    ],
)
def test_what_is_no_column_says_what_to_write(write: Callable[[Query], Query], why: str) -> None:
    rows = source("rows", {"ts": "int64", "k": "int64", "v": "int64"}, time="ts")
    with pytest.raises((Misuse, ExpressionError), match=why):
        write(rows)


def test_a_window_that_leaves_rows_out_warns() -> None:
    rows = source("rows", {"ts": "timestamp[ms]", "k": "int64"}, time="ts")
    with pytest.warns(UserWarning, match="the slide, 1 min, is longer than the range, 10 s: rows"):
        rows.window(range="10s", slide="1m")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows.window(range="1m", slide="1m")
        rows.window(range="1m")
        rows.window(range="all", slide="1m")
        Query.from_document(gaps().to_document())


def gaps() -> Query:
    rows = source("rows", {"ts": "timestamp[ms]", "k": "int64"}, time="ts")
    return Query(nodes.Window(rows.root, 10, 60, None))
