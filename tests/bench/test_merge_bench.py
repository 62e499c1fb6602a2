"""The merge bench, small: every row is measured, every figure drawn, a void run is refused."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from gapless.bench.harness import Context, Report, load, measure
from gapless.bench.lmerge_workload import Table, Workload, interleave
from gapless.bench.merge_runs import (
    MERGERS,
    Pushes,
    adjusts_in,
    adjusts_out,
    latency_s,
    rate,
    rates,
    state,
)
from gapless.protocol.errors import Bug

SMALL = Workload(events=2_000, live=200, strict=True, frame_rows=50)


def pushes_of(workload: Workload) -> Pushes:
    return interleave(Table(workload).streams(3))


@pytest.fixture(scope="module")
def plots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plots")


@pytest.fixture(scope="module")
def report(plots: Path) -> Report:
    return measure(load("merge"), Context(quick=True, plot_dir=plots))


@pytest.mark.slow
def test_every_row_has_a_figure(report: Report) -> None:
    assert len(report.rows) >= 30
    for row in report.rows:
        assert math.isfinite(row.value)
        assert row.value > 0
        assert report.holds(row) is None


@pytest.mark.slow
def test_every_promised_throughput_has_its_bar(report: Report) -> None:
    bars = {row.name: row.bar for row in report.rows if row.unit == "elements/s"}
    assert bars == {
        "r0, in order": 50e6,
        "r1, in order": 25e6,
        "r2, in order": 20e6,
        "r3": 20e6,
        "r4": 6e6,
        "r3, 100-row frames": 4e6,
        "r3, 1,000-byte string": 1.5e6,
    }


@pytest.mark.slow
def test_what_does_not_depend_on_the_clock_holds_at_small_sizes_too(report: Report) -> None:
    exact = [row for row in report.rows if "adjusts" in row.name or "r3 state" in row.name]
    assert len(exact) >= 6
    assert [row.name for row in exact if row.holds is False and "r2 / r3" not in row.name] == []


@pytest.mark.slow
def test_every_figure_is_drawn(report: Report, plots: Path) -> None:
    assert report.rows
    assert {path.stem for path in plots.iterdir()} == {
        "fig2",
        "fig3",
        "fig4",
        "fig5-memory",
        "fig5-throughput",
        "fig6-memory",
        "fig6-throughput",
        "lag",
        "state",
    }
    for path in plots.iterdir():
        assert ET.parse(path).getroot().tag.endswith("svg")  # noqa: S314  # it is ours


@pytest.mark.parametrize("name", MERGERS)
def test_everything_that_is_measured_merges_an_ordered_workload_to_its_end(name: str) -> None:
    ordered = Workload(events=500, live=50, strict=True, disorder=0.0, frame_rows=50)
    assert rate(name, pushes_of(ordered)) > 0


def test_a_run_whose_streams_are_not_whole_is_refused() -> None:
    cut = pushes_of(SMALL)[:-3]
    for measured in (rate, state, adjusts_out):
        with pytest.raises(Bug, match="output ends at stable"):
            measured("r3", cut)


def test_each_of_several_mergers_gets_its_own_best_rate() -> None:
    found = rates(("r3", "r4"), pushes_of(SMALL), repeat=2)
    assert set(found) == {"r3", "r4"}
    assert min(found.values()) > 0


def test_state_is_looked_at_along_the_way_and_not_at_the_empty_end() -> None:
    held = state("r3", pushes_of(SMALL))
    assert held.peak_bytes >= held.mean_bytes > SMALL.live * 16


def test_chattiness_counts_one_input_against_the_output() -> None:
    revised = Workload(events=2_000, live=200, revisions=4.0, frame_rows=50)
    pushes = pushes_of(revised)
    assert adjusts_in(pushes) == pytest.approx(8_000, rel=0.05)
    assert 0 < adjusts_out("r3", pushes) <= 2_000
    assert adjusts_out("r3 at once", pushes) > adjusts_out("r3", pushes)


def test_ordering_first_holds_an_event_for_its_lifetime_and_r3_does_not() -> None:
    table = Table(SMALL)
    pushes = interleave(table.streams(3))
    per_s = 1_000.0  # 200 events live: a lifetime is 0.2 s
    assert latency_s("c+r1", pushes, table, per_s) > 0.2
    assert latency_s("r3", pushes, table, per_s) < 0.2
