"""Panes: what windows are made of, whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gapless.operators.panes import Panes, pairs_of_windows, panes_of_windows
from gapless.operators.windows import Cumulating, Cut, Hopping

WINDOWS: tuple[Cut, ...] = (
    *(Hopping(length, slide) for length in range(1, 14) for slide in range(1, 14)),
    Hopping(4_000, 999),
    Cumulating(6, 2),
    Cumulating(5, 5),
)


def check(window: Cut, panes: Panes) -> None:
    """By the times of each window and each pane, one by one."""
    for w in range(-5, 6):
        first, end = panes.first(w), panes.end(w)
        assert (panes.starts(first), panes.starts(end)) == window.extent(w)
        for pane in range(first - panes.span - 3, end + panes.span + 3):
            low, high = panes.windows(pane)
            assert (low <= w < high) == (first <= pane < end)
    times = np.arange(-60, 60)
    of = panes.of(times)
    assert of.tolist() == [panes.of(int(t)) for t in times]
    for t, pane in zip(times.tolist(), of.tolist(), strict=True):
        assert panes.starts(pane) <= t < panes.starts(pane + 1)
    outside = [len(window.wids(t)) == 0 for t in times.tolist()]
    assert panes.between(of).tolist() == outside


def test_each_window_is_a_run_of_whole_panes_and_each_time_has_one() -> None:
    for window in WINDOWS:
        check(window, panes_of_windows(window))
        check(window, pairs_of_windows(window))


def test_a_slide_has_two_panes_at_the_most_and_one_where_it_divides_the_range() -> None:
    assert pairs_of_windows(Hopping(4_000, 1_000)) == Panes(1_000, 0, 1, 4, cumulate=False)
    assert pairs_of_windows(Hopping(4_000, 999)) == Panes(999, 4, 2, 9, cumulate=False)
    assert pairs_of_windows(Hopping(4_000, 3_999)).span == 3
    assert pairs_of_windows(Hopping(10, 30)) == Panes(30, 10, 2, 1, cumulate=False)
    assert [pairs_of_windows(window).range for window in (Hopping(9, 6), Hopping(10, 30))] == [
        9,
        10,
    ]


def test_panes_that_are_cut_elsewhere_are_found() -> None:
    window = Hopping(5, 3)
    honest = pairs_of_windows(window)
    with pytest.raises(AssertionError):
        check(window, replace(honest, rest=honest.length - honest.rest))
