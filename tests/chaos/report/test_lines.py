"""Lines of a chart: no extreme is lost, and scales are round and hold what they show."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.chaos.report.lines import STEPS, Line, nice, path, short, steps, ticks, top_of
from tests.chaos.report.reader import Plotted

samples = st.lists(
    st.tuples(st.integers(0, 10**6), st.floats(-1e6, 1e6)), min_size=1, max_size=400
).map(sorted)


def line(points: list[tuple[int, float]]) -> Line:
    at = np.array([at for at, _ in points], dtype=np.int64)
    value = np.array([value for _, value in points], dtype=np.float64)
    return Line(at, value, np.zeros(len(points), dtype=np.int64))


@given(samples, st.integers(4, 60))
def test_a_thinned_line_has_few_points_and_every_extreme(
    points: list[tuple[int, float]], most: int
) -> None:
    thin = line(points).thinned(most)
    found = list(zip(thin.at_ms.tolist(), thin.value.tolist(), strict=True))
    assert len(found) <= max(most, 4)
    assert set(found) <= set(points)
    assert found == sorted(found, key=lambda each: each[0])
    assert found[0] == points[0]
    assert found[-1] == points[-1]
    values = [value for _, value in points]
    assert {min(values), max(values)} <= {value for _, value in found}


@given(samples)
def test_each_part_of_a_thinned_line_has_its_own_extremes(points: list[tuple[int, float]]) -> None:
    most = 22
    thin = line(points).thinned(most)
    kept = set(zip(thin.at_ms.tolist(), thin.value.tolist(), strict=True))
    if len(points) <= most:
        assert kept == set(points)
        return
    begin, span = points[0][0], points[-1][0] - points[0][0] + 1
    for part in range(10):
        here = [p for p in points if (p[0] - begin) * 10 // span == part]
        values = [value for _, value in here]
        if values:
            seen = [value for at, value in kept if (at - begin) * 10 // span == part]
            assert (min(seen), max(seen)) == (min(values), max(values))


def test_one_peak_of_one_moment_survives_a_hundred_thousand_samples() -> None:
    points = [(at, 1.0) for at in range(100_000)]
    points[77_777] = (77_777, 50.0)
    points[33_333] = (33_333, -50.0)
    thin = line(points).thinned()
    assert len(thin) <= 600
    assert (77_777, 50.0) in list(zip(thin.at_ms.tolist(), thin.value.tolist(), strict=True))
    assert (33_333, -50.0) in list(zip(thin.at_ms.tolist(), thin.value.tolist(), strict=True))


def test_a_path_jumps_between_pieces_and_a_lone_point_is_a_dot() -> None:
    x, y = np.array([0.0, 1.0, 5.0, 9.0]), np.array([1.0, 2.0, 3.0, 4.0])
    drawn = path(x, y, np.array([0, 0, 1, 2]))
    pieces = Plotted("path", {"d": drawn}).pieces
    assert pieces == [[(0, 1), (1, 2)], [(5, 3), (5, 3)], [(9, 4), (9, 4)]]


def test_steps_go_from_edge_to_edge_and_down_to_the_base() -> None:
    drawn = steps(np.array([0.0, 2.0, 4.0]), np.array([7.0, 3.0]), 10.0)
    (piece,) = Plotted("path", {"d": drawn}).pieces
    assert piece == [(0, 10), (0, 7), (2, 7), (2, 3), (4, 3), (4, 10)]


@given(st.floats(1e-6, 1e9))
def test_a_round_value_is_not_below_and_not_far_above(value: float) -> None:
    found = nice(value)
    assert value * (1 - 1e-8) <= found <= value * 2.5
    digits = float(f"{found:e}".split("e")[0])
    assert digits in [float(step) for step in STEPS]


@given(st.floats(-1e4, 1e4), st.floats(0.01, 1e4), st.integers(1, 20))
def test_marks_of_an_axis_are_within_it_evenly_apart_and_not_too_many(
    begin: float, length: float, count: int
) -> None:
    found = ticks(begin, begin + length, count)
    assert len(found) <= count + 1
    slack = 1e-6 * max(1.0, abs(begin), length)
    assert all(begin - slack <= tick <= begin + length + slack for tick in found)
    apart = np.diff(found)
    assert np.allclose(apart, apart[:1])


def test_an_axis_over_0_has_a_mark_at_0() -> None:
    assert 0 in ticks(-3.0, 30.0, 12)
    assert ticks(-3.0, 30.0, 12) == [0, 5, 10, 15, 20, 25, 30]


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.floats(0.1, 10))
def test_a_scale_holds_all_that_it_shows_where_nothing_is_clipped(
    values: list[float], least: float
) -> None:
    top = top_of([np.array(values), np.zeros(0)], least)
    assert top >= max(*values, least) * (1 - 1e-9)
    assert top <= max(*values, least) * 1.5 * (1 + 1e-9), "half of the height is never wasted"


def test_one_peak_far_above_the_usual_is_clipped_and_a_moderate_one_is_not() -> None:
    usual = np.ones(1_000)
    far, moderate = usual.copy(), usual.copy()
    far[500], moderate[500] = 300.0, 4.0
    assert top_of([far], 1.0, clip_times=20) == 1.5
    assert top_of([moderate], 1.0, clip_times=20) == 4.0
    assert top_of([far], 1.0) == 300


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "0"),
        (0.05, "0.05"),
        (62, "62"),
        (999, "999"),
        (12_500, "12.5k"),
        (2e6, "2M"),
        (3e9, "3G"),
    ],
)
def test_figures_of_a_scale_are_short(value: float, said: str) -> None:
    assert short(value) == said
