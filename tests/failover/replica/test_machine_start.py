"""How a replica begins: with a peer's state, with a checkpoint, with nothing; and what it gives."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pyarrow as pa
import pytest

from gapless.failover.effects import Alarm, Send, Start, Tick
from gapless.failover.life_start import LivePeer, Origin, Replay, Stored
from gapless.failover.messages import (
    SUPERVISOR,
    Ack,
    Attach,
    Data,
    Drain,
    Life,
    Session,
    SnapshotReply,
    SnapshotRequest,
    TakeCheckpoint,
)
from gapless.failover.replica.checkpoint import Checkpoint
from gapless.failover.replica.effects import (
    CheckpointLoaded,
    CheckpointWritten,
    LoadCheckpoint,
    OpenSources,
    ReplicaEffect,
    ReplicaEvent,
    SourceFailed,
    SourceRead,
    WriteCheckpoint,
)
from gapless.failover.replica.executor import Executor
from gapless.failover.replica.machine import Replica
from gapless.failover.statuses import CheckpointTaken, ReplicaStatus
from gapless.failover.timing import Timing
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame
from tests.failover.replicas import LIFE, PLANS, Pump, Receiver, answer, journal, sent, started_with

T = Timing()
PEER = Life("r0.1", Incarnation(3, 2))
MERGER = "m0.0"


class Job:
    """One plan and its journals, and replicas of it, each with a merger of its own."""

    def __init__(self, plan: str, seed: int = 1) -> None:
        self.plan = PLANS[plan]()
        sources = Executor("plan", self.plan).sources
        rng = random.Random(seed)
        self.journals = {name: journal(schema, rng, 60) for name, schema in sources.items()}
        self.truth = answer(self.plan, self.journals)
        self.pump = Pump(self.journals)

    def replica(self, *origins: Origin, held_at: int = INF) -> Replica:
        start = started_with(*origins, held_at=held_at, mergers=(MERGER,))
        return Replica(LIFE, start, Executor("plan", self.plan), T)

    def run(
        self, machine: Replica, event: ReplicaEvent, receiver: Receiver, shown: int | None
    ) -> None:
        """All that follows, over a network without faults."""
        self.pump.shown = shown
        waiting = self.pump.drive(machine, event, 0)
        while waiting:
            send = waiting.pop(0)
            if send.to == MERGER:
                waiting += self.pump.drive(machine, receiver.on(send.message), 0)
        machine.validate()

    def half_way(self, shown: int = 30) -> tuple[Replica, Checkpoint]:
        """One that has read a part, and what it then gives of itself."""
        machine = self.replica()
        self.run(machine, Start(), Receiver(MERGER, machine.schema), shown)
        self.run(machine, Tick(), Receiver(MERGER, machine.schema), shown)
        return machine, checkpoint_of(machine)


def checkpoint_of(machine: Replica) -> Checkpoint:
    [reply] = sent(machine.on(SnapshotRequest(PEER, "plan"), 0), SnapshotReply)
    assert reply.checkpoint is not None
    checkpoint: Checkpoint = reply.checkpoint
    return checkpoint


def opened(effects: list[ReplicaEffect]) -> OpenSources | None:
    return next((e for e in effects if isinstance(e, OpenSources)), None)


# -- going on ---------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", PLANS)
def test_who_goes_on_from_a_snapshot_ends_as_who_was_never_interrupted(plan: str) -> None:
    for seed, shown in ((1, 7), (2, 30), (3, 55)):
        job = Job(plan, seed)
        _, checkpoint = job.half_way(shown)
        machine = job.replica(Stored("c"), Replay())
        job.pump.stored["c"] = checkpoint
        receiver = Receiver(MERGER, machine.schema)
        job.run(machine, Start(), receiver, None)
        job.run(machine, Tick(), receiver, None)
        assert job.pump.opened is not None
        assert job.pump.opened.positions == {name: {0: shown} for name in job.journals}
        assert receiver.table == job.truth, f"seed {seed}, after {shown} frames"
        assert receiver.table.stable == INF


@pytest.mark.parametrize("plan", ["counting", "early", "joining", "passing"])
def test_who_joins_at_a_time_tells_every_event_that_ends_later(plan: str) -> None:
    for join_at in (20, 55, 100):
        job = Job(plan)
        machine = job.replica(Replay(join_at))
        receiver = Receiver(MERGER, machine.schema)
        job.run(machine, Start(), receiver, None)
        job.run(machine, Tick(), receiver, None)
        assert receiver.join_at == join_at
        assert job.pump.opened is not None
        reach = machine.executor.reach
        assert job.pump.opened.since == {name: join_at - reach[name] for name in job.journals}
        assert receiver.table.since(join_at) == job.truth.since(join_at)


def test_a_held_life_takes_a_state_over_and_promises_less_than_it() -> None:
    job = Job("counting")
    giver, checkpoint = job.half_way()
    assert giver.output.tail.stable > 20
    machine = job.replica(Stored("c"), Replay(), held_at=20)
    [attach] = sent(machine.on(Start(), 0), Attach) or sent(
        machine.on(CheckpointLoaded("c", checkpoint), 0), Attach
    )
    assert attach.tail.stable == 20
    machine.validate()


def test_what_a_held_life_gives_is_whole_for_one_that_is_not_held() -> None:
    job = Job("counting")
    held = job.replica(held_at=20)
    receiver = Receiver(MERGER, held.schema)
    job.run(held, Start(), receiver, None)
    job.pump.stored["c"] = checkpoint_of(held)
    machine = job.replica(Stored("c"), Replay())
    receiver = Receiver(MERGER, machine.schema)
    job.run(machine, Start(), receiver, None)
    assert receiver.table == job.truth


# -- choosing ---------------------------------------------------------------------------------


def test_a_peer_is_asked_by_its_life_and_its_answer_is_the_beginning() -> None:
    job = Job("counting")
    _, checkpoint = job.half_way()
    machine = job.replica(LivePeer(PEER), Replay())
    effects = machine.on(Start(), 0)
    assert Send(str(PEER), SnapshotRequest(LIFE, "plan")) in effects
    assert sent(effects, ReplicaStatus)[0].is_joining
    effects = machine.on(SnapshotReply(PEER, checkpoint), 10)
    assert opened(effects) == OpenSources(checkpoint.positions, {"flows": BEGIN})
    assert len(sent(effects, Attach)) == 1
    assert not sent(effects, ReplicaStatus)[0].is_joining


def test_silence_a_refusal_and_a_missing_checkpoint_lead_to_the_next_origin() -> None:
    job = Job("counting")
    other = Life("r0.2", Incarnation(3, 3))
    machine = job.replica(LivePeer(PEER), LivePeer(other), Stored("c"), Replay(40))
    machine.on(Start(), 0)
    assert sent(machine.on(Tick(), T.snapshot_ms - 1), SnapshotRequest) == []
    assert Send(str(other), SnapshotRequest(LIFE, "plan")) in machine.on(Tick(), T.snapshot_ms)
    effects = machine.on(SnapshotReply(other, None, "it is joining itself"), 1100)
    assert effects == [LoadCheckpoint("c")]
    effects = machine.on(CheckpointLoaded("c", None, "damaged"), 1200)
    assert opened(effects) == OpenSources(None, {"flows": 20})
    assert sent(effects, Attach)[0].join_at == 40


def test_the_answer_of_a_peer_that_was_not_asked_or_was_given_up_is_not_used() -> None:
    job = Job("counting")
    _, checkpoint = job.half_way()
    other = Life("r0.2", Incarnation(3, 3))
    machine = job.replica(LivePeer(PEER), Stored("c"), Replay())
    machine.on(Start(), 0)
    assert machine.on(SnapshotReply(other, checkpoint), 10) == []
    assert machine.on(CheckpointLoaded("c", checkpoint), 10) == []
    machine.on(Tick(), T.snapshot_ms)
    assert machine.on(SnapshotReply(PEER, checkpoint), 2000) == []
    assert machine.is_joining


def unfit(checkpoint: Checkpoint) -> list[Checkpoint]:
    """Checkpoints of other plans, and damaged ones."""
    strange = pa.record_batch({"x": pa.array([1])})
    return [
        replace(checkpoint, plan="another"),
        replace(checkpoint, positions={"nothing": {0: 1}}),
        replace(checkpoint, given={"nothing": 1}),
        replace(checkpoint, state={**checkpoint.state, "9.Strange.x": strange}),
        replace(checkpoint, state={}),
        replace(checkpoint, tail=(Frame.empty(Executor("p", PLANS["passing"]()).schema),)),
    ]


def test_a_checkpoint_that_does_not_fit_is_passed_over_and_the_next_one_is_good() -> None:
    job = Job("counting")
    _, checkpoint = job.half_way()
    for i, bad in enumerate(unfit(checkpoint)):
        machine = job.replica(Stored("bad"), Stored("good"), Replay())
        machine.on(Start(), 0)
        said, *rest = machine.on(CheckpointLoaded("bad", bad), 0)
        assert rest == [LoadCheckpoint("good")], f"case {i}"
        assert isinstance(said, Alarm), f"case {i}"
        assert re.match(r"r0\.0/\S+ does not begin with checkpoint bad: .{10,}", said.what)
        assert said.what.endswith("; it tries checkpoint good next")
        assert opened(machine.on(CheckpointLoaded("good", checkpoint), 0)) is not None
        machine.validate()


def test_a_checkpoint_of_another_release_is_said_and_all_is_made_by_replay() -> None:
    job = Job("counting")
    machine = job.replica(Stored("old"), Replay())
    machine.on(Start(), 0)
    why = "head.format: 1: another release made it"
    said, *rest = machine.on(CheckpointLoaded("old", None, why), 0)
    assert isinstance(said, Alarm)
    assert why in said.what
    assert said.what.endswith("; it tries replay next")
    assert opened(rest) is not None


def test_a_source_that_cannot_be_read_ends_this_life() -> None:
    job = Job("counting")
    machine = job.replica()
    machine.on(Start(), 0)
    assert "trimmed" in str(machine.on(SourceFailed("flows", "row 3 has been trimmed"), 0))
    assert machine.on(Tick(), 1000) == []


# -- giving -----------------------------------------------------------------------------------


def test_a_snapshot_is_given_to_the_same_plan_by_one_that_has_read_every_source() -> None:
    job = Job("counting")
    machine = job.replica(LivePeer(PEER), Replay())
    [reply] = sent(machine.on(SnapshotRequest(PEER, "plan"), 0), SnapshotReply)
    assert (reply.checkpoint, reply.reason) == (None, "it is joining itself")
    machine.on(Start(), 0)
    machine.on(SnapshotReply(PEER, None), 0)
    [reply] = sent(machine.on(SnapshotRequest(PEER, "plan"), 0), SnapshotReply)
    assert (reply.checkpoint, reply.reason) == (None, "it has not read flows yet")
    machine.on(SourceRead("flows", None, {0: 0}), 0)
    [reply] = sent(machine.on(SnapshotRequest(PEER, "other"), 0), SnapshotReply)
    assert (reply.checkpoint, reply.reason) == (None, "it runs plan, not other")
    assert checkpoint_of(machine).positions == {"flows": {0: 0}}


def test_a_snapshot_is_not_changed_by_what_comes_after_it() -> None:
    job = Job("counting")
    machine, checkpoint = job.half_way()
    before = {name: batch.to_pylist() for name, batch in checkpoint.state.items()}
    job.run(machine, Tick(), Receiver(MERGER, machine.schema), None)
    assert {name: batch.to_pylist() for name, batch in checkpoint.state.items()} == before
    assert checkpoint.positions == {"flows": {0: 30}}


def test_a_checkpoint_is_written_once_a_name_and_the_supervisor_hears_of_it() -> None:
    machine, _ = Job("counting").half_way()
    order = TakeCheckpoint(3, "0-plan-3-1")
    [write] = machine.on(order, 0)
    assert isinstance(write, WriteCheckpoint)
    assert machine.on(order, 0) == []
    since = machine.output.tail.since
    taken = CheckpointTaken(LIFE, order.name, "plan", since, nbytes=write.checkpoint.nbytes)
    assert machine.on(CheckpointWritten(order.name), 5) == [Send(SUPERVISOR, taken)]
    assert machine.on(order, 9) == [Send(SUPERVISOR, taken)]
    machine.on(TakeCheckpoint(3, "second"), 9)
    [failed] = sent(machine.on(CheckpointWritten("second", "the disk is full"), 9), CheckpointTaken)
    assert failed.reason == "the disk is full"
    assert machine.on(CheckpointWritten("unasked"), 9) == []


def test_one_that_joins_says_why_it_takes_no_checkpoint() -> None:
    machine = Job("counting").replica(LivePeer(PEER), Replay())
    machine.on(Start(), 0)
    [taken] = sent(machine.on(TakeCheckpoint(3, "c"), 0), CheckpointTaken)
    assert taken.reason == "it is joining itself"


def test_a_drain_that_comes_while_it_joins_is_done_afterwards() -> None:
    job = Job("counting")
    _, checkpoint = job.half_way()
    machine = job.replica(LivePeer(PEER), Replay())
    machine.on(Start(), 0)
    machine.on(Drain(3), 0)
    receiver = Receiver(MERGER, machine.schema)
    job.run(machine, SnapshotReply(PEER, checkpoint), receiver, None)
    assert machine.is_drained
    assert receiver.table == job.truth


def test_events_before_the_start_are_not_heard_and_those_of_strangers_are_a_bug() -> None:
    machine = Job("counting").replica(LivePeer(PEER), Replay())
    session = Session(LIFE, MERGER, 1)
    assert machine.on(Ack(session, 1, 0, 5, 5), 0) == []
    assert machine.on(SourceRead("flows", None, {0: 0}), 0) == []
    with pytest.raises(Bug, match="a replica was given Data"):
        machine.on(Data(session, 1, Frame.empty(machine.schema)), 0)  # type: ignore[arg-type]  # mypy says so, too
