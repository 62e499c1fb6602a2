"""How long to wait for the next word, learned from the gaps between those that came."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from gapless.failover.supervisor.patience import Patience

LEAST_MS, MOST_MS = 900, 15_000
GAPS = st.lists(st.integers(1, 20_000), max_size=60)


def learned(gaps: Iterable[int]) -> Patience:
    patience = Patience()
    for gap in gaps:
        patience.heard(gap)
    return patience


@given(GAPS)
def test_a_wait_is_never_shorter_or_longer_than_its_bounds(gaps: list[int]) -> None:
    assert LEAST_MS <= learned(gaps).wait_ms(LEAST_MS, MOST_MS) <= MOST_MS


@given(st.integers(1, 800), st.integers(1, 200))
def test_a_steady_life_is_waited_for_no_longer_than_the_least(gap: int, count: int) -> None:
    assert learned([gap] * count).wait_ms(LEAST_MS, MOST_MS) == LEAST_MS


def test_before_anything_was_heard_the_least_is_waited() -> None:
    assert Patience().wait_ms(LEAST_MS, MOST_MS) == LEAST_MS
    assert Patience().mean_ms == 0


def test_gaps_that_grow_are_believed_within_a_few_words() -> None:
    steady = learned([100] * 20)
    for gap in (600, 900, 700):
        steady.heard(gap)
    assert steady.wait_ms(LEAST_MS, MOST_MS) > 1_500


def test_gaps_that_go_up_and_down_are_waited_for_longer_than_their_mean() -> None:
    assert learned([100, 1_000] * 20).wait_ms(LEAST_MS, MOST_MS) > 2_000


def test_one_late_word_is_forgotten_within_two_dozen() -> None:
    patience = learned([100] * 20)
    patience.heard(3_000)
    assert patience.wait_ms(LEAST_MS, MOST_MS) > LEAST_MS
    for _ in range(24):
        patience.heard(100)
    assert patience.wait_ms(LEAST_MS, MOST_MS) == LEAST_MS


def test_the_mean_follows_a_lasting_change() -> None:
    assert learned([100] * 20 + [1_000] * 60).mean_ms >= 950
