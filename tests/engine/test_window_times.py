"""window_start, window_end, window_time: what answers say of their windows, and windows above."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.engine import compile as compiling
from gapless.engine.execute import Execution
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.operators.progress import Progress
from gapless.protocol.elements import INF
from gapless.protocol.errors import Misuse, RowError, SchemaError
from gapless.protocol.frame import Frame
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb
from tests.engine.queries import some_source

A = some_source("a")  # ts, k, s; lateness 5
BOUNDS: dict[str, Any] = {
    "start": gl.window_start(),
    "n": gl.count(),
    "end": gl.window_end(),
    "time": gl.window_time(),
}
SIXTY = pa.table({"ts": list(range(60)), "k": [1] * 60, "s": ["x"] * 60})


def events(query: Query, rows: pa.Table) -> Counter[Event]:
    tdb = Tdb(query.schema)
    for batch in Execution(Plan(query), {"a": rows.to_batches(max_chunksize=7)}):
        tdb.fold(batch)
    return Counter(tdb.events)


def test_an_answer_says_which_window_it_is_about() -> None:
    rows = SIXTY.slice(12, 1)
    assert events(A.window(10, 5).aggregate(**BOUNDS), rows) == Counter(
        [Event((5, 1, 15, 14), 15, 20), Event((10, 1, 20, 19), 20, 25)]
    )
    session = A.window(session=4).group_by("k").aggregate(**BOUNDS)
    assert events(session, rows.slice(0, 1)) == Counter([Event((1, 12, 1, 16, 15), 16, 17)])
    held = A.window("all", 5).aggregate(n=gl.count(), end=gl.window_end(), early=True)
    assert events(held, SIXTY.slice(12, 5)) == Counter(
        [Event((3, 15), 15, 20), Event((5, 20), 20, INF)]
    )


def test_early_answers_say_it_too() -> None:
    early = A.window(10, 10).aggregate(**BOUNDS, early=True)
    assert events(early, SIXTY) == events(A.window(10, 10).aggregate(**BOUNDS), SIXTY)


def test_answers_roll_up_by_their_time_and_land_one_window_off_by_their_start() -> None:
    tens = A.window(10, 10).aggregate(n=gl.count(), at=gl.window_time())
    by_time = tens.window(30, 30, on="at").aggregate(n=gl.sum("n"))
    assert [e.payload[0] for e in sorted(events(by_time, SIXTY), key=lambda e: e.vs)] == [30, 30]
    by_start = tens.window(30, 30).aggregate(n=gl.sum("n"))
    off = [e.payload[0] for e in sorted(events(by_start, SIXTY), key=lambda e: e.vs)]
    assert off == [20, 30, 10]
    assert "progress of at" in Plan(by_time).explain()
    assert "progress of" not in Plan(by_start).explain()


def test_a_promise_that_comes_a_tick_too_soon_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "offsets", lambda *_: {"at": 0})
    tens = A.window(10, 10).aggregate(n=gl.count(), at=gl.window_time())
    with pytest.raises(RowError, match="late"):
        events(tens.window(30, 30, on="at").aggregate(n=gl.sum("n")), SIXTY)


def test_rolled_up_sessions_and_landmarks() -> None:
    sessions = A.window(session=3).aggregate(n=gl.count(), at=gl.window_time())
    some = SIXTY.take([0, 1, 10, 11, 12, 35])
    assert events(sessions.window(20, 20, on="at").aggregate(n=gl.sum("n")), some) == Counter(
        [Event((5,), 20, 40), Event((1,), 40, 60)]
    )
    held = A.window("all", 10).aggregate(n=gl.count(), at=gl.window_time())
    most = held.window(20, 20, on="at").aggregate(n=gl.max("n"))
    assert [e.payload for e in sorted(events(most, SIXTY), key=lambda e: e.vs)] == [
        (20,),
        (40,),
        (60,),
    ]


def test_what_is_known_of_the_columns() -> None:
    hopping = A.window(10, 5).aggregate(**BOUNDS).properties
    assert hopping.starts == {"end"}
    assert hopping.progress == {"start": 15, "end": 5, "time": 6}
    sessions = A.window(session=4).aggregate(**BOUNDS).properties
    assert sessions.starts == {"end"}
    assert sessions.progress == {"end": 1, "time": 2}


def test_the_type_is_that_of_the_sources_time() -> None:
    zoned = gl.source("z", {"at": "timestamp[us, tz=UTC]"}, time="at", lateness=0)
    answers = zoned.window("1s", "1s").aggregate(end=gl.window_end(), start=gl.window_start())
    assert [f.type for f in answers.schema.payload] == [pa.timestamp("us", "UTC")] * 2
    dates = gl.source("d", {"at": pa.date64()}, time="at", lateness=0)
    assert dates.window("1s", "1s").aggregate(e=gl.window_end()).schema.payload.field(
        "e"
    ).type == pa.timestamp("ms")
    again = Query.from_document(answers.to_document())
    assert again.same_as(answers)
    assert again.schema == answers.schema


def test_what_no_window_says_is_refused() -> None:
    for q in (A, A.window(10), A.latest_by("k")):
        with pytest.raises(Misuse, match=r"window_end\(\): only answers of"):
            q.aggregate(end=gl.window_end())
    with pytest.raises(Misuse, match="no start"):
        A.window("all", 5).aggregate(start=gl.window_start())
    sessions = A.window(session=3).aggregate(n=gl.count(), start=gl.window_start())
    with pytest.raises(Misuse, match="nothing is promised of that column"):
        sessions.window(10, 10, on="start")
    with pytest.raises(SchemaError, match="two columns"):
        A.window(10, 5).group_by("k").aggregate(k=gl.window_end())


def test_progress_says_what_stables_mean_for_columns() -> None:
    schema = StreamSchema({"at": "int64"})
    step = Progress(schema, {"at": -1})
    assert step.push(0, Frame.empty(schema)).marks == ()
    mark = Punctuation.of({"at": 3})
    out = step.push(0, Frame.empty(schema, 30), (mark,))
    assert (out.frame.stable, out.marks) == (30, (mark, Punctuation.of(at=29)))
    assert step.push(0, Frame.empty(schema, INF)).marks == (Punctuation.of(at=INF),)
    assert step.fast_forward(7) == 7
    assert (step.reach, step.nbytes, step.snapshot()) == (0, 0, {})
    step.validate()
