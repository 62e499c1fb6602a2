"""What a new supervisor makes of lives that one before it has started."""

from __future__ import annotations

import pytest

from gapless.failover.messages import Life
from gapless.failover.supervisor.adoption import Named, named, part
from gapless.failover.supervisor.slots import Known, Slot
from gapless.failover.timing import Timing
from gapless.protocol.envelope import Incarnation

TIMING = Timing()


def life(counter: int, term: int = 1, slot: str = "r0.2") -> Life:
    return Life(slot, Incarnation(term, counter))


def slot(
    current: Life | None = None, successor: Life | None = None, *, merger: bool = False
) -> Slot:
    made = Slot("m" if merger else "r", 0, 2, 0, TIMING)
    if current is not None:
        made.fill(Known(current, "p", 0))
    if successor is not None:
        made.successor = Known(successor, "p", 0)
    return made


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("r0.2", Named("r", 0, 2)),
        ("m12.34", Named("m", 12, 34)),
        ("r0.02", None),
        ("r00.2", None),
        ("x0.2", None),
        ("r0.100", None),
        ("r10000.0", None),
        ("r0", None),
        ("r0.2/1.4", None),
        ("supervisor", None),
    ],
)
def test_only_names_that_a_job_makes_are_slots(name: str, parts: Named | None) -> None:
    assert named(name) == parts


def test_the_first_life_that_is_heard_is_the_current_one() -> None:
    assert part(slot(), life(4), 2, qualifies=False) == "current"


@pytest.mark.parametrize("qualifies", [False, True])
def test_a_later_replica_is_the_successor(qualifies: bool) -> None:
    assert part(slot(life(4)), life(9), 2, qualifies) == "successor"


def test_an_earlier_replica_of_a_former_term_goes_before_one_that_does_not_qualify_yet() -> None:
    """The order in which they are heard says nothing: the later one is the successor."""
    assert part(slot(life(9)), life(4), 2, qualifies=False) == "before"
    assert part(slot(life(9, term=2)), life(4), 2, qualifies=False) == "wait", "it is our own"


def test_an_earlier_replica_has_to_go_at_once_where_the_current_one_qualifies() -> None:
    assert part(slot(life(9)), life(4), 2, qualifies=True) == "none"


def test_a_third_replica_waits_whichever_it_is() -> None:
    both = slot(life(4), life(9))
    assert part(both, life(12), 2, qualifies=False) == "wait"
    assert part(both, life(2), 2, qualifies=False) == "wait"
    assert part(both, life(12), 2, qualifies=True) == "none"


def test_a_slot_with_a_successor_alone_takes_no_current_life() -> None:
    assert part(slot(successor=life(9)), life(4), 2, qualifies=False) == "wait"


def test_a_fenced_life_is_nothing_whatever_the_slot_lacks() -> None:
    empty = slot()
    empty.fence = life(5)
    assert part(empty, life(4), 2, qualifies=False) == "none"
    assert part(empty, life(5), 2, qualifies=False) == "current"


def test_of_two_mergers_only_the_later_counts() -> None:
    """The journal has fenced the other."""
    mergers = slot(life(4, slot="m0.2"), merger=True)
    assert part(mergers, life(9, slot="m0.2"), 2, qualifies=False) == "successor"
    assert part(mergers, life(2, slot="m0.2"), 2, qualifies=False) == "none"
