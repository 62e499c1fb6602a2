"""The figures of a running job are drawn from what the paper says; that needs no cluster."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.actors.code import Functions
from gapless.bench.engine_runs import made, watched
from gapless.bench.netflow import FLOW_RATE, flows, generator
from gapless.bench.runtime_figures import (
    BURST_BIN_S,
    CONGESTED_S,
    CONGESTION_BIN_S,
    ELEMENTS_PER_S,
    SMOOTH,
    bursty_ms,
    congested_ms,
    left,
    merged,
    selection,
    small_is_dear_deaf,
)
from gapless.bench.runtime_throughput import talkers
from gapless.bench.two_plans import (
    SWITCHES,
    X_MAX,
    alternating,
    expected,
    large_is_dear,
    none_is_dear,
    small_is_dear,
)
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.failover.replica.executor import Executor
from gapless.failover.supervisor.equivalence import check_equivalent
from gapless.protocol.frame import Frame

FEW_S = 1


@given(st.lists(st.floats(0, 5), min_size=1, max_size=40))
def test_differential_an_element_leaves_once_those_before_it_have(sending_ms: list[float]) -> None:
    wanted, free = [], 0.0
    for k, takes in enumerate(sending_ms):
        free = max(free, k / ELEMENTS_PER_S) + takes / 1e3
        wanted.append(free)
    assert left(np.array(sending_ms)) == pytest.approx(wanted)


def test_the_output_of_bursty_inputs_is_smooth_and_that_of_one_alone_is_not() -> None:
    rng = np.random.default_rng(1)
    inputs = [bursty_ms(FEW_S * ELEMENTS_PER_S, rng) for _ in range(4)]
    found = merged(inputs, BURST_BIN_S)
    assert found.smoothed <= SMOOTH
    assert merged(inputs[found.best : found.best + 1], BURST_BIN_S).smoothed > SMOOTH


def test_congestion_by_turns_is_not_seen_and_congestion_of_all_is() -> None:
    rng = np.random.default_rng(2)
    n, bin_s = 2 * ELEMENTS_PER_S, CONGESTION_BIN_S / 10
    turns = (((0.2, 0.6),), ((0.8, 1.2),), ((1.4, 1.8),))
    found = merged([congested_ms(n, periods, rng) for periods in turns], bin_s)
    assert found.smoothed <= SMOOTH
    assert found.output.min() > 0.8 * ELEMENTS_PER_S
    assert max(rate.min() for rate in found.inputs) < 0.6 * ELEMENTS_PER_S
    at_once = merged([congested_ms(n, turns[0], rng) for _ in turns], bin_s)
    assert at_once.smoothed > SMOOTH


def test_two_inputs_are_congested_at_once_for_a_while_and_never_three() -> None:
    times = np.arange(0, 25, 0.1)
    congested = sum(
        ((times >= begin) & (times < end)).astype(int)
        for periods in CONGESTED_S
        for begin, end in periods
    )
    assert set(np.unique(congested)) == {0, 1, 2}


def test_the_stream_goes_between_small_and_large_as_often_as_it_says() -> None:
    x = alternating(50_000).column("x").to_numpy()
    is_large = x >= X_MAX // 2
    assert np.count_nonzero(is_large[1:] != is_large[:-1]) == SWITCHES


def test_all_plans_select_the_same_and_may_run_beside_each_other() -> None:
    given = alternating(5_000)
    first = Plan(selection(small_is_dear))
    for call in (small_is_dear, large_is_dear, none_is_dear):
        plan = Plan(selection(call))
        check_equivalent(first, plan, assumed=True)
        out = Frame.concat(
            [frame.with_stable(None) for frame in watched(plan.compile(), _pushes(given)).outputs]
        )
        got = [int(out.payload.column(name).to_numpy().sum()) for name in ("n", "total")]
        assert tuple(got) == expected(given)


def test_a_deaf_plan_asks_for_nothing_to_be_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    given = alternating(3_000)
    assert _after_feedback(small_is_dear, given)["rows"] > 0
    monkeypatch.setattr(Executor, "fast_forward", Executor.fast_forward)  # put back afterwards
    assert _after_feedback(small_is_dear_deaf, given) == {}


def _after_feedback(call: object, given: pa.RecordBatch) -> dict[str, int]:
    executor = Executor("plan", Plan(selection(call)))
    for name, frame in _pushes(given):
        executor.push(name, frame)
    return executor.fast_forward(3_000)


def _pushes(given: pa.RecordBatch) -> list[tuple[str, Frame]]:
    return list(made(Plan(selection(none_is_dear)), {"rows": given}, 1_000))


def test_a_job_finds_the_functions_of_its_plans_again(tmp_path: Path) -> None:
    document = selection(small_is_dear).to_document()
    found = Query.from_document(document, Functions(tmp_path))
    assert found.to_document() == document


def test_talkers_have_an_answer_for_a_hundred_flows_at_most() -> None:
    given = flows(20 * FLOW_RATE, generator())
    plan = Plan(talkers())
    found = watched(plan.compile(), made(plan, {"flows": given}, 16_384)).outputs
    rows = sum(map(len, found))
    assert 0 < rows <= given.num_rows / 100
