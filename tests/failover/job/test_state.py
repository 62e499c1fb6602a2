"""What people see of a job: how far each slot is, who leads, how it came back."""

from __future__ import annotations

from dataclasses import replace

from gapless.failover.effects import Start
from gapless.failover.job.desired import Desired, Stop
from gapless.failover.job.state import SlotState
from gapless.failover.messages import Life
from gapless.failover.statuses import NOT_YET, InputStatus, MergerStatus, Rejoin, ReplicaStatus
from gapless.failover.supervisor.effects import Died, Spawn
from gapless.failover.supervisor.machine import Supervisor
from gapless.protocol.elements import BEGIN, INF
from tests.failover.supervised import whole
from tests.failover.supervised_lives import NODES, TIMING


class Seen:
    """A supervisor that is told what a test says; its clock begins at 1000."""

    def __init__(self, replicas: int = 2) -> None:
        desired = Desired(replicas, ("p",), mergers=2)
        self.supervisor = Supervisor(1, desired, (), NODES, TIMING)
        spawns = [e for e in self.supervisor.on(Start(), 1_000) if isinstance(e, Spawn)]
        self.lives: dict[str, Life] = {e.life.slot: e.life for e in spawns}

    def replica(self, slot: str, stable: int, now: int, **said: object) -> None:
        status = ReplicaStatus(self.lives[slot], "p", 0, stable, 10**6, 0, False, False, INF)
        self.supervisor.on(replace(status, **said), now)  # type: ignore[arg-type]  # fields of it

    def merger(self, slot: str, now: int, **led: int) -> None:
        inputs = tuple(
            InputStatus(self.lives[name.replace("_", ".")], 7, True, led=count)
            for name, count in led.items()
        )
        life = self.lives[slot]
        self.supervisor.on(MergerStatus(life, 4, 90, 80, inputs, "an input", 0, False), now)

    def shown(self, slot: str, now: int) -> SlotState:
        return next(s for s in self.supervisor.state(now).slots if s.slot == slot)


def test_a_slot_shows_how_far_its_replica_is_and_how_it_came_back() -> None:
    job = Seen()
    assert job.shown("r0.0", 1_100).heard_ms == 100
    assert job.shown("r0.0", 1_100).rejoin == NOT_YET
    job.replica("r0.0", 100, 1_200)
    job.replica("r0.1", 70, 1_300, jumped_ms=5, origin="replay", rejoin=Rejoin(1, 2, 3))
    seen = job.shown("r0.1", 1_450)
    assert (seen.stable, seen.lag, seen.heard_ms) == (70, 30, 150)
    assert (seen.jumped_ms, seen.origin, seen.rejoin) == (5, "replay", Rejoin(1, 2, 3))
    assert (seen.qualified_ms, seen.lead_share) == (-1, 0.0)
    assert job.shown("r0.0", 1_450).lag == 0
    assert job.supervisor.state().best == (100,)


def test_the_lag_to_an_end_or_of_one_that_has_said_nothing_is_not_known() -> None:
    job = Seen()
    job.replica("r0.0", BEGIN, 1_200)
    job.replica("r0.1", 50, 1_200)
    assert job.shown("r0.0", 1_200).lag == 0
    job.replica("r0.1", INF, 1_300)
    job.replica("r0.0", 40, 1_300)
    assert job.shown("r0.0", 1_300).lag == 0


def test_the_time_to_qualify_is_of_the_first_time_that_every_merger_says_so() -> None:
    job = Seen()
    for slot in ("r0.0", "r0.1"):
        job.replica(slot, 10, 1_100)
    job.merger("m0.0", 1_150)
    job.merger("m0.1", 1_150)
    job.merger("m0.0", 1_200, r0_0=1)
    assert job.shown("r0.0", 1_200).qualified_ms == -1
    job.merger("m0.1", 1_300, r0_0=1)
    assert job.shown("r0.0", 1_300).qualified_ms == 300
    job.merger("m0.1", 1_900)
    job.merger("m0.1", 2_000, r0_0=1)
    assert job.shown("r0.0", 2_000).qualified_ms == 300
    assert job.shown("r0.1", 2_000).qualified_ms == -1


def test_leads_are_shared_over_all_mergers_of_the_shard() -> None:
    job = Seen()
    for slot in ("r0.0", "r0.1"):
        job.replica(slot, 10, 1_100)
    job.merger("m0.0", 1_200, r0_0=6, r0_1=0)
    job.merger("m0.1", 1_200, r0_0=1, r0_1=1)
    assert job.shown("r0.0", 1_200).lead_share == 7 / 8
    assert job.shown("r0.1", 1_200).lead_share == 1 / 8


def test_a_slot_shows_how_its_merger_is() -> None:
    job = Seen()
    job.replica("r0.0", 10, 1_100)
    job.merger("m0.0", 1_200, r0_0=6)
    seen = job.shown("m0.0", 1_200)
    assert (seen.stable, seen.durable_stable, seen.epoch) == (90, 80, 4)
    assert (seen.inputs, seen.waiting_for, seen.divergences, seen.lag) == (1, "an input", 0, 0)


def test_an_empty_slot_shows_no_age() -> None:
    job = Seen()
    job.supervisor.on(Died(job.lives["r0.0"], "it died"), 1_200)
    assert job.shown("r0.0", 1_300).heard_ms == -1


def test_a_job_that_ends_says_why() -> None:
    for change, why in ((Stop(), "it was asked to stop"), (Stop(True), "it was asked to drain")):
        world = whole()
        supervisor = world.supervisor
        assert supervisor is not None
        assert supervisor.state().ended_because == ""
        world.command(change)
        assert supervisor.state().ended_because == why
    resumed = Supervisor(2, Desired(1, ("p",), state="stopped"), (), NODES, TIMING)
    resumed.on(Start(), 0)
    assert resumed.state().ended_because == "it was stopped before"
