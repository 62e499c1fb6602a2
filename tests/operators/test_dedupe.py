"""The first row of a key in each stretch of time, whatever the order in which rows come."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gapless as gl
from gapless.engine.query import Query
from gapless.operators import dedupe
from gapless.operators.dedupe import Dedupe
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import DecodeError, Misuse, SchemaError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.text import format, parse  # as the notation is called
from tests.engine.queries import some_source

A = some_source("a")  # ts, k, s; lateness 5
ROWS = StreamSchema({"id": "string", "x": "int64"})
Row = tuple[str, int, int]


def made(within: int = 10) -> Dedupe:
    return Dedupe(ROWS, ["id"], within)


def told(operator: Dedupe, text: str) -> str:
    out = operator.push(0, Frame.from_elements(ROWS, parse(text, ROWS))).frame
    operator.validate()
    return format(out.elements())


def test_a_row_less_than_within_after_a_kept_one_is_dropped() -> None:
    operator = made()
    rows = "ins((A,1),7,8) ins((A,2),17,18) ins((A,3),16,17) ins((A,4),20,21) ins((B,5),8,9)"
    assert told(operator, rows) == ""
    assert told(operator, "stable(17)") == "ins((A,1),7,8) ins((B,5),8,9) stable(17)"
    assert told(operator, "ins((A,9),26,27) ins((A,6),27,28) stable(28)") == (
        "ins((A,2),17,18) ins((A,6),27,28) stable(28)"
    )
    assert told(operator, "stable(38)") == "stable(38)"
    assert operator.snapshot()["keys"].num_rows == 0  # nothing of A is dropped any more
    assert (operator.reach, operator.fast_forward(7)) == (INF, BEGIN)


def test_of_rows_of_one_time_the_smallest_is_the_first() -> None:
    assert told(
        made(), "ins((A,3),7,8) ins((A,1),7,8) ins((A,2),7,8) ins((B,1),7,8) stable(8)"
    ) == ("ins((A,1),7,8) ins((B,1),7,8) stable(8)")


TIMES = st.lists(
    st.tuples(st.sampled_from("AB"), st.integers(-9, 40), st.integers(0, 3)), max_size=25
)


@settings(max_examples=60)
@given(TIMES, st.integers(1, 12), st.permutations(range(3)))
def test_row_by_row_the_same_rows_are_kept(rows: list[Row], within: int, order: list[int]) -> None:
    wanted, last = [], dict[str, int]()
    for id_, ts, x in sorted(rows, key=lambda row: (row[1], row[2])):
        if ts >= last.get(id_, BEGIN) + within:
            last[id_] = ts
            wanted.append((id_, ts, x))
    assert kept(rows, within, order) == sorted(wanted, key=lambda row: (row[1], row[0]))


def kept(rows: list[Row], within: int, order: list[int]) -> list[Row]:
    """In three parts, each of which comes in an order of its own, a stable behind each."""
    operator, found = made(within), list[Row]()
    for low, high in ((-9, 10), (10, 20), (20, 50)):
        part = [row for row in rows if low <= row[1] < high]
        mixed = [row for turn in order for row in part[turn::3]]
        text = " ".join(f"ins(({i},{x}),{ts},{ts + 1})" for i, ts, x in mixed)
        out = operator.push(0, Frame.from_elements(ROWS, parse(f"{text} stable({high})", ROWS)))
        operator.validate()
        times = out.frame.vs.tolist()
        assert times == sorted(times)
        values = out.frame.payload.to_pylist()
        found += [(v["id"], ts, v["x"]) for ts, v in zip(times, values, strict=True)]
        again = made(within)
        again.restore(operator.snapshot())
        again.validate()
        operator = again
    return sorted(found, key=lambda row: (row[1], row[0]))


def test_a_step_too_far_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("A", t, 0) for t in (0, 3, 4, 6)]
    right = kept(rows, 3, [0, 1, 2])
    monkeypatch.setattr(dedupe, "_later", lambda ts, within: ts + within + 1)
    assert kept(rows, 3, [0, 1, 2]) != right


def test_bad_snapshots_are_refused() -> None:
    operator = made()
    told(operator, "ins((A,1),7,8) ins((B,1),7,8) stable(8)")
    state = dict(operator.snapshot())
    with pytest.raises(DecodeError):
        made().restore({**state, "keys": state["keys"].slice(0, 1)})
    twice = state["keys"].take([0, 0])
    with pytest.raises(DecodeError, match="twice"):
        made().restore({**state, "keys": twice})


@settings(max_examples=30)
@given(TIMES, st.permutations(range(3)))
def test_without_a_length_each_key_is_kept_once(rows: list[Row], order: list[int]) -> None:
    firsts = [min((row[1:], row) for row in rows if row[0] == id_) for id_ in {r[0] for r in rows}]
    wanted = sorted((row for _, row in firsts), key=lambda row: (row[1], row[0]))
    assert kept(rows, INF, order) == wanted


def test_for_ever_ends_with_the_stream() -> None:
    operator = made(INF)
    assert told(operator, "ins((A,1),-7,-6) stable(9)") == "ins((A,1),-7,-6) stable(9)"
    assert told(operator, "ins((A,2),90,91) stable(99)") == "stable(99)"
    assert told(operator, "stable(inf)") == "stable(inf)"
    assert operator.snapshot()["keys"].num_rows == 0


def test_as_users_write_it() -> None:
    q = A.dedupe("k", within="10ms")
    p = q.properties
    assert (p.insert_only, p.ordered, p.unique) == (True, True, ("k",))
    assert p.starts == {"ts"}
    assert dict(p.reach) == {"a": INF}
    assert "dedupe k within 10 ms" in q.explain()
    assert Query.from_document(q.to_document()).same_as(q)
    assert not q.same_as(A.dedupe("k", within=11))
    assert q.window(10, 5).aggregate(n=gl.count()).properties.insert_only
    for_ever = A.dedupe("k")
    assert "dedupe k, each remembered for ever" in for_ever.explain()
    assert Query.from_document(for_ever.to_document()).same_as(for_ever)
    with pytest.raises(Misuse, match="name the columns"):
        A.dedupe(within=3)
    with pytest.raises(SchemaError, match="dedupe"):
        A.dedupe("kk", within=3)
    with pytest.raises(Misuse, match="at least 1"):
        A.dedupe("k", within=0)
    with pytest.raises(Misuse, match="below the window"):
        A.window(10).dedupe("k", within=3)
    for call in (lambda: Dedupe(ROWS, [], 3), lambda: told(made(), "adj((A,1),7,8,9)")):
        with pytest.raises(Misuse):
            call()
    with pytest.raises(SchemaError):
        Dedupe(ROWS, ["y"], 3)


def test_a_document_from_anybody_is_looked_at() -> None:
    document: Any = A.dedupe("k", within=3).to_document()
    document["nodes"][-1]["within"] = 0
    with pytest.raises(DecodeError, match="within"):
        Query.from_document(document)
