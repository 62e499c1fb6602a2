"""State by id: sums that widen and narrow again, memory that comes back, rows others count."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gapless.kernels.scatter import HIGHEST, LOWEST
from gapless.operators.aggregates import (
    aggregate,
    arg_min,
    array_agg,
    count,
    count_distinct,
    first,
    max_,
    mean,
    min_,
    mode,
    quantile,
    stddev,
    sum_,
    var,
)
from gapless.operators.aggregates.exact import ExactSums
from gapless.operators.aggregates.function import Accumulator, AggregateFunction
from gapless.protocol.errors import Misuse
from gapless.protocol.expr import col

X = pa.schema([("x", pa.int64())])


def rows(xs: Any, t: pa.DataType | None = None) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(xs, t or pa.int64())], ["x"])


def add(state: Accumulator, ids: Any, xs: Any, t: pa.DataType | None = None) -> None:
    state.add(np.array(ids, np.int64), rows(xs, t), np.zeros(len(ids), np.int64))


def results(state: Accumulator, *ids: int) -> list[Any]:
    said: list[Any] = state.results(np.array(ids, np.int64)).to_pylist()
    return said


def test_a_sum_that_leaves_int64_only_on_the_way_is_answered() -> None:
    for xs in ([HIGHEST, 1, -1], [LOWEST, -1, 1], [HIGHEST, HIGHEST, LOWEST, LOWEST, 2]):
        state = sum_("x").accumulator(X)
        add(state, [3] * len(xs), xs)
        assert state.unanswerable(np.array([3])) is None
        assert results(state, 3) == [sum(xs)]


def test_a_sum_that_ends_beyond_int64_has_no_answer_until_rows_are_taken_out() -> None:
    state = sum_("x").accumulator(X)
    add(state, [0, 1], [HIGHEST, 5])
    add(state, [2, 3], [1, 2])
    ids = np.array([0, 1])
    partial = state.take(np.array([2, 3]))
    state.merge(ids, partial)
    unanswerable = state.unanswerable(ids)
    assert unanswerable is not None
    assert unanswerable.mask.tolist() == [True, False]
    assert unanswerable.reason == "the sum is beyond int64"
    assert results(state, 0, 1) == [None, 7]
    state.unmerge(ids, partial)
    assert state.unanswerable(ids) is None
    assert results(state, 0, 1) == [HIGHEST, 5]


def test_squares_of_the_largest_integers_add_up() -> None:
    for t, x in ((pa.uint64(), 2**64 - 1), (pa.int64(), LOWEST)):
        state = var("x").accumulator(pa.schema([("x", t)]))
        add(state, [0] * 6 + [1] * 6, [x] * 6 + [x, 0] * 3, t)
        assert results(state, 0, 1) == [0.0, x * x / 4]


def test_a_mean_is_rounded_once() -> None:
    state = mean("x").accumulator(X)
    xs = [2**60 + 1, 2**60 + 3, -5]
    add(state, [0] * 3, xs)
    assert results(state, 0) == [sum(xs) / 3]


def test_wide_sums_are_narrow_again_once_the_room_changes_and_none_needs_the_width() -> None:
    sums = ExactSums("total")
    sums.fit(1000)
    narrow = sums.nbytes
    ids = np.arange(1000)
    sums.add(ids, ids)
    sums.add(np.array([7, 7]), np.array([HIGHEST, HIGHEST]))
    assert sums.nbytes == 3 * narrow
    sums.fit(2000)
    assert sums.nbytes > 3 * narrow
    sums.add(np.array([7, 7]), np.array([-HIGHEST, -HIGHEST]))
    sums.fit(1000)  # not a change of room
    sums.fit(4000)
    assert sums.nbytes == 8 * 5000
    assert sums.totals(ids).tolist() == ids.tolist()


def test_sub_aggregates_from_before_and_after_widening_go_together() -> None:
    state = sum_("x").accumulator(X)
    add(state, [0, 1], [4, -6])
    before = state.take(np.array([0, 1]))
    add(state, [2, 2], [HIGHEST, HIGHEST])
    after = state.take(np.array([2]))
    other = sum_("x").accumulator(X)
    other.merge(np.array([0, 1, 2]), pa.concat_batches([before, after]))
    assert results(other, 0, 1) == [4, -6]
    add(other, [2], [-HIGHEST])
    assert results(other, 2) == [HIGHEST]


def test_rows_counted_by_another_accumulator_take_no_memory_here() -> None:
    counted = count().accumulator(X)
    own, short = sum_("x").accumulator(X), sum_("x").accumulator(X, counted)
    for state in (counted, own, short):
        state.fit(10_000)
        add(state, [0, 0, 1, 2], [1, 2, 3, 4])
    assert short.nbytes * 2 == own.nbytes
    assert own.nbytes == 16 * 12_500
    for state in (counted, own, short):
        add(state, [5, 0], [None, None])
        assert results(state, 0, 1, 5)[1] == (1 if state is counted else 3)
    for state in (own, short):
        assert results(state, 0, 1, 2, 5, 6) == [3, 3, 4, None, None]


def test_only_a_count_of_rows_counts_rows() -> None:
    for other in (count("x"), sum_("x")):
        with pytest.raises(Misuse, match="count\\(\\) without a column"):
            sum_("x").accumulator(X, other.accumulator(X))


def test_a_float_sum_is_not_subtracted() -> None:
    schema = pa.schema([("x", pa.float64())])
    for function in (sum_("x"), mean("x"), var("x")):
        state = function.accumulator(schema)
        assert not state.differential
        assert state.may_diverge == function.may_diverge
        with pytest.raises(Misuse, match="not differential"):
            state.unmerge(np.array([0]), state.take(np.array([0])))


FUNCTIONS = [
    count(),
    count("x"),
    sum_("x"),
    sum_("x", 100),
    mean("x"),
    var("x"),
    min_("x"),
    first("x"),
    max_("x"),
    count_distinct("x"),
    count_distinct("x", "hll", 8),
    quantile("x", 0.5),
    quantile("x", 0.5, exact=True),
    mode("x"),
    stddev("x", ddof=1),
    arg_min("x", "x"),
    array_agg("x"),
    min_("x", where=~col("x").is_null()),
    aggregate("x", len, "int64"),
    aggregate("x", len, "int64", operator.add),
    aggregate(("x",), len, "int64"),
    aggregate(("x",), len, "int64", operator.add),
]


NUMBERS_ONLY = ("sum", "mean", "var", "stddev", "quantile")


@pytest.mark.parametrize("t", [pa.int64(), pa.float64(), pa.string()], ids=str)
@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
def test_memory_is_flat_over_panes_that_come_and_go_and_comes_back_after_a_peak(
    function: AggregateFunction, t: pa.DataType
) -> None:
    schema = pa.schema([("x", t)])
    if t == pa.string() and function.name in NUMBERS_ONLY and "exact" not in str(function):
        return
    state = function.accumulator(schema)
    rng = np.random.default_rng(1)

    def round_of(ids: int, n: int) -> int:
        state.fit(ids)
        column = pa.array(rng.integers(-1000, 1000, n)).cast(t)
        state.add(
            rng.integers(0, ids, n),
            pa.RecordBatch.from_arrays([column], ["x"]),
            np.zeros(n, np.int64),
        )
        held = state.nbytes
        state.clear(np.arange(ids))
        state.validate()
        return held

    first_round = max(round_of(50, 500) for _ in range(3))
    assert max(round_of(50, 500) for _ in range(20)) <= 1.3 * first_round
    peak = round_of(5000, 50_000)
    assert peak > 5 * first_round
    for _ in range(3):
        round_of(50, 500)
    assert state.nbytes <= 1.5 * first_round + 50_000


@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
def test_what_was_taken_stays_as_it_was(function: AggregateFunction) -> None:
    state = function.accumulator(X)
    add(state, [0, 1, 1], [4, 5, 6])
    ids = np.array([0, 1])
    taken = state.take(ids)
    before = taken.to_pylist()
    add(state, [0, 1, 1], [7, -3, None])
    state.clear(ids)
    assert taken.to_pylist() == before


def test_any_bits_of_a_nan_are_taken_without_a_warning() -> None:
    bits = np.array([0x7FF0000000000001, 0xFFF8000000000000, 0x3FF8000000000000], np.uint64)
    small = np.array([0x7F800001, 0xFFC00000, 0x3FC00000], np.uint32)
    for column in (pa.array(bits.view(np.float64)), pa.array(small.view(np.float32))):
        batch = pa.RecordBatch.from_arrays([column], ["x"])
        for function in FUNCTIONS:
            state = function.accumulator(batch.schema)
            state.add(np.zeros(3, np.int64), batch, np.zeros(3, np.int64))
            one = np.array([0])
            other = function.accumulator(batch.schema)
            other.merge(one, state.take(one))
            assert repr(other.results(one).to_pylist()) == repr(state.results(one).to_pylist())


def test_infinities_have_a_sum_and_no_variance() -> None:
    for x, total in ((float("inf"), "inf"), (1e308, "inf"), (float("-inf"), "-inf")):
        said = []
        for function in (sum_("x"), mean("x"), var("x")):
            state = function.accumulator(pa.schema([("x", pa.float64())]))
            add(state, [0, 0], [x, x], pa.float64())
            said += results(state, 0)
        assert repr(said[0]) == repr(said[1]) == total
        assert repr(said[2]) in ("nan", "0.0")


@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
def test_where_ids_of_a_merge_may_repeat_each_sub_aggregate_counts(
    function: AggregateFunction,
) -> None:
    state = function.accumulator(X)
    if not state.repeats:
        return
    add(state, [0, 0, 1, 1, 2], [HIGHEST, 3, None, -9, 4])
    taken = state.take(np.array([0, 1, 2]))
    state.merge(np.array([5, 6, 5]), taken)
    for to, row in ((7, 0), (7, 2), (8, 1)):
        state.merge(np.array([to]), taken.slice(row, 1))
    assert results(state, 5, 6) == results(state, 7, 8)
    assert repr(state.take(np.array([5, 6])).to_pylist()) == repr(
        state.take(np.array([7, 8])).to_pylist()
    )
