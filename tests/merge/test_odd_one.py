"""The one that is alone against others that agree is seen while all versions are there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gapless.merge import r3, r4
from gapless.merge.choose import CaseName
from gapless.merge.divergence import NEWEST_MAX, NOBODY, odd_ones
from gapless.merge.lmerge import LMerge
from gapless.protocol.text import DEFAULT_SCHEMA
from tests.merge.helpers import say

Odd = Callable[..., np.ndarray]


def slow_odd_ones(numbers: list[int], said: np.ndarray, has_told: np.ndarray) -> list[int]:
    """The twin: from the words."""
    found = []
    for key in range(said.shape[1]):
        told = {n: int(said[i, key]) for i, n in enumerate(numbers) if has_told[i, key]}
        odd = NOBODY
        for n, version in told.items():
            others = [v for m, v in told.items() if m != n]
            if len(others) >= 2 and len(set(others)) == 1 and others[0] != version:
                odd = n
        found.append(odd)
    return found


def test_differential_the_odd_one_is_who_the_words_say() -> None:
    rng = np.random.default_rng(7)
    seen = set()
    for inputs in range(1, 6):
        numbers = sorted(rng.choice(50, inputs, replace=False).tolist())
        said = rng.integers(0, 3, (inputs, 400))
        has_told = rng.random((inputs, 400)) < 0.8
        fast = odd_ones(numbers, said, has_told).tolist()
        assert fast == slow_odd_ones(numbers, said, has_told)
        seen |= {odd == NOBODY for odd in fast}
    assert seen == {True, False}


def three(case: CaseName = "r3") -> tuple[LMerge, list[int]]:
    merge = LMerge(DEFAULT_SCHEMA, case)
    return merge, [merge.attach() for _ in range(3)]


def check_the_odd_one_is_named_though_it_leads() -> None:
    merge, (a, b, c) = three()
    for number, end in ((b, 5), (c, 5), (a, 7)):
        say(merge, number, f"ins(A,1,{end})")
    say(merge, a, "stable(9)")  # the output follows a
    say(merge, b, "stable(9)")
    assert merge.divergences.by_input == {b: 1}
    assert merge.divergences.outvoted == {a: 1}
    (sample,) = merge.divergences.newest
    assert (sample.input, sample.odd, sample.input_ve, sample.output_ve) == (b, a, 5, 7)


def test_the_odd_one_is_named_though_the_output_follows_it() -> None:
    check_the_odd_one_is_named_though_it_leads()


def test_whoever_takes_the_one_that_disagrees_for_the_odd_one_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def blames_others(numbers: list[int], said: np.ndarray, _: np.ndarray) -> np.ndarray:
        return np.full(said.shape[1], numbers[1])

    monkeypatch.setattr(r3, "odd_ones", blames_others)
    with pytest.raises(AssertionError):
        check_the_odd_one_is_named_though_it_leads()


def test_one_against_one_is_nobodys_fault_while_the_third_is_slow() -> None:
    merge, (a, b, _) = three()
    say(merge, b, "ins(A,1,5)")
    say(merge, a, "ins(A,1,7) stable(9)")
    say(merge, b, "stable(9)")
    assert merge.divergences.by_input == {b: 1}
    assert not merge.divergences.outvoted


def test_an_acting_input_that_asks_too_late_is_the_odd_one_where_others_agree() -> None:
    for case in ("r3", "r4"):
        merge, (a, b, c) = three(case)
        for number in (a, b):
            say(merge, number, "ins(A,1,20) stable(9)")
        say(merge, c, "ins(B,11,20) stable(12)")  # says that there is no such event
        assert merge.divergences.outvoted == {c: 1}, case
        assert merge.divergences.by_input == {c: 1}, case


def test_the_case_r4_looks_at_how_often_each_has_told_an_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(r4, "odd_ones", lambda numbers, said, _: np.full(said.shape[1], numbers[0]))
    with pytest.raises(AssertionError):
        test_an_acting_input_that_asks_too_late_is_the_odd_one_where_others_agree()


def test_what_an_input_did_goes_with_it_and_the_sum_stays() -> None:
    merge, (a, b, c) = three()
    for number, end in ((b, 5), (c, 7), (a, 7)):
        say(merge, number, f"ins(A,1,{end})")
    say(merge, a, "stable(9)")
    say(merge, b, "stable(9)")
    assert merge.divergences.by_input == merge.divergences.outvoted == {b: 1}
    merge.detach(b)
    assert not merge.divergences.by_input
    assert not merge.divergences.outvoted
    assert merge.divergences.count == 1


def test_the_newest_are_kept_as_well_as_the_first() -> None:
    merge, (a, b, _) = three()
    many = [f"k{i:02}" for i in range(40)]
    say(merge, b, " ".join(f"ins({k},1,7)" for k in many))
    say(merge, a, "stable(9)")
    say(merge, b, "stable(8)")
    say(merge, b, "ins(late,10,20)")
    say(merge, a, "stable(30)")
    say(merge, b, "stable(30)")
    newest = merge.divergences.newest
    assert len(newest) == NEWEST_MAX
    assert newest[-1].payload == ("late",)
    assert merge.divergences.samples[0].payload != ("late",)


def test_who_led_is_counted() -> None:
    merge, (a, b, _) = three()
    say(merge, a, "stable(5)")
    say(merge, a, "stable(9)")
    say(merge, b, "stable(9)")
    assert (merge.led(a), merge.led(b)) == (2, 0)
