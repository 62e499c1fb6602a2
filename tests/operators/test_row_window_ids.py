"""`windows`, `extent` and `wids` of windows that count rows are inverses; section 5.1."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gapless.operators.row_windows import LastRows, RowHopping, RowLandmark, SlideByTuple

spans = st.integers(1, 12)
ordered_times = st.lists(st.integers(-30, 30), max_size=12).map(sorted)


@given(spans, spans, st.integers(0, 40))
def test_a_rank_is_in_the_windows_whose_extents_have_it(r: int, s: int, rank: int) -> None:
    window = RowHopping(r, s)
    near = range(rank // s + r // s + 3)
    inside = [w for w in near if window.extent(w)[0] <= rank < window.extent(w)[1]]
    assert inside == [*window.wids(rank)]
    assert all(w in window.windows() for w in inside)


@given(spans, st.integers(0, 40))
def test_a_landmark_has_all_ranks_from_its_first_window_on(s: int, rank: int) -> None:
    window = RowLandmark(s)
    for w in range(45):
        low, high = window.extent(w)
        assert (w in window.wids(rank)) == (low <= rank < high)


@given(spans, spans, ordered_times)
def test_a_time_is_in_the_windows_that_end_with_a_row_soon_after(
    r: int, s: int, times: list[int]
) -> None:
    window = SlideByTuple(r, s)
    assert window.windows(times) == sorted({ts for i, ts in enumerate(times) if i % s == s - 1})
    for ts in times:
        inside = [
            w for w in window.windows(times) if window.extent(w)[0] <= ts < window.extent(w)[1]
        ]
        assert inside == window.wids(ts, times)


@given(spans, spans, ordered_times)
def test_the_last_rows_before_a_time(r: int, s: int, times: list[int]) -> None:
    window = LastRows(r, s)
    for rank in range(len(times)):
        inside = [
            w
            for w in window.windows(times)
            if window.extent(w, times)[0] <= rank < window.extent(w, times)[1]
        ]
        assert inside == window.wids(rank, times)


def test_windows_of_a_thousand_rows_every_ten() -> None:
    window = RowHopping(1000, 10)
    assert window.extent(0) == (0, 10)  # the first ones are partial
    assert window.extent(99) == (0, 1000)
    assert window.extent(100) == (10, 1010)
    assert window.wids(1009) == range(100, 200)
