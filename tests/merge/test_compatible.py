"""The paper's own example of section III-B, and each condition broken on its own."""

import pytest

from gapless.merge.compatible import Incompatible, check_compatible, compatible
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
    with pytest.raises(Incompatible, match=r"C1: .*\n(.*\n)*C3\.1: "):
        check_compatible([I1, I2], table("stable(20)"))
