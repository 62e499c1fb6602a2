"""What every function promises: the oracle's answer, in any order, cut and way of putting together.

The oracles are a line or two of Python over all values of a group, in exact arithmetic.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.kernels.scatter import HIGHEST, LOWEST
from gapless.operators.aggregates import (
    aggregate,
    arg_max,
    arg_min,
    array_agg,
    bool_and,
    bool_or,
    count,
    count_distinct,
    first,
    last,
    max_,
    mean,
    min_,
    mode,
    quantile,
    stddev,
    string_agg,
    sum_,
    var,
)
from gapless.operators.aggregates.counts import CountAccumulator
from gapless.operators.aggregates.custom import Custom
from gapless.operators.aggregates.custom_rows import CustomRows
from gapless.operators.aggregates.exact import ExactSums
from gapless.operators.aggregates.filtered import _OfSome
from gapless.operators.aggregates.function import AggregateFunction
from gapless.operators.aggregates.tally import Tally
from gapless.protocol.expr import col
from gapless.protocol.values import to_values
from tests.operators.aggregates.telling import COLUMN, GROUPS, Told, ask
from tests.protocol.strategies import payload_types, values

INTEGERS = [pa.int8(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
SEEDS = st.integers(0, 2**32 - 1)
ACCURACY = 0.02

Rows = Sequence[tuple[int, Any]]


@st.composite
def tellings(draw: st.DrawFn, types: st.SearchStrategy[pa.DataType]) -> Told:
    t = draw(types)
    row = st.tuples(st.integers(0, GROUPS - 1), st.integers(-3, 3), values(t))
    rows = draw(st.lists(row, max_size=25))
    return Told(t, *([r[i] for r in rows] for i in range(3)))


def some(rows: Rows) -> list[Any]:
    return [v for _, v in rows if v is not None]


# -- oracles --------------------------------------------------------------------------------------


def int64_or_aside(total: int) -> Any:
    return total if LOWEST <= total <= HIGHEST else "aside"


def scaled(xs: Sequence[Any], k: int) -> list[int] | None:
    """Whole k-ths; None where one is not finite, or beyond int64."""
    parts = [float(x) * float(k) for x in xs]
    if not all(math.isfinite(x) and -(2.0**63) <= x < 2.0**63 for x in parts):
        return None
    return [round(x) for x in parts]  # half to even


def moment(name: str, xs: Sequence[int], k: int = 1) -> float:
    n, total = len(xs), sum(xs)
    if name == "sum":
        return total / k
    if name == "mean":
        return total / (n * k)
    variance = (n * sum(x * x for x in xs) - total * total) / (n * k) ** 2
    return math.sqrt(variance) if name == "stddev" else variance


def sample(name: str, xs: Sequence[int]) -> float | None:
    n, total = len(xs), sum(xs)
    if n < 2:
        return None
    variance = (n * sum(x * x for x in xs) - total * total) / (n * (n - 1))
    return math.sqrt(variance) if name == "stddev" else variance


def ranked(rows: Rows, t: pa.DataType) -> list[Any]:
    """The values in ascending order: as Python's, with NaN above all and false below true."""
    xs = some(rows)
    if pa.types.is_floating(t):
        return sorted(xs, key=lambda x: (math.isnan(x), 0 if math.isnan(x) else x))
    return sorted(xs)


def collected(rows: Rows, t: pa.DataType) -> list[Any]:
    """The values in order of time, those of one time in their own."""
    times = sorted({time for time, _ in rows})
    return [v for time in times for v in ranked([r for r in rows if r[0] == time], t)]


def in_time(rows: Rows, t: pa.DataType, latest: bool) -> Any:
    times = [time for time, v in rows if v is not None]
    if not times:
        return None
    chosen = max(times) if latest else min(times)
    return ranked([r for r in rows if r[0] == chosen], t)[-1 if latest else 0]


def oracle_count(rows: Rows, _: pa.DataType) -> Any:
    return len(some(rows))


