"""A merger that cannot keep up with its peer never stops its shard: nobody waits for it."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest

from gapless.failover.effects import Start, Tick
from gapless.failover.messages import Ack, Assign, Attach, Session
from gapless.failover.replica.effects import SourceRead
from gapless.failover.replica.executor import Executor
from gapless.failover.replica.machine import Replica
from gapless.failover.supervisor import assignment as assigning
from gapless.failover.supervisor.assignment import DOUBLINGS_MAX
from gapless.failover.supervisor.slots import Shard
from gapless.failover.timing import Timing
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Frame
from gapless.protocol.text import parse
from tests.failover.replica.test_machine import PASSES, SOURCE
from tests.failover.replicas import LIFE, MERGERS, sent, started_with
from tests.failover.supervised import World, machine, whole
from tests.failover.supervised_lives import TIMING

FIRST, SECOND = MERGERS


# -- the supervisor ---------------------------------------------------------------------------


def absent() -> World:
    """`m0.1` has been away for so long that nobody waits for it."""
    world = whole()
    world.doomed = {"m0.1"}
    world.crash(machine(world, "m0.1"))
    world.run(TIMING.absent_ms + 300)
    assert machine(world, "r0.0").mergers == ("m0.0",)
    world.doomed = set()
    return world


def returns_stuck(world: World) -> None:
    """It is back, and lacks what nobody can say any more."""
    while (back := world.newest("m0.1")) is None:
        world.run(10)
    back.is_stuck = True
    world.run(500)


def test_a_merger_that_is_back_is_sent_to_at_once_and_awaited_once_a_replica_may_act_there() -> (
    None
):
    world = absent()
    returns_stuck(world)
    replica = machine(world, "r0.0")
    assert (replica.mergers, replica.awaited) == (("m0.0", "m0.1"), ("m0.0",))
    machine(world, "m0.1").is_stuck = False
    world.run_until_whole(500)
    world.run(100)
    assert replica.awaited == ("m0.0", "m0.1")


def test_replicas_are_replaced_while_a_merger_that_is_back_lets_none_of_them_act() -> None:
    world = absent()
    returns_stuck(world)
    dead = machine(world, "r0.1")
    world.crash(dead)
    world.run(600)
    assert world.fine_slots("0") == set()  # not at the one that is stuck
    assert world.supervisor is not None
    fence = world.supervisor.slots["r0.1"].fence
    assert fence is not None
    assert fence > dead.life


def test_a_merger_that_lives_and_does_not_move_is_unassigned_with_an_alarm_and_tried_again() -> (
    None
):
    world = whole()
    stuck = machine(world, "m0.1")
    stuck.is_stuck = True
    world.run(TIMING.absent_ms + 300)
    assert machine(world, "r0.0").mergers == ("m0.0",)
    assert stuck.life in world.lives
    [alarm] = [alarm for alarm in world.alarms if alarm.startswith("m0.1")]
    assert "nothing durable" in alarm
    world.run(TIMING.absent_ms)
    replica = machine(world, "r0.0")
    assert (replica.mergers, replica.awaited) == (("m0.0", "m0.1"), ("m0.0",))
    stuck.is_stuck = False
    world.run_until_whole(500)


def test_one_that_never_moves_is_tried_ever_more_seldom_and_no_more_seldom_than_that() -> None:
    world = whole()
    machine(world, "m0.1").is_stuck = True
    cycles = TIMING.absent_ms * (1 + (1 << DOUBLINGS_MAX))
    world.run(8 * cycles)
    alarms = [alarm for alarm in world.alarms if alarm.startswith("m0.1")]
    assert 8 <= len(alarms) <= 8 + DOUBLINGS_MAX


def test_a_merger_that_is_back_just_in_time_has_all_its_time_to_move_from_then_on() -> None:
    world = whole()
    world.doomed = {"m0.1"}
    world.crash(machine(world, "m0.1"))
    world.run(TIMING.absent_ms - 300)
    assert machine(world, "r0.0").mergers == ("m0.0", "m0.1")
    world.doomed = set()
    returns_stuck(world)
    assert machine(world, "r0.0").mergers == ("m0.0", "m0.1")
    assert [alarm for alarm in world.alarms if alarm.startswith("m0.1 is not waited")] == []
    world.run(TIMING.absent_ms)
    assert machine(world, "r0.0").mergers == ("m0.0",)


def test_a_merger_whose_lives_report_and_die_without_moving_is_unassigned_all_the_same() -> None:
    world = whole()
    world.crash(machine(world, "m0.1"))
    for _ in range(4):
        returns_stuck(world)
        if machine(world, "r0.0").mergers == ("m0.0",):
            return
        world.crash(machine(world, "m0.1"))
    pytest.fail(f"{machine(world, 'r0.0').mergers} are waited for")


def test_where_all_mergers_stand_still_none_is_unassigned() -> None:
    world = whole()
    for slot in ("m0.0", "m0.1"):
        machine(world, slot).is_stuck = True
    world.durable["m0.1"] += 5
    world.run(4 * TIMING.absent_ms)
    assert machine(world, "r0.0").mergers == ("m0.0", "m0.1")


def test_the_only_awaited_merger_is_kept_when_it_is_away_and_the_other_one_is_stuck() -> None:
    world = absent()
    returns_stuck(world)
    world.doomed = {"m0.0"}
    world.crash(machine(world, "m0.0"))
    world.run(3 * TIMING.absent_ms)
    replica = machine(world, "r0.0")
    assert (replica.mergers, replica.awaited) == (("m0.0", "m0.1"), ("m0.0",))


# -- the replica ------------------------------------------------------------------------------


def ack(merger: str, sequence: int, durable: int = BEGIN, attempt: int = 1) -> Ack:
    return Ack(Session(LIFE, merger, attempt), 1, sequence, durable, durable)


def opened() -> Replica:
    """Attached to both, and it waits for the first alone."""
    replica = Replica(LIFE, started_with(mergers=MERGERS), Executor("plan", PASSES), Timing())
    replica.on(Start(), 0)
    replica.on(Assign(3, 2, MERGERS, (FIRST,)), 0)
    for merger in MERGERS:
        replica.on(ack(merger, 0), 0)
    return replica


def gives(text: str) -> SourceRead:
    elements = parse(text.replace("(A,", "((0,A,1),"), SOURCE)
    return SourceRead("flows", Frame.from_elements(SOURCE, elements), {0: 0})


def test_the_tail_is_trimmed_by_those_that_are_awaited() -> None:
    replica = opened()
    replica.on(gives("ins(A,1,2) ins(A,9,10) stable(8)"), 0)
    replica.on(ack(FIRST, 1, 8), 0)
    replica.on(Tick(), 50)
    assert (replica.output.tail.since, replica.forwarded) == (8, 8)
    replica.on(Assign(3, 3, MERGERS), 60)
    replica.on(gives("stable(20)"), 60)
    replica.on(ack(FIRST, 2, 20), 60)
    assert replica.output.tail.since == 8


def test_reading_waits_for_those_that_are_awaited() -> None:
    replica = opened()
    for i in range(20):
        replica.on(gives(f"ins(A,{i},{i + 1})"), 0)
        replica.on(ack(SECOND, i + 1), 0)
    assert not replica.output.has_room


def test_a_session_that_was_promised_what_is_skipped_is_over_and_the_next_joins_behind_it() -> None:
    replica = opened()
    replica.on(gives("ins(A,1,2) stable(2)"), 0)
    effects = replica.on(ack(FIRST, 1, 2), 0) + replica.on(Tick(), 50)
    assert sent(effects, Attach) == []  # nothing is missing: the plan has put out all up to there
    replica.on(ack(FIRST, 1, 50), 100)  # another replica is ahead
    [attach] = sent(replica.on(Tick(), 150), Attach)
    assert (attach.session, attach.join_at) == (Session(LIFE, SECOND, 2), 50)
    assert replica.forwarded == 50


def test_an_assignment_awaits_nobody_whom_it_does_not_name() -> None:
    with pytest.raises(Misuse, match="awaited"):
        Assign(1, 1, (FIRST,), (SECOND,))


# -- a broken one -----------------------------------------------------------------------------


def awaits_whoever_reports(
    shard: Shard, now: int, timing: Timing, may_unassign: Callable[[Collection[str], str], bool]
) -> assigning.Assignment:
    """And takes away only who is silent."""
    assigned = {*shard.assigned, *(slot.name for slot in assigning.returned(shard, now))}
    for slot in assigning.absent(shard, now, timing):
        if may_unassign(assigned, slot.name):
            assigned.discard(slot.name)
    names = tuple(name for name in shard.mergers if name in assigned)
    return assigning.Assignment(names, names)


@pytest.mark.parametrize(
    "promise",
    [
        test_a_merger_that_is_back_is_sent_to_at_once_and_awaited_once_a_replica_may_act_there,
        test_a_merger_that_lives_and_does_not_move_is_unassigned_with_an_alarm_and_tried_again,
    ],
)
def test_a_supervisor_that_waits_for_whoever_reports_is_caught(
    promise: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assigning, "assignment", awaits_whoever_reports)
    with pytest.raises(AssertionError):
        promise()
