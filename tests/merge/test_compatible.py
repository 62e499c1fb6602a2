"""The paper's own example of section III-B, and each condition broken on its own."""

from collections.abc import Sequence

import pytest

from gapless.merge.compatible import Incompatible, check_compatible, compatible
from gapless.protocol.elements import BEGIN
from gapless.protocol.frame import frames_of
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import DEFAULT_SCHEMA, parse


def table(text: str) -> Tdb:
    tdb = Tdb(DEFAULT_SCHEMA)
    for frame in frames_of(DEFAULT_SCHEMA, parse(text)):
        tdb.fold(frame)
    return tdb


I1 = table("ins(A,2,16) ins(B,3,10) ins(C,4,18) ins(D,15,20) stable(14)")
I2 = table("ins(A,2,12) ins(B,3,10) ins(C,4,18) ins(E,17,21) stable(11)")


def rules(output: str, *inputs: Tdb) -> set[str]:
    return {breach.rule for breach in compatible(inputs or (I1, I2), table(output))}


def test_o1_the_conservative_output_is_compatible() -> None:
    assert rules("ins(A,2,inf) ins(B,3,10) ins(C,4,inf) stable(11)") == set()


def test_o2_the_aggressive_output_is_compatible() -> None:
    o2 = "ins(A,2,16) ins(B,3,10) ins(C,4,18) ins(D,15,20) ins(E,17,21) stable(14)"
    assert rules(o2) == set()


def test_o3_is_incompatible_for_the_two_reasons_of_the_paper() -> None:
    breaches = compatible([I1, I2], table("ins(A,2,12) ins(C,4,18) stable(13)"))
    assert [b for b in breaches if b.rule == "C2" and "<A, [2,12)>" in b.why]
    assert [b for b in breaches if b.rule == "C3.1" and "<B, [3,10)>" in b.why]


def test_c1_an_output_is_no_more_stable_than_its_inputs() -> None:
    assert "C1" in rules("ins(A,2,16) ins(B,3,10) ins(C,4,18) stable(15)")


def test_c2_a_key_stands_there_once() -> None:
    assert "C2" in rules("ins(D,15,20) ins(D,15,21)")
    assert "C2" in rules("ins(D,15,20) ins(D,15,20)")


def test_c2_unfrozen_events_need_no_support() -> None:
    assert rules("ins(Z,20,30)") == set()


def test_c2_as_printed_would_accept_an_output_that_cannot_follow() -> None:
    """With `L_m <= L`, an input at 11 would vouch for an end that the output, at 13, can no
    longer take back to 12; with `L <= L_m` it cannot."""
    only = table("ins(A,2,12) stable(11)")
    ahead = table("stable(13)")  # keeps C1 out of it
    assert "C2" in rules("ins(A,2,20) stable(13)", only, ahead)


def test_c3_a_settled_event_that_the_output_cannot_reach_any_more() -> None:
    settled = table("ins(B,3,10) stable(14)")
    assert "C3.1" in rules("stable(12)", settled)
    assert rules("stable(3)", settled) == set()
    assert rules("ins(B,3,12) stable(10)", settled) == set()
    assert "C3.1" in rules("ins(B,3,9) stable(10)", settled, table("ins(B,3,9) stable(10)"))


def test_c3_an_event_that_is_there_for_good_must_be_half_frozen_in_the_output() -> None:
    half = table("ins(A,2,16) stable(14)")
    assert "C3.2" in rules("stable(12)", half)
    assert rules("ins(A,2,99) stable(12)", half) == set()
    assert rules("stable(2)", half) == set()


def test_the_end_of_the_stream_freezes_open_ends() -> None:
    ended = table("ins(A,2,inf) stable(inf)")
    assert rules("ins(A,2,inf) stable(inf)", ended) == set()
    assert "C3.1" in rules("ins(A,2,9) stable(inf)", ended)


def test_the_error_lists_every_breach() -> None:
    with pytest.raises(Incompatible, match=r"C1: .*\n(.*\n)*C3\.1: (.*\n)*the rules are explained"):
        check_compatible([I1, I2], table("stable(20)"))


@pytest.mark.parametrize(
    ("output", "inputs", "told"),
    [
        (
            "ins(A,2,20) stable(13)",
            ["ins(A,2,12) stable(11)", "stable(13)"],
            (
                "C2: <A, [2,20)> is half frozen in the output at 13, so it is there for good, and "
                "no input vouches for that: they have <A, [2,12)>, half frozen at 11"
            ),
        ),
        (
            "ins(A,2,5) stable(6)",
            ["stable(6)"],
            (
                "C2: <A, [2,5)> is fully frozen in the output at 6, and no input has just that "
                "fully frozen: they have no such event that is frozen"
            ),
        ),
        (
            "stable(28)",
            ["ins(A,2,5) stable(28)"],
            (
                "C3.1: <A, [2,5)> is fully frozen in an input, and the output, stable at 28, must "
                "have just that: it has no such event"
            ),
        ),
        (
            "ins(A,2,5) stable(6)",
            ["ins(A,2,8) stable(9)"],
            (
                "C3.1: <A, [2,8)> is fully frozen in an input, and the output, stable at 6, can "
                "only reach it from a half frozen event: it has <A, [2,5)>, fully frozen"
            ),
        ),
        (
            "ins(A,100,110) stable(330)",
            ["ins(A,100,110) stable(110)", "stable(330)"],
            (
                "C3.2: <A, [100,110)> is half frozen in an input at 110: it is there for good, and "
                "its end may still move; the output, stable at 330, has <A, [100,110)>, fully "
                "frozen: its end can no longer move"
            ),
        ),
        (
            "ins(A,2,20) stable(13)",
            ["ins(A,2,12) stable(11)", "stable(13)"],
            (
                "C3.2: <A, [2,12)> is half frozen in an input at 11: it is there for good, and its "
                "end may still move; the output, stable at 13, has <A, [2,20)>, half frozen: it "
                "can no longer follow an end below 13"
            ),
        ),
    ],
)
def test_a_breach_says_what_is_wanted_and_what_is_there(
    output: str, inputs: list[str], told: str
) -> None:
    assert told in [str(b) for b in compatible([table(i) for i in inputs], table(output))]


