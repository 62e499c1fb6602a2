"""On machines that are too slow nobody is replaced for being slow, and all is well soon after."""

from __future__ import annotations

import pytest

from gapless.actors.setup import RAY_TIMING
from gapless.failover.messages import Life
from gapless.failover.supervisor.failure_detector import BEHIND, LAG_FACTOR, suspicion
from gapless.failover.supervisor.fleet import Fleet
from gapless.failover.supervisor.machine import Supervisor
from gapless.failover.supervisor.overload import LATE_HEARTBEATS, Strain
from gapless.failover.supervisor.patience import Patience
from gapless.failover.supervisor.replacement_budget import (
    REPLACEMENTS_MAX,
    STRAINED_FACTOR,
    STRAINED_MAX,
    Ration,
    ReplacementBudget,
)
from gapless.failover.supervisor.slots import Known, Shard
from gapless.protocol.elements import INF
from gapless.protocol.envelope import Incarnation
from tests.failover.starved import Starved
from tests.failover.supervised import machine

STARVED_MS = 300_000
SHARE = 0.1
REPLACED_MAX = 2
HEALTHY_AFTER_MS = 5_000


def starve(seed: int, make: type[Supervisor] = Supervisor) -> tuple[Starved, int]:
    """Five minutes at a tenth of the CPU; how many lives were started meanwhile."""
    world = Starved(seed, make)
    world.run_until_whole(3_000)
    world.run(3_000)
    began = len(world.seen)
    world.share = SHARE
    world.run(STARVED_MS)
    world.share = 1.0
    return world, len(world.seen) - began


@pytest.mark.parametrize("seed", range(2))
def test_a_job_that_is_starved_for_minutes_is_left_alone_and_healthy_soon_after(seed: int) -> None:
    world, started = starve(seed)
    assert started <= REPLACED_MAX
    world.run_until_whole(HEALTHY_AFTER_MS)


def test_people_are_told_that_the_machines_are_overloaded_with_figures_and_not_all_the_time() -> (
    None
):
    world, _ = starve(1)
    told = [alarm for alarm in world.alarms if "overloaded" in alarm]
    assert 1 <= len(told) <= STARVED_MS // 60_000 + 1
    assert "lives are late now, own ticks come every" in told[0]


def test_after_it_a_stopped_replica_is_replaced_as_soon_as_ever() -> None:
    world, _ = starve(2)
    world.run_until_whole(HEALTHY_AFTER_MS)
    world.share = 4.0  # room for a start
    world.run(HEALTHY_AFTER_MS)
    stopped = machine(world, "r0.1")
    stopped.frozen_until = 1 << 60
    world.run(1_000)
    world.run_until_whole(900)
    assert machine(world, "r0.1").life > stopped.life


# -- the parts --------------------------------------------------------------------------------


def test_a_life_that_hangs_on_strained_machines_waits_for_its_turn_and_no_longer() -> None:
    ration = Ration(1_000, 0)
    for _ in range(STRAINED_MAX):
        assert ration.may_take(0, strained=True)
        ration.take(strained=True)
    assert not ration.may_take(STRAINED_FACTOR * 1_000 - 1, strained=True)
    assert ration.may_take(STRAINED_FACTOR * 1_000 - 1, strained=False)
    assert ration.may_take(STRAINED_FACTOR * 1_000, strained=True)


def test_replacements_come_back_one_by_one_and_a_needless_one_costs_half_of_the_rest() -> None:
    ration = Ration(1_000, 0)
    for _ in range(REPLACEMENTS_MAX):
        assert ration.may_take(0, strained=False)
        ration.take(strained=False)
    assert not ration.may_take(999, strained=False)
    assert ration.may_take(1_000, strained=False)
    ration.was_needless()
    assert not ration.may_take(1_999, strained=False)
    assert ration.may_take(2_000, strained=False)
    ration.validate()


