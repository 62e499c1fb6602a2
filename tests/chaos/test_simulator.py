"""Whole runs of the simulator: clean ones, planted faults that it catches, and its own rules."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gapless.chaos import told
from gapless.chaos.broken import BROKEN_BUILDS
from gapless.chaos.cluster import Cluster
from gapless.chaos.history import Broken
from gapless.chaos.simulator import Simulation, run_seed
from gapless.failover.messages import Life
from gapless.protocol.elements import INF
from gapless.protocol.envelope import Incarnation
from gapless.protocol.tdb import Tdb

SEEDS = 60
"""Schedules a run of the tests; `gapless chaos sim --seeds N` runs as many as one likes."""
CAUGHT_WITHIN = 200


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_no_schedule_breaks_a_promise(first: int) -> None:
    for seed in range(first, first + 10):
        result = run_seed(seed)
        assert result.ok, f"seed {seed}: {result.problem}"


@pytest.mark.parametrize("name", BROKEN_BUILDS)
def test_a_planted_fault_is_caught(name: str) -> None:
    assert any(not run_seed(seed, BROKEN_BUILDS[name]).ok for seed in range(CAUGHT_WITHIN))


def test_the_same_seed_gives_the_same_trace() -> None:
    trace = run_seed(7, traced=True).trace
    assert trace[0] == told.HEADER
    assert trace == run_seed(7, traced=True).trace
    assert trace != run_seed(8, traced=True).trace


def test_a_wrong_answer_is_a_broken_promise() -> None:
    simulation = Simulation(1)
    simulation._expected[INF] = Tdb(simulation.schema)
    with pytest.raises(Broken, match="are there for good"):
        simulation.run()


def test_a_crash_takes_nothing_of_a_life_on_another_machine() -> None:
    cluster, old, new = two_lives_of_a_merger()
    cluster.crash_disk(old)
    assert written(cluster) == WRITTEN
    cluster.crash_disk(new)
    assert written(cluster) < WRITTEN


def test_no_output_is_torn_and_damaged_at_once() -> None:
    cluster, _, new = two_lives_of_a_merger()
    struck = cluster.world.striking.flip("output", random.Random(1))
    assert struck is not None
    cluster.crash_disk(new)
    assert written(cluster) == WRITTEN
    struck[1]()
    cluster.crash_disk(new)
    assert written(cluster) < WRITTEN
    assert cluster.world.striking.flip("output", random.Random(1)) is None


WRITTEN = 1 << 10


def two_lives_of_a_merger() -> tuple[Cluster, Any, Any]:
    """One that is taken for dead, and the one that writes now and has synced nothing."""
    cluster = Simulation(1).cluster
    old, new = (SimpleNamespace(life=Life("m0.0", Incarnation(1, n))) for n in (1, 2))
    cluster.newest["m0.0"] = cast(Any, new)
    disk = cluster.output_disk("m0.0")
    for i in range(16):
        disk.append(f"segments/{i}", bytes(WRITTEN // 16))
    return cluster, old, new


def written(cluster: Cluster) -> int:
    disk = cluster.output_disk("m0.0")
    return sum(disk.size(f"segments/{name}") for name in disk.list("segments"))