# -- without a key ----------------------------------------------------------------------------

TWICE = table("ins(A,2,6) ins(A,2,6) ins(A,2,20) ins(B,3,30) ins(D,15,20) stable(14)")
"""At 14: <A, [2,6)> is fully frozen twice, A from 2 and B from 3 are half frozen once each."""


def rules_r4(output: str, *inputs: Tdb, join_at: Sequence[int] | None = None) -> set[str]:
    breaches = compatible(inputs or (TWICE,), table(output), key=False, join_at=join_at)
    return {breach.rule for breach in breaches}


def test_r4_an_output_that_follows_is_compatible_whatever_the_ends_that_may_still_move() -> None:
    assert rules_r4("ins(A,2,6) ins(A,2,6) ins(A,2,99) ins(B,3,14) stable(14)") == set()


def test_r4_unfrozen_events_are_free() -> None:
    output = "ins(A,2,6) ins(A,2,6) ins(A,2,99) ins(B,3,14) ins(Z,14,15) ins(Z,14,15) stable(14)"
    assert rules_r4(output) == set()
    assert rules_r4("ins(Z,1,2) ins(Z,1,2)") == set(), "nothing is frozen before the first stable"


@pytest.mark.parametrize(
    "output",
    [
        "ins(A,2,6) ins(A,2,99) ins(B,3,14) stable(14)",  # once too few
        "ins(A,2,6) ins(A,2,6) ins(A,2,6) ins(A,2,99) ins(B,3,14) stable(14)",  # once too often
        "ins(A,2,6) ins(A,2,7) ins(A,2,99) ins(B,3,14) stable(14)",  # another end
    ],
)
def test_r4_the_fully_frozen_events_are_those_of_the_input_each_as_often(output: str) -> None:
    assert rules_r4(output) == {"R4"}


@pytest.mark.parametrize(
    "output",
    [
        "ins(A,2,6) ins(A,2,6) ins(A,2,99) stable(14)",  # no B
        "ins(A,2,6) ins(A,2,6) ins(A,2,99) ins(B,3,14) ins(B,3,15) stable(14)",  # two
        "ins(A,2,6) ins(A,2,6) ins(A,2,99) ins(B,4,14) stable(14)",  # from another start
    ],
)
def test_r4_of_each_key_as_many_are_half_frozen_as_in_the_input(output: str) -> None:
    assert rules_r4(output) == {"R4"}


def test_r4_an_output_that_lags_is_measured_at_its_own_stable() -> None:
    assert rules_r4("ins(A,2,6) ins(A,2,8) ins(A,2,9) stable(3)") == set()
    assert rules_r4("ins(A,2,6) ins(A,2,8) stable(3)") == {"R4"}


def test_r4_an_output_is_no_more_stable_than_an_input_that_knows_the_time() -> None:
    output = "ins(A,2,6) ins(A,2,6) ins(A,2,99) ins(B,3,14) stable(14)"
    assert rules_r4("ins(A,2,6) stable(15)") == {"C1", "R4"}
    assert rules_r4(output, TWICE, table("stable(20)"), join_at=[BEGIN, 15]) == set()
    assert rules_r4(output, table("stable(20)"), join_at=[15]) == {"R4"}, "nobody knows 14"


def test_r4_takes_the_input_that_promises_most() -> None:
    behind, ahead = table("ins(A,2,9) stable(14)"), table("ins(A,2,9) ins(A,2,9) stable(15)")
    assert rules_r4("ins(A,2,9) ins(A,2,9) stable(12)", behind, ahead) == set()
    assert rules_r4("ins(A,2,9) stable(12)", behind, ahead) == {"R4"}


def test_r4_of_an_input_that_joined_late_only_later_ends_count() -> None:
    joined = table("ins(A,2,20) ins(B,3,30) stable(14)")
    output = "ins(A,2,6) ins(A,2,6) ins(A,2,99) ins(B,3,14) stable(14)"
    assert rules_r4(output, joined, join_at=[8]) == set()
    assert rules_r4(output, joined) == {"R4"}


def test_r4_the_end_of_the_stream_freezes_open_ends() -> None:
    ended = table("ins(A,2,inf) ins(A,2,inf) stable(inf)")
    assert rules_r4("ins(A,2,inf) ins(A,2,inf) stable(inf)", ended) == set()
    assert rules_r4("ins(A,2,inf) ins(A,2,9) stable(inf)", ended) == {"R4"}


def test_r4_says_how_often_an_event_is_there_and_how_often_it_should_be() -> None:
    output = table("ins(A,2,6) ins(A,2,99) stable(14)")
    assert [str(b) for b in compatible([TWICE], output, key=False)] == [
        (
            "R4: <A, [2,6)> is fully frozen at 14: 2 times in the input that the output must "
            "follow, once in the output"
        ),
        (
            "R4: an event B from 3 is half frozen at 14: once in the input that the output must "
            "follow, never in the output"
        ),
    ]
