"""The status tracker: what a supervisor notes, says and answers when it hears of a life."""

from __future__ import annotations

import pytest

from gapless.failover.effects import Alarm, Send, Start, Tick
from gapless.failover.job.desired import Desired
from gapless.failover.messages import Life
from gapless.failover.statuses import InputStatus, MergerStatus, ReplicaStatus
from gapless.failover.supervisor.effects import Spawn
from gapless.failover.supervisor.machine import Supervisor
from gapless.protocol.elements import INF
from gapless.protocol.envelope import Incarnation
from tests.failover.replica.large import (
    T,
)
from tests.failover.supervised import machine, whole
from tests.failover.supervised_lives import TIMING


def test_the_supervisor_says_once_each_time_that_a_replica_reads_no_more_and_why() -> None:
    supervisor = Supervisor(1, Desired(1, ("p",)), (), ("n1",), T)
    spawned = [e.life for e in supervisor.on(Start(), 0) if isinstance(e, Spawn)]
    [life] = [life for life in spawned if life.slot.startswith("r")]

    def says(waits_for: str) -> list[str]:
        status = ReplicaStatus(life, "p", 0, 5, 10**6, 0, False, False, INF, waits_for=waits_for)
        return [e.what for e in supervisor.on(status, 1) if isinstance(e, Alarm)]

    told = [says(w) for w in ("", "m0.0 is away", "m0.0 is away", "", "a cutover")]
    assert [len(alarms) for alarms in told] == [0, 1, 0, 0, 1]
    assert told[1] == [f"{life} reads no more: m0.0 is away"]


@pytest.mark.parametrize("late", [False, True])
def test_a_replacement_under_way_is_taken_over_in_whatever_order_lives_are_heard(
    late: bool,
) -> None:
    world = whole()
    hung = machine(world, "r0.1")
    hung.cut_until = world.now + 500 + (200 if late else 0)
    world.run(TIMING.hang_ms + 100)
    world.lose_supervisor()
    world.start_supervisor()
    world.run_until_whole(3_000)


def test_a_status_of_a_slot_that_no_job_has_is_answered_and_changes_nothing() -> None:
    supervisor = Supervisor(2, Desired(1, ("p",)), (), ("n1",), TIMING)
    supervisor.on(Start(), 0)
    for slot in ("m0.7", "r9.0", "x0.0", "r0.-1", "r0.100", "r٣.0", ""):
        life = Life(slot, Incarnation(1, 3))
        effects = supervisor.on(ReplicaStatus(life, "p", 0, 0, 1, 0, False, False, INF), 1)
        assert [type(e) for e in effects] == [Send], slot
    assert set(supervisor.slots) == {"m0.0", "r0.0"}


def states_of_one_behind(parts_left: list[int]) -> list[str]:
    """Of a replica that stands still while others advance, each time that it tells its parts."""
    supervisor = Supervisor(1, Desired(3, ("p",)), (), ("n1",), TIMING)
    merger, *lives = [e.life for e in supervisor.on(Start(), 0) if isinstance(e, Spawn)]
    seen = []
    for number, left in enumerate(parts_left):
        now = 1 + number * TIMING.heartbeat_ms
        inputs = tuple(InputStatus(life, 100, life != lives[2]) for life in lives)
        told = MergerStatus(merger, 1, 90 + now, 80 + now, inputs, None, 0, False)
        supervisor.on(told, now)
        for i, life in enumerate(lives):
            stable, parts = (50, left) if i == 2 else (100 + now, 0)
            status = ReplicaStatus(
                life, "p", 0, stable, 2**20, 0, False, False, INF, parts_left=parts
            )
            supervisor.on(status, now)
        supervisor.on(Tick(), now)
        [shown] = [view.state for view in supervisor.state().slots if view.slot == lives[2].slot]
        seen.append(shown)
    return seen


def test_a_replica_that_sends_a_large_tail_is_not_taken_for_one_that_is_behind() -> None:
    beats = 5 * TIMING.lag_ms // TIMING.heartbeat_ms
    assert "suspected" not in states_of_one_behind(list(range(beats, 0, -1)))
    for stands in ([7] * beats, [0] * beats):
        assert states_of_one_behind(stands)[-1] == "suspected"
