import pytest

from gapless.chaos.judge.history import Emitted, Recovered, Verdict
from gapless.chaos.sim.checkers.final import Final
from gapless.chaos.sim.checkers.stable import StableNeverGoesBack
from gapless.chaos.sim.checkers.wanted import Tables
from tests.chaos.sim.checkers.small import (
    catches,
    durable,
    emitted,
    frame,
    hear,
    life,
    resumed,
    table,
    world,
)

TABLE = "ins(A,1,5) ins(B,3,9) ins(C,7,inf)"
BEGINS = resumed(deliver="final")
A, B, C = (
    emitted("ins(A,1,5) stable(6)", 1),
    emitted("ins(B,3,9) stable(20)", 2),
    emitted("ins(C,7,inf) stable(inf)", 3),
)


def final(*, insert_only: bool = False, one_shard: bool = True) -> Final:
    return Final(Tables(world(TABLE)), insert_only=insert_only, one_shard=one_shard)


def test_each_event_once_when_it_can_change_no_more_passes() -> None:
    checker = final()
    again = resumed(1, deliver="final")
    hear(checker, BEGINS, A, again, B, again, B, C, resumed(3, deliver="final"))
    assert checker.verdict(world(TABLE)) is Verdict.HOLDS


def test_a_program_that_is_not_at_its_end_is_unknown() -> None:
    checker = final()
    hear(checker, BEGINS, A)
    assert checker.verdict(world(TABLE)) is Verdict.UNKNOWN
    assert final().verdict(world(TABLE)) is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ([A, B, B], "<B, .3,9.> is given again"),
        ([A, resumed(1, deliver="final"), A], "<A, .1,5.> is given again"),
        ([A, resumed(1, deliver="final"), C], "<B, .3,9.> was not given"),
        ([A, C], "<B, .3,9.> was not given"),
        ([emitted("ins(A,1,4) stable(6)")], "<A, .1,4.> is given and is not an event"),
        ([emitted("ins(A,1,5) ins(B,3,9) stable(6)")], "<B, .3,9.> is given before"),
        ([emitted("ins(A,1,5)")], "before it is settled"),
        ([A, emitted("adj(A,1,5,6)")], "an adjust"),
        ([A, emitted("stable(9)", since=6)], "a reset"),
    ],
)
def test_an_event_twice_or_never_or_too_early_is_caught(facts: list[Emitted], problem: str) -> None:
    with catches(problem):
        hear(final(), BEGINS, *facts)


def test_a_plan_that_never_adjusts_settles_an_event_at_its_start() -> None:
    hear(final(insert_only=True), BEGINS, emitted("ins(A,1,5) ins(B,3,9) stable(4)"))
    with catches("<B, .3,9.> was not given"):
        hear(final(insert_only=True), BEGINS, emitted("ins(A,1,5) stable(4)"))


def test_a_program_is_owed_nothing_from_before_it_began() -> None:
    hear(final(), resumed(deliver="final", since=6), B, C)
    hear(final(), resumed(deliver="final", since=None), emitted("stable(7)"), B, C)
    with catches("<A, .1,5.> was not given"):
        hear(final(), resumed(deliver="final", since=5), B)


def test_each_shard_settles_its_own() -> None:
    hear(final(one_shard=False), BEGINS, emitted("ins(A,1,5)"), emitted("ins(B,3,9) stable(6)"))


def test_after_a_cutover_it_is_the_other_table() -> None:
    small = world(TABLE)
    checker = Final(Tables(small), insert_only=False, one_shard=True)
    hear(checker, BEGINS, A)
    small.expected = table("ins(A,1,5) ins(D,8,10)")
    hear(checker, emitted("ins(D,8,10) stable(inf)", 2))
    with catches("given and is not an event"):
        hear(checker, C)


# -- stables ----------------------------------------------------------------------------------


def stables(*facts: object) -> Verdict:
    checker = StableNeverGoesBack()
    hear(checker, *facts)  # type: ignore[arg-type]  # helpers give any fact
    return checker.verdict(world(""))


def test_stables_that_only_grow_pass() -> None:
    new = life("m0.0", 2)
    facts = durable("stable(2)", "ins(A,3,4)", "stable(5)")
    assert stables(*facts, Recovered(new, 2, 1, frame("stable(5)"))) is Verdict.HOLDS
    assert stables(emitted("stable(3)", 1), emitted("stable(3)", 2)) is Verdict.HOLDS


def test_a_single_stable_is_unknown() -> None:
    assert stables(*durable("stable(2)")) is Verdict.UNKNOWN


def test_a_journal_whose_stable_goes_back_is_caught_over_lives() -> None:
    with catches("journal of m0.0 went from 5 back to 3"):
        stables(*durable("stable(5)", "stable(3)"))
    with catches("from 5 back to 4"):
        stables(*durable("stable(5)"), Recovered(life("m0.0", 2), 2, 0, frame("stable(4)")))
    stables(*durable("stable(5)"), *durable("stable(3)", merger=life("m0.1")))


def test_a_programs_stable_goes_back_only_to_what_it_kept() -> None:
    handed = [resumed(), emitted("stable(3)", 1), emitted("stable(8)", 2)]
    assert stables(*handed, resumed(1), emitted("stable(5)", 3)) is Verdict.HOLDS
    with catches("what s was promised went from 8 back to 5"):
        stables(*handed, resumed(2), emitted("stable(5)", 3))
    with catches("from 3 back to 2"):
        stables(*handed, resumed(1), emitted("stable(2)", 3, since=2))
