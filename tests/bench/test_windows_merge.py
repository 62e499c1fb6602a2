"""What the windows bench has of the LMerge paper: a sub-query is run, plans switch, costs vary."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from gapless.bench import merge_complexity, merge_switches
from gapless.bench.lmerge_workload import TEXT_BYTES, interleave
from gapless.bench.merge_complexity import element_ns, frozen_ns, half_frozen_ns, same_start_ns
from gapless.bench.merge_runs import adjusts_in, adjusts_out
from gapless.bench.merge_subquery import COUNTED, SubQuery, folded
from gapless.bench.merge_switches import FRAME_ROWS, Replica, run, selection, udf
from gapless.bench.two_plans import X_MAX, alternating, expected
from gapless.engine.plan import Plan
from gapless.merge.choose import CaseName
from gapless.protocol import text as notation
from gapless.protocol.elements import INF
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb

# -- the sub-query --------------------------------------------------------------------------------

SMALL = SubQuery(
    rows=400,
    numbers=2,
    each=10,
    disorder=0.5,
    late_windows=3,
    live_windows=10,
    frame_rows=20,
    told_elements=1,
)


def table(stream: list[Frame]) -> Tdb:
    """What a stream says; folding it checks that it is legal."""
    told = Tdb(stream[0].schema)
    for frame in stream:
        told.fold(frame)
    return told


def test_every_input_tells_the_counts_of_a_loop_over_rows() -> None:
    numbers = np.random.default_rng(1).integers(0, SMALL.numbers, SMALL.rows).tolist()
    rows: dict[tuple[int, int], int] = {}
    for ts, number in enumerate(numbers):
        key = (ts // SMALL.window + 1) * SMALL.window, number
        rows[key] = rows.get(key, 0) + 1
    life = SMALL.live_windows * SMALL.window
    wanted = {(vs, vs + life + n * (life // 100), (k,)) for (vs, k), n in rows.items()}
    first, second = SMALL.streams(2)
    assert table(first) == table(second)
    assert {(e.vs, e.ve, e.payload) for e in table(first).events} == wanted
    assert [f.ve.tolist() for f in first] != [f.ve.tolist() for f in second]


def test_rows_in_order_make_no_adjusts_and_late_ones_do() -> None:
    in_order = replace(SMALL, disorder=0.0)
    assert adjusts_in(interleave([in_order.stream(0)])) == 0
    pushes = interleave(SMALL.streams(3))
    assert adjusts_in(pushes) > adjusts_out("r3", pushes) > 0


def test_a_wide_event_has_a_string_of_its_number() -> None:
    stream = replace(SMALL, wide=True, told_elements=50).stream(0)
    payload = next(frame.payload for frame in stream if len(frame))
    assert {len(text) for text in payload.column("text").to_pylist()} == {TEXT_BYTES}
    assert len(stream) < len(SMALL.stream(0))


ONE = StreamSchema({"k": "string"})


def test_an_event_that_goes_and_comes_back_is_adjusted_and_others_stay() -> None:
    def frame(said: str) -> Frame:
        return Frame.from_elements(ONE, notation.parse(said, ONE))

    told = frame("adj(A,1,9,1) ins(A,1,12) adj(B,1,9,1) ins(C,1,5)")
    assert folded(told).elements() == frame("adj(A,1,9,12) adj(B,1,9,1) ins(C,1,5)").elements()
    nothing = frame("ins(A,1,12)")
    assert folded(nothing) is nothing


# -- two plans ------------------------------------------------------------------------------------


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions that compute next to nothing."""
    monkeypatch.setattr(merge_switches, "CHEAP_ROUNDS", 4)
    monkeypatch.setattr(merge_switches, "DEAR_ROUNDS", 400)


@pytest.mark.usefixtures("cheap")
def test_plans_that_are_merged_select_what_each_of_them_does() -> None:
    given = alternating(8_000)
    for numbers, feedback in (((0,), False), ((1,), False), ((0, 1), False), ((0, 1), True)):
        found = run(numbers, given, feedback=feedback)
        assert (found.rows, found.total) == expected(given)
        assert found.clock >= found.curve[-1][0] > 0
        assert found.merge.stable == INF


def test_a_plan_leaves_out_what_is_settled_and_nothing_else() -> None:
    graph = Plan(selection(partial(udf, 0))).compile()
    schema = next(iter(Plan(selection(partial(udf, 0))).query.sources.values())).schema
    frames = [
        Frame.from_columns(
            schema,
            np.array([t], np.int64),
            np.array([t + 1], np.int64),
            [pa.array([t], pa.int64()), pa.array([0], pa.int32())],
        )
        for t in (1, 5, 9)
    ]
    replica = Replica(0, graph, [*frames, Frame.empty(schema, INF)])
    replica.leave_out(6)
    assert replica.next == 1
    replica.leave_out(INF)
    assert replica.next == 3
    assert not replica.is_done


def test_a_plan_that_selects_something_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def every(number: int, x: pa.Array) -> pa.Array:
        del number
        return pa.array(np.ones(len(x), np.bool_))

    monkeypatch.setattr(merge_switches, "udf", every)
    with pytest.raises(Bug, match="are right"):
        run((0,), alternating(FRAME_ROWS), feedback=False)


def test_each_function_is_dear_where_the_other_is_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    dear = {}
    for number in (0, 1):
        seen: list[list[bool]] = []
        monkeypatch.setattr(
            merge_switches,
            "selected",
            lambda x, mask, cheap, much, seen=seen: seen.append(mask.tolist()),
        )
        udf(number, pa.array([0, X_MAX - 1], pa.int32()))
        dear[number] = seen[0]
    assert dear == {0: [True, False], 1: [False, True]}


# -- complexity -----------------------------------------------------------------------------------


def test_every_cost_of_the_table_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_complexity, "ELEMENTS", 256)
    cases: tuple[CaseName, ...] = ("r3", "r4")
    for case in cases:
        for adjusts in (False, True):
            assert element_ns(case, 64, 1, adjusts=adjusts) > 0
    assert element_ns("r4", 16, 8, adjusts=True) > 0
    assert same_start_ns(64) > 0
    assert half_frozen_ns(64) > 0
    assert frozen_ns(64) > 0


def test_the_rows_that_are_counted_have_the_window_that_counts_them() -> None:
    assert COUNTED.names == ["ts", "number", "closes"]
    assert SMALL.window == 20
