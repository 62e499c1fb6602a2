"""Under random faults the supervisor keeps its promises, and broken ones are caught."""

from __future__ import annotations

import random
from collections.abc import Collection

import pytest

from gapless.failover.job.desired import Change, Desired, Scale, Switch
from gapless.failover.messages import Life
from gapless.failover.supervisor.effects import SupervisorEffect
from gapless.failover.supervisor.fleet import Fleet
from gapless.failover.supervisor.machine import Supervisor
from gapless.failover.supervisor.reconciler import Reconciler
from gapless.failover.supervisor.slots import Known, Shard, Slot
from gapless.failover.supervisor.status_tracker import StatusTracker
from gapless.protocol.elements import BEGIN
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import GaplessError
from tests.failover.supervised import World
from tests.failover.supervised_lives import TIMING, Broken

WHOLE_WITHIN_MS = 6_000
"""After the last fault: a hang is noticed, back-offs end, and successors come one by one."""


def schedule(seed: int, make: type[Supervisor] = Supervisor) -> None:
    """One run: some faults and a command, then quiet."""
    rng = random.Random(f"schedule {seed}")
    shards = rng.choice([1, 1, 2])
    world = World(
        seed,
        make,
        Desired(rng.choice([2, 3]), ("p",), mergers=rng.choice([1, 2, 2]), shards=shards),
        loss=rng.choice([0.0, 0.05, 0.2]),
    )
    world.run(rng.choice([100, 700]))
    changes: list[Change] = [Scale(rng.randint(1, 4)), Switch(("q",)), Switch(("p", "q"))]
    for _ in range(rng.randint(3, 7)):
        world.run(rng.choice([30, 200, 500]))
        if rng.random() < 0.8:
            world.strike()
        elif world.supervisor is not None:
            world.command(rng.choice(changes))
    world.run(300)
    world.heal()
    world.run_until_whole(WHOLE_WITHIN_MS)


def cutover(seed: int, make: type[Supervisor] = Supervisor) -> bool:
    """One run with a changed query; returns whether it was cut over to it."""
    rng = random.Random(f"cutover {seed}")
    world = World(seed, make, Desired(rng.choice([2, 3]), ("p",), mergers=rng.choice([1, 2])))
    world.run_until_whole(3_000)
    at = world.now + rng.choice([400, 1_500, 3_000])
    world.cut = ("changed", at)
    world.loss = rng.choice([0.0, 0.1])
    world.command(Switch(("changed",), at))
    for _ in range(rng.randint(0, 5)):
        world.run(rng.choice([30, 100, 300]))
        world.strike()
    world.run(300)
    world.heal()
    world.run(TIMING.cutover_ms)
    world.run_until_whole(WHOLE_WITHIN_MS)
    return world.desired.plans == ("changed",)


def cutovers(seeds: range, make: type[Supervisor] = Supervisor) -> set[bool]:
    return {cutover(seed, make) for seed in seeds}


@pytest.mark.parametrize("seed", range(120))
def test_the_job_is_whole_again_after_any_faults_and_no_promise_is_broken_meanwhile(
    seed: int,
) -> None:
    schedule(seed)


def test_a_changed_query_is_answered_by_one_side_only_whatever_fails_meanwhile() -> None:
    assert cutovers(range(60)) == {False, True}


class ReusesIncarnations(Supervisor):
    class FLEET(Fleet):
        def next_incarnation(self) -> Incarnation:
            self._counter = self._counter % 8 + 1
            return Incarnation(self.term, self._counter)


class PromotesTooSoon(Supervisor):
    class RECONCILER(Reconciler):
        def _may_promote(self, _shard: Shard, successor: Known) -> bool:
            return successor.is_live


class BelievesEverybody(Supervisor):
    class FLEET(Fleet):
        def qualifies(self, _shard: Shard, _life: Life) -> bool:
            return True


class RemovesAnyway(Supervisor):
    class RECONCILER(Reconciler):
        def _may_remove(self, _shard: Shard) -> bool:
            return True


class UnassignsTheLast(Supervisor):
    class RECONCILER(Reconciler):
        def _may_unassign(self, _awaited: Collection[str], _name: str) -> bool:
            return True


class ReplacesAllAtOnce(Supervisor):
    class RECONCILER(Reconciler):
        def _may_start_successor(self, _shard: Shard) -> bool:
            return True


class JoinsAtTheFastestMerger(Supervisor):
    class FLEET(Fleet):
        def join_at(self, shard: Shard) -> int:
            return max(shard.durables.values(), default=BEGIN)


class NeverAdopts(Supervisor):
    class TRACKER(StatusTracker):
        def _adopt(self, life: Life, _plan: str, now: int) -> list[SupervisorEffect]:
            return self._fleet.retire(life, "it is not mine", now)


class RetiresZombiesAtOnce(Supervisor):
    class TRACKER(StatusTracker):
        def _is_out(self, _slot: Slot, _life: Life) -> bool:
            return True


BROKEN = [
    ReusesIncarnations,
    PromotesTooSoon,
    BelievesEverybody,
    RemovesAnyway,
    UnassignsTheLast,
    ReplacesAllAtOnce,
    JoinsAtTheFastestMerger,
    NeverAdopts,
    RetiresZombiesAtOnce,
]


class LiftsWhoeverIsHeld(Supervisor):
    class TRACKER(StatusTracker):
        def _may_lift(self, _slot: Slot, _known: Known) -> bool:
            return True


def test_a_supervisor_that_lifts_the_wrong_side_is_caught() -> None:
    with pytest.raises(Broken, match="beyond"):
        cutovers(range(100), LiftsWhoeverIsHeld)


@pytest.mark.parametrize("make", BROKEN)
def test_a_broken_supervisor_is_caught(make: type[Supervisor]) -> None:
    for seed in range(300):
        try:
            schedule(seed, make)
        except (Broken, GaplessError):
            return
    pytest.fail(f"{make.__name__} was not noticed")
