"""A life that says that it is busy is left alone for a while, as is a merger that begins."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gapless.actors.setup import RAY_TIMING
from gapless.failover.desired import Desired
from gapless.failover.messages import MergerStatus, ReplicaStatus
from gapless.protocol.elements import INF
from tests.failover.supervised import World, machine, shown, whole
from tests.failover.supervised_lives import Machine

HANG_MS, BUSY_MS, JOIN_MS = RAY_TIMING.hang_ms, RAY_TIMING.busy_ms, RAY_TIMING.join_ms
SLACK_MS = 300


def world_of(mergers: int = 2) -> World:
    return whole(Desired(3, ("p",), mergers=mergers), timing=RAY_TIMING)


def says(world: World, life: Machine, busy: str) -> None:
    is_merger = life.life.slot[0] == "m"
    status: ReplicaStatus | MergerStatus
    status = world.merger(life) if is_merger else world.replica(life)
    world.tell(replace(status, busy=busy))


@pytest.mark.parametrize("slot", ["r0.1", "m0.1"])
def test_a_life_that_says_that_it_is_busy_may_be_silent_for_long_and_not_for_ever(
    slot: str,
) -> None:
    world = world_of()
    busy = machine(world, slot)
    says(world, busy, "a snapshot")
    busy.frozen_until = INF
    world.run(BUSY_MS - SLACK_MS)
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
