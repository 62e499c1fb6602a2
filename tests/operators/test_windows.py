import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.operators.windows import Cumulating, Cut, For, Hopping, Landmark, Sliding
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Misuse

origins = st.integers(0, 100)
cumulating = st.builds(
    lambda n, s, o: Cumulating(n * s, s, o % (n * s)),
    st.integers(1, 6),
    st.integers(1, 12),
    origins,
)
tens = st.integers(1, 12)
hoppings = st.builds(lambda r, s, o: Hopping(r, s, o % s), tens, tens, origins) | cumulating
times = st.integers(-60, 60)


def windows_of(window: Cut, ts: int) -> range:
    at = np.array([ts])
    return range(int(window.first(at)[0]), int(window.last(at)[0]) + 1)


@given(hoppings, times)
def test_a_window_has_a_row_exactly_when_its_extent_covers_it(window: Cut, ts: int) -> None:
    covering = [w for w in range(-80, 80) if window.extent(w)[0] <= ts < window.extent(w)[1]]
    assert list(windows_of(window, ts)) == covering


@given(hoppings, times)
def test_windows_below_a_stable_are_complete_and_the_next_is_not(window: Cut, t: int) -> None:
    below = window.complete_below(t)
    assert window.extent(below - 1)[1] <= t  # every row of it lies below t
    assert window.extent(below)[1] > t  # a row at t or later may still be in it


@given(hoppings, times)
def test_answers_start_at_their_window_end_and_last_one_slide(window: Cut, w: int) -> None:
    vs, ve = window.answer(w)
    assert (vs, ve) == (window.extent(w)[1], window.extent(w)[1] + window.slide)


@given(hoppings, times)
def test_the_answers_stable_is_the_start_of_the_first_open_window(window: Cut, t: int) -> None:
    assert window.stable(t) == window.answer(window.complete_below(t))[0]


@given(hoppings, times)
def test_the_first_wanted_window_is_the_first_whose_answer_reaches_t(window: Cut, t: int) -> None:
    wanted = window.first_wanted(t)
    assert window.answer(wanted)[1] >= t > window.answer(wanted - 1)[1]
    assert window.rows_needed_from(t) == window.extent(wanted)[0]
    assert t - window.rows_needed_from(t) <= window.reach


def test_the_end_of_the_stream_completes_everything() -> None:
    window = Hopping(10, 5)
    assert window.complete_below(INF) == INF
    assert window.stable(INF) == INF


@pytest.mark.parametrize(("reach", "slide"), [(0, 1), (1, 0), (-5, 5)])
def test_empty_windows_are_refused(reach: int, slide: int) -> None:
    with pytest.raises(Misuse):
        Hopping(reach, slide)


@given(hoppings, st.integers(INF - 60, INF))
def test_the_last_row_is_one_whose_answers_and_their_promise_are_times(window: Cut, t: int) -> None:
    assert all(window.answer(w)[1] < INF for w in windows_of(window, window.latest))
    assert window.stable(t) <= INF
    assert (window.stable(t) == INF) == (t == INF)


@given(hoppings, st.integers(BEGIN + 1, BEGIN + 60))
def test_the_earliest_row_needed_is_never_before_all_times(window: Cut, t: int) -> None:
    assert BEGIN <= window.rows_needed_from(t) <= t


