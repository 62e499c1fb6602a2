"""When events happen: never backwards, never in a lull, as often as the rate says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gapless.journal.generate.pace import Pace
from gapless.protocol.errors import Misuse


def paces(factor: st.SearchStrategy[int]) -> st.SearchStrategy[Pace]:
    def make(seed: int, rate: int, period: int, share: float, factor: int) -> Pace | None:
        try:
            return Pace(seed, rate, period, int(period * share), factor, "stretch")
        except Misuse:
            return None

    made = st.builds(
        make,
        st.integers(0, 2**63 - 1),
        st.integers(1, 100_000),
        st.integers(2, 100_000),
        st.floats(0, 0.99),
        factor,
    )
    return made.filter(lambda pace: pace is not None)  # type: ignore[return-value]  # just filtered


FROM = st.integers(0, 10**12 - 4_000)


@given(paces(st.integers(0, 50)), FROM)
def test_time_never_falls(pace: Pace, first: int) -> None:
    times = pace.time_of(np.arange(first, first + 3_000))
    assert (np.diff(times) >= 0).all()


@given(paces(st.just(0)), FROM)
def test_no_event_is_in_a_lull(pace: Pace, first: int) -> None:
    times = pace.time_of(np.arange(first, first + 3_000))
    assert not pace.in_stretch(times).any()


@given(paces(st.integers(2, 50)), FROM)
def test_a_stretch_has_the_rows_that_its_factor_asks_for(pace: Pace, first: int) -> None:
    rows = np.arange(first, first + 10_000)
    times = pace.time_of(rows)
    periods = times // pace.period_ms
    inner = np.unique(periods)[1:-1]  # those that the rows have whole
    assume(len(inner) > 0)
    inside = pace.in_stretch(times)
    wanted = pace.rate * pace.factor * pace.stretch_ms / 1000
    counts = np.bincount(periods[inside] - periods[0], minlength=int(inner[-1] - periods[0]) + 1)
    off = np.abs(counts[inner - periods[0]] - wanted)
    assert off.max() <= 1 + pace.rate / 1000, "except for rows of its very first millisecond"


def test_times_that_ignore_the_lull_are_caught() -> None:
    pace = Pace(1, 1_000, 10_000, 2_000, 0, "lull")
    steady = np.arange(20_000)
    assert pace.in_stretch(steady).sum() == 4_000


def test_a_stretch_begins_elsewhere_in_each_period_and_for_each_seed() -> None:
    periods = np.arange(1_000)
    begins = Pace(1, 100, 10_000, 1_000, 0, "lull").begins(periods)
    assert begins.min() >= 0
    assert begins.max() <= 9_000
    assert abs(begins.mean() - 4_500) < 300
    neighbour = Pace(2, 100, 10_000, 1_000, 0, "lull").begins(periods)
    assert (begins == neighbour).sum() < 5
    assert (begins[1:] == neighbour[:-1]).sum() < 5


@pytest.mark.parametrize(
    ("pace", "words"),
    [
        ((0, 10, 0, 0, 0), "lull every 0: it is from 2"),
        ((0, 10, 100, 100, 0), "lull, inside 100 ms, 100: it is from 0 to 99 ms"),
        ((0, 10, 100, 10, 0), "no event happens in so much time"),
        ((0, 10, 100, 10, 99_999), "factor 99999: it is from 0 to 10000"),
        ((0, 10**9, 100, 10, 2), "rate in a lull 2000000000: it is from"),
    ],
)
def test_a_pace_that_cannot_be_is_refused(pace: tuple[int, int, int, int, int], words: str) -> None:
    with pytest.raises(Misuse, match=words):
        Pace(*pace, "lull")
