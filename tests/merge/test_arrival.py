"""What each policy lets go out on arrival, by what the inputs have said so far."""

from __future__ import annotations

import pytest

from gapless.merge.arrival import Arrival
from gapless.merge.case import Favour
from gapless.merge.case_in_use import CaseInUse
from gapless.merge.membership import Membership
from gapless.merge.policy import AdjustRule, InsertRule, Policy, Quorum, quorum
from gapless.protocol.text import DEFAULT_SCHEMA
from tests.merge.helpers import frame

ALL = Favour(insert=True, adjust=True)
INSERTS = Favour(insert=True, adjust=False)
ADJUSTS = Favour(insert=False, adjust=True)
NOTHING = Favour(insert=False, adjust=False)


def two(policy: Policy) -> tuple[Membership, CaseInUse]:
    """Input 0, which has promised 7 and inserted up to 3, and input 1: 11, and up to 9."""
    members = Membership()
    in_use = CaseInUse(DEFAULT_SCHEMA, "r3", policy, members, adapts=False)
    for stable, highest, said in ((7, 3, "ins(A,3,20) ins(B,3,20)"), (11, 9, "ins(A,9,20)")):
        entry = members.attach()
        in_use.attach(entry.number, None)
        in_use.take(entry.number, frame(said), NOTHING)
        entry.stable, entry.highest = stable, highest
    return members, in_use


@pytest.mark.parametrize(
    ("insert", "adjust", "first", "second"),
    [
        ("first", "at_stable", INSERTS, INSERTS),
        ("first", "at_once", ALL, ALL),
        ("first", "leading", INSERTS, ALL),
        (quorum(2), "at_once", ALL, ALL),
        ("leading", "at_stable", NOTHING, INSERTS),
        ("leading", "leading", NOTHING, ALL),
        ("leading", "at_once", ADJUSTS, ALL),
        ("highest_insert", "at_stable", NOTHING, INSERTS),
        ("most_unfrozen", "at_stable", INSERTS, NOTHING),
        ("half_frozen", "at_stable", NOTHING, NOTHING),
        ("fully_frozen", "at_stable", NOTHING, NOTHING),
    ],
)
def test_a_policy_favours_the_inputs_that_it_names(
    insert: InsertRule | Quorum, adjust: AdjustRule, first: Favour, second: Favour
) -> None:
    policy = Policy(insert, adjust)
    members, in_use = two(policy)
    arrival = Arrival(policy, members)
    favours = [
        arrival.favour(entry, entry.highest, in_use.case) for entry in members.attached.values()
    ]
    assert favours == [first, second]


def test_the_highest_start_is_of_inserts_and_is_kept_only_where_a_policy_asks() -> None:
    rows = frame("ins(A,12,20) adj(A,15,30,40) ins(B,5,20)")
    for insert, highest in (("highest_insert", 12), ("first", 3)):
        members, _ = two(Policy())
        arrival = Arrival(Policy(insert), members)  # type: ignore[arg-type]  # one of the rules
        entry = members.get(0)
        assert arrival.highest(entry, rows) == highest
        assert arrival.highest(entry, frame("ins(A,1,20)")) == 3
        assert arrival.highest(entry, frame("adj(A,15,30,40)")) == 3
        assert entry.highest == 3