def lives(silences: list[int], now: int) -> list[Known]:
    known = [Known(Life(f"r0.{i}", Incarnation(1, i + 1)), "p", 0) for i in range(len(silences))]
    for one, silence in zip(known, silences, strict=True):
        one.state, one.heard_at = "running", now - silence
    return known


@pytest.mark.parametrize(
    ("late", "of", "strained"),
    [(1, 1, False), (1, 2, False), (2, 2, True), (2, 3, False), (3, 4, True), (3, 5, False)],
)
def test_of_one_life_that_is_late_nothing_follows_and_of_nearly_all_it_does(
    late: int, of: int, strained: bool
) -> None:
    strain = Strain(RAY_TIMING)
    late_ms = LATE_HEARTBEATS * RAY_TIMING.heartbeat_ms
    for now in range(10_000, 10_500, 50):
        strain.tick(50, lives([late_ms] * late + [50] * (of - late), now), now)
        assert strain.lasts(now) == strained


def test_a_hiccup_of_a_second_is_forgotten_within_ten() -> None:
    strain, now = Strain(RAY_TIMING), 0
    for slept in (*[50] * 40, 1_000, *[50] * 40):
        now += slept
        strain.tick(slept, [], now)
        if slept == 1_000:
            assert strain.lasts(now)
    assert now - 3_000 < 10_000
    assert not strain.lasts(now)


def test_patience_is_that_of_the_last_words_and_a_late_one_is_forgotten_within_a_dozen() -> None:
    patience = Patience()
    for _ in range(50):
        patience.heard(100)
    assert patience.wait_ms(900, 10_000) == 900
    patience.heard(1_000)
    assert 1_000 < patience.wait_ms(900, 10_000) < 3_000
    for _ in range(12):
        patience.heard(100)
    assert patience.wait_ms(900, 10_000) == 900
    for gap in (500, 2_000, 9_000, 300, 14_000):
        patience.heard(gap)
    assert patience.wait_ms(900, 10_000) == 10_000


def test_a_life_whose_steps_are_long_may_take_long_for_one_and_no_longer() -> None:
    [slow] = lives([0], 0)
    shard = Shard(0, 1, best=INF)
    slow.mark, slow.attached_at = 10, 1 << 40
    for _ in range(4):
        slow.steps.heard(100)
        slow.steps.heard(9_000)
    waits = LAG_FACTOR * RAY_TIMING.lag_ms
    for now, why in ((RAY_TIMING.lag_ms + 1, ""), (waits, ""), (waits + 1, BEHIND)):
        slow.heard_at = now
        assert suspicion(slow, shard, now, RAY_TIMING) == why
    slow.heard_at = waits + 1
    assert suspicion(slow, shard, waits + 1, RAY_TIMING, strained=True) == ""


# -- broken ones ------------------------------------------------------------------------------


class KnowsNoStrain(Supervisor):
    class FLEET(Fleet):
        class BUDGET(ReplacementBudget):
            def is_strained(self, _now: int) -> bool:
                return False


class HasNoRation(Supervisor):
    class FLEET(Fleet):
        class BUDGET(KnowsNoStrain.FLEET.BUDGET):
            def may_replace(self, _shard: int, _now: int) -> bool:
                return True


@pytest.fixture
def fixed_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Patience, "wait_ms", lambda _, least_ms, most_ms: least_ms)


@pytest.mark.usefixtures("fixed_time_out")
def test_a_supervisor_with_a_fixed_time_out_and_no_ration_makes_a_storm() -> None:
    _, started = starve(1, HasNoRation)
    assert started > 10 * REPLACED_MAX


@pytest.mark.usefixtures("fixed_time_out")
def test_rationing_alone_keeps_a_storm_small() -> None:
    _, unrationed = starve(1, HasNoRation)
    _, rationed = starve(1, KnowsNoStrain)
    assert REPLACED_MAX < rationed < unrationed / 2


@pytest.mark.usefixtures("fixed_time_out")
def test_so_does_it_where_it_knows_when_machines_are_strained() -> None:
    _, started = starve(1)
    assert started <= REPLACED_MAX