edges = st.one_of(
    times,
    st.integers(BEGIN + 1, BEGIN + 60),
    st.integers(INF - 60, INF - 1),
    st.integers(BEGIN + 1, INF - 1),
)
spans = st.one_of(st.integers(1, 12), st.sampled_from([INF // 2, INF // 2 + 1, INF - 1]))
landmarks = st.builds(lambda s, o: Landmark(s, o % s), spans, origins)
longest = st.builds(lambda s: Cumulating(INF // 2 // s * s, s), st.integers(1, 12))
stepping = st.one_of(hoppings, st.builds(Hopping, spans, spans), longest, landmarks)


def near(window: Cut | Landmark, ts: int) -> list[int]:
    """The windows around a time, and those at both ends of all."""
    all_of_them, here = window.windows(), (ts - window.origin) // (window.slide or 1)
    around = [*range(here - 20, here + 20), *all_of_them[:3], *all_of_them[-3:]]
    return [w for w in around if w in all_of_them]


@given(stepping, edges)
def test_wids_and_extent_are_inverses_at_every_boundary(window: Cut | Landmark, ts: int) -> None:
    of_ts = window.wids(ts)
    for w in near(window, ts):
        start, end = window.extent(w)
        assert (w in of_ts) == (start <= ts < end)
        for edge in (start, start + 1, end - 1, end):
            if BEGIN < edge < INF:
                assert (w in window.wids(edge)) == (start <= edge < end)
    assert all(w in window.windows() for w in (*of_ts[:2], *of_ts[-2:]))


@given(hoppings, times)
def test_wids_of_one_time_are_those_of_many(window: Cut, ts: int) -> None:
    assert window.wids(ts) == windows_of(window, ts)


@given(stepping)
def test_all_windows_are_those_that_have_rows_and_end_in_time(window: Cut | Landmark) -> None:
    every = window.windows()
    if not every:
        assert window.answer(0)[0] >= INF
        return
    first, last = every[0], every[-1]
    assert window.extent(first - 1)[1] <= BEGIN + 1 < window.extent(first)[1]
    assert window.answer(last)[0] < INF <= window.answer(last + 1)[0]


def living(window: Cut | Landmark | Sliding | For, ts: int) -> tuple[int, int]:
    starts, ends = window.lifetimes(np.array([ts]))
    assert starts.dtype == ends.dtype == np.int64
    return int(starts[0]), int(ends[0])


@given(stepping, edges)
def test_a_row_lives_while_an_answer_that_holds_is_of_a_window_with_it(
    window: Cut | Landmark, ts: int
) -> None:
    start, end = living(window, ts)
    of_ts = window.wids(ts)
    if not of_ts:
        assert start >= end
        return
    assert start == window.answer(of_ts[0])[0]
    last_end = window.answer(of_ts[-1])[1]
    forever = isinstance(window, Landmark) or last_end >= INF
    assert end == (INF if forever or of_ts.stop == window.windows().stop else last_end)


@given(
    st.one_of(stepping, st.builds(Landmark), st.builds(Sliding, spans), st.builds(For, spans)),
    edges,
    edges,
)
def test_no_row_at_a_stable_or_later_starts_below_what_it_promises(
    window: Cut | Landmark | Sliding | For, t: int, ts: int
) -> None:
    assert living(window, max(t, ts))[0] >= window.stable(t) >= min(t, INF - 1)
    assert living(window, t)[0] in (window.stable(t), INF)  # tight


@given(
    st.one_of(stepping, st.builds(Landmark), st.builds(Sliding, spans), st.builds(For, spans)),
    edges,
    edges,
)
def test_no_row_before_what_is_needed_lives_until_then(
    window: Cut | Landmark | Sliding | For, t: int, ts: int
) -> None:
    needed = window.rows_needed_from(t)
    earliest = BEGIN if window.reach == INF else max(BEGIN, t - window.reach)
    assert earliest <= needed <= t
    if ts < needed:
        start, end = living(window, ts)
        assert end < t or start >= end


@pytest.mark.parametrize("window", [Sliding(10), For(10)])
def test_without_a_slide_a_row_lives_from_its_own_time(window: Sliding | For) -> None:
    assert living(window, 7) == (7, 17)
    assert living(window, INF - 5) == (INF - 5, INF)
    assert living(Landmark(), 7) == (7, INF)


@given(hoppings, times)
def test_the_span_of_a_window_is_the_length_of_its_extent(window: Cut, w: int) -> None:
    start, end = window.extent(w)
    assert window.spans(np.array([end])).tolist() == [end - start]


def test_a_slide_that_does_not_divide_the_restart_is_refused() -> None:
    with pytest.raises(Misuse, match="does not divide"):
        Cumulating(15, 4)


def test_the_example_of_the_header() -> None:
    assert living(Cumulating(15, 5), 7) == (10, 20)
    assert Cumulating(15, 5).wids(7) == range(1, 3)
    assert [Cumulating(15, 5).extent(w) for w in range(4)] == [(0, 5), (0, 10), (0, 15), (15, 20)]
    assert living(Hopping(10, 5), 7) == (10, 20)
    assert Hopping(10, 5).wids(7) == range(1, 3)


def test_a_landmark_window_without_a_slide_has_no_answers() -> None:
    with pytest.raises(Misuse, match="slide"):
        Landmark().windows()


@pytest.mark.parametrize("make", [Sliding, For, Landmark])
@pytest.mark.parametrize("span", [0, -1, INF])
def test_spans_are_times(make: type[Sliding] | type[For] | type[Landmark], span: int) -> None:
    with pytest.raises(Misuse):
        make(span)
