"""Windows that are counted from elsewhere than 1970: `origin=` as users write it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.engine import nodes
from gapless.engine.execute import Execution
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.operators.hopping_aggregate import NAMES, Implementation
from gapless.protocol.elements import INF
from gapless.protocol.errors import DecodeError, Misuse
from gapless.protocol.tdb import Event, Tdb
from tests.engine.queries import some_source

A = some_source("a", lateness=100)  # ts, k, s
ROWS = pa.table({"ts": [1, 12, -5, 35, 29, 30, -17], "k": [1, 2, 1, 1, 1, 2, 2], "s": [*"abcdefg"]})
BY = 7
"""How far rows are moved in these tests."""


def events(q: Query, rows: pa.Table = ROWS, by: Implementation = "paned") -> Counter[Event]:
    tdb = Tdb(q.schema)
    for frame in Execution(Plan(q, by), {"a": rows}):
        tdb.fold(frame)
    return Counter(tdb.events)


def moved(found: Counter[Event], by: int) -> Counter[Event]:
    return Counter({Event(e.payload, e.vs + by, min(e.ve + by, INF)): n for e, n in found.items()})


WINDOWS: dict[str, dict[str, Any]] = {
    "tumbling": {"range": 10, "slide": 10},
    "hopping": {"range": 25, "slide": 10},
    "with gaps": {"range": 8, "slide": 10},
    "cumulating": {"range": "all", "slide": 10, "restart": 30},
    "landmark": {"range": "all", "slide": 10},
}


@pytest.mark.parametrize("by", NAMES)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.filterwarnings("ignore:window")
def test_moving_rows_and_origin_alike_moves_the_answers(window: str, by: Implementation) -> None:
    def counts(**origin: Any) -> Query:
        windowed = A.window(**WINDOWS[window], **origin)
        return windowed.group_by("k").aggregate(n=gl.count(), last=gl.last("s"))

    later = ROWS.set_column(0, "ts", pa.array([t + BY for t in ROWS["ts"].to_pylist()]))
    still = events(counts(), by=by)
    assert events(counts(origin=BY), later, by) == moved(still, BY)
    assert events(counts(origin=BY - 30), later, by) == moved(still, BY), "a whole restart earlier"
    assert events(counts(), later, by) != moved(still, BY)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.filterwarnings("ignore:window")
def test_rows_as_lifetimes_move_too(window: str) -> None:
    later = ROWS.set_column(0, "ts", pa.array([t + BY for t in ROWS["ts"].to_pylist()]))
    ks = A.window(**WINDOWS[window]).select("k")
    moved_ks = A.window(**WINDOWS[window], origin=BY).select("k")
    assert events(moved_ks, later) == moved(events(ks), BY)
    assert events(moved_ks.distinct(), later) == moved(events(ks.distinct()), BY)


@pytest.mark.parametrize(
    ("origin", "ticks"),
    [
        (3, 3),
        ("3ms", 3),
        (-7, 3),
        ("-7ms", 3),
        ("1m", 0),
        (timedelta(milliseconds=-7), 3),
        (datetime(2026, 1, 1, 0, 0, 0, 3_000, timezone(timedelta(hours=1))), 3),
        (datetime(1969, 12, 31, 23, 59, 59, 993_000, UTC), 3),
    ],
    ids=str,
)
def test_an_origin_is_a_time_or_a_duration_and_only_its_place_in_the_slide_counts(
    origin: Any, ticks: int
) -> None:
    q = A.window(25, 10, origin=origin)
    assert isinstance(q.root, nodes.Window)
    assert q.root.origin == ticks
    assert q.same_as(A.window(25, 10, origin=ticks))


def test_answers_from_an_origin_are_still_apart_roll_up_and_are_ranked() -> None:
    tens = A.window(10, 10, origin=3).group_by("k").aggregate(n=gl.count(), at=gl.window_time())
    assert tens.properties.grain == 1
    assert tens.properties.apart
    thirties = tens.window(30, 30, on="at", origin=3).aggregate(n=gl.sum("n"))
    assert events(thirties) == events(A.window(30, 30, origin=3).aggregate(n=gl.count()))
    first = tens.top(1, by="n").select("k", "rank")
    assert all((e.vs - 3) % 10 == 0 for e in events(first))
    assert events(A.window(10, 10, origin=3).top(1, by="k"))


def test_a_plan_says_where_windows_are_counted_from() -> None:
    q = A.window("all", 10, restart=60, origin=13).aggregate(n=gl.count(), at=gl.window_start())
    assert "window range all, slide 10 ms, restart 60 ms, origin 13 ms" in q.explain()
    again = Query.from_document(q.to_document())
    assert again.same_as(q)
    assert not again.same_as(A.window("all", 10, restart=60).aggregate(n=gl.count()))
    document: Any = q.to_document()
    document["nodes"][1]["origin"] = 60
    with pytest.raises(DecodeError, match="below 60"):
        Query.from_document(document)


REFUSED: tuple[tuple[Callable[[], Query], str], ...] = (
    (lambda: A.window(10, origin=3), "no grid to move"),
    (lambda: A.window("all", origin=3), "no grid to move"),
    (lambda: A.window(gl.rows(5), 10, origin=3), "rows are counted from the first"),
    (lambda: A.window(10, gl.rows(5), origin=3), "rows are counted from the first"),
    (lambda: A.window(session=10, origin=3), "a session begins with its first row"),
    (lambda: A.window(10, 5, origin="noon"), "write a text such as"),
    (lambda: A.window(10, 5, origin=1.5), "write a text such as"),  # type: ignore[arg-type]  # on purpose
    (lambda: A.window(10, 5, origin="1us"), "not a whole number of ms"),
)


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_what_has_no_meaning_is_refused(case: int) -> None:
    make, told = REFUSED[case]
    with pytest.raises(Misuse, match=told):
        make()
