"""What an effect of a supervisor does, on a directory that fails at any call and on one that does
not; and what it does once another root has the job.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gapless.chaos.sim.disk import SimulatedDisk, View
from gapless.engine.plan import Plan
from gapless.engine.source import source
from gapless.failover.effects import Exit
from gapless.failover.io.supervisor_io import (
    EFFECTS,
    JobEffect,
    SupervisorIO,
    drop_unreadable,
)
from gapless.failover.job.desired import Desired
from gapless.failover.job.directory import Job, RootStart
from gapless.failover.job.files import JobRecord
from gapless.failover.life_start import MergerStart, Start
from gapless.failover.messages import Life, Retire
from gapless.failover.replica import checkpoint
from gapless.failover.replica.effects import DropCheckpoint
from gapless.failover.supervisor.effects import Desire, Kill, Spawn
from gapless.failover.supervisor.machine import Supervisor
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import Fenced
from tests.failover.io.failing_disk import CALLS_MAX, ERRORS, Failing

DESIRED = Desired(2, ("a",))
MERGER = Life("m0.0", Incarnation(1, 1))
NAME = "0-a-1-1"
FAILURES = [error for error in ERRORS if not isinstance(error(), Fenced)]
"""Of a disk alone: that another root has the job the directory says."""
IO_ERROR = FAILURES[-1]
EFFECT: dict[type[JobEffect], JobEffect] = {
    Desire: Desire(replace(DESIRED, replicas=3)),
    DropCheckpoint: DropCheckpoint(NAME),
    Spawn: Spawn(MERGER, "n1", MergerStart(0, ())),
    Kill: Kill(MERGER),
}


class Noted:
    """Processes that a test looks at."""

    def __init__(self) -> None:
        self.done: list[tuple[str, Life]] = []

    def spawn(self, life: Life, node: str, start: Start) -> None:
        assert (node, start) == ("n1", MergerStart(0, ()))
        self.done.append(("spawn", life))

    def kill(self, life: Life) -> None:
        self.done.append(("kill", life))


class World:
    """A job's directory with a checkpoint in it, and the interpreter of the root that has it."""

    def __init__(self, **options: Any) -> None:
        self.raw = View(SimulatedDisk(), "job")
        self.disk: Any = Failing(self.raw)
        query = source("rows", {"ts": "int64", "src": "string"}, time="ts")
        record = JobRecord("job", {"rows": "rows"}, False, "r4")
        Job.create(self.raw, "maker", record, {"a": Plan(query)}, DESIRED)
        self.raw.append(f"{checkpoint.FOLDER}/{NAME}", b"not one that reads")
        self.job = Job(self.disk, "t1")
        self.resumed = self.job.resume()
        self.processes, self.alarms = Noted(), list[str]()
        self.dropped: list[str] = []
        self.io = SupervisorIO(
            self.job,
            self.resumed,
            self.processes,
            self.alarms.append,
            on_drop=self.dropped.append,
            **options,
        )

    def another(self) -> RootStart:
        """Another root resumes the job."""
        return Job(self.raw, "t2").resume()

    @property
    def has_checkpoint(self) -> bool:
        return self.raw.exists(f"{checkpoint.FOLDER}/{NAME}")

    @property
    def written(self) -> Desired:
        return Job(self.raw, "reader").desired()


def test_each_effect_is_done_to_the_directory_or_to_the_processes() -> None:
    world = World()
    for kind in EFFECTS:
        assert world.io.do(EFFECT[kind]) is None
    assert world.written == world.io.desired == replace(DESIRED, replicas=3)
    assert world.processes.done == [("spawn", MERGER), ("kill", MERGER)]
    assert (world.has_checkpoint, world.dropped, world.alarms) == (False, [NAME], [])


@pytest.mark.parametrize("kind", EFFECTS, ids=lambda kind: kind.__name__)
def test_a_root_whose_term_is_over_does_nothing_more_and_retires(kind: type[JobEffect]) -> None:
    world = World()
    assert world.io.look() is None
    world.another()
    order = world.io.do(EFFECT[kind])
    assert isinstance(order, Retire)
    assert "another root has" in order.reason
    assert isinstance(world.io.look(), Retire)
    assert (world.written, world.io.desired) == (DESIRED, DESIRED)
    assert bool(world.io.unwritten) == (kind is Desire)
    assert (world.processes.done, world.has_checkpoint, world.dropped) == ([], True, [])


@pytest.mark.parametrize("kind", EFFECTS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("number", range(len(FAILURES)))
def test_whatever_a_directory_raises_at_whichever_call_the_root_goes_on_or_retires(
    kind: type[JobEffect], number: int
) -> None:
    for at in range(CALLS_MAX):
        world = World()
        world.disk.fail(at, FAILURES[number])
        order = world.io.do(EFFECT[kind])
        if world.disk.left is not None:
            assert at > 0, "it has made no call"
            return  # the effect has made all of its calls
        assert world.processes.done == []
        assert len(world.alarms) == 1
        if order is None:
            assert kind is DropCheckpoint, "nothing follows from it"
            continue
        assert isinstance(order, Retire)
        assert world.alarms == [order.reason]
    pytest.fail(f"more than {CALLS_MAX} calls")


def test_a_checkpoint_that_cannot_be_removed_is_kept_for_who_reads_it_and_said() -> None:
    world = World()
    world.disk.fail(1, IO_ERROR)  # behind the look
    assert world.io.do(DropCheckpoint(NAME)) is None
    assert (world.has_checkpoint, world.dropped) == (True, [])
    assert world.alarms == [f"checkpoint {NAME} is not dropped: [Errno 5] it has failed"]


def test_the_order_to_retire_ends_the_machine_that_has_asked() -> None:
    world = World()
    world.another()
    machine = Supervisor(world.resumed.term, DESIRED, (), ("n1",))
    order = world.io.do(EFFECT[Desire])
    assert order is not None
    (effect,) = machine.on(order, 0)
    assert isinstance(effect, Exit)
    assert "what is desired cannot be written" in effect.reason


def test_a_process_that_does_not_see_the_directory_goes_on() -> None:
    world = World(is_over=lambda: False)
    world.another()
    assert world.io.look() is None
    assert world.io.do(EFFECT[Kill]) is None
    assert isinstance(world.io.do(EFFECT[Desire]), Retire), "the directory itself refuses it"


def test_checkpoints_of_no_use_go_when_a_job_is_resumed() -> None:
    world = World()
    assert set(world.resumed.unreadable) == {NAME}
    drop_unreadable(world.job, world.resumed, world.alarms.append)
    assert not world.has_checkpoint
    (alarm,) = world.alarms
    assert alarm.startswith(f"checkpoint {NAME} is dropped: ")


def test_one_that_cannot_go_does_not_keep_a_root_from_beginning() -> None:
    world = World()
    world.disk.fail(0, IO_ERROR)
    drop_unreadable(world.job, world.resumed, world.alarms.append)
    assert world.has_checkpoint
    assert world.alarms[1].startswith(f"checkpoint {NAME} is not dropped")
