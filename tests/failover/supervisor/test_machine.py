"""What a supervisor does in the situations that it is there for."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from gapless.failover.effects import (
    Died,
    Exit,
    Send,
    Spawn,
    Start,
    Tick,
)
from gapless.failover.job.desired import Desired, Scale
from gapless.failover.life_start import LivePeer, Replay, ReplicaStart, Stored
from gapless.failover.messages import (
    SUPERVISOR,
    CheckpointTaken,
    InputStatus,
    Life,
    MergerStatus,
    ReplicaStatus,
    Retire,
    TakeCheckpoint,
)
from gapless.failover.replica.snapshots import MESSAGE_BYTES_MAX
from gapless.failover.supervisor import checkpoint_policy
from gapless.failover.supervisor.checkpoint_policy import (
    BYTES_A_SECOND,
    SPARED_MAX,
    CheckpointInfo,
)
from gapless.failover.supervisor.machine import Supervisor
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.envelope import Incarnation
from tests.failover.supervised import World, machine, shown, spawned, whole
from tests.failover.supervised_lives import TICK_MS, TIMING, Broken

IDLE_TICK_US_MAX = 30


# -- death, hang, lag -------------------------------------------------------------------------


def test_a_dead_life_is_started_again_at_once() -> None:
    world = whole()
    world.crash(machine(world, "r0.1"))
    world.run_until_whole(700)
    assert spawned(world, "r0.1") == 2


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


# -- mergers ----------------------------------------------------------------------------------


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


# -- a new term -------------------------------------------------------------------------------


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


def test_a_status_of_a_slot_that_no_job_has_is_answered_and_changes_nothing() -> None:
    supervisor = Supervisor(2, Desired(1, ("p",)), (), ("n1",), TIMING)
    supervisor.on(Start(), 0)
    for slot in ("m0.7", "r9.0", "x0.0", "r0.-1", "r0.100", "r٣.0", ""):
        life = Life(slot, Incarnation(1, 3))
        effects = supervisor.on(ReplicaStatus(life, "p", 0, 0, 1, 0, False, False, INF), 1)
        assert [type(e) for e in effects] == [Send], slot
    assert set(supervisor.slots) == {"m0.0", "r0.0"}


# -- checkpoints and origins ------------------------------------------------------------------


def test_checkpoints_are_taken_by_who_does_not_lead_and_few_are_kept() -> None:
    world = whole()
    world.run(4_000)
    assert 2 <= len(world.kept) <= 3
    assert max(info.join_at for info in world.kept) > world.now - 3 * TIMING.checkpoint_ms


def asked_for_checkpoints(others: int, until: int) -> list[int]:
    """When who leads is asked for one, after all others have died and while they come back."""
    supervisor = Supervisor(1, Desired(1 + others, ("p",)), (), ("n1",), TIMING)
    merger, leader, *rest = [e.life for e in supervisor.on(Start(), 0) if isinstance(e, Spawn)]
    asked = []
    for now in range(1, until, TIMING.heartbeat_ms):
        status = ReplicaStatus(leader, "p", 0, 100 + now, 2**20, 0, False, False, INF)
        inputs = (InputStatus(leader, 100, True),)
        told = MergerStatus(merger, 1, 90 + now, 80 + now, inputs, None, 0, False)
        effects = [*supervisor.on(status, now), *supervisor.on(told, now)]
        for life in rest if now == 1 else ():
            effects += supervisor.on(Died(life, "crashed"), now)
        effects += supervisor.on(Tick(), now)
        sends = [e for e in effects if isinstance(e, Send) and e.to == str(leader)]
        asked += [now for e in sends if isinstance(e.message, TakeCheckpoint)]
    return asked


def test_who_leads_takes_no_checkpoint_while_another_is_on_its_way_but_not_for_ever() -> None:
    wait = TIMING.checkpoint_ms
    [first, *_] = asked_for_checkpoints(0, 3 * wait)
    assert first < 2 * wait
    [late, *_] = asked_for_checkpoints(1, (SPARED_MAX + 4) * wait)
    assert SPARED_MAX * wait <= late - wait <= (SPARED_MAX + 1) * wait


def who_is_asked(nbytes: int, until: int, *, dies: bool, returns: bool = False) -> list[int]:
    """When one of three replicas is asked for a checkpoint, the newest of which is that large.
    One of them dies; what `returns` in its place runs, and no merger lets it act yet.
    """
    known = (CheckpointInfo("0-p-0-1", 0, "p", 50, nbytes),)
    supervisor = Supervisor(1, Desired(3, ("p",)), known, ("n1",), TIMING)
    merger, *lives = [e.life for e in supervisor.on(Start(), 0) if isinstance(e, Spawn)]
    asked, late = [], None
    for now in range(1, until, TIMING.heartbeat_ms):
        inputs = tuple(InputStatus(life, 100, life != late) for life in lives)
        effects = supervisor.on(
            MergerStatus(merger, 1, 90 + now, 80 + now, inputs, None, 0, False), now
        )
        for i, life in enumerate(lives[:2] if dies and now > 1 and late is None else lives):
            status = ReplicaStatus(life, "p", 0, 100 + now + i, 2**20, 0, False, False, INF)
            effects += supervisor.on(status, now)
        if dies and now == 1 + TIMING.heartbeat_ms:
            effects += supervisor.on(Died(lives[2], "crashed"), now)
        effects += supervisor.on(Tick(), now)
        spawned = [e.life for e in effects if isinstance(e, Spawn)]
        if returns and spawned and late is None:
            [late] = lives[2:] = spawned
        for send in effects:
            if isinstance(send, Send) and isinstance(send.message, TakeCheckpoint):
                asked.append(now)
                taken = CheckpointTaken(lives[0], send.message.name, "p", 60, "", nbytes)
                supervisor.on(taken, now)
    return asked


def test_the_larger_a_checkpoint_the_less_often_one_is_taken() -> None:
    wait = TIMING.checkpoint_ms
    as_large = BYTES_A_SECOND * wait // 1000
    often = who_is_asked(as_large, 12 * wait, dies=False)
    rare = who_is_asked(3 * as_large, 12 * wait, dies=False)
    assert {(b - a) // wait for a, b in pairwise(often)} == {1}
    assert {(b - a) // wait for a, b in pairwise(rare)} == {3}


def test_nobody_takes_a_large_checkpoint_while_another_is_on_its_way_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checkpoint_policy, "BYTES_A_SECOND", INF)  # else its size makes it rare
    wait = TIMING.checkpoint_ms
    until = (SPARED_MAX + 4) * wait
    small, *_ = who_is_asked(MESSAGE_BYTES_MAX, until, dies=True)
    large, *_ = who_is_asked(MESSAGE_BYTES_MAX + 1, until, dies=True)
    catching_up, *_ = who_is_asked(MESSAGE_BYTES_MAX + 1, until, dies=True, returns=True)
    assert small < 2 * wait
    for late in (large, catching_up):
        assert SPARED_MAX * wait <= late - wait <= (SPARED_MAX + 1) * wait


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


SMALL, LARGE = (
    CheckpointInfo("0-p-0-1", 0, "p", 50, nbytes)
    for nbytes in (MESSAGE_BYTES_MAX, MESSAGE_BYTES_MAX + 1)
)


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


# -- cost -------------------------------------------------------------------------------------


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


# -- broken ones ------------------------------------------------------------------------------


class GivesUpTheLast(Supervisor):
    def _may_give_up(self, _slot: object) -> bool:
        return True


def test_giving_up_the_last_slot_is_noticed() -> None:
    world = whole(Desired(1, ("p",)), GivesUpTheLast)
    world.doomed = {"r0.0"}
    world.crash(machine(world, "r0.0"))
    world.run(15_000)
    world.doomed = set()
    with pytest.raises(Broken):
        world.run_until_whole(2_000)
