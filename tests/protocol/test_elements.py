from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.protocol.elements import (
    BEGIN,
    INF,
    Adjust,
    Element,
    Insert,
    Stable,
    check_stable,
    format_time,
)
from gapless.protocol.errors import FrameError

EDGES = st.integers(-3, 3) | st.sampled_from([BEGIN - 1, BEGIN, BEGIN + 1, INF - 1, INF, INF + 1])


def _made(make: Callable[[], Element]) -> bool:
    try:
        make()
    except FrameError:
        return False
    return True


@given(EDGES, EDGES)
def test_an_insert_is_made_exactly_when_its_lifetime_is_one(vs: int, ve: int) -> None:
    assert _made(lambda: Insert(("A",), vs, ve)) == (BEGIN < vs < ve <= INF)


@given(EDGES, EDGES, EDGES)
def test_an_adjust_is_made_exactly_when_both_its_lifetimes_are(vs: int, was: int, ve: int) -> None:
    wanted = BEGIN < vs < INF and vs < was <= INF and vs <= ve <= INF
    assert _made(lambda: Adjust(("A",), vs, was, ve)) == wanted


@given(EDGES)
def test_a_stable_is_a_time_after_the_smallest(t: int) -> None:
    assert _made(lambda: Stable(t)) == (BEGIN < t <= INF)


def test_errors_name_the_value() -> None:
    with pytest.raises(FrameError, match="vs 6 and ve 6"):
        Insert(("A",), 6, 6)
    with pytest.raises(FrameError, match="vs 6 and was 5"):
        Adjust(("A",), 6, 5, 7)
    with pytest.raises(FrameError, match="vs is inf"):
        Insert(("A",), INF, INF)
    with pytest.raises(FrameError, match=r"stable\(-9223372036854775808\)"):
        check_stable(BEGIN)


def test_elements_are_equal_by_content_and_cannot_change() -> None:
    assert Insert(("A",), 6, 20) == Insert(("A",), 6, 20)
    assert len({Stable(1), Stable(1), Stable(2)}) == 2
    with pytest.raises(AttributeError):
        Stable(1).t = 2  # type: ignore[misc]  # what the test is about


def test_times_print_as_the_text_notation_writes_them() -> None:
    assert [format_time(t) for t in (BEGIN, -7, INF)] == ["begin", "-7", "inf"]


@pytest.mark.parametrize("t", [1.5, 2.0, None, "7"])
def test_a_time_is_an_integer_however_close_something_else_comes(t: Any) -> None:
    for make in (
        lambda: Insert(("A",), t, 9),
        lambda: Insert(("A",), 1, t),
        lambda: Adjust(("A",), 1, t, 9),
        lambda: Adjust(("A",), 1, 9, t),
        lambda: Stable(t),
    ):
        with pytest.raises(FrameError, match="a time is an integer"):
            make()
