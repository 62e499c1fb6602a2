"""The windows bench, small: rows are measured, figures drawn, and slack is what the thesis says."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.bench import slack
from gapless.bench.baselines_order import OrderedUnion
from gapless.bench.engine_expected import check_same
from gapless.bench.engine_queries import before
from gapless.bench.engine_runs import made, watched
from gapless.bench.harness import Context, Report, load, measure
from gapless.bench.netflow import SIDE, Ints, generator
from gapless.bench.skewed import arriving, growth, stream_frames
from gapless.bench.slack import Arrivals, Kind, with_slack, without_loss
from gapless.bench.windows_disorder import (
    BAND_MS,
    BAND_WINDOW,
    BLOCK_MS,
    Judge,
    averages,
    banded,
    in_blocks,
    punctuated,
)
from gapless.bench.windows_joins import LATE_MS, corresponding, in_step, joined, packets
from gapless.engine.plan import Plan
from gapless.operators.windows import Hopping
from gapless.protocol.errors import Bug

# -- the whole bench ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plots")


@pytest.fixture(scope="module")
def report(plots: Path) -> Report:
    return measure(load("windows"), Context(quick=True, plot_dir=plots))


@pytest.mark.slow
def test_every_row_has_a_figure_and_every_figure_of_the_thesis_a_bar(report: Report) -> None:
    assert all(math.isfinite(row.value) for row in report.rows)
    judged = [row.name for row in report.rows if row.bar is not None]
    figures = {"6-10": 3, "6-11": 3, "6-12": 3, "6-19": 11}
    figures |= {"8-4": 4, "8-5": 1, "8-8": 2, "8-9": 2, "8-10": 2}
    for figure, bars in figures.items():
        mine = [name for name in judged if name.split(",")[0].split(":")[0] == f"fig {figure}"]
        assert len(mine) == bars


@pytest.mark.slow
def test_what_no_clock_says_holds_at_small_sizes_too(report: Report) -> None:
    figures = ("fig 6-11", "fig 6-12", "fig 8-4", "fig 8-5")
    memory = [
        row for row in report.rows if row.name.startswith("fig 6-19") and "memory" in row.name
    ]
    exact = [*memory, *(row for row in report.rows if row.name.startswith(figures))]
    assert [row.name for row in exact if row.holds is False] == []


@pytest.mark.slow
def test_every_figure_is_drawn(report: Report, plots: Path) -> None:
    assert report.rows
    drawn = {path.stem for path in plots.iterdir()}
    assert drawn == {
        "fig6-10",
        "fig6-11",
        "fig6-12",
        "fig8-10",
        "fig8-7",
        "fig8-8-pairs",
        "fig8-9",
        "lmerge-fig4-run",
        "lmerge-fig6-memory-run",
        "lmerge-fig6-throughput-run",
        "lmerge-fig9",
        *(
            f"fig6-19-{query}-{what}"
            for query in ("q6-7-sum", "q6-7-hll", "q6-8", "q6-8-behind")
            for what in ("memory", "latency", "time")
        ),
        *(f"lmerge-table4-{what}" for what in "cdghnw"),
    }
    for path in plots.iterdir():
        assert ET.parse(path).getroot().tag.endswith("svg")  # noqa: S314  # it is ours


# -- slack ----------------------------------------------------------------------------------------

times = st.lists(st.integers(0, 30), min_size=1, max_size=25)
windows = st.builds(Hopping, st.integers(1, 12), st.integers(1, 6))


def arrivals(ts: list[int]) -> Arrivals:
    return Arrivals(np.array(ts), np.arange(len(ts)), np.arange(len(ts)) % 7 + 1)


def by_rows(rows: Arrivals, window: Hopping, wait: int, kind: Kind) -> dict[int, tuple[int, int]]:
    """Windows' ends, how many rows each counts and their sum: row by row, window by window."""
    found: dict[int, tuple[int, int]] = {}
    answered: set[int] = set()
    largest = 0
    for ts, value in zip(rows.ts.tolist(), rows.value.tolist(), strict=True):
        mine = {(w + 1) * window.slide for w in window.wids(ts)}
        late = {end for end in mine if largest - wait >= end}
        for end in set() if late and kind == "consistent" else mine - late:
            n, total = found.get(end, (0, 0))
            found[end] = n + 1, total + value
        largest = max(largest, ts)
        answered |= late
    return found


def counted(found: slack.Counted) -> dict[int, tuple[int, int]]:
    rows = zip(found.ends.tolist(), found.n.tolist(), found.total.tolist(), strict=True)
    return {end: (n, total) for end, n, total in rows if n}


KINDS: tuple[Kind, ...] = ("consistent", "generous")


@given(ts=times, window=windows, wait=st.integers(0, 15), kind=st.sampled_from(KINDS))
def test_differential_slack_counts_what_a_loop_over_rows_counts(
    ts: list[int], window: Hopping, wait: int, kind: Kind
) -> None:
    rows = arrivals(ts)
    assert counted(with_slack(rows, window, wait, kind)) == by_rows(rows, window, wait, kind)