def oracle_extreme(name: str) -> Callable[[Rows, pa.DataType], Any]:
    if name in ("first", "last"):
        return lambda rows, t: in_time(rows, t, name == "last")
    at = 0 if name == "min" else -1
    return lambda rows, t: ranked(rows, t)[at] if some(rows) else None


def oracle_sum(rows: Rows, _: pa.DataType) -> Any:
    return int64_or_aside(sum(some(rows))) if some(rows) else None


def oracle_moment(name: str, k: int = 1) -> Callable[[Rows, pa.DataType], Any]:
    def oracle(rows: Rows, t: pa.DataType) -> Any:
        xs = some(rows)
        parts = xs if pa.types.is_integer(t) else scaled(xs, k)
        if parts is None:
            return "aside"
        return moment(name, parts, k) if parts else None

    return oracle


# -- the laws -------------------------------------------------------------------------------------


def check(
    function: AggregateFunction, told: Told, seed: int, oracle: Callable[[Rows, pa.DataType], Any]
) -> None:
    wanted = [oracle(told.of(g), told.type) for g in range(GROUPS)]
    assert ask(function, told, seed) == wanted


@given(told=tellings(payload_types()), seed=SEEDS)
def test_oracle_counts(told: Told, seed: int) -> None:
    check(count(), told, seed, lambda rows, t: len(rows))
    check(count(COLUMN), told, seed, oracle_count)
    check(count_distinct(COLUMN), told, seed, lambda rows, t: len(set(some(rows))))


@given(told=tellings(st.sampled_from(INTEGERS)), seed=SEEDS)
def test_oracle_integer_sums(told: Told, seed: int) -> None:
    check(sum_(COLUMN), told, seed, oracle_sum)
    check(mean(COLUMN), told, seed, oracle_moment("mean"))
    check(var(COLUMN), told, seed, oracle_moment("var"))
    check(stddev(COLUMN), told, seed, oracle_moment("stddev"))
    check(var(COLUMN, ddof=1), told, seed, lambda rows, t: sample("var", some(rows)))
    check(stddev(COLUMN, ddof=1), told, seed, lambda rows, t: sample("stddev", some(rows)))


@given(told=tellings(st.sampled_from(FLOATS)), seed=SEEDS, k=st.sampled_from([1, 100, 10**15]))
def test_oracle_scaled_sums(told: Told, seed: int, k: int) -> None:
    check(sum_(COLUMN, scale=k), told, seed, oracle_moment("sum", k))
    check(mean(COLUMN, scale=k), told, seed, oracle_moment("mean", k))
    check(var(COLUMN, scale=k), told, seed, oracle_moment("var", k))


@given(seed=SEEDS)
def test_oracle_float_sums(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(0, 40))
    numbers = [None if rng.random() < 0.2 else float(x) for x in rng.normal(100, 5, n)]
    told = Told(pa.float64(), rng.integers(0, GROUPS, n).tolist(), [0] * n, numbers)
    functions = (*(f(COLUMN) for f in (sum_, mean, var, stddev)), stddev(COLUMN, ddof=1))
    for g, (total, average, variance, deviation, estimate) in enumerate(
        zip(*(ask(f, told, seed) for f in functions), strict=True)
    ):
        xs = some(told.of(g))
        if not xs:
            assert (total, average, variance, deviation, estimate) == (None,) * 5
            continue
        middle = math.fsum(xs) / len(xs)
        assert total == pytest.approx(math.fsum(xs), rel=1e-12)
        assert average == pytest.approx(middle, rel=1e-12)
        off = math.fsum((x - middle) ** 2 for x in xs) / len(xs)
        assert variance == pytest.approx(off, rel=1e-9, abs=1e-12)
        assert deviation == pytest.approx(math.sqrt(off), rel=1e-9, abs=1e-6)
        if len(xs) == 1:
            assert estimate is None
        else:
            by = len(xs) - 1
            assert estimate == pytest.approx(math.sqrt(off * len(xs) / by), rel=1e-9, abs=1e-6)


