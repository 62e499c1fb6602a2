"""A life that says that it is busy is left alone for a while, as is a merger that begins."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gapless.actors.setup import RAY_TIMING
from gapless.failover.effects import Start
from gapless.failover.job.desired import Desired
from gapless.failover.machines import Event
from gapless.failover.messages import Life
from gapless.failover.statuses import MergerStatus, ReplicaStatus
from gapless.failover.supervisor.effects import SupervisorEffect, SupervisorEvent
from gapless.failover.supervisor.machine import Supervisor
from gapless.protocol.elements import INF
from tests.failover.supervised import World, machine, shown, whole
from tests.failover.supervised_lives import Machine

HANG_MS, HANG_MAX_MS = RAY_TIMING.hang_ms, RAY_TIMING.hang_max_ms
BUSY_MS, JOIN_MS = RAY_TIMING.busy_ms, RAY_TIMING.join_ms
SLACK_MS = 300


def world_of(mergers: int = 2) -> World:
    return whole(Desired(3, ("p",), mergers=mergers), timing=RAY_TIMING)


def says(world: World, life: Machine, busy: str) -> None:
    is_merger = life.life.slot[0] == "m"
    status: ReplicaStatus | MergerStatus
    status = world.merger(life) if is_merger else world.replica(life)
    world.tell(replace(status, busy=busy))


@pytest.mark.parametrize("slot", ["r0.1", "m0.1"])
def test_a_life_that_is_busy_and_whose_heart_stops_is_hung_long_before_its_work_may_be_done(
    slot: str,
) -> None:
    world = world_of()
    busy = machine(world, slot)
    says(world, busy, "a snapshot")
    busy.frozen_until = INF
    world.run(HANG_MAX_MS - SLACK_MS)
    assert busy.life in world.lives
    assert shown(world, slot) == "running"
    world.run(3_000)
    assert busy.life not in world.lives


@pytest.mark.parametrize("slot", ["r0.1", "m0.1"])
def test_one_that_says_nothing_else_is_replaced_after_as_long(slot: str) -> None:
    world = world_of()
    busy = machine(world, slot)
    busy.frozen_until = INF
    for _ in range(BUSY_MS // 500 - 1):
        says(world, busy, "a fold")
        world.run(500)
        assert busy.life in world.lives
    for _ in range(6):
        says(world, busy, "a fold")
        world.run(500)
    assert busy.life not in world.lives


def test_one_that_has_done_is_as_quickly_suspected_as_any() -> None:
    world = world_of()
    busy = machine(world, "r0.1")
    says(world, busy, "a snapshot")
    world.run(500)
    busy.frozen_until = INF
    world.run(HANG_MS - SLACK_MS)
    assert busy.life in world.lives
    world.run(1_400)
    assert busy.life not in world.lives


def test_a_merger_that_takes_its_state_in_has_the_time_that_a_joining_replica_has() -> None:
    world = world_of()
    world.crash(machine(world, "m0.1"))
    while (new := world.newest("m0.1")) is None or shown(world, "m0.1") != "running":
        world.run(10)
    new.frozen_until = INF
    world.run(JOIN_MS - SLACK_MS)
    assert new.life in world.lives
    world.run(1_000)
    assert machine(world, "m0.1").life > new.life


# -- a new root on a busy machine -------------------------------------------------------------


class Slow(World):
    """Heartbeats take longer than a new supervisor listens."""

    is_slow = False

    def later(self, to: Life | None, event: Event) -> None:
        super().later(to, event)
        if self.is_slow and to is None and self.due and self.due[-1][3] is event:
            at, *rest = self.due[-1]
            self.due[-1] = (at + 1_500, *rest)  # type: ignore[assignment]  # as it was


def new_root(*, found: bool) -> Slow:
    world = Slow(1, desired=Desired(3, ("p",), mergers=2), timing=RAY_TIMING)
    world.run_until_whole(3_000)
    world.is_slow = True
    world.run(500)
    world.lose_supervisor()
    world.due = [due for due in world.due if due[2] is not None]

    class Finds(Supervisor):
        """Its shell has found the lives that are there."""

        def on(self, event: SupervisorEvent, now: int) -> list[SupervisorEffect]:
            if isinstance(event, Start) and found:
                self.expect(world.lives)
            return super().on(event, now)

    world.make = Finds
    world.start_supervisor()
    return world


def test_a_new_root_starts_nobody_beside_lives_that_are_there_and_slow_to_speak() -> None:
    world = new_root(found=True)
    world.run(4_000)
    assert {life.incarnation.term for life in world.seen} == {1}
    world.is_slow = False
    world.run_until_whole(2_000)


def test_without_that_it_would_start_all_of_them_again() -> None:
    world = new_root(found=False)
    world.run(4_000)
    assert {life.incarnation.term for life in world.seen} == {1, 2}


def test_one_that_is_there_and_never_speaks_is_waited_for_as_long_as_for_one_that_joins() -> None:
    world = new_root(found=True)
    world.is_slow = False
    silent = machine(world, "r0.1")
    silent.frozen_until = INF
    world.run(JOIN_MS - SLACK_MS)
    assert machine(world, "r0.1") is silent
    world.run(2_000)
    assert machine(world, "r0.1").life.incarnation.term == 2