def test_the_loop_over_rows_tells_another_slack_and_another_kind() -> None:
    rows, window = arrivals([7, 5, 8, 4, 9]), Hopping(6, 3)
    wanted = by_rows(rows, window, 2, "generous")
    assert counted(with_slack(rows, window, 2, "generous")) == wanted
    assert counted(with_slack(rows, window, 3, "generous")) != wanted
    assert counted(with_slack(rows, window, 2, "consistent")) != wanted


def test_a_row_that_is_late_for_one_window_counts_in_the_others_if_slack_is_generous() -> None:
    rows, window = arrivals([7, 5, 8, 4, 9]), Hopping(6, 3)
    assert counted(with_slack(rows, window, 2, "generous"))[9] == (4, 1 + 2 + 3 + 4)
    assert counted(with_slack(rows, window, 2, "consistent"))[9] == (3, 1 + 2 + 3)
    assert counted(with_slack(rows, window, 2, "generous"))[6] == (1, 2)
    assert counted(without_loss(rows, window))[6] == (2, 2 + 4)


def test_a_window_is_answered_by_the_row_that_is_as_far_beyond_its_end_as_the_slack() -> None:
    rows, window = arrivals([7, 5, 8, 4, 9]), Hopping(6, 3)
    found = with_slack(rows, window, 2, "generous")
    assert dict(zip(found.ends.tolist(), found.at.tolist(), strict=True))[6] == 2


def test_the_low_watermark_is_the_smallest_time_that_still_comes() -> None:
    assert arrivals([7, 5, 8, 4, 9]).low_watermarks.tolist() == [4, 4, 4, 9]


# -- disorder -------------------------------------------------------------------------------------


def test_rows_are_late_within_the_band_and_few_come_near_it() -> None:
    rows = banded(60)
    late = rows.at - rows.ts
    assert 0 <= late.min() <= late.max() <= BAND_MS
    assert np.count_nonzero(late) / len(late) == pytest.approx(0.2, abs=0.02)
    assert np.count_nonzero(late > BAND_MS / 2) < 0.01 * len(late)
    assert (np.diff(rows.at) >= 0).all()


def test_blocks_are_shuffled_and_follow_each_other() -> None:
    rows = in_blocks(2)
    first, second = rows.ts.reshape(2, -1) // BLOCK_MS
    assert not first.any()
    assert (second == 1).all()
    assert not (np.diff(rows.ts) >= 0).all()


def test_an_answer_that_is_missing_or_off_is_an_error() -> None:
    rows = banded(75)
    judge = Judge(rows, BAND_WINDOW, BAND_MS, of_means=True)
    right = punctuated(averages(BAND_WINDOW), rows, 1_000)
    assert judge.engine(right).error == 0
    end = BAND_WINDOW.range
    answers = {e: a for e, a in right.answers.items() if e != end}
    assert judge.engine(right._replace(answers=answers)).error > 10
    assert (
        judge.engine(right._replace(answers={**answers, end: 1.01 * right.answers[end]})).error > 0
    )


# -- plans in order -------------------------------------------------------------------------------


def test_a_join_whose_input_is_sorted_first_gives_the_same_pairs() -> None:
    rng = generator()
    n = 600
    ts = np.sort(rng.integers(0, 20 * 60_000, n))
    late = (rng.random(n) < 0.1) * rng.integers(1, LATE_MS, n)
    times_of: dict[str, Ints] = {"S0": np.maximum(ts - late, 0), "S1": ts}
    given_rows = {
        name: pa.record_batch(
            [np.arange(n), rng.integers(0, 20, n).astype(np.int32), t], schema=SIDE
        )
        for name, t in times_of.items()
    }
    plan = Plan(joined((2, 2), LATE_MS))
    pushes = made(plan, given_rows, 20, thinned=False)
    ours = watched(plan.compile(), pushes).outputs
    iop = watched(before(plan, "S0", lambda schema: OrderedUnion(schema, 1)), pushes).outputs
    assert sum(map(len, ours)) > 0
    check_same({"OOP": ours, "IOP": iop})


def test_a_join_of_inputsin_step_gives_the_same_pairs_later() -> None:
    rates = {"M1": 20, "M2": 20, "C": 1}
    plan = Plan(corresponding(("M1",), ("M2", "C"), 60_000))
    frames = stream_frames(plan, packets(rates, 150, 300, ("M2", "C")), rates, 5)
    pushes = arriving(frames, ("C",), 10)
    ours, iop = watched(plan.compile(), pushes), watched(in_step(plan), pushes)
    assert sum(map(len, ours.outputs)) > 0
    check_same({"OOP": ours.outputs, "IOP": iop.outputs})
    with pytest.raises(Bug, match="different answers"):
        check_same({"OOP": ours.outputs, "IOP": iop.outputs[:-1]})


def test_streams_that_are_behind_arrive_later_and_in_their_order() -> None:
    plan = Plan(corresponding("AB", "CD", 10_000))
    rates = dict.fromkeys("ABCD", 4)
    frames = stream_frames(plan, packets(rates, 3, 8), rates, 2)
    pushes = arriving(frames, "BD", 1.0)
    assert len(pushes) == len(frames)
    ahead, behind = (
        [i for i, (name, _) in enumerate(pushes) if name == which] for which in ("A", "B")
    )
    assert behind[0] > ahead[1]
    assert growth({0: 2.0, 5: 3.0, 10: 4.0}) == 2.0
