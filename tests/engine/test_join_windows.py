"""Windows above joins: on a side's time, on the greatest or least of both; one side's windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gapless as gl
from gapless.engine.graph import Graph
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.operators import extremes
from gapless.operators.extremes import Extreme, ExtremeMarks
from gapless.protocol.elements import INF
from gapless.protocol.errors import RowError
from gapless.protocol.frame import Frame
from gapless.protocol.punctuation import Punctuation
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb

COLUMNS = {"ts": "int64", "k": "int64"}
SCHEMA = StreamSchema(COLUMNS)
A, B = (gl.source(name, COLUMNS, time="ts", lateness=0) for name in "ab")
TIMES = gl.col("ts"), gl.col("ts_right")
JOINED = A.window(5).join(B.window(5), on="k")


class Running:
    """A plan at work, one frame at a time."""

    def __init__(self, query: Query) -> None:
        self.graph: Graph = Plan(query).compile()
        self.table = Tdb(query.schema)

    def told(self, name: str, *times: int, upto: int) -> list[Any]:
        """Rows of one key, then a stable; the payloads of what comes out."""
        vs = np.array(times, np.int64)
        columns = [pa.array(vs), pa.array([1] * len(times), pa.int64())]
        frame = Frame.from_columns(SCHEMA, vs, vs + 1, columns, stable=upto)
        out = self.graph.push(name, frame)
        self.graph.validate()
        self.table.fold(out)
        return [tuple(row.values()) for row in out.inserts.payload.to_pylist()]


def by(time: Any) -> Query:
    return JOINED.map(at=time).window(10, 10, on="at").aggregate(n=gl.count())


def test_the_greatest_progresses_by_either_time_and_the_least_by_both() -> None:
    greatest = Running(by(gl.greatest(*TIMES)))
    assert greatest.told("a", 7, 9, upto=20) == []
    assert greatest.told("b", 8, upto=10) == [(2,)]  # no pair with a new row is below 10
    least = Running(by(gl.least(*TIMES)))
    least.told("a", 7, 9, upto=20)
    assert least.told("b", 8, upto=10) == []  # 9 may still meet 12
    assert least.told("b", 12, upto=14) == [(3,)]


@pytest.mark.parametrize("extreme", [gl.greatest, gl.least])
def test_all_pairs_are_counted_in_any_order(extreme: Any) -> None:
    query = by(extreme(*TIMES))
    rng = np.random.default_rng(7)
    left, right = (sorted(rng.integers(0, 60, 30).tolist()) for _ in range(2))
    pairs = [extreme_of(extreme, a, b) for a in left for b in right if abs(a - b) < 5]
    running, at = Running(query), [0, 0]
    for _ in range(40):
        side = int(rng.integers(2))
        rows, to = (left, right)[side], at[side] + int(rng.integers(0, 4))
        upto = rows[to] if to < len(rows) else 70
        running.told("ab"[side], *rows[at[side] : to], upto=upto)
        at[side] = min(to, len(rows))
    running.told("a", *left[at[0] :], upto=INF)
    running.told("b", *right[at[1] :], upto=INF)
    found = {e.vs - 10: e.payload[0] for e in running.table.events}
    assert found == {t: n for t in range(0, 60, 10) if (n := sum(t <= p < t + 10 for p in pairs))}


def extreme_of(extreme: Any, a: int, b: int) -> int:
    return max(a, b) if extreme is gl.greatest else min(a, b)


def test_a_least_that_trusts_one_bound_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    made = extremes.Extreme

    def trusting(name: str, columns: tuple[str, ...], by_either: bool) -> Extreme:
        del by_either
        return made(name, columns, by_either=True)

    monkeypatch.setattr("gapless.engine.extremes.Extreme", trusting)
    least = Running(by(gl.least(*TIMES)))
    least.told("a", 7, 9, upto=20)
    assert least.told("b", 8, upto=10) == [(2,)]  # too soon
    with pytest.raises(RowError, match="late"):
        least.told("b", 12, upto=14)


def test_of_an_outer_join_the_greatest_needs_both() -> None:
    outer = A.window(5).join(B.window(5), on="k", how="left").map(at=gl.greatest(*TIMES))
    assert not outer.properties.no_nulls
    assert outer.properties.progress["at"] == 5
    assert JOINED.properties.no_nulls


def test_marks_of_extremes_are_kept_in_snapshots() -> None:
    each = (Extreme("g", ("a", "b"), True), Extreme("l", ("a", "b"), False))
    heard = ExtremeMarks(each)
    assert heard.hear((Punctuation.of(a=5),)) == (Punctuation.of(g=5),)
    again = ExtremeMarks(each)
    again.restore([*heard.snapshot().values()])
    said = again.hear((Punctuation.of(b=4), Punctuation.of({"k": 1}, a=99)))
    assert said == (Punctuation.of(l=4),)
    assert again.hear((Punctuation.of(a=9, b=7),)) == (Punctuation.of(g=7),)


def test_a_joint_punctuation_closes_a_pair_of_times_before_individual_ones_do() -> None:
    """Q7-1 and figure 7-5: a count for each pair of times; the box closes before the slabs."""
    pairs = Running(JOINED.group_by("ts", "ts_right").aggregate(n=gl.count()))
    pairs.told("a", 0, upto=3)
    assert pairs.told("b", 1, upto=2) == [(0, 1, 1)]  # slabs: a < 2 - 4, b < 3 - 4


def test_a_window_on_one_side_is_a_join_with_events_of_the_other() -> None:
    one = Running(A.window(5).join(B, on="k"))
    one.told("a", 1, 4, upto=30)
    assert one.told("b", 5, 7, upto=30) == [(1, 1, 5), (1, 4, 5), (1, 4, 7)]


def test_rows_1_on_one_side_is_the_latest_of_its_key() -> None:
    latest = Running(A.join(B.latest_by("k"), on="k"))
    latest.told("b", 1, 4, upto=30)
    assert latest.told("a", 2, 9, upto=30) == [(1, 2, 1), (1, 9, 4)]
