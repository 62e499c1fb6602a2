from gapless.chaos.judge.history import Ended, Obeyed, Started, TookIn, Verdict
from gapless.chaos.sim.checkers.redundancy import NobodyGoesTooSoon
from gapless.failover.messages import Life
from gapless.protocol.elements import BEGIN
from tests.chaos.sim.checkers.small import catches, frame, hear, life, session, world

M, OLD, NEW, LATER = life("m0.0"), life("r0.0", 2), life("r0.0", 3), life("r0.0", 4)
BOTH = (Started(OLD, "n1"), Started(NEW, "n2"))


def took_in(replica: Life) -> TookIn:
    return TookIn(M, session(replica), 0, BEGIN, frame(""))


def fence(first: Life) -> Obeyed:
    return Obeyed(M, 1, "Fence", first)


def test_a_fence_by_who_feeds_a_merger_passes_and_so_does_one_before_a_later_life() -> None:
    checker = NobodyGoesTooSoon(world(""))
    hear(checker, *BOTH, took_in(OLD), took_in(NEW), fence(NEW))
    assert checker.verdict(world("")) is Verdict.HOLDS
    hear(NobodyGoesTooSoon(world("")), *BOTH, Started(LATER, "n1"), took_in(LATER), fence(NEW))


def test_a_fence_by_who_feeds_nobody_is_caught() -> None:
    with catches("redundancy: .* the latest of its slot is r0.0/1.2"):
        hear(NobodyGoesTooSoon(world("")), *BOTH, took_in(OLD), fence(NEW))
    with catches("the latest of its slot is None"):
        hear(NobodyGoesTooSoon(world("")), *BOTH, fence(NEW))


def test_nobody_is_lost_where_all_before_it_are_dead() -> None:
    hear(NobodyGoesTooSoon(world("")), *BOTH, Ended(OLD, "crashes"), fence(NEW))


def test_slots_that_nobody_wants_are_fenced_with_nobody_behind() -> None:
    gone = life("r0.1", 2)
    hear(NobodyGoesTooSoon(world("")), Started(gone, "n1"), fence(life("r0.1", 3)))


def test_under_a_hold_nothing_is_judged() -> None:
    checker = NobodyGoesTooSoon(world(""))
    hear(checker, *BOTH, Obeyed(OLD, 1, "Hold"), fence(NEW))
    assert checker.verdict(world("")) is Verdict.UNKNOWN
