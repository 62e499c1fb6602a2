"""Costs of implementations: the thesis's equations by their numbers, and what is chosen by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from gapless.operators import implementation_costs
from gapless.operators.aggregates import calls
from gapless.operators.aggregates.function import AggregateFunction
from gapless.operators.implementation_costs import (
    ALL_ROWS,
    GROUP_ROWS,
    LAZY_PANES_MAX,
    LAZY_ROWS_MIN,
    Work,
    cheapest,
)
from gapless.operators.panes import Panes, pairs_of_windows
from gapless.operators.windows import Cumulating, Cut, Hopping

ROWS = pa.schema([("src", pa.int32()), ("len", pa.int64()), ("name", pa.string())])
MIN = 60
COUNT, MAX = calls.count(), calls.max_("len")
HLL = calls.count_distinct("len", method="hll")
EXACT = calls.quantile("len", 0.5, exact=True)
FLOAT_SUM = calls.sum_("x")


def work(window: Cut, *functions: AggregateFunction, group_by: Sequence[str] = ("src",)) -> Work:
    return Work.of(window, ROWS, group_by, functions)


def chosen(window: Cut, *functions: AggregateFunction, group_by: Sequence[str] = ("src",)) -> str:
    return cheapest(work(window, *functions, group_by=group_by)).implementation


# -- the equations --------------------------------------------------------------------------------


def check_thesis_example() -> None:
    """RANGE 9 minutes, SLIDE 6 minutes: panes of 3, of which a window has 3, and a slide 2."""
    window = Hopping(9 * MIN, 6 * MIN)
    assert [pairs_of_windows(window).starts(i) for i in range(4)] == [0, 3 * MIN, 6 * MIN, 9 * MIN]
    counts = work(window, COUNT)
    assert (counts.panes, counts.new) == (3, 2)
    r = GROUP_ROWS
    assert counts.paned == r + 2 + 2 * 2  # 6.2
    assert work(window, MAX).paned == r + 2 + 3  # 6.1
    assert counts.wid == work(window, MAX).wid == r * 9 / 6 + 1  # 6.3


def test_the_equations_by_the_example_of_the_thesis() -> None:
    check_thesis_example()


def test_one_new_pane_a_window_as_the_equations_are_printed_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def one_a_slide(window: Cut) -> Panes:
        return replace(pairs_of_windows(window), step=1)

    monkeypatch.setattr(implementation_costs, "pairs_of_windows", one_a_slide)
    with pytest.raises(AssertionError):
        check_thesis_example()


def test_where_rows_between_windows_are_skipped_only_pairs_of_windows_count() -> None:
    skipping = work(Hopping(10, 30), COUNT)
    assert (skipping.panes, skipping.new) == (1, 1)
    assert skipping.rows == GROUP_ROWS / 3
    assert skipping.wid == skipping.rows + 1


def test_a_slide_that_shares_no_divisor_with_the_range_brings_two_panes() -> None:
    odd = work(Hopping(4000, 999), MAX)
    assert (odd.panes, odd.new, odd.paned) == (9, 2, GROUP_ROWS + 2 + 5)


def test_two_stacks_put_a_pane_in_twice_however_many_windows_it_is_in() -> None:
    few, many = (work(Hopping(n, 1), MAX) for n in (10, 1000))
    assert few.paned == many.paned == GROUP_ROWS + 1 + 3
    assert many.wid == GROUP_ROWS * 1000 + 1


def test_windows_that_cumulate_subtract_nothing() -> None:
    hour = work(Cumulating(60, 10), COUNT)
    assert (hour.panes, hour.new, hour.paned) == (4, 1, GROUP_ROWS + 1 + 1)
    assert hour.wid == GROUP_ROWS * (1 + 2 + 3 + 4 + 5 + 6) / 6 + 1
    assert work(Cumulating(10, 10), COUNT).panes == 1


def test_a_holistic_sub_aggregate_is_as_large_as_its_rows() -> None:
    r = GROUP_ROWS
    exact = work(Hopping(10, 1), EXACT)
    assert (exact.paned, exact.wid) == (r + r + 2 * r, 10 * r + r)


def test_sub_aggregates_and_rows_have_the_widths_of_their_columns() -> None:
    sketch = work(Hopping(10, 1), HLL)
    assert sketch.row_bytes == 8 + 4 + 8
    assert sketch.rows_of_aggregate == 4096 // 20
    assert work(Hopping(10, 1), HLL, group_by=["name"]).row_bytes == 8 + 16 + 8
    assert work(Hopping(10, 1), COUNT, EXACT, HLL).aggregate_bytes > 4096 + 8


def test_a_sum_of_floats_is_not_differential() -> None:
    rows = pa.schema([("x", pa.float64())])
    of_floats = Work.of(Hopping(10, 1), rows, [], [FLOAT_SUM, COUNT])
    assert not of_floats.differential
    assert of_floats.paned == ALL_ROWS + 1 + 3


# -- the choice -----------------------------------------------------------------------------------


def test_rows_count_by_window_where_windows_do_not_overlap() -> None:
    for window in (Hopping(10, 10), Hopping(10, 30)):
        for function in (COUNT, MAX, EXACT):
            assert chosen(window, function) == chosen(window, function, group_by=()) == "wid"


def test_and_by_pane_where_they_do() -> None:
    for window in (Hopping(20, 10), Hopping(4000, 1), Hopping(86_400, 1), Cumulating(60, 10)):
        for function in (COUNT, MAX):
            assert chosen(window, function) == "paned"
            assert chosen(window, function, group_by=()) == "paned"


def test_of_groups_with_few_rows_little_overlap_is_not_worth_panes() -> None:
    assert chosen(Hopping(3, 2), COUNT) == "wid"
    assert chosen(Hopping(3, 2), COUNT, group_by=()) == "paned"
    assert chosen(Hopping(5, 2), COUNT) == "paned"


def test_large_sub_aggregates_of_groups_wait_as_rows() -> None:
    assert chosen(Hopping(10, 1), HLL) == chosen(Hopping(10, 1), COUNT, HLL) == "adaptive"
    assert chosen(Hopping(10, 10), HLL) == "adaptive"
    assert chosen(Hopping(10, 10), HLL, group_by=()) == "wid"
    assert chosen(Hopping(10, 1), HLL, group_by=()) == "paned", "one group has many rows"
    assert chosen(Hopping(LAZY_PANES_MAX, 1), HLL) == "adaptive"
    assert chosen(Hopping(LAZY_PANES_MAX + 1, 1), HLL) == "paned", "rows would count too often"


def test_from_how_large_on() -> None:
    small = replace(work(Hopping(10, 1), COUNT), row_bytes=10, aggregate_bytes=10 * LAZY_ROWS_MIN)
    assert cheapest(small).implementation == "adaptive"
    smaller = replace(small, aggregate_bytes=small.aggregate_bytes - 1)
    assert cheapest(smaller).implementation == "paned"


def test_a_clause_says_why() -> None:
    window = Hopping(10, 1)
    assert cheapest(work(window, COUNT)).why == "a window of a group takes 7 steps, 41 by wid"
    assert (
        cheapest(work(Hopping(5, 5), COUNT)).why == "a window of a group takes 5 steps, 7 by panes"
    )
    assert (
        cheapest(work(window, MAX, group_by=())).why
        == "a window takes 1,000,004 steps, 10,000,001 by wid"
    )
    assert cheapest(work(window, HLL)).why == "a sub-aggregate takes as much as 204 rows"
