"""What is done where replicas disagree: told once, the job stopped, or the odd one replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import pytest

from gapless.failover.backoff import FAILURES_MAX
from gapless.failover.effects import Start
from gapless.failover.job.desired import Desired, Scale
from gapless.failover.job.settings import OnDivergence
from gapless.failover.life_start import LivePeer, ReplicaStart, Stored
from gapless.failover.messages import Life
from gapless.failover.statuses import DivergenceReport, InputStatus, MergerStatus, ReplicaStatus
from gapless.failover.supervisor import divergence as diverging
from gapless.failover.supervisor import failure_detector as suspecting
from gapless.failover.supervisor import replacement as replacing
from gapless.failover.supervisor.divergence import DIVERGES, Consequence, judge, odd_one
from gapless.failover.supervisor.effects import Spawn, SupervisorEffect
from gapless.failover.supervisor.machine import Supervisor
from gapless.failover.supervisor.slots import Known, Slot
from gapless.failover.supervisor.status_tracker import StatusTracker
from gapless.protocol.elements import INF
from gapless.protocol.envelope import Incarnation
from tests.failover.merger.test_tallies import differing, status_of
from tests.failover.mergers import R0, merger
from tests.failover.supervised import World, machine, shown, spawned, whole
from tests.failover.supervised_lives import NODES, TIMING, Broken

MERGER = Life("m0.0", Incarnation(1, 1))
Judge = Callable[[MergerStatus | None, MergerStatus], Life | None]


def replica(index: int, counter: int = 1) -> Life:
    return Life(f"r0.{index}", Incarnation(1, counter))


def status(outvoted: dict[Life, int], count: int, diverged: int = 0) -> MergerStatus:
    inputs = tuple(InputStatus(r, 9, True, diverged, o) for r, o in outvoted.items())
    sample = DivergenceReport(replica(1), replica(0), 7, "r0.1/1.1 differs at 7, by row 12")
    return MergerStatus(MERGER, 1, 9, 9, inputs, None, count, False, samples=(sample,))


QUIET = status({replica(0): 0, replica(1): 0, replica(2): 0}, 0)
ONE_ODD = status({replica(0): 2, replica(1): 0, replica(2): 0}, 2)
TWO_ODD = status({replica(0): 2, replica(1): 1, replica(2): 0}, 3)
NONE_ODD = status({replica(0): 0, replica(1): 0, replica(2): 0}, 3, diverged=1)
ONE_SLOT = status({replica(0): 2, replica(1): 0, replica(1, 2): 0}, 2)


# -- the decision -----------------------------------------------------------------------------


def check_who_is_odd(odd: Judge) -> None:
    assert odd(QUIET, ONE_ODD) == replica(0)
    assert odd(None, ONE_ODD) == replica(0), "a new root takes up what the one before has left"
    assert odd(ONE_ODD, TWO_ODD) == replica(1), "what it has seen before counts no more"
    assert odd(QUIET, TWO_ODD) is None
    assert odd(QUIET, NONE_ODD) is None, "who disagrees with the output need not be wrong"
    assert odd(QUIET, ONE_SLOT) is None, "two lives of one slot are one voice"
    assert odd(ONE_ODD, ONE_ODD) is None
    alone = status({replica(0): 2, replica(1): 0}, 2)
    assert odd(None, alone) is None


def test_the_odd_one_is_who_a_majority_is_against_and_nobody_else() -> None:
    check_who_is_odd(odd_one)


def whoever_disagrees(before: MergerStatus | None, now: MergerStatus) -> Life | None:
    del before
    return next((i.life for i in now.inputs if i.diverged or i.outvoted), None)


def counts_lives(before: MergerStatus | None, now: MergerStatus) -> Life | None:
    was = {i.life: i.outvoted for i in before.inputs} if before else {}
    odd = [i.life for i in now.inputs if i.outvoted > was.get(i.life, 0)]
    return odd[0] if len(now.inputs) >= 3 and len(odd) == 1 else None


def forgets_what_was(before: MergerStatus | None, now: MergerStatus) -> Life | None:
    del before
    return odd_one(None, now)


def the_first_of_several(before: MergerStatus | None, now: MergerStatus) -> Life | None:
    was = {i.life: i.outvoted for i in before.inputs} if before else {}
    slots = {i.life.slot for i in now.inputs}
    grown = (i.life for i in now.inputs if i.outvoted > was.get(i.life, 0))
    return next(grown, None) if len(slots) >= 3 else None


@pytest.mark.parametrize(
    "odd", [whoever_disagrees, counts_lives, forgets_what_was, the_first_of_several]
)
def test_a_broken_judge_is_caught(odd: Judge) -> None:
    with pytest.raises(AssertionError):
        check_who_is_odd(odd)


def test_what_was_told_before_is_not_told_again() -> None:
    for mode in get_args(OnDivergence):
        assert judge(mode, ONE_ODD, ONE_ODD) is None
        assert judge(mode, None, QUIET) is None
        verdict = judge(mode, QUIET, ONE_ODD)
        assert verdict is not None
        assert "m0.0/1.1: replicas differ, 2 times by now; r0.1/1.1 differs at 7" in verdict.alarm


def test_each_setting_has_its_consequence() -> None:
    def consequence(mode: OnDivergence, now: MergerStatus) -> tuple[Life | None, bool]:
        verdict = judge(mode, QUIET, now)
        assert isinstance(verdict, Consequence)
        return verdict.odd, verdict.is_end

    assert consequence("report", ONE_ODD) == (None, False)
    assert consequence("stop", NONE_ODD) == (None, True)
    assert consequence("majority", ONE_ODD) == (replica(0), False)
    assert consequence("majority", NONE_ODD) == (None, False)


def test_what_a_merger_sees_of_three_replicas_names_the_odd_one() -> None:
    seen = merger()
    differing(seen)  # the odd one leads
    verdict = judge("majority", None, status_of(seen))
    assert verdict is not None
    assert verdict.odd == R0.life


# -- a job ------------------------------------------------------------------------------------


def about(world: World) -> list[str]:
    return [alarm for alarm in world.alarms if "replicas differ" in alarm]


def test_divergence_is_reported_once_for_each_merger_and_growth() -> None:
    world = whole(Desired(3, ("p",), mergers=2))
    odd = machine(world, "r0.1")
    for name in ("m0.0", "m0.1"):
        machine(world, name).outvoted[odd.life] = 1
    world.run(10 * TIMING.heartbeat_ms)
    assert len(about(world)) == 2
    assert all(f"{odd.life} says this" in alarm for alarm in about(world))
    assert spawned(world, "r0.1") == 1
    assert world.supervisor is not None
    state = world.supervisor.state()
    assert {s.life for s in state.samples} == {odd.life}
    assert {s.divergences for s in state.slots if s.slot[0] == "m"} == {1}
    machine(world, "m0.0").outvoted[odd.life] = 2
    world.run(3 * TIMING.heartbeat_ms)
    assert len(about(world)) == 3


def test_a_job_that_is_to_stop_at_divergence_stops_and_says_why() -> None:
    world = whole(on_divergence="stop")
    supervisor = world.supervisor
    assert supervisor is not None
    assert supervisor.state().ended_because == ""
    world.odd = {"r0.1"}
    world.run(2_000)
    assert world.desired.state == "stopped"
    assert not world.lives
    assert world.supervisor is None
    assert "r0.1/1." in supervisor.state().ended_because
    assert "replicas differ" in supervisor.state().ended_because
    assert about(world)[0] == supervisor.state().ended_because


def check_the_odd_one_is_replaced(make: type[Supervisor] = Supervisor) -> None:
    world = whole(Desired(3, ("p",), mergers=2), make, "majority")
    odd = machine(world, "r0.1")
    world.odd = {str(odd.life)}
    world.run(3 * TIMING.heartbeat_ms)
    assert shown(world, "r0.1") == "suspected"
    world.run_until_whole(2_000)
    world.run(200)
    assert odd.life not in world.lives
    assert spawned(world, "r0.1") == 2
    for name in ("m0.0", "m0.1"):
        assert machine(world, name).fences["r0.1"] == machine(world, "r0.1").life
    assert spawned(world, "r0.0") == spawned(world, "r0.2") == 1


def test_the_odd_one_of_three_is_replaced_by_a_successor_and_fenced() -> None:
    check_the_odd_one_is_replaced()


class SeesNobody(Supervisor):
    class TRACKER(StatusTracker):
        def _follow(self, _verdict: Consequence, _now: int) -> list[SupervisorEffect]:
            return []


class EndsItAtOnce(Supervisor):
    class TRACKER(StatusTracker):
        def _is_odd(self, slot: Slot, known: Known, now: int) -> list[SupervisorEffect]:
            gone = self._fleet.dismiss(known, DIVERGES, now, by_force=True)
            return gone + self._fleet.lose(slot, known, DIVERGES, now)


@pytest.mark.parametrize("make", [SeesNobody, EndsItAtOnce])
def test_a_supervisor_that_does_not_replace_it_in_order_is_caught(make: type[Supervisor]) -> None:
    with pytest.raises((AssertionError, Broken)):
        check_the_odd_one_is_replaced(make)


def test_one_that_recovers_from_divergence_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspecting, "DIVERGES", "something else")
    with pytest.raises((AssertionError, Broken)):
        check_the_odd_one_is_replaced()


def test_with_two_replicas_divergence_is_only_reported() -> None:
    world = whole(Desired(2, ("p",)), on_divergence="majority")
    world.odd = {"r0.1"}
    world.run(1_000)
    assert about(world)
    assert shown(world, "r0.1") == "running"


def check_one_that_is_always_odd_is_given_up() -> None:
    world = whole(Desired(3, ("p",)), on_divergence="majority")
    world.odd = {"r0.1"}
    world.run(20_000)
    assert shown(world, "r0.1") == "failed"
    lives = spawned(world, "r0.1")
    assert lives <= FAILURES_MAX + 1
    world.run(5_000)
    assert spawned(world, "r0.1") == lives
    assert world.newest("r0.1") is None
    [alarm] = [a for a in world.alarms if "given up" in a]
    assert f"r0.1 is given up, for it diverges: {FAILURES_MAX} consecutive lives" in alarm
    assert shown(world, "r0.0") == shown(world, "r0.2") == "running"
    world.odd = set()
    world.command(Scale(3))
    world.run_until_whole(2_000)


def test_a_slot_whose_lives_are_all_odd_is_given_up_until_somebody_says_so() -> None:
    check_one_that_is_always_odd_is_given_up()


def test_endless_replacement_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gapless.failover.supervisor.status_tracker.FAILURES_MAX", 10**9)
    with pytest.raises((AssertionError, Broken)):
        check_one_that_is_always_odd_is_given_up()


def test_the_back_off_of_odd_ones_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def lives(ms: int) -> int:
        world = whole(Desired(3, ("p",)), on_divergence="majority")
        world.odd = {"r0.1"}
        world.run(ms)
        return spawned(world, "r0.1")

    patient = lives(2_500)
    monkeypatch.setattr(replacing, "_may_be_next", lambda *_: True)
    assert patient < lives(2_500)


def test_an_odd_one_passes_on_neither_its_state_nor_a_checkpoint() -> None:
    class Watched(World):
        """Keeps how lives are told to begin."""

        def do(self, supervisor: Supervisor, effects: list[SupervisorEffect]) -> None:
            starts.extend(e for e in effects if isinstance(e, Spawn))
            super().do(supervisor, effects)

    starts: list[Spawn] = []
    world = Watched(1, desired=Desired(3, ("p",)), on_divergence="majority")
    world.run_until_whole(3_000)
    world.run(1_000)  # there are checkpoints by now
    odd = machine(world, "r0.1").life
    world.odd = {str(odd)}
    starts.clear()
    world.run_until_whole(2_000)
    world.run(500)
    [spawn] = [s for s in starts if s.life.slot == "r0.1"]
    assert isinstance(spawn.start, ReplicaStart)
    origins = spawn.start.origins
    assert any(isinstance(o, LivePeer) for o in origins)
    assert LivePeer(odd) not in origins
    assert not any(isinstance(o, Stored) for o in origins)


def test_a_life_that_is_found_odd_before_it_says_that_it_joined_is_suspected_then() -> None:
    supervisor = Supervisor(1, Desired(3, ("p",)), (), NODES, TIMING, on_divergence="majority")
    spawns = [e for e in supervisor.on(Start(), 0) if isinstance(e, Spawn)]
    lives = {e.life.slot: e.life for e in spawns}
    odd, now = lives["r0.1"], 10

    def says(is_joining: bool) -> str:
        says = ReplicaStatus(odd, "p", 0, 5, 10**6, 0, is_joining, False, INF)
        supervisor.on(says, now)
        return {s.slot: s.state for s in supervisor.state().slots}["r0.1"]

    assert says(is_joining=True) == "joining"
    inputs = tuple(InputStatus(lives[f"r0.{i}"], 9, True, 0, i == 1) for i in range(3))
    supervisor.on(MergerStatus(lives["m0.0"], 1, 9, 9, inputs, None, 1, False), now)
    assert says(is_joining=False) == "suspected"
    supervisor.validate()


def test_slots_below_the_least_are_no_majority(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diverging, "SLOTS_MIN", 4)
    assert odd_one(QUIET, ONE_ODD) is None
