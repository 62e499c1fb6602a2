import pytest

from gapless.chaos.judge.history import (
    Durable,
    Ended,
    Fact,
    Healed,
    Obeyed,
    Started,
    Struck,
    TookIn,
    Verdict,
    Written,
)
from gapless.chaos.sim.checkers.progress import Progress, Steps
from gapless.protocol.elements import BEGIN, INF
from tests.chaos.sim.checkers.small import catches, frame, hear, life, session, world

BOUND_MS = 100
M, R = life("m0.0"), life("r0.0")
PEER, OTHER = life("m0.1"), life("r0.1")
Told = tuple[int, Fact]


def said(now: int, text: str, join_at: int = BEGIN) -> Told:
    return now, TookIn(M, session(R), 0, join_at, frame(text))


def done(now: int, text: str) -> Told:
    return now, Durable(M, 1, 0, frame(text))


def progress(*facts: Told, end: int = 1000) -> Verdict:
    checker = Progress(shards=1, sources=1, bound_ms=BOUND_MS)
    hear(checker, *facts)
    return checker.verdict(world("", now=end))


FIRST = [said(10, "stable(1)"), done(20, "stable(1)")]
SECOND: list[Told] = [
    (200, TookIn(PEER, session(OTHER, "m0.1"), 0, BEGIN, frame("stable(2)"))),
    (200, Durable(PEER, 1, 0, frame("stable(2)"))),
    (200, Ended(OTHER, "crashes")),
]
"""What another replica tells the other merger, and dies: so it could be said."""


def test_what_can_be_said_and_is_durable_in_time_passes() -> None:
    assert progress(*FIRST, *SECOND, done(300, "stable(2)")) is Verdict.HOLDS


def test_what_is_durable_too_late_is_caught() -> None:
    with catches("at 200 ms stable 2 could be said, and 100 ms later 1 was durable"):
        progress(*FIRST, *SECOND, done(301, "stable(2)"))


def test_ended_sources_let_the_output_end() -> None:
    ended = (200, Written("s", INF))
    assert progress(*FIRST, ended, done(299, "stable(inf)")) is Verdict.HOLDS
    with catches("at 200 ms stable inf could be said"):
        progress(*FIRST, ended)
    assert progress(*FIRST, (200, Written("s", 7))) is Verdict.HOLDS


@pytest.mark.parametrize(
    ("fault", "target"),
    [
        ("freeze replica", str(R)),
        ("isolate merger", str(M)),
        ("zombie replica", str(R)),
        ("one way", f"{R}->*"),
        ("one way", f"*->{M}"),
        ("clog", f"{R}->{M}"),
        ("lossy", "the network"),
        ("disk full", "job"),
        ("flip source", "sources/s/segments/1"),
        ("something new", "somewhere"),
    ],
)
def test_under_a_fault_that_touches_the_path_nothing_is_known(fault: str, target: str) -> None:
    """From 90 ms on, so no stretch is as long as the bound."""
    during: Told = (90, Struck(fault, target))
    assert progress(*FIRST, during, *SECOND) is Verdict.UNKNOWN
    after: list[Told] = [during, (150, Healed(fault, target)), *SECOND]
    assert progress(*FIRST, *after) is Verdict.UNKNOWN
    with catches("at 210 ms stable 2 could be said"):
        progress(*FIRST, *after, said(210, "stable(2)"))


@pytest.mark.parametrize(
    ("fault", "target"),
    [
        ("freeze replica", str(OTHER)),
        ("isolate merger", "m0.1/1.1"),
        ("one way", f"{OTHER}->*"),
        ("clog", f"{OTHER}->{M}"),
        ("crash node", "n3"),
        ("crash all but one", "all replicas but one"),
        ("flip checkpoint", "job/checkpoints/c"),
    ],
)
def test_a_fault_elsewhere_is_no_excuse(fault: str, target: str) -> None:
    with catches("untouched"):
        progress(*FIRST, (90, Struck(fault, target)), *SECOND)


@pytest.mark.parametrize(
    "over",
    [
        Ended(R, "crashes"),
        Ended(M, "crashes"),
        Obeyed(R, 1, "Hold"),
        Obeyed(R, 1, "Drain"),
        Obeyed(M, 1, "Fence", life("r0.0", 2)),
    ],
)
def test_a_path_that_is_over_says_nothing(over: Fact) -> None:
    assert progress(*FIRST, (90, over), *SECOND) is Verdict.UNKNOWN


def test_a_later_life_of_a_slot_ends_the_paths_of_the_one_before() -> None:
    lives: list[Told] = [(0, Started(x, "n1")) for x in (M, R)]
    later = (90, Started(life("m0.0", 2), "n2"))
    assert progress(*lives, *FIRST, later, *SECOND) is Verdict.UNKNOWN


def test_a_replica_that_catches_up_or_joins_ahead_is_not_held_to_the_bound() -> None:
    assert progress(*SECOND, said(210, "stable(1)")) is Verdict.UNKNOWN
    assert progress(said(10, "stable(9)", join_at=5)) is Verdict.UNKNOWN
    with catches("stable 9 could be said"):
        progress(said(10, "stable(9)"))


def test_steps_know_what_was_when() -> None:
    steps = Steps()
    for now, value in ((10, 1), (20, 1), (30, 5), (40, 4)):
        steps.grow(now, value)
    assert [steps.at(now) for now in (9, 10, 29, 30, 99)] == [BEGIN, 1, 1, 5, 5]
