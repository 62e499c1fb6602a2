"""A supervisor at work: deaths, hangs and lag, a new term, what a tick costs."""

from __future__ import annotations

import time

from gapless.failover.effects import Exit, Start, Tick
from gapless.failover.job.desired import Desired
from gapless.failover.messages import SUPERVISOR, Life, Retire
from gapless.failover.statuses import ReplicaStatus
from gapless.failover.supervisor.effects import Died
from gapless.failover.supervisor.machine import Supervisor
from gapless.protocol.elements import INF
from gapless.protocol.envelope import Incarnation
from tests.failover.supervised import machine, shown, spawned, whole
from tests.failover.supervised_lives import TIMING

IDLE_TICK_US_MAX = 30


def test_a_dead_life_is_started_again_at_once() -> None:
    world = whole()
    world.crash(machine(world, "r0.1"))
    world.run_until_whole(700)
    assert spawned(world, "r0.1") == 2


def test_a_replica_that_is_stuck_behind_the_others_is_replaced() -> None:
    world = whole()
    stuck = machine(world, "r0.2")
    stuck.is_stuck = True
    world.run(TIMING.lag_ms + 200)
    assert shown(world, "r0.2") == "suspected"
    world.run(1_000)
    assert stuck.life not in world.lives


def test_nobody_lags_where_all_stand_still() -> None:
    world = whole()
    for life in world.lives.values():
        life.is_stuck = True
    machine(world, "r0.0").stable += 5  # its plan gives a stable that the others' do not
    world.run(3 * TIMING.lag_ms)
    assert spawned(world, "r0.1") == 1


def test_a_supervisor_that_slept_suspects_nobody_for_its_own_silence() -> None:
    world = whole()
    supervisor, world.supervisor = world.supervisor, None
    world.run(2 * TIMING.hang_ms)
    world.supervisor = supervisor
    world.run(500)
    assert all(spawned(world, slot) == 1 for slot in supervisor.slots)  # type: ignore[union-attr]  # the test's own world


def test_a_new_supervisor_adopts_all_that_runs_and_starts_nothing() -> None:
    world = whole()
    world.lose_supervisor()
    world.run(100)
    world.start_supervisor()
    world.run_until_whole(1_000)
    assert {life.incarnation.term for life in world.seen} == {1}


def test_a_new_supervisor_starts_what_died_while_there_was_none() -> None:
    world = whole()
    world.lose_supervisor()
    world.crash(machine(world, "r0.1"))
    world.run(100)
    world.start_supervisor()
    world.run_until_whole(1_500)
    assert machine(world, "r0.1").life.incarnation.term == 2


def test_a_supervisor_that_hears_of_a_later_term_exits() -> None:
    later = Life("r0.0", Incarnation(2, 1))
    status = ReplicaStatus(later, "p", 0, 0, 1, 0, False, False, INF)
    for event in (status, Died(later, "")):
        supervisor = Supervisor(1, Desired(1, ("p",)), (), ("n1",), TIMING)
        supervisor.on(Start(), 0)
        assert [type(e) for e in supervisor.on(event, 1)] == [Exit]


def test_a_supervisor_obeys_the_retirement_by_a_later_term_and_no_earlier_one() -> None:
    supervisor = Supervisor(2, Desired(1, ("p",)), (), ("n1",), TIMING)
    supervisor.on(Start(), 0)
    earlier = Retire(1, Life(SUPERVISOR, Incarnation(2, 0)), "")
    assert supervisor.on(earlier, 1) == []
    later = Retire(3, Life(SUPERVISOR, Incarnation(2, 0)), "")
    assert [type(e) for e in supervisor.on(later, 2)] == [Exit]


def test_a_tick_with_nothing_to_do_costs_little() -> None:
    world = whole()
    supervisor = world.supervisor
    assert supervisor is not None
    tick, now = Tick(), world.now
    supervisor.on(tick, now)
    best = INF
    for _ in range(5):
        began = time.perf_counter_ns()
        for _ in range(200):
            supervisor.on(tick, now)
        best = min(best, time.perf_counter_ns() - began)
    assert best / 200 / 1_000 < IDLE_TICK_US_MAX