NUMBERS = [*INTEGERS, *FLOATS, pa.bool_(), pa.timestamp("ns"), pa.date32(), pa.decimal64(12, 2)]
OTHERS = [pa.string(), pa.binary_view(), pa.binary(3), pa.decimal128(30, 2)]
OTHERS += [pa.dictionary(pa.int32(), pa.int16()), pa.dictionary(pa.int64(), pa.large_string())]


@given(told=tellings(st.sampled_from([*NUMBERS, *OTHERS])), seed=SEEDS)
def test_oracle_extremes(told: Told, seed: int) -> None:
    for function in (min_, max_, first, last):
        check(function(COLUMN), told, seed, oracle_extreme(function(COLUMN).name))


@given(
    told=tellings(st.sampled_from([*NUMBERS, *OTHERS])),
    seed=SEEDS,
    q=st.sampled_from([0.0, 0.25, 0.5, 0.99, 1.0]),
)
def test_oracle_exact_quantiles_and_modes(told: Told, seed: int, q: float) -> None:
    def of_rank(rows: Rows, t: pa.DataType) -> Any:
        ascending = ranked(rows, t)
        return ascending[math.floor(q * (len(ascending) - 1))] if ascending else None

    def most_often(rows: Rows, t: pa.DataType) -> Any:
        ascending = ranked(rows, t)
        return max(ascending, key=ascending.count) if ascending else None  # the first of several

    check(quantile(COLUMN, q, exact=True), told, seed, of_rank)
    check(mode(COLUMN), told, seed, most_often)


@given(told=tellings(st.just(pa.bool_())), seed=SEEDS)
def test_oracle_bools(told: Told, seed: int) -> None:
    check(bool_and(COLUMN), told, seed, lambda rows, t: all(some(rows)) if some(rows) else None)
    check(bool_or(COLUMN), told, seed, lambda rows, t: any(some(rows)) if some(rows) else None)


@given(told=tellings(st.sampled_from([*NUMBERS, *OTHERS])), seed=SEEDS)
def test_oracle_collections(told: Told, seed: int) -> None:
    check(array_agg(COLUMN), told, seed, lambda rows, t: tuple(collected(rows, t)) or None)


@given(
    told=tellings(st.sampled_from([pa.string(), pa.string_view(), pa.large_string()])), seed=SEEDS
)
def test_oracle_joined_texts(told: Told, seed: int) -> None:
    def joined(rows: Rows, t: pa.DataType) -> Any:
        texts = collected(rows, t)
        return "; ".join(texts) if texts else None

    check(string_agg(COLUMN, "; "), told, seed, joined)


@given(told=tellings(st.sampled_from([*NUMBERS, *OTHERS])), seed=SEEDS)
def test_oracle_values_at_an_extreme(told: Told, seed: int) -> None:
    for function, end in ((arg_min(COLUMN, "other"), 0), (arg_max(COLUMN, "other"), -1)):
        wanted = []
        for g in range(GROUPS):
            pairs = [
                (by, v)
                for group, by, v in zip(told.groups, told.others, told.values, strict=True)
                if group == g and by is not None and v is not None
            ]
            best = sorted({by for by, _ in pairs})
            there = ranked([pair for pair in pairs if pair[0] == best[end]], told.type)
            wanted.append(there[end] if there else None)
        assert ask(function, told, seed) == wanted


@given(told=tellings(st.sampled_from(INTEGERS)), seed=SEEDS)
def test_oracle_of_some_rows(told: Told, seed: int) -> None:
    kept = [i for i, x in enumerate(told.others) if x is not None and x > 0]
    columns = (told.groups, told.times, told.values)
    some_rows = Told(told.type, *([xs[i] for i in kept] for xs in columns))
    holds = col("other") > 0
    for function, where in (
        (count(), count(where=holds)),
        (count(COLUMN), count(COLUMN, where=holds)),
        (mean(COLUMN), mean(COLUMN, where=holds)),
        (last(COLUMN), last(COLUMN, where=holds)),
        (array_agg(COLUMN), array_agg(COLUMN, where=holds)),
    ):
        assert ask(where, told, seed) == ask(function, some_rows, seed + 1)


