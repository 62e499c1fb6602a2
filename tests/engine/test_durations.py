from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.engine.durations import text, ticks
from gapless.engine.lateness import (
    KLate,
    TimeLate,
    Watermarks,
    is_ordered,
    k_late,
    lateness_from_document,
    lateness_of,
    lateness_text,
    lateness_to_document,
    ordered,
    watermarks,
)
from gapless.protocol.elements import INF
from gapless.protocol.errors import DecodeError, Misuse
from gapless.protocol.schema import TIME_UNITS


@pytest.mark.parametrize(
    ("written", "unit", "count"),
    [
        ("10s", "ms", 10_000),
        ("500ms", "ms", 500),
        ("1m", "s", 60),
        ("1 min", "s", 60),
        ("2h", "s", 7_200),
        ("1d", "us", 86_400_000_000),
        ("1.5s", "ms", 1_500),
        ("0.000001s", "us", 1),
        (" 7 ns ", "ns", 7),
        (250, "ms", 250),
        (timedelta(milliseconds=1500), "ms", 1_500),
        (timedelta(days=2, microseconds=3), "us", 172_800_000_003),
    ],
)
def test_durations_as_people_write_them(written: Any, unit: str, count: int) -> None:
    assert ticks(written, unit) == count


@pytest.mark.parametrize(
    ("written", "unit", "why"),
    [
        ("1us", "ms", "not a whole number of ms"),
        ("1.5ms", "ms", "not a whole number of ms"),
        (timedelta(microseconds=1), "ms", "not a whole number of ms"),
        ("10", "ms", "write a text such as '10s'"),
        ("10 parsecs", "ms", "write a text such as '10s'"),
        ("-1s", "ms", "write a text such as '10s'"),
        ("", "ms", "write a text such as '10s'"),
        (1.5, "ms", "write a text such as '10s'"),
        (True, "ms", "write a text such as '10s'"),
        (-1, "ms", "at least 0"),
        (INF, "ms", "does not hold it"),
        ("9999999999999999999d", "ns", "does not hold it"),
        ("1s", "fortnight", "use one of s, ms, us, ns"),
    ],
)
def test_what_is_no_duration_is_refused_with_a_sentence(written: Any, unit: str, why: str) -> None:
    with pytest.raises(Misuse, match=why):
        ticks(written, unit)


@given(st.integers(0, INF - 1), st.sampled_from(TIME_UNITS))
def test_what_is_printed_can_be_written(count: int, unit: str) -> None:
    assert ticks(text(count, unit), unit) == count


def test_durations_are_printed_in_the_largest_unit_that_divides_them() -> None:
    assert text(10_000, "ms") == "10 s"
    assert text(1_500, "ms") == "1500 ms"
    assert text(90_000, "ms") == "90 s"
    assert text(3_600, "s") == "1 h"
    assert text(0, "us") == "0 us"
    assert text(INF, "us") == "all"


# -- lateness -------------------------------------------------------------------------------------


def test_lateness_as_it_is_written() -> None:
    assert lateness_of("5s", "ms") == TimeLate(5_000)
    assert lateness_of(7, "ms") == TimeLate(7)
    assert lateness_of(0, "ms") == ordered() == TimeLate(0)
    assert lateness_of(None, "ms") == watermarks() == Watermarks()
    assert lateness_of(k_late(3), "ms") == KLate(3)


def test_in_order_are_sources_that_allow_no_lateness() -> None:
    assert is_ordered(ordered())
    assert is_ordered(k_late(0))
    assert not is_ordered(TimeLate(1))
    assert not is_ordered(k_late(1))
    assert not is_ordered(watermarks())


def test_lateness_in_words() -> None:
    assert lateness_text(TimeLate(5_000), "ms") == "lateness 5 s"
    assert lateness_text(ordered(), "ms") == "in order"
    assert lateness_text(k_late(4), "ms") == "at most 4 rows late"
    assert lateness_text(watermarks(), "ms") == "with watermarks"


def test_lateness_that_means_nothing_is_refused() -> None:
    with pytest.raises(Misuse, match="at least 0"):
        lateness_of(-1, "ms")
    with pytest.raises(Misuse, match="not negative"):
        TimeLate(-1)
    with pytest.raises(Misuse, match="a number of rows"):
        k_late(-1)
    with pytest.raises(Misuse, match="a number of rows"):
        k_late(True)


@pytest.mark.parametrize("lateness", [TimeLate(0), TimeLate(9), KLate(4), Watermarks()])
def test_lateness_comes_back_from_its_document(lateness: Any) -> None:
    assert lateness_from_document(lateness_to_document(lateness), "lateness") == lateness


@pytest.mark.parametrize("wrong", [{"time": -1}, {"rows": 1, "time": 1}, {"rows": "1"}, {"x": 1}])
def test_documents_that_are_no_lateness_are_refused(wrong: Any) -> None:
    with pytest.raises(DecodeError, match="lateness"):
        lateness_from_document(wrong, "lateness")
