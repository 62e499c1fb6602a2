"""A row once for each window that it is in."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.operators.aside import Aside
from gapless.operators.bucket import Bucket
from gapless.operators.windows import Hopping
from gapless.protocol.elements import INF
from gapless.protocol.errors import DecodeError, Misuse, SchemaError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.text import format, parse  # as the notation is called
from tests.engine.queries import some_source

A = some_source("a")  # ts, k, s; lateness 5
ROWS = StreamSchema({"k": "string"})
BOUNDS: dict[str, Any] = {"start": gl.window_start(), "end": gl.window_end()}


def told(operator: Bucket, text: str) -> str:
    out = operator.push(0, Frame.from_elements(ROWS, parse(text, ROWS)))
    operator.validate()
    return format(out.frame.elements())


def made(aside: Aside | None = None) -> Bucket:
    return Bucket(ROWS, Hopping(10, 5), tuple(BOUNDS.items()), aside)


def test_a_row_is_an_event_of_each_of_its_windows_and_goes_from_all() -> None:
    assert told(made(), "ins(A,10,20) stable(15)") == (
        "ins((A,0,10),10,15) ins((A,5,15),15,20) stable(15)"
    )
    assert told(made(), "ins(A,10,20) adj(A,10,20,10) ins(B,20,25)") == (
        "ins((A,0,10),10,15) ins((A,5,15),15,20) adj((A,0,10),10,15,10) adj((A,5,15),15,20,15) "
        "ins((B,10,20),20,25)"
    )
    assert (made().reach, made().fast_forward(7), made().nbytes) == (0, 7, 0)


def test_many_windows_of_many_rows_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gapless.operators.bucket.ANSWER_ROWS_MAX", 7)
    text = " ".join(f"ins({c},10,{10 + 5 * n})" for n, c in enumerate("abcdefgh", 1))
    frame = Frame.from_elements(ROWS, parse(f"{text} stable(12)", ROWS))
    lengths = [len(out.frame) for out in made().parts(0, frame)]
    assert sum(lengths) == 36
    assert max(lengths) <= 8
    assert len(lengths) > 5


def test_a_row_whose_windows_never_end_goes_aside() -> None:
    aside = Aside("aside")
    assert told(made(aside), f"ins(A,10,{INF}) ins(B,10,15)") == "ins((B,0,10),10,15)"
    assert aside.count == 1


def test_grouping_by_the_window_is_what_the_window_answers() -> None:
    rows = pa.table({"ts": range(40), "k": [n % 3 for n in range(40)], "s": ["x"] * 40})
    direct = A.window(10, 5).group_by("k").aggregate(n=gl.count(), end=gl.window_end())
    by_hand = A.window(10, 5).bucket(end=gl.window_end()).group_by("k", "end")
    counted = by_hand.aggregate(n=gl.count()).select("k", "n", "end")
    assert rows_of(direct, rows) == rows_of(counted, rows)


def rows_of(query: Query, rows: pa.Table) -> Counter[Any]:
    return Counter(tuple(row.values()) for row in gl.table(query, rows).to_pylist())


def test_what_is_known_and_said_of_it() -> None:
    q = A.window(10, 5).where(gl.col("k") > 0).bucket(**BOUNDS, at=gl.window_time())
    p = q.properties
    assert (p.insert_only, p.ordered, p.lasts) == (True, False, 5)
    assert p.starts == {"end"}
    assert p.progress == {"ts": 15, "start": 15, "end": 5, "at": 6}
    assert dict(p.reach) == {"a": 15}
    assert some_source("o", lateness=0).window(5, 5).bucket().properties.ordered
    assert "bucket: start=window_start()" in q.explain()
    assert "progress of" in Plan(q.window(10, 10, on="at").aggregate(n=gl.count())).explain()
    assert Query.from_document(q.to_document()).same_as(q)


def test_what_has_no_meaning_is_refused() -> None:
    for below in (A, A.window(10), A.window("all", 5), A.window(10, 5).aggregate(n=gl.count())):
        with pytest.raises(Misuse, match="window\\(range=, slide=\\)"):
            below.bucket()
    with pytest.raises(Misuse, match=r"gl\.window_start\(\)"):
        A.window(10, 5).bucket(n=gl.count())  # type: ignore[arg-type]  # that is what it is about
    with pytest.raises(SchemaError, match="two columns"):
        A.window(10, 5).bucket(k=gl.window_end())
    document: Any = A.window(10, 5).bucket(end=gl.window_end()).to_document()
    document["nodes"][-1]["bounds"] = [["n", gl.count().to_document()]]
    with pytest.raises(DecodeError, match="bucket"):
        Query.from_document(document)
