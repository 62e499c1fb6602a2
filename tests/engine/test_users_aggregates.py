"""Users' aggregate functions in queries: rows by time, answers merged from panes, laws tried."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import gapless as gl
from gapless.engine.documents import functions_of, query_to_document
from gapless.engine.execute import Execution
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.engine.read_documents import query_from_document
from gapless.protocol.errors import DecodeError, Misuse, SchemaError
from gapless.protocol.tdb import Event, Tdb
from tests.engine.queries import some_source

A = some_source("a", lateness=100)  # ts, k, s
HOPS = A.window(12, 4).group_by("s")


def weighted(keys: pa.Array, times: pa.Array) -> int:
    """What each key is worth in its place: no row may be missed, or be where it does not belong."""
    return int(pc.sum(pc.multiply(keys, times)).as_py())


def steps(keys: pa.Array, texts: pa.Array) -> list[int]:
    """The keys in order of time."""
    assert len(keys) == len(texts)
    return list(keys.to_pylist())


def mean(values: pa.Array) -> float:
    return float(pc.mean(values).as_py())


def middle(one: float, other: float) -> float:
    """No mean of all."""
    return (one + other) / 2


WEIGHED = gl.aggregate(("k", "ts"), weighted, "int64", merge=operator.add)
KEPT = gl.aggregate(("k", "ts"), weighted, "int64")


def table(query: Query, rows: pa.Table, implementation: Any = "paned") -> list[Event]:
    tdb = Tdb(query.schema)
    for frame in Execution(Plan(query, implementation=implementation), {"a": rows}):
        tdb.fold(frame)
    return list(tdb.events)


def drawn(seed: int, n: int = 60) -> pa.Table:
    rng = random.Random(seed)
    rows = [(rng.randint(0, 40), rng.randint(-5, 5), rng.choice("ab")) for _ in range(n)]
    return pa.table([*map(list, zip(*rows, strict=True))], names=["ts", "k", "s"])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("implementation", ["paned", "wid", "adaptive"])
def test_answers_merged_from_panes_are_those_of_all_rows(seed: int, implementation: Any) -> None:
    rows = drawn(seed)
    query = HOPS.aggregate(merged=WEIGHED, kept=KEPT, order=gl.aggregate(("k", "s"), steps, LISTS))
    said = table(query, rows, implementation)
    assert said
    for event in said:
        group, merged, kept, order = event.payload
        inside = [
            (ts, k)
            for ts, k, s in zip(*(rows[c].to_pylist() for c in ("ts", "k", "s")), strict=True)
            if s == group and event.vs - 12 <= ts < event.vs
        ]
        assert merged == kept == sum(ts * k for ts, k in inside)
        assert order == tuple(k for _, k in sorted(inside))


LISTS = pa.list_(pa.int64())


def test_free_lifetimes_sessions_and_landmarks_take_them_as_well() -> None:
    rows = drawn(7)
    for windowed in (A.window(12), A.window(session=3), A.window("all", 10), A.window(gl.rows(5))):
        said = table(windowed.group_by("s").aggregate(merged=WEIGHED, kept=KEPT), rows)
        assert said
        assert all(event.payload[1] == event.payload[2] for event in said)


def test_only_rows_for_which_where_holds_are_given() -> None:
    rows = drawn(3)
    positive = gl.aggregate("k", lambda ks: min(ks.to_pylist()), "int64", where=gl.col("k") > 0)
    said = table(HOPS.aggregate(least=positive), rows)
    assert {event.payload[1] for event in said} <= {None, 1, 2, 3, 4, 5}


def test_it_travels_by_the_names_of_both_functions() -> None:
    query = HOPS.aggregate(merged=WEIGHED, order=gl.aggregate(["s"], len, "int64"))
    names = functions_of(query)
    assert set(names) == {f"{__name__}:weighted", "_operator:add", "builtins:len"}
    document = query_to_document(query)
    assert query_from_document(document, names).same_as(query)
    for name in names:
        with pytest.raises(DecodeError, match=f"no function '{name}' is available"):
            query_from_document(document, {k: v for k, v in names.items() if k != name})


def test_explain_says_what_it_costs_and_where_replicas_might_differ() -> None:
    text = HOPS.aggregate(merged=WEIGHED).explain()
    assert "merge for each two answers" in text
    assert "a function of yours" in text
    assert "merged floats" not in text
    floats = gl.aggregate(("k", "ts"), weighted, "float64", merge=operator.add)
    assert "merged floats may depend on the order" in HOPS.aggregate(merged=floats).explain()


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a mean of means": (
        lambda: HOPS.aggregate(x=gl.aggregate("k", mean, "float64", merge=middle)),
        Misuse,
        "merge breaks a law: of .* such as a sum and a count for a mean",
    ),
    "the first that came": (
        lambda: HOPS.aggregate(x=gl.aggregate("k", len, "int64", merge=lambda a, b: a)),
        Misuse,
        "merge breaks a law",
    ),
    "a difference": (
        lambda: HOPS.aggregate(x=gl.aggregate("k", len, "int64", merge=operator.sub)),
        Misuse,
        "merge breaks a law",
    ),
    "a merge that raises": (
        lambda: HOPS.aggregate(x=gl.aggregate("s", len, "int64", merge=operator.getitem)),
        Misuse,
        "raised TypeError",
    ),
    "no function": (
        lambda: gl.aggregate("k", len, "int64", merge="sum"),  # type: ignore[arg-type]  # it is refused
        Misuse,
        "merge='sum' is not a function: give one that makes",
    ),
    "no columns": (lambda: gl.aggregate((), len, "int64"), Misuse, "no columns"),
    "a column twice": (lambda: gl.aggregate(("k", "k"), len, "int64"), Misuse, "a column twice"),
    "no such column": (
        lambda: HOPS.aggregate(x=gl.aggregate(("k", "q"), len, "int64", merge=operator.add)),
        SchemaError,
        "q",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    build, error, text = REFUSED[name]
    with pytest.raises(error, match=text):
        build()


def test_a_function_that_fails_takes_its_group_aside_with_the_reason() -> None:
    def picky(keys: pa.Array) -> int:
        if 7 in keys.to_pylist():
            raise ValueError("no sevens")
        return len(keys)

    rows = pa.table({"ts": [1, 2, 3], "k": [7, 1, 1], "s": ["a", "a", "b"]})
    query = (
        A.window(4, 4).group_by("s").aggregate(n=gl.aggregate("k", picky, "int64", operator.add))
    )
    execution = Execution(Plan(query.on_error("aside")), {"a": rows})
    tdb = Tdb(query.schema)
    for frame in execution:
        tdb.fold(frame)
    assert [event.payload for event in tdb.events] == [("b", 1)]
    [kept] = execution.aside.take()
    assert "raised ValueError: no sevens" in kept.reason
