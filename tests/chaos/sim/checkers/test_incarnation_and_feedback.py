from collections.abc import Sequence

import pytest

from gapless.chaos.judge.history import (
    Assigned,
    Fact,
    Forwarded,
    Joined,
    Obeyed,
    Recovered,
    Started,
    TailTrimmed,
    ToldLate,
    TookIn,
    Verdict,
)
from gapless.chaos.sim.checkers.feedback import FeedbackSkipsNothing
from gapless.chaos.sim.checkers.incarnation import OneIncarnationActs
from gapless.chaos.sim.checkers.inputs import CompatibleWithInputs
from gapless.failover.messages import Life
from gapless.protocol.elements import BEGIN
from gapless.protocol.text import DEFAULT_SCHEMA
from tests.chaos.sim.checkers.small import catches, durable, frame, hear, life, session, world

M1, M2, R1, R2 = life("m0.0"), life("m0.0", 2), life("r0.0"), life("r0.0", 2)


def took_in(merger: Life, replica: Life, text: str = "", sequence: int = 0) -> TookIn:
    return TookIn(merger, session(replica), sequence, BEGIN, frame(text))


def fence(merger: Life, first: Life, term: int = 1) -> Obeyed:
    return Obeyed(merger, term, "Fence", first)


def test_lives_that_follow_each_other_pass() -> None:
    checker = OneIncarnationActs()
    hear(
        checker,
        *(Started(x, "n1") for x in (M1, R1, R2, M2)),
        took_in(M1, R1),
        fence(M1, R2),
        took_in(M1, R2),
        took_in(M2, R1),  # another life of the merger, which has heard of no fence
        *durable("stable(2)", merger=M1),
        Recovered(M2, 2, 0, frame("stable(2)")),
        *durable("stable(3)", merger=M2, epoch=2),
        Obeyed(M2, 1, "Drain"),
        Obeyed(M2, 2, "Retire"),
        Obeyed(M1, 1, "Retire"),
    )
    assert checker.verdict(world("")) is Verdict.HOLDS


def test_one_life_a_slot_is_unknown() -> None:
    checker = OneIncarnationActs()
    hear(checker, Started(M1, "n1"), Started(R1, "n1"))
    assert checker.verdict(world("")) is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ([Started(R1, "n1"), Started(R1, "n2")], "started again"),
        ([fence(M1, R2), took_in(M1, R1)], "takes in r0.0"),
        ([fence(M1, R2), fence(M1, R1), took_in(M1, R1)], "takes in r0.0"),
        ([Obeyed(R1, 2, "Assign"), Obeyed(R1, 1, "Drain")], "Drain of term 1, after one of term 2"),
        (
            [*durable("stable(2)", merger=M2, epoch=2), *durable("stable(3)", merger=M1)],
            "in epoch 1, and epoch 2 has begun",
        ),
        (
            [Recovered(M2, 2, 0, frame("")), *durable("stable(3)", merger=M1)],
            "in epoch 1, and epoch 2 has begun",
        ),
        (
            [Recovered(M2, 2, 1, frame("stable(9)")), ToldLate(M1, 1, 1, frame("ins(A,1,7)"))],
            "in epoch 1, and epoch 2 has begun",
        ),
        (
            [Recovered(M2, 2, 1, frame("stable(2)")), ToldLate(M1, 1, 1, frame("stable(3)"))],
            "in epoch 1, and epoch 2 has begun",
        ),
    ],
)
def test_two_that_act_at_once_are_caught(facts: Sequence[Fact], problem: str) -> None:
    with catches(problem):
        hear(OneIncarnationActs(), *facts)


def test_one_that_is_told_late_of_what_lies_before_the_cut_passes() -> None:
    cut = Recovered(M2, 2, 1, frame("ins(A,1,7) stable(3)"))
    told = ToldLate(M1, 1, 0, frame("ins(A,1,7) stable(3)"))
    hear(OneIncarnationActs(), Recovered(M1, 1, 0, frame("")), cut, told)


# -- feedback ---------------------------------------------------------------------------------

BOTH = Assigned(R1, ("m0.0", "m0.1"))
SETTLED = [
    *durable("stable(9)", merger=life("m0.0")),
    *durable("stable(6)", merger=life("m0.1")),
]


def test_what_all_mergers_have_settled_may_be_skipped() -> None:
    checker = FeedbackSkipsNothing()
    hear(checker, BOTH, *SETTLED, Forwarded(R1, 6), TailTrimmed(R1, 6))
    assert checker.verdict(world("")) is Verdict.HOLDS
    alone = Assigned(R1, ("m0.0",))
    hear(FeedbackSkipsNothing(), alone, *SETTLED, TailTrimmed(R1, 9))
    back = Recovered(life("m0.1", 2), 2, 0, frame("stable(8)"))
    hear(FeedbackSkipsNothing(), BOTH, *SETTLED, back, TailTrimmed(R1, 8))


def test_nothing_skipped_is_unknown() -> None:
    checker = FeedbackSkipsNothing()
    hear(checker, BOTH, *SETTLED)
    assert checker.verdict(world("")) is Verdict.UNKNOWN


def test_what_a_replica_never_had_it_need_not_keep() -> None:
    hear(FeedbackSkipsNothing(), Assigned(R1, ("m0.0",)), Joined(R1, 7), TailTrimmed(R1, 7))


@pytest.mark.parametrize("skip", [Forwarded(R1, 7), TailTrimmed(R1, 7)])
def test_skipping_by_the_fastest_merger_is_caught(skip: Fact) -> None:
    with catches("and m0.1 is durable up to 6"):
        hear(FeedbackSkipsNothing(), BOTH, *SETTLED, skip)
    with catches("and m0.1 is durable up to begin"):
        hear(FeedbackSkipsNothing(), BOTH, *SETTLED[:1], skip)
    with catches("and m0.1 is durable up to 6"):
        hear(FeedbackSkipsNothing(), Joined(R1, 5), Assigned(R1, ("m0.1",)), *SETTLED, skip)


# -- the slow mode ----------------------------------------------------------------------------


def slow(*facts: Fact) -> Verdict:
    checker = CompatibleWithInputs(DEFAULT_SCHEMA, key=True)
    hear(checker, *facts)
    return checker.verdict(world(""))


def test_output_that_its_inputs_vouch_for_passes() -> None:
    said = [took_in(M1, R1, "ins(A,1,5)"), took_in(M1, R1, "stable(3)", 1)]
    assert slow(*said, *durable("ins(A,1,7) stable(3)")) is Verdict.HOLDS
    assert slow(*said) is Verdict.UNKNOWN
    recovered = Recovered(M2, 2, 1, frame("ins(A,1,7) stable(3)"))
    later: list[Fact] = [
        took_in(M2, R2, "ins(A,1,5) stable(9)"),
        *durable("adj(A,1,7,5) stable(8)"),
    ]
    assert slow(*said, recovered, *later) is Verdict.HOLDS


def test_output_that_no_input_vouches_for_is_caught() -> None:
    said = [took_in(M1, R1, "ins(A,1,5) stable(3)")]
    with catches("C2"):
        slow(*said, *durable("ins(A,1,5) ins(X,2,5) stable(3)"))
    with catches("C1"):
        slow(*said, *durable("ins(A,1,5) stable(4)"))
    with catches("an adjust changes an event that is there"):
        slow(*said, *durable("adj(A,1,5,9)"))
    with catches("says to"):
        slow(*said, took_in(M1, R1, "stable(2)", 1))
