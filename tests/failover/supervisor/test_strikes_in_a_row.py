"""A slot that is struck every two seconds is whole each time as soon as the first time.

All in virtual time, with the waits of a Ray cluster; processes are there within 60 ms of their
start, so what is measured is what the supervisor makes of it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gapless.actors.setup import RAY_TIMING
from gapless.failover.backoff import STOOD_HEARTBEATS, Backoff
from gapless.failover.job.desired import Desired
from gapless.failover.life_start import LivePeer
from gapless.failover.supervisor.effects import Nodes
from gapless.protocol.elements import INF
from tests.failover.supervised import World, machine, spawned, whole
from tests.failover.supervised_lives import NODES

EVERY_MS = 2_000
STRIKES = 8
STEP_MS = 10
ROOT_IS_BACK_MS = 800
"""A root's process, started anew by the cluster."""


def times(world: World, strike: Callable[[World], None]) -> list[int]:
    """By strike, how long until the job was whole again."""
    took = []
    for _ in range(STRIKES):
        began = world.now
        strike(world)
        healed = None
        while world.now < began + EVERY_MS:
            world.run(STEP_MS)
            if healed is None and world.is_whole() and world.now > began + 2 * STEP_MS:
                healed = world.now - began
        took.append(EVERY_MS if healed is None else healed)
    return took


def kill(slot: str) -> Callable[[World], None]:
    return lambda world: world.crash(machine(world, slot))


def stop(slot: str) -> Callable[[World], None]:
    def strike(world: World) -> None:
        machine(world, slot).frozen_until = INF

    return strike


def kill_root(world: World) -> None:
    world.lose_supervisor()
    world.run(ROOT_IS_BACK_MS)
    world.start_supervisor()


def kill_node(world: World) -> None:
    """The one with the most lives; it is back as a new one soon after."""
    node = max(NODES, key=lambda name: sum(m.node == name for m in world.lives.values()))
    world.nodes = tuple(name for name in NODES if name != node)
    for struck in [m for m in world.lives.values() if m.node == node]:
        world.crash(struck)
    world.run(300)
    world.tell(Nodes(world.nodes))
    world.nodes = NODES
    world.tell(Nodes(NODES))


@pytest.mark.parametrize("quiet", [False, True], ids=["rows come", "the sources pause"])
@pytest.mark.parametrize(
    ("mergers", "strike", "bound_ms"),
    [
        (2, kill("r0.1"), 700),
        (2, kill("m0.1"), 700),
        (1, kill("m0.0"), 700),
        (2, stop("r0.1"), 1_600),
        (2, stop("m0.1"), 1_600),
        (2, kill_root, ROOT_IS_BACK_MS + 700),
        (2, kill_node, 1_000),
    ],
    ids=["a replica", "a merger", "the only merger", "r stopped", "m stopped", "root", "node"],
)
def test_a_slot_that_is_struck_again_and_again_is_whole_again_each_time_as_soon(
    mergers: int, strike: Callable[[World], None], bound_ms: int, quiet: bool
) -> None:
    world = whole(Desired(3, ("p",), mergers=mergers), timing=RAY_TIMING)
    world.is_quiet = quiet
    took = times(world, strike)
    assert max(took) <= bound_ms, took


@pytest.mark.parametrize("strike", [kill, stop], ids=["killed", "stopped"])
def test_who_asks_a_peer_that_is_struck_next_goes_on_with_its_next_origin(
    strike: Callable[[str], Callable[[World], None]],
) -> None:
    world = whole(Desired(3, ("p",), mergers=2), timing=RAY_TIMING)
    world.crash(machine(world, "r0.1"))
    while not (joins := world.newest("r0.1")) or not joins.origins:
        world.run(STEP_MS)
    [peer] = [origin.life for origin in joins.origins if isinstance(origin, LivePeer)]
    strike(peer.slot)(world)
    began = world.now
    while joins.joins_at > world.now:
        world.run(STEP_MS)
    noticed_ms = RAY_TIMING.hang_ms if strike is stop else 0
    assert world.now - began <= noticed_ms + 400


def test_a_slot_whose_lives_all_die_at_one_row_is_started_ever_more_seldom() -> None:
    world = whole(Desired(2, ("p",)), timing=RAY_TIMING)
    world.is_quiet = True
    world.doomed = {"r0.1"}
    world.crash(machine(world, "r0.1"))
    world.run(20_000)
    assert spawned(world, "r0.1") <= 10


def test_a_life_that_stood_where_it_was_is_no_failure_and_one_that_died_on_arrival_is() -> None:
    backoff = Backoff(RAY_TIMING)
    stood_ms = STOOD_HEARTBEATS * RAY_TIMING.heartbeat_ms
    for _ in range(5):
        backoff.failed(0, 800, 7, stood_ms=stood_ms)
        assert backoff.failures == 1
    for failures in range(2, 6):
        backoff.failed(0, 800, 7, stood_ms=stood_ms - 1)
        assert backoff.failures == failures