@given(told=tellings(payload_types()), seeds=st.tuples(SEEDS, SEEDS))
def test_a_value_of_any_type_is_chosen_or_collected_the_same_in_any_order(
    told: Told, seeds: tuple[int, int]
) -> None:
    functions = (mode(COLUMN), quantile(COLUMN, 0.5, exact=True), array_agg(COLUMN))
    for function in (*functions, arg_min("other", COLUMN), arg_max(COLUMN, "other")):
        one, other = (ask(function, told, seed) for seed in seeds)
        assert one == other


@given(told=tellings(payload_types()), seeds=st.tuples(SEEDS, SEEDS))
def test_a_value_of_any_type_is_picked_the_same_in_any_order(
    told: Told, seeds: tuple[int, int]
) -> None:
    for function in (min_, max_, first, last):
        one, other = (ask(function(COLUMN), told, seed) for seed in seeds)
        assert one == other
        for g, value in enumerate(one):
            assert value in (some(told.of(g)) or [None])


@given(
    told=tellings(st.sampled_from([*INTEGERS, *FLOATS])),
    seed=SEEDS,
    q=st.sampled_from([0.0, 0.25, 0.5, 0.99, 1.0]),
)
def test_oracle_quantiles(told: Told, seed: int, q: float) -> None:
    for g, said in enumerate(ask(quantile(COLUMN, q, ACCURACY), told, seed)):
        ascending = ranked(told.of(g), told.type)
        if not ascending:
            assert said is None
            continue
        exact = float(ascending[math.floor(q * (len(ascending) - 1))])
        if math.isfinite(exact):
            assert abs(said - exact) <= ACCURACY * abs(exact) + 5e-324
        else:
            assert said is exact or said == exact


def as_text(values: pa.Array) -> str:
    """All that a function can see."""
    return f"{len(values)} {values.type}: {to_values(values)}"


@given(told=tellings(payload_types()), seeds=st.tuples(SEEDS, SEEDS))
def test_a_users_function_sees_the_same_values_in_the_same_order(
    told: Told, seeds: tuple[int, int]
) -> None:
    function = aggregate(COLUMN, as_text, "string")
    one, other = (ask(function, told, seed) for seed in seeds)
    assert one == other
    for g, text in enumerate(one):
        xs = some(told.of(g))
        assert (text is None) == (not xs)
        if xs:
            assert text.startswith(f"{len(xs)} {told.type}: [")


@given(told=tellings(payload_types()), seeds=st.tuples(SEEDS, SEEDS))
def test_a_users_function_sees_the_same_rows_in_the_same_order(
    told: Told, seeds: tuple[int, int]
) -> None:
    def rows_as_text(xs: pa.Array, others: pa.Array) -> str:
        return f"{as_text(xs)} {as_text(others)}"

    function = aggregate((COLUMN, "other"), rows_as_text, "string")
    one, other = (ask(function, told, seed) for seed in seeds)
    assert one == other
    for g, text in enumerate(one):
        assert (text is None) == (not told.of(g))


def _numbers(rows: Rows, _: pa.DataType) -> Any:
    """In order of time, nulls last among those of one time."""
    by = sorted(rows, key=lambda r: (r[0], r[1] is None, r[1] or 0))
    return tuple(x for _, x in by) or None


@given(told=tellings(st.sampled_from(INTEGERS)), seed=SEEDS)
def test_oracle_users_functions_of_rows(told: Told, seed: int) -> None:
    returns = pa.list_(told.type)
    check(aggregate((COLUMN,), pa.Array.to_pylist, returns), told, seed, _numbers)


def _longest(values: pa.Array) -> dict[str, Any]:
    return {"n": len(values), "top": values[-1].as_py()}


