"""The last rows of each partition, whatever the order in which rows come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gapless as gl
from gapless.engine.query import Query
from gapless.operators import latest_rows
from gapless.operators.latest_rows import LatestRows
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import DecodeError, Misuse, SchemaError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb
from gapless.protocol.text import format, parse  # as the notation is called
from tests.effort import cases
from tests.engine.queries import some_source

A = some_source("a")  # ts, k, s; lateness 5
ROWS = StreamSchema({"id": "string", "x": "int64"})
Row = tuple[str, int, int]


def told(operator: LatestRows, text: str) -> str:
    out = operator.push(0, Frame.from_elements(ROWS, parse(text, ROWS))).frame
    operator.validate()
    return format(out.elements())


def test_a_row_ends_when_as_many_as_the_range_has_have_come() -> None:
    operator = LatestRows(ROWS, 2, ["id"])
    assert told(operator, "ins((A,2),4,5) ins((A,1),1,2) ins((B,1),3,4)") == ""
    assert told(operator, "stable(5)") == (
        "ins((A,1),1,inf) ins((A,2),4,inf) ins((B,1),3,inf) stable(5)"
    )
    assert told(operator, "ins((A,4),9,10) ins((A,3),8,9) stable(9)") == (
        "adj((A,1),1,inf,8) ins((A,3),8,inf) stable(9)"
    )
    assert told(operator, "stable(inf)") == "adj((A,2),4,inf,9) ins((A,4),9,inf) stable(inf)"
    assert operator.snapshot()["open"].num_rows == 0
    assert (operator.reach, operator.fast_forward(7)) == (INF, BEGIN)


def test_without_partitions_all_rows_are_one_and_ties_are_by_payload() -> None:
    operator = LatestRows(ROWS, 1, [])
    assert told(operator, "ins((A,3),7,8) ins((C,1),7,8) ins((B,2),7,8) stable(8)") == (
        "ins((C,1),7,inf) stable(8)"
    )


DRAWN = st.lists(
    st.tuples(st.sampled_from("AB"), st.integers(-9, 40), st.integers(0, 3)), max_size=25
)


def expected(rows: list[Row], count: int, by: list[str]) -> Tdb:
    """Row by row."""
    found = []
    for of in sorted({row[0] for row in rows}) if by else [None]:
        mine = [row for row in rows if of is None or row[0] == of]
        mine.sort(key=lambda row: (row[1], row[0], row[2]))
        for i, (id_, ts, x) in enumerate(mine):
            end = mine[i + count][1] if i + count < len(mine) else INF
            if end > ts:
                found.append(Event((id_, x), ts, end))
    return Tdb(ROWS, found)


def answered(rows: list[Row], count: int, by: list[str], order: list[int]) -> Tdb:
    """In three parts, each of which comes in an order of its own, a stable behind each."""
    operator, table = LatestRows(ROWS, count, by), Tdb(ROWS)
    for low, high in ((-9, 10), (10, 20), (20, 50)):
        part = [row for row in rows if low <= row[1] < high]
        mixed = [row for turn in order for row in part[turn::3]]
        text = " ".join(f"ins(({i},{x}),{ts},{ts + 1})" for i, ts, x in mixed)
        table.fold(
            operator.push(0, Frame.from_elements(ROWS, parse(f"{text} stable({high})", ROWS))).frame
        )
        operator.validate()
        again = LatestRows(ROWS, count, by)
        again.restore(operator.snapshot())
        again.validate()
        operator = again
    return table


@settings(max_examples=cases(60))
@given(DRAWN, st.integers(1, 4), st.sampled_from(([], ["id"])), st.permutations(range(3)))
def test_row_by_row_the_same_rows_are_there(
    rows: list[Row], count: int, by: list[str], order: list[int]
) -> None:
    assert answered(rows, count, by, order) == expected(rows, count, by)


def test_ranks_by_arrival_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("A", 7, 3), ("A", 7, 1), ("A", 12, 1)]
    assert answered(rows, 1, [], [0, 1, 2]) == expected(rows, 1, [])

    def by_arrival(partition: Any, vs: Any, _: Any) -> Any:
        return np.lexsort((vs, partition))

    monkeypatch.setattr(latest_rows, "by_time_and_payload", by_arrival)
    assert answered(rows, 1, [], [0, 1, 2]) != expected(rows, 1, [])


def test_bad_snapshots_are_refused() -> None:
    operator = LatestRows(ROWS, 2, ["id"])
    told(operator, "ins((A,1),7,8) ins((A,1),7,8) stable(8)")
    state = dict(operator.snapshot())
    for ranks in (state["ranks"].slice(0, 1), state["ranks"].take([0, 0])):
        with pytest.raises(DecodeError, match="rank"):
            LatestRows(ROWS, 2, ["id"]).restore({**state, "ranks": ranks})


def test_as_users_write_it() -> None:
    q = A.window(range=gl.rows(2), partition_by="k")
    p = q.properties
    assert (p.insert_only, p.key, p.unique, dict(p.reach)) == (False, False, None, {"a": INF})
    assert A.window(range=gl.rows(1), partition_by="k").properties.unique == ("k",)
    assert "window range 2 rows by k" in q.explain()
    assert Query.from_document(q.to_document()).same_as(q)
    for other in (A.window(range=gl.rows(3), partition_by="k"), A.window(range=gl.rows(2))):
        assert not q.same_as(other)
    with pytest.raises(Misuse, match="in a window already"):
        A.window(10).window(range=gl.rows(2))
    with pytest.raises(Misuse, match="leave on out"):
        A.window(range=gl.rows(2), on="k")
    with pytest.raises(SchemaError, match="partition_by"):
        A.window(range=gl.rows(2), partition_by="kk")
    with pytest.raises(Misuse, match="settled"):
        told(LatestRows(ROWS, 2, []), "adj((A,1),7,8,9)")
    with pytest.raises(SchemaError):
        LatestRows(ROWS, 2, ["y"])
    document: Any = q.to_document()
    document["nodes"][-1]["range"] = 0
    with pytest.raises(DecodeError, match="range"):
        Query.from_document(document)


def test_a_join_with_the_last_row_of_the_other_side() -> None:
    """What `latest_by` of a key does for each key, without a key."""
    b = some_source("b")
    query = A.join(b.window(range=gl.rows(1)).select(at=gl.col("ts"), what=gl.col("s")))
    rows_of_a = [{"ts": t, "k": 0, "s": ""} for t in (3, 6, 7, 20)]
    rows_of_b = [{"ts": t, "k": t, "s": s} for t, s in ((5, "x"), (7, "y"), (7, "z"))]
    given = {
        name: pa.Table.from_pylist(rows, query.sources[name].schema.payload)
        for name, rows in (("a", rows_of_a), ("b", rows_of_b))
    }
    table = Tdb(query.schema)
    for frame in gl.execute(query, given):
        table.fold(frame)
    at, what = (query.schema.names.index(name) for name in ("ts", "what"))
    found = sorted((e.vs, e.payload[at], e.payload[what]) for e in table.events)
    assert found == [(6, 6, "x"), (7, 7, "z"), (20, 20, "z")]
