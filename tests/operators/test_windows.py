import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.operators.windows import Hopping
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Misuse

hoppings = st.builds(Hopping, st.integers(1, 12), st.integers(1, 12))
times = st.integers(-60, 60)


def windows_of(window: Hopping, ts: int) -> range:
    at = np.array([ts])
    return range(int(window.first(at)[0]), int(window.last(at)[0]) + 1)


@given(hoppings, times)
def test_a_window_has_a_row_exactly_when_its_extent_covers_it(window: Hopping, ts: int) -> None:
    covering = [w for w in range(-80, 80) if window.extent(w)[0] <= ts < window.extent(w)[1]]
    assert list(windows_of(window, ts)) == covering


@given(hoppings, times)
def test_windows_below_a_stable_are_complete_and_the_next_is_not(window: Hopping, t: int) -> None:
    below = window.complete_below(t)
    assert window.extent(below - 1)[1] <= t  # every row of it lies below t
    assert window.extent(below)[1] > t  # a row at t or later may still be in it


@given(hoppings, times)
def test_answers_start_at_their_window_end_and_last_one_slide(window: Hopping, w: int) -> None:
    vs, ve = window.answer(w)
    assert (vs, ve) == (window.extent(w)[1], window.extent(w)[1] + window.slide)


@given(hoppings, times)
def test_the_answers_stable_is_the_start_of_the_first_open_window(window: Hopping, t: int) -> None:
    assert window.stable(t) == window.answer(window.complete_below(t))[0]


@given(hoppings, times)
def test_the_first_wanted_window_is_the_first_whose_answer_reaches_t(
    window: Hopping, t: int
) -> None:
    wanted = window.first_wanted(t)
    assert window.answer(wanted)[1] >= t > window.answer(wanted - 1)[1]
    assert window.rows_needed_from(t) == window.extent(wanted)[0]
    assert t - window.rows_needed_from(t) <= window.range + window.slide


def test_the_end_of_the_stream_completes_everything() -> None:
    window = Hopping(10, 5)
    assert window.complete_below(INF) == INF
    assert window.stable(INF) == INF


@pytest.mark.parametrize(("reach", "slide"), [(0, 1), (1, 0), (-5, 5)])
def test_empty_windows_are_refused(reach: int, slide: int) -> None:
    with pytest.raises(Misuse):
        Hopping(reach, slide)


@given(hoppings, st.integers(INF - 60, INF))
def test_the_last_row_is_one_whose_answers_and_their_promise_are_times(
    window: Hopping, t: int
) -> None:
    assert all(window.answer(w)[1] < INF for w in windows_of(window, window.latest))
    assert window.stable(t) <= INF
    assert (window.stable(t) == INF) == (t == INF)


@given(hoppings, st.integers(BEGIN + 1, BEGIN + 60))
def test_the_earliest_row_needed_is_never_before_all_times(window: Hopping, t: int) -> None:
    assert BEGIN <= window.rows_needed_from(t) <= t
