"""Windows that begin anew as users write them: the query, what is known of it, what is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.engine.execute import Execution
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.merge.choose import choose
from gapless.protocol.errors import DecodeError, Misuse
from gapless.protocol.tdb import Event, Tdb
from tests.engine.queries import some_source

A = some_source("a", lateness=100)  # ts, k, s
SINCE = A.window("all", 10, restart=30)
ROWS = pa.table({"ts": [1, 12, -5, 35, 29, 30], "k": [1, 2, 1, 1, 1, 2], "s": list("abcdef")})


def events(q: Query, rows: pa.Table = ROWS) -> Counter[Event]:
    tdb = Tdb(q.schema)
    for frame in Execution(Plan(q), {"a": rows}):
        tdb.fold(frame)
    return Counter(tdb.events)


def test_each_answer_is_about_the_rows_since_the_last_restart() -> None:
    q = SINCE.aggregate(n=gl.count(), first=gl.first("s"), at=gl.window_start())
    assert events(q) == Counter(
        [
            Event((1, "c", -30), 0, 10),
            Event((1, "a", 0), 10, 20),
            Event((2, "a", 0), 20, 30),
            Event((3, "a", 0), 30, 40),
            Event((2, "f", 30), 40, 50),
            Event((2, "f", 30), 50, 60),
            Event((2, "f", 30), 60, 70),
        ]
    )


def test_a_restart_at_each_slide_is_a_tumbling_window() -> None:
    anew, tumbling = A.window("all", 10, restart=10), A.window(10, 10)
    assert events(anew.aggregate(n=gl.count())) == events(tumbling.aggregate(n=gl.count()))
    assert events(anew.select("k").distinct()) == events(tumbling.select("k").distinct())


def test_answers_roll_up_by_the_time_of_their_windows() -> None:
    """The last answer of each restart is about all of it."""
    counts = SINCE.aggregate(n=gl.count(), at=gl.window_time())
    most = counts.window(30, 30, on="at").aggregate(n=gl.max("n"))
    whole = A.window(30, 30).aggregate(n=gl.count())
    assert events(most) == events(whole)


def test_what_is_known_of_it() -> None:
    by_k = SINCE.group_by("k").aggregate(n=gl.count(), at=gl.window_time(), since=gl.window_start())
    p = by_k.properties
    assert (p.reach, p.unique, p.lasts, p.grain) == ({"a": 40}, ("k",), 10, 10)
    assert set(p.progress) == {"at"}, "nothing is promised of where a window begins"
    assert choose([p.merge] * 2)[0] == "r2"
    assert SINCE.properties.longest == 30
    assert SINCE.properties.lasts is None
    assert "window range all, slide 10 ms, restart 30 ms" in by_k.explain()
    assert "CF" in by_k.explain()
    assert "paned" in by_k.explain()
    often = A.window("all", 1, restart=1000).group_by("k").aggregate(n=gl.count())
    assert "is answered every 1 ms until the next restart" in often.explain()


def test_a_document_says_all_of_it() -> None:
    q = A.window("all", "10ms", restart="30ms", on="ts").aggregate(n=gl.count())
    again = Query.from_document(q.to_document())
    assert again.same_as(q)
    assert not again.same_as(A.window("all", 10, restart=60).aggregate(n=gl.count()))
    assert not again.same_as(A.window("all", 10).aggregate(n=gl.count()))
    document: Any = q.to_document()
    document["nodes"][1]["restart"] = 25
    with pytest.raises(DecodeError, match="does not divide"):
        Query.from_document(document)


REFUSED: tuple[tuple[Callable[[], Query], str], ...] = (
    (lambda: A.window("all", 20, restart=50), "slide='10 ms' or restart='60 ms'"),
    (lambda: A.window("all", "2h", restart="1h"), "slide='1 h' or restart='2 h'"),
    (lambda: A.window("all", restart=50), "say how often"),
    (lambda: A.window(100, 10, restart=50), "range='all'"),
    (lambda: A.window(10, restart=50), "range='all'"),
    (lambda: A.window(restart=50), "say range="),
    (lambda: A.window("all", gl.rows(2), restart=50), "count rows do not begin anew"),
    (lambda: A.window(gl.rows(5), 10, restart=50), "count rows do not begin anew"),
    (lambda: A.window(session=5, restart=50), "session= alone"),
    (lambda: A.window("all", 10, restart=0), "at least 1"),
    (lambda: A.window("all", 10, restart="an hour"), "write a text such as"),
    (lambda: A.window("all", 1, restart="1d"), "100000 are the most"),
    (lambda: A.window("all", 10, restart=50, partition_by="k"), "goes with session="),
    (lambda: SINCE.window("all", 10, restart=50), "in a window already"),
)


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_what_has_no_meaning_is_refused(case: int) -> None:
    make, told = REFUSED[case]
    with pytest.raises(Misuse, match=told):
        make()
