"""The form of every bench: what a row refuses, when a bar holds, what a report says."""

from __future__ import annotations

import importlib
import itertools
import json
import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.bench.harness import (
    BENCHES,
    Bench,
    Context,
    Report,
    Row,
    best_of,
    load,
    machine,
    measure,
    versions,
)
from gapless.protocol.errors import Bug, Misuse

FULL = Context(quick=False, plot_dir=None)
QUICK = Context(quick=True, plot_dir=None)

finite = st.floats(allow_nan=False, allow_infinity=False)


def bench_of(*rows: Row) -> Bench:
    def run(context: Context) -> Iterator[Row]:
        del context
        yield from rows

    return Bench("fake", "a bench of given rows", run)


@pytest.fixture(autouse=True)
def some_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gapless.kernels.KERNEL", "some kernel", raising=False)


@given(value=finite, bar=finite)
def test_a_bar_holds_exactly_when_the_value_is_on_its_side(value: float, bar: float) -> None:
    assert Row("at least", value, "x", bar, ">=").holds == (value >= bar)
    assert Row("at most", value, "x", bar, "<=").holds == (value <= bar)


def test_a_value_on_its_bar_holds_it() -> None:
    assert Row("at least", 5, "x", 5, ">=").holds is True
    assert Row("at most", 5, "x", 5, "<=").holds is True


def test_a_row_without_a_bar_neither_holds_nor_misses() -> None:
    assert Row("to know", 5, "x").holds is None


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_row_refuses_what_no_measurement_gives(value: float) -> None:
    with pytest.raises(Misuse, match="nothing was measured"):
        Row("bad", value, "x")
    with pytest.raises(Misuse, match="says nothing"):
        Row("bad", 1, "x", value, ">=")


def test_a_row_refuses_a_bar_without_its_op_and_an_op_without_its_bar() -> None:
    with pytest.raises(Misuse, match="come together"):
        Row("bad", 1, "x", bar=1)
    with pytest.raises(Misuse, match="come together"):
        Row("bad", 1, "x", op=">=")


def test_a_row_refuses_an_op_that_it_does_not_know() -> None:
    with pytest.raises(Misuse, match="not '>=' or '<='"):
        Row("bad", 1, "x", 1, ">")  # type: ignore[arg-type]  # what a checker would have caught


def test_a_figure_that_numpy_computed_can_be_reported() -> None:
    row = Row("median", np.float32(1.5), "us", np.int64(2), "<=")  # type: ignore[arg-type]  # as a bench would
    report = measure(bench_of(row), FULL)
    assert json.loads(json.dumps(report.to_json()))["rows"][0]["holds"] is True


def test_the_best_of_several_is_the_largest_rate_or_the_smallest_time() -> None:
    rates, times = itertools.cycle([3.0, 9.0, 1.0]), itertools.cycle([3.0, 9.0, 1.0])
    assert best_of(lambda: next(rates), repeat=3) == 9.0
    assert best_of(lambda: next(times), repeat=3, better=min) == 1.0


def test_the_best_of_no_measurement_is_refused() -> None:
    with pytest.raises(Misuse, match="at least once"):
        best_of(lambda: 1.0, repeat=0)


def test_a_report_has_every_row_in_the_order_in_which_it_was_measured() -> None:
    rows = [Row(name, 1, "x") for name in "cab"]
    watched: list[Row] = []
    report = measure(bench_of(*rows), FULL, watched.append)
    assert list(report.rows) == watched == rows


def test_a_row_can_be_watched_before_the_next_one_is_measured() -> None:
    log: list[str] = []

    def run(context: Context) -> Iterator[Row]:
        del context
        for name in ("first", "second"):
            log.append(f"measure {name}")
            yield Row(name, 1, "x")

    measure(Bench("fake", "", run), FULL, lambda row: log.append(f"see {row.name}"))
    assert log == ["measure first", "see first", "measure second", "see second"]


def test_the_rows_that_miss_their_bars_are_told_apart() -> None:
    missed = Row("missed", 1, "x", 2, ">=")
    report = measure(bench_of(Row("held", 2, "x", 2, ">="), missed, Row("free", 0, "x")), FULL)
    assert report.missed == (missed,)


def test_a_quick_run_judges_no_bar() -> None:
    report = measure(bench_of(Row("missed if full", 1, "x", 2, ">=")), QUICK)
    assert report.missed == ()
    assert [row["holds"] for row in report.to_json()["rows"]] == [None]


def test_a_bench_that_measures_a_thing_twice_or_nothing_at_all_is_our_bug() -> None:
    with pytest.raises(Bug, match="twice"):
        measure(bench_of(Row("a", 1, "x"), Row("a", 2, "x")), FULL)
    with pytest.raises(Bug, match="nothing"):
        measure(bench_of(), FULL)


def test_a_report_is_one_json_object_of_the_agreed_form() -> None:
    report = measure(bench_of(Row("a", 1.5, "rows/s", 1, ">="), Row("b", 2, "us")), FULL)
    document = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert set(document) == {"bench", "quick", "machine", "versions", "rows"}
    assert set(document["machine"]) == {"cores", "memory_bytes", "cpu", "autogroups"}
    assert document["rows"] == [
        {"name": "a", "value": 1.5, "unit": "rows/s", "bar": 1, "op": ">=", "holds": True},
        {"name": "b", "value": 2, "unit": "us", "bar": None, "op": None, "holds": None},
    ]


def test_the_machine_and_the_versions_are_those_at_hand() -> None:
    assert machine()["cores"] >= 1
    assert machine()["memory_bytes"] > 0
    assert machine()["cpu"]
    found = versions()
    assert set(found) == {"python", "gapless", "numpy", "pyarrow", "ray", "pyspark", "kernel"}
    assert found["kernel"] == "some kernel"
    assert all(found.values())


def test_a_name_that_no_bench_has_is_answered_with_those_there_are() -> None:
    with pytest.raises(Misuse, match="there are: kernel"):
        load("kernal", {"kernel": "gapless.bench.kernel"})


@pytest.mark.parametrize("name", BENCHES)
def test_every_bench_that_is_listed_has_the_agreed_form(name: str) -> None:
    module = importlib.import_module(BENCHES[name])
    bench = load(name)
    assert bench.run is module.run
    assert bench.summary
    assert "\n" not in bench.summary


def test_a_report_made_by_hand_judges_like_one_that_was_measured() -> None:
    row = Row("missed", 1, "x", 2, ">=")
    assert Report("fake", False, {}, {}, (row,)).missed == (row,)
    assert Report("fake", True, {}, {}, (row,)).missed == ()
