"""Plans of faults, and what each kind does when it strikes."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from gapless.chaos.judge.history import Ended, Healed, Struck
from gapless.chaos.sim.drawn_faults import (
    BEGINS_AT_MS,
    FAULTS_MAX,
    FAULTS_MIN,
    KINDS,
    LASTS_MS,
    OPERATIONS,
    OPERATIONS_SHARE,
    Fault,
    draw,
)
from gapless.chaos.sim.simulator import Simulation

UNTIL = 1300
STRIKES_AT = 400
"""When everything runs."""


def plans(count: int = 400) -> list[list[Fault]]:
    return [draw(random.Random(f"plan {i}"), UNTIL) for i in range(count)]


# -- plans ----------------------------------------------------------------------------------------


def test_a_plan_has_its_number_of_faults_in_the_order_of_their_times() -> None:
    for plan in plans():
        faults = [fault for fault in plan if fault.kind in KINDS]
        assert FAULTS_MIN <= len(faults) <= FAULTS_MAX
        assert len(plan) - len(faults) <= 1, "people do one thing at most"
        assert [fault.number for fault in plan] == list(range(len(plan)))
        assert [fault.at for fault in plan] == sorted(fault.at for fault in plan)
        for fault in plan:
            assert BEGINS_AT_MS <= fault.at < UNTIL
            assert LASTS_MS[0] <= fault.lasts_ms <= LASTS_MS[1]


def test_all_kinds_are_drawn_the_likely_ones_most_and_people_act_in_their_share_of_runs() -> None:
    drawn = plans()
    counts = Counter(fault.kind for plan in drawn for fault in plan)
    assert set(counts) == {*KINDS, *OPERATIONS}
    assert counts["crash replica"] > 2 * counts["flip source"]
    acting = sum(any(fault.kind in OPERATIONS for fault in plan) for plan in drawn)
    assert abs(acting / len(drawn) - OPERATIONS_SHARE) < 0.1


def test_some_faults_wait_for_each_moment_and_operations_for_none() -> None:
    faults = [fault for plan in plans() for fault in plan]
    assert {f.moment for f in faults} == {None, "join", "takeover", "cutover", "resume"}
    assert {f.moment for f in faults if f.kind in OPERATIONS} == {None}


def test_a_plan_follows_from_its_seed() -> None:
    assert draw(random.Random(1), UNTIL) == draw(random.Random(1), UNTIL)
    assert draw(random.Random(1), UNTIL) != draw(random.Random(2), UNTIL)


def test_a_fault_says_what_when_and_for_how_long() -> None:
    assert str(Fault(0, "clog", 70, 90)) == "clog at 70 for 90 ms"
    waits = Fault(1, "crash node", 70, 90, "join")
    assert str(waits) == "crash node at the next join from 70 on for 90 ms"


# -- striking -------------------------------------------------------------------------------------


def struck_by(kind: str, seed: int = 1) -> Simulation:
    """A run with that one fault in it, which keeps all promises."""
    simulation = Simulation(seed)
    simulation.faults = [Fault(0, kind, STRIKES_AT, 150)]
    simulation.run()
    return simulation


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_strikes_once_is_over_and_breaks_nothing(kind: str) -> None:
    simulation = struck_by(kind)
    facts = [(now, fact) for now, fact in simulation.history.facts]
    struck = [(now, fact.fault) for now, fact in facts if isinstance(fact, Struck)]
    healed = [(now, fact.fault) for now, fact in facts if isinstance(fact, Healed)]
    assert [fault for _, fault in struck] == [fault for _, fault in healed] == [kind]
    assert struck[0][0] >= STRIKES_AT
    assert healed[0][0] - struck[0][0] <= 150
    network, cluster = simulation.network, simulation.cluster
    assert not network.cut
    assert not network.clogged
    assert not network.storms
    assert not cluster.lost_nodes
    for process in cluster.processes.values():
        assert (process.frozen, process.slow_ms, process.cannot_be_killed) == (0, 0, 0)


@pytest.mark.parametrize("kind", OPERATIONS)
def test_what_people_do_breaks_nothing(kind: str) -> None:
    assert not struck_by(kind).cluster.paused


@pytest.mark.parametrize(
    ("kind", "dead"),
    [
        ("crash replica", {"r": 1}),
        ("crash merger", {"m": 1}),
        ("crash supervisor", {"supervisor": 1}),
        ("crash all but one", {"r": 2}),
        ("crash everything", {"r": 3, "m": 2, "supervisor": 1, "changes": 1, "final": 1}),
    ],
)
def test_a_crash_ends_whom_it_says(kind: str, dead: dict[str, int]) -> None:
    facts = struck_by(kind).history.facts
    when = next(now for now, fact in facts if isinstance(fact, Struck))
    slots = [fact.life.slot for now, fact in facts if isinstance(fact, Ended) and now == when]
    counts = Counter(slot[0] if slot[1].isdigit() else slot for slot in slots)
    assert counts == dead
