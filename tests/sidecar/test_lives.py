"""Incarnations on the wire and lives in the machines are the same order under two names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.failover.messages import Life
from gapless.protocol.envelope import Incarnation
from gapless.sidecar.definition import NAME_CHARS_MAX
from gapless.sidecar.lives import INCARNATION_MAX, incarnation_of, life_after, life_of
from gapless.sidecar.server.refusals import Refusal

INCARNATIONS = st.integers(0, INCARNATION_MAX)


@given(INCARNATIONS)
def test_an_incarnation_comes_back_from_its_life(incarnation: int) -> None:
    assert incarnation_of(life_of("a", incarnation)) == incarnation


@given(INCARNATIONS, INCARNATIONS)
def test_the_larger_incarnation_is_the_later_life(one: int, other: int) -> None:
    assert (one < other) == (life_of("a", one) < life_of("a", other))


@given(INCARNATIONS)
def test_nothing_lies_between_a_life_and_the_one_after_it(incarnation: int) -> None:
    life = life_of("a", incarnation)
    assert life_after(life) > life
    assert incarnation_of(life_after(life)) == incarnation + 1


def test_the_life_after_the_last_counter_is_of_the_next_term() -> None:
    last = Life("a", Incarnation(3, (1 << 32) - 1))
    assert life_after(last) == Life("a", Incarnation(4, 0))


def test_also_the_largest_incarnation_has_a_life_after_it_that_64_bits_hold() -> None:
    assert incarnation_of(life_after(life_of("a", INCARNATION_MAX))) == (1 << 64) - 1


@pytest.mark.parametrize("incarnation", [-1, INCARNATION_MAX + 1])
def test_an_incarnation_out_of_range_is_refused(incarnation: int) -> None:
    with pytest.raises(Refusal, match=str(INCARNATION_MAX)) as refused:
        life_of("a", incarnation)
    assert refused.value.code == "INVALID_ARGUMENT"


@pytest.mark.parametrize("name", ["", "a/b", "a b", "x" * (NAME_CHARS_MAX + 1)])
def test_a_producer_whose_name_is_not_one_is_refused(name: str) -> None:
    with pytest.raises(Refusal, match="a name has letters"):
        life_of(name, 1)
