"""The engine bench, small: every row is measured, every figure drawn, a wrong answer is refused."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pyarrow as pa
import pytest

from gapless.bench import engine_peers, netflow
from gapless.bench.engine import one_core
from gapless.bench.engine_expected import ExpectedPairs, ExpectedWindows, check_same
from gapless.bench.engine_queries import w1, w2, w3
from gapless.bench.engine_runs import made, rate, rows_in, timed, watched
from gapless.bench.harness import Context, Report, load, machine, measure
from gapless.bench.peers import runner
from gapless.engine.plan import Plan
from gapless.protocol.elements import INF
from gapless.protocol.errors import Bug

BARS = {
    "W1, 16,000-row frames": 20e6,
    "W1, 1,000-row frames": 8e6,
    "W1, 100-row frames": 3e6,
    "W2, 16,000-row frames": 25e6,
    "W3, 16,000-row frames": 12e6,
    "W3, 1,000-row frames": 5e6,
    "filter and map, half of the rows pass, 16,000-row frames": 150e6,
    "W1 latency of a 100-row frame, p99": 1.0,
    "W1 state / (keys x open panes x 16 bytes)": 1.5,
    "fig 6-15: paned / wid time, 20 rows a pane, 5 panes a window": 0.3,
}


@pytest.fixture(scope="module")
def flows() -> pa.RecordBatch:
    return netflow.flows(40_000, netflow.generator())


@pytest.fixture(scope="module")
def sides() -> dict[str, pa.RecordBatch]:
    rng = netflow.generator()
    return {name: netflow.join_side(20_000, rng) for name in "ab"}


# -- the whole bench ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plots")


@pytest.fixture(scope="module")
def report(plots: Path) -> Report:
    return measure(load("engine"), Context(True, plots, only=("throughput", "figures")))


@pytest.mark.slow
def test_every_row_has_a_figure(report: Report) -> None:
    for row in report.rows:
        assert math.isfinite(row.value)
        assert row.value > 0
        assert report.holds(row) is None


@pytest.mark.slow
def test_every_promised_figure_has_its_bar(report: Report) -> None:
    bars = {row.name: row.bar for row in report.rows}
    assert {name: bars[name] for name in BARS} == BARS


@pytest.mark.slow
def test_every_shape_of_a_figure_is_judged(report: Report) -> None:
    judged = [row.name for row in report.rows if row.bar is not None]
    for figure, rows in (("fig 6-10", 2), ("fig 6-15", 1), ("figs 7-6", 6), ("fig 8-8", 3)):
        assert sum(name.startswith(figure) for name in judged) == rows
    assert sum(name.startswith("fig 8-11") for name in judged) == 3


@pytest.mark.slow
def test_what_does_not_depend_on_the_clock_holds_at_small_sizes_too(report: Report) -> None:
    exact = [row for row in report.rows if "memory" in row.name and row.bar is not None]
    assert len(exact) == 8
    growing = "of skew over none"  # which is less where the largest skew is
    assert [row.name for row in exact if row.holds is False and growing not in row.name] == []


@pytest.mark.slow
def test_every_figure_is_drawn(report: Report, plots: Path) -> None:
    assert report.rows
    assert {path.stem for path in plots.iterdir()} == {
        "fig6-10-memory",
        "fig6-10-no-groups-memory",
        "fig6-10-no-groups-time",
        "fig6-10-time",
        "fig6-15",
        "fig7-latency",
        "fig7-memory",
        "fig7-time",
        "fig8-11",
        "fig8-8",
    }
    for path in plots.iterdir():
        assert ET.parse(path).getroot().tag.endswith("svg")  # noqa: S314  # it is ours


# -- the workload ---------------------------------------------------------------------------------


def test_flows_keep_their_lateness_and_a_fifth_of_them_uses_it(flows: pa.RecordBatch) -> None:
    ts = flows.column("ts").to_numpy()
    behind = np.maximum.accumulate(ts) - ts
    assert behind.max() < netflow.FLOW_LATENESS_MS
    assert np.count_nonzero(behind) / len(ts) == pytest.approx(0.2, abs=0.01)
    assert flows.equals(netflow.flows(len(ts), netflow.generator()))


def test_sides_keep_their_lateness(sides: dict[str, pa.RecordBatch]) -> None:
    for side in sides.values():
        ts = side.column("ts").to_numpy()
        assert (np.maximum.accumulate(ts) - ts).max() < netflow.SIDE_LATENESS_MS
    assert not sides["a"].equals(sides["b"])


# -- answers that are checked ---------------------------------------------------------------------


@pytest.mark.parametrize("implementation", ["paned", "wid"])
def test_windows_are_those_computed_without_the_engine(
    flows: pa.RecordBatch, implementation: str
) -> None:
    for query, range_ms in ((w1(), netflow.RANGE_MS), (w2(), netflow.SLIDE_MS)):
        plan = Plan(query, implementation=implementation)  # type: ignore[arg-type]  # one of two
        answers = watched(plan.compile(), made(plan, {"flows": flows}, 1_000)).outputs
        ExpectedWindows(flows, range_ms, netflow.SLIDE_MS).check(answers)


def test_windows_are_those_of_a_loop_over_rows(flows: pa.RecordBatch) -> None:
    few = flows.slice(0, 2_000)
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for row in few.to_pylist():
        for w in range(row["ts"] // 1_000, row["ts"] // 1_000 + 10):
            n, total = found.get((w, row["src"]), (0, 0))
            found[w, row["src"]] = n + 1, total + row["len"]
    plan = Plan(w1())
    answers = watched(plan.compile(), made(plan, {"flows": few}, 100)).outputs
    ExpectedWindows(few, 10_000, 1_000).check(answers)
    assert rows_in([("", frame) for frame in answers]) == len(found)
    for frame in answers:
        for vs, (src, n, total) in zip(frame.vs.tolist(), _tuples(frame.payload), strict=True):
            assert found[vs // 1_000 - 1, src] == (n, total)


def _tuples(batch: pa.RecordBatch) -> list[tuple[int, int, int]]:
    return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def test_a_wrong_window_is_refused(flows: pa.RecordBatch) -> None:
    plan = Plan(w1())
    answers = watched(plan.compile(), made(plan, {"flows": flows}, 1_000)).outputs
    expected = ExpectedWindows(flows, netflow.RANGE_MS, netflow.SLIDE_MS)
    with pytest.raises(Bug, match="are right"):
        expected.check(answers[:-1])
    with pytest.raises(Bug, match="are wrong"):
        expected.check([*answers[:-1], answers[-1].take(np.zeros(len(answers[-1]), np.int64))])
    wide = ExpectedWindows(flows.slice(1), netflow.RANGE_MS, netflow.SLIDE_MS)
    with pytest.raises(Bug):
        wide.check(answers)


def test_pairs_are_those_of_a_loop_and_others_are_refused(sides: dict[str, pa.RecordBatch]) -> None:
    plan = Plan(w3())
    answers = watched(plan.compile(), made(plan, sides, 500)).outputs
    ExpectedPairs(sides["a"], sides["b"]).check(answers)
    by_key: dict[int, list[int]] = {}
    for row in sides["b"].to_pylist():
        by_key.setdefault(row["key"], []).append(row["ts"])
    near = sum(
        abs(row["ts"] - ts) <= netflow.BAND_MS
        for row in sides["a"].to_pylist()
        for ts in by_key.get(row["key"], ())
    )
    assert rows_in([("", frame) for frame in answers]) == near > 0
    with pytest.raises(Bug, match="pairs are not"):
        ExpectedPairs(sides["a"], sides["b"]).check(answers[:-1])


def test_plans_that_differ_are_told(flows: pa.RecordBatch) -> None:
    plan = Plan(w2())
    answers = watched(plan.compile(), made(plan, {"flows": flows}, 1_000)).outputs
    check_same({"one": answers, "other": answers[::-1]})
    with pytest.raises(Bug, match="other and one give different answers"):
        check_same({"one": answers, "other": answers[1:]})


# -- runs -----------------------------------------------------------------------------------------


def test_frames_are_made_once_with_every_row_and_an_end_for_each_source(
    sides: dict[str, pa.RecordBatch],
) -> None:
    pushes = made(Plan(w3()), sides, 500)
    assert rows_in(pushes) == 40_000
    assert [name for name, _ in pushes[:4]] == ["a", "b", "a", "b"]
    assert [frame.stable for _, frame in pushes[-2:]] == [INF, INF]
    assert max(len(frame) for _, frame in pushes) == 500


def test_a_run_whose_inputs_are_not_whole_is_refused(flows: pa.RecordBatch) -> None:
    plan = Plan(w1())
    cut = made(plan, {"flows": flows}, 1_000)[:-1]
    for measured in (watched, timed):
        with pytest.raises(Bug, match="not whole"):
            measured(plan.compile(), cut)
    with pytest.raises(Bug, match="not whole"):
        rate(plan.compile, cut, repeat=1)


def test_stables_that_a_plan_cannot_use_are_left_out_unless_all_are_asked_for(
    flows: pa.RecordBatch,
) -> None:
    plan = Plan(w1())
    some, every = (
        [f.stable for _, f in made(plan, {"flows": flows}, 100, thinned=t) if f.stable is not None]
        for t in (True, False)
    )
    assert len(some) < len(every) / 50
    assert all(t % netflow.SLIDE_MS == 0 for t in some[:-1])


def test_the_bench_keeps_to_one_core_and_gives_the_others_back() -> None:
    before, threads = machine()["cores"], pa.cpu_count()
    with one_core():
        assert machine()["cores"] == pa.cpu_count() == 1
    assert (machine()["cores"], pa.cpu_count()) == (before, threads)


# -- peers ----------------------------------------------------------------------------------------


def test_every_peer_has_its_program_and_its_pins_and_ours_comes_first() -> None:
    peers = runner.PROGRAMS
    found = engine_peers.entries()
    assert {entry.workload for entry in found if entry.engine == "flink"} == {"w1", "w2", "w3"}
    for entry in found:
        assert (peers / f"run_{entry.engine}.py").is_file()
        assert entry.engine == "gapless" or (
            "==" in (peers / "requirements" / f"{entry.engine}.txt").read_text()
        )
    for workload in ("w1", "w2", "w3"):
        mine = [entry for entry in found if entry.workload == workload]
        assert mine[0] == engine_peers.Entry("gapless", workload, "parquet")