def _longer(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {"n": one["n"] + other["n"], "top": max(one["top"], other["top"])}


@given(told=tellings(st.sampled_from(INTEGERS)), seed=SEEDS)
def test_oracle_merged_answers_of_users_functions(told: Told, seed: int) -> None:
    def counted(rows: Rows, t: pa.DataType) -> Any:
        values = ranked(rows, t)
        return (len(values), values[-1]) if values else None

    returns = pa.struct([("n", pa.int64()), ("top", told.type)])
    check(aggregate(COLUMN, _longest, returns, _longer), told, seed, counted)
    rows = aggregate((COLUMN, "other"), lambda xs, _: len(xs), "int64", operator.add)
    check(rows, told, seed, lambda rows, t: len(rows) or None)


@given(told=tellings(payload_types()), seeds=st.tuples(SEEDS, SEEDS))
def test_a_sketch_is_the_same_in_any_order(told: Told, seeds: tuple[int, int]) -> None:
    function = count_distinct(COLUMN, "hll", 4)
    one, other = (ask(function, told, seed) for seed in seeds)
    assert one == other
    assert [n == 0 for n in one] == [not some(told.of(g)) for g in range(GROUPS)]


# -- the checks can fail --------------------------------------------------------------------------


@dataclass(frozen=True)
class Break:
    """A function, an oracle, and a change to the product that the laws must notice."""

    function: AggregateFunction
    oracle: Callable[[Rows, pa.DataType], Any]
    target: type
    name: str
    instead: Callable[..., Any]


def _nothing(*args: Any) -> None:
    pass


def _ignored(self: _OfSome, ids: Any, rows: pa.RecordBatch, times: Any) -> None:
    self.inner.add(ids, rows, times)


def _at_one_time(self: CustomRows, ids: Any, rows: pa.RecordBatch, times: Any) -> None:
    _add_rows(self, ids, rows, times * 0)


_add_rows = CustomRows.add


BREAKS = {
    "a user's rows have no times": Break(
        aggregate((COLUMN,), pa.Array.to_pylist, "list<int64>"),
        _numbers,
        CustomRows,
        "add",
        _at_one_time,
    ),
    "a user's answers are not merged": Break(
        aggregate((COLUMN,), len, "int64", operator.add),
        lambda rows, t: len(rows) or None,
        Custom,
        "merged",
        lambda self, one, other: other,
    ),
    "conditions do not count": Break(
        count(where=col("other") > 9), lambda rows, t: 0, _OfSome, "add", _ignored
    ),
    "times do not count": Break(
        array_agg(COLUMN),
        lambda rows, t: tuple(collected(rows, t)) or None,
        Tally,
        "in_order",
        Tally.entries,
    ),
    "sums wrap": Break(sum_(COLUMN), oracle_sum, ExactSums, "beyond", _nothing),
    "merging forgets": Break(sum_(COLUMN), oracle_sum, ExactSums, "merge", _nothing),
    "clearing forgets": Break(sum_(COLUMN), oracle_sum, ExactSums, "clear", _nothing),
    "subtracting adds": Break(
        count(COLUMN),
        oracle_count,
        CountAccumulator,
        "unmerge",
        lambda self, ids, partial: self.merge(ids, partial),
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_the_laws_notice_a_broken_function(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = BREAKS[name]
    rng = np.random.default_rng(1)
    tell = [
        Told(pa.int64(), rng.integers(0, GROUPS, 9).tolist(), [*range(9)], [HIGHEST, 5, -1] * 3)
        for _ in range(10)
    ]
    for seed, told in enumerate(tell):
        check(broken.function, told, seed, broken.oracle)
    monkeypatch.setattr(broken.target, broken.name, broken.instead)
    noticed = 0
    for seed, told in enumerate(tell):
        try:
            check(broken.function, told, seed, broken.oracle)
        except AssertionError:
            noticed += 1
    assert noticed
