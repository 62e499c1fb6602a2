"""The reconciler: replaces, fills and gives up slots, and never gives up redundancy early."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gapless.failover.effects import Start, Tick
from gapless.failover.job.desired import Desired, Scale
from gapless.failover.life_start import LivePeer, Replay, ReplicaStart, Stored
from gapless.failover.replica.snapshots import MESSAGE_BYTES_MAX
from gapless.failover.statuses import InputStatus, MergerStatus, ReplicaStatus
from gapless.failover.supervisor.checkpoint_policy import (
    CheckpointInfo,
)
from gapless.failover.supervisor.effects import Died, Spawn
from gapless.failover.supervisor.fleet import Fleet
from gapless.failover.supervisor.machine import Supervisor
from gapless.protocol.elements import BEGIN, INF
from tests.failover.supervised import World, machine, shown, spawned, whole
from tests.failover.supervised_lives import TICK_MS, TIMING, Broken

SMALL, LARGE = (
    CheckpointInfo("0-p-0-1", 0, "p", 50, nbytes)
    for nbytes in (MESSAGE_BYTES_MAX, MESSAGE_BYTES_MAX + 1)
)


def test_a_hung_replica_is_replaced_only_once_another_one_qualifies() -> None:
    world = whole()
    hung = machine(world, "r0.1")
    hung.frozen_until = INF
    world.run(TIMING.hang_ms + 100)
    assert shown(world, "r0.1") == "suspected"
    assert hung.life in world.lives
    world.run_until_whole(1_500)
    assert hung.life not in world.lives


def test_a_replica_that_joins_may_be_silent_for_longer_but_not_for_ever() -> None:
    world = whole()
    world.crash(machine(world, "r0.1"))
    while shown(world, "r0.1") != "joining":
        world.run(TICK_MS)
    joins = machine(world, "r0.1")
    joins.frozen_until = INF
    world.run(TIMING.hang_ms + 200)
    assert shown(world, "r0.1") == "joining"
    assert machine(world, "r0.1") is joins
    world.run_until_whole(TIMING.join_ms + 1_000)
    assert joins.life not in world.lives


def test_a_replica_that_was_suspected_wrongly_stays_and_its_successor_goes() -> None:
    world = whole()
    silent = machine(world, "r0.1")
    silent.cut_until = world.now + TIMING.hang_ms + 120
    world.run(TIMING.hang_ms + 100)
    assert shown(world, "r0.1") == "suspected"
    world.run_until_whole(1_000)
    assert machine(world, "r0.1") is silent
    assert spawned(world, "r0.1") == 2


def test_a_hung_merger_is_replaced_at_once_and_told_whom_to_fence() -> None:
    world = whole()
    machine(world, "m0.0").frozen_until = INF
    world.run_until_whole(1_500)
    assert len(machine(world, "m0.0").fences) == 3


def test_a_slot_that_fails_again_and_again_is_given_up_and_tried_again_on_command() -> None:
    world = whole()
    world.doomed = {"r0.1"}
    world.crash(machine(world, "r0.1"))
    world.run(10_000)
    assert shown(world, "r0.1") == "failed"
    assert any("r0.1 failed" in alarm for alarm in world.alarms)
    world.doomed = set()
    world.command(Scale(3))
    world.run_until_whole(1_000)


def test_the_last_slot_of_a_shard_is_tried_for_ever() -> None:
    world = whole(Desired(1, ("p",)))
    world.doomed = {"r0.0", "m0.0"}
    world.crash(machine(world, "r0.0"))
    world.crash(machine(world, "m0.0"))
    world.run(15_000)
    world.doomed = set()
    world.run_until_whole(2_000)


def test_lives_that_die_at_once_are_started_less_and_less_often() -> None:
    world = World(1)
    world.doomed = {"r0.1"}
    world.run(2_500)
    times = world.spawned[1, "r0.1"]
    gaps = [after - before for before, after in pairwise(times)]
    assert gaps[-1] >= TIMING.backoff_max_ms
    assert len(times) < 12


def test_replicas_wait_for_an_absent_merger_no_longer_than_its_bound() -> None:
    world = whole()
    world.doomed = {"m0.1"}
    world.crash(machine(world, "m0.1"))
    world.run(TIMING.absent_ms + 300)
    assert machine(world, "r0.0").mergers == ("m0.0",)
    world.doomed = set()
    world.run_until_whole(1_500)
    assert machine(world, "r0.0").mergers == ("m0.0", "m0.1")


def test_the_last_merger_is_never_taken_away() -> None:
    world = whole()
    world.doomed = {"m0.0"}
    world.crash(machine(world, "m0.0"))
    world.run(200)
    world.doomed = {"m0.0", "m0.1"}
    world.crash(machine(world, "m0.1"))
    world.run(4 * TIMING.absent_ms)
    assert machine(world, "r0.0").mergers == ("m0.1",)


def test_replicas_of_a_resumed_job_wait_until_mergers_have_said_what_is_durable() -> None:
    world = whole()
    world.lose_supervisor()
    for life in list(world.lives.values()):
        world.crash(life)
    world.run(100)
    world.kept = world.kept[:1]
    world.start_supervisor()
    starts: list[ReplicaStart] = []
    do = world.spawn

    def spawn(term: int, effect: Spawn) -> None:
        if isinstance(effect.start, ReplicaStart):
            starts.append(effect.start)
        do(term, effect)

    world.spawn = spawn  # type: ignore[method-assign]  # the test's own world
    world.run_until_whole(2_000)
    assert all(start.origins[-1] != Replay(BEGIN) for start in starts)
    assert all(isinstance(start.origins[0], Stored | LivePeer) for start in starts)


@pytest.mark.parametrize(
    ("stored", "tried"),
    [
        ((), ("peer", "replay")),
        ((SMALL,), ("peer", "stored", "replay")),
        ((LARGE,), ("stored", "peer", "replay")),
    ],
)
def test_a_new_life_asks_a_peer_that_does_not_lead_or_reads_what_is_large_from_the_disk(
    stored: tuple[CheckpointInfo, ...], tried: tuple[str, ...]
) -> None:
    supervisor = Supervisor(1, Desired(3, ("p",)), stored, ("n1", "n2"), TIMING)
    lives = [e.life for e in supervisor.on(Start(), 0) if isinstance(e, Spawn)]
    for i, life in enumerate(lives[1:]):
        supervisor.on(ReplicaStatus(life, "p", 0, 100 + i, 2**20, 0, False, False, INF), 1)
    merger = MergerStatus(
        lives[0], 1, 90, 80, tuple(InputStatus(r, 100, True) for r in lives[1:]), None, 0, False
    )
    supervisor.on(merger, 1)
    supervisor.on(Tick(), 2)
    supervisor.on(Died(lives[1], "crashed"), 3)
    effects = supervisor.on(Tick(), 3 + TIMING.backoff_ms)
    [start] = [e.start for e in effects if isinstance(e, Spawn)]
    assert isinstance(start, ReplicaStart)
    origins = {"peer": LivePeer(lives[2]), "stored": Stored("0-p-0-1"), "replay": Replay(80)}
    assert start.origins == tuple(origins[name] for name in tried)


class GivesUpTheLast(Supervisor):
    class FLEET(Fleet):
        def may_give_up(self, _slot: object) -> bool:
            return True


def test_giving_up_the_last_slot_is_noticed() -> None:
    world = whole(Desired(1, ("p",)), GivesUpTheLast)
    world.doomed = {"r0.0"}
    world.crash(machine(world, "r0.0"))
    world.run(15_000)
    world.doomed = set()
    with pytest.raises(Broken):
        world.run_until_whole(2_000)
