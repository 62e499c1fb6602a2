"""What a supervisor does when people want something else: scale, switch, cutover, the end."""

from __future__ import annotations

import pytest

from gapless.failover.job.desired import Desired, Scale, Stop, Switch
from gapless.failover.supervisor import replacement_budget as ration
from gapless.failover.supervisor.effects import Command
from gapless.protocol.elements import INF
from gapless.protocol.errors import Misuse
from tests.failover.supervised import machine, shown, whole
from tests.failover.supervised_lives import TIMING

# -- scale and switch -------------------------------------------------------------------------


def test_scaling_down_ends_the_highest_indexes_and_up_starts_new_ones() -> None:
    world = whole()
    world.command(Scale(1))
    world.run_until_whole(1_000)
    assert {life.slot for life in world.lives} == {"r0.0", "m0.0", "m0.1"}
    world.command(Scale(4))
    world.run_until_whole(2_000)


def test_scaling_down_waits_until_what_stays_can_be_relied_on() -> None:
    world = whole()
    world.doomed = {"r0.0"}
    world.crash(machine(world, "r0.0"))
    world.run(100)
    world.command(Scale(1))
    world.run(1_000)
    assert any(life.slot == "r0.1" for life in world.lives)
    world.doomed = set()
    world.run_until_whole(3_000)


def test_a_rolling_switch_replaces_one_life_after_the_other_and_loses_nothing() -> None:
    world = whole()
    fewest = 3
    world.command(Switch(("q", "s")))
    while not world.is_whole():
        world.run(10)
        fewest = min(fewest, len(world.fine_slots("0")))
        assert len(world.lives) <= 5 + 1 + 1  # one that comes, one that goes
    assert fewest == 3
    assert [machine(world, f"r0.{i}").plan for i in range(3)] == ["q", "s", "q"]


@pytest.mark.parametrize("plans", [("q",), ("p", "q")])
def test_a_switch_goes_on_where_a_slow_life_finds_no_replacement_left(
    plans: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ration, "REPLACEMENTS_MAX", 0)
    world = whole()
    stuck = machine(world, "r0.0")
    stuck.is_stuck = True
    world.run(2_000)
    assert shown(world, "r0.0") == "suspected"
    assert machine(world, "r0.0") is stuck
    world.command(Switch(plans))
    world.run(5_000)
    wanted = [plans[i % len(plans)] for i in range(3)]
    assert [machine(world, f"r0.{i}").plan for i in range(3)] == wanted
    is_ordered = wanted[0] != "p"
    assert (machine(world, "r0.0") is not stuck) == is_ordered  # beyond the ration only then


def test_a_plan_that_cannot_run_replaces_nobody() -> None:
    world = whole()
    olds = {life for life in world.lives if life.slot[0] == "r"}
    world.command(Switch(("q",)))
    for _ in range(200):
        world.run(50)
        for life in [m for m in world.lives.values() if m.plan == "q"]:
            world.crash(life)
    assert olds <= set(world.lives)
    assert any("keeps its life" in alarm for alarm in world.alarms)


def test_a_command_that_makes_no_sense_raises_and_changes_nothing() -> None:
    world = whole()
    supervisor = world.supervisor
    assert supervisor is not None
    before = supervisor.state(), supervisor.desired
    for change in (Scale(0), Scale(10_000), Switch(("q",), at=10)):
        with pytest.raises(Misuse):
            supervisor.on(Command(change), world.now)
        assert (supervisor.state(), supervisor.desired) == before


def test_a_changed_query_is_switched_at_its_time_and_lives_are_not_mixed() -> None:
    world = whole()
    at = world.now + 3_000
    world.command(Switch(("q",), at))
    with pytest.raises(Misuse, match="under way"):
        world.command(Scale(2))
    while world.desired.plans == ("p",):
        world.run(10)
        assert all(m.stable <= at for m in world.lives.values() if m.plan == "q")
        assert world.now < at + 3_000
    world.run_until_whole(3_000)
    assert all(m.plan == "q" for m in world.lives.values() if m.life.slot[0] == "r")


def test_a_root_that_dies_in_a_cutover_leaves_a_job_that_is_whole_again() -> None:
    for wait_ms in range(50, 1_000, 50):
        world = whole()
        world.command(Switch(("q",), world.now + 3_000))
        world.run(wait_ms)
        world.lose_supervisor()
        world.start_supervisor()
        world.run_until_whole(6_000)


# -- the end ----------------------------------------------------------------------------------


def test_a_stop_ends_all_lives_by_force_where_need_be_and_then_the_root() -> None:
    world = whole()
    machine(world, "r0.1").frozen_until = INF
    world.command(Stop())
    world.run(TIMING.kill_ms + 200)
    assert not world.lives
    assert world.exited == ["the job is stopped"]
    assert world.desired.state == "stopped"


def test_a_drain_closes_mergers_only_behind_all_that_a_replica_had_to_say() -> None:
    world = whole()
    world.crash(machine(world, "m0.1"))
    world.command(Stop(drain=True))
    world.crash(machine(world, "r0.2"))
    while world.supervisor is not None:
        before = {life.life: life.drains for life in world.lives.values()}
        world.run(10)
        for life in world.lives.values():
            if life.life.slot[0] == "m" and life.drains and not before.get(life.life):
                assert any(i.life.slot[0] == "r" for i in world.inputs(life))
        assert world.now < 10_000
    assert world.desired.state == "stopped"
    world.run(300)
    assert not world.lives


def test_a_drain_that_does_not_end_can_be_stopped() -> None:
    world = whole()
    world.doomed = {"m0.0", "m0.1"}
    for slot in sorted(world.doomed):
        world.crash(machine(world, slot))
    world.run(100)
    world.command(Stop(drain=True))
    world.run(1_000)
    assert world.supervisor is not None
    world.command(Stop())
    world.run(500)
    assert world.supervisor is None


def test_the_supervisor_of_a_stopped_job_ends_who_is_left_and_exits() -> None:
    world = whole()
    world.lose_supervisor()
    world.desired = Desired(3, ("p",), mergers=2, state="stopped")
    world.start_supervisor()
    world.run(1_000)
    assert not world.lives
    assert world.exited == ["the job is stopped"]
