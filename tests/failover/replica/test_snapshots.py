"""Snapshots of a replica: large ones are made beside the pump, and the plan is left alone."""

from __future__ import annotations

import pytest

from gapless.failover.effects import Start, Tick
from gapless.failover.life_start import LivePeer, Replay
from gapless.failover.messages import Life, SnapshotReply, SnapshotRequest, TakeCheckpoint
from gapless.failover.replica import snapshots
from gapless.failover.replica.effects import (
    CheckpointLoaded,
    CheckpointWritten,
    Done,
    DropCheckpoint,
    LoadCheckpoint,
    ReplicaEffect,
    ReplicaEvent,
    WriteCheckpoint,
)
from gapless.failover.replica.executor import Executor
from gapless.failover.replica.machine import Replica
from gapless.failover.statuses import ReplicaStatus
from gapless.protocol.envelope import Incarnation
from tests.failover.replica.large import (
    FIRST,
    LATEST,
    PEER,
    T,
    done,
    filled,
    keys,
    reads,
    small,
    waits,
    works,
)
from tests.failover.replicas import LIFE, sent, started_with


def test_a_large_snapshot_is_made_beside_and_nothing_is_read_until_its_state_is_there() -> None:
    with small():
        machine = filled()
        [state] = works(machine.on(TakeCheckpoint(3, "0-plan-3-1"), 5))
        assert machine.on(TakeCheckpoint(3, "0-plan-3-1"), 5) == []
        before = machine.output.tail.put_out
        late = machine.on(keys(40, 5, 4), 6)  # a read that was under way
        assert not reads(late)
        assert machine.output.tail.put_out == before
        assert sent(machine.on(Tick(), T.heartbeat_ms), ReplicaStatus)
        effects = machine.on(Done(state.number, state.do()), 9)
        assert reads(effects)
        assert machine.output.tail.put_out == before + 5
        [fold] = works(effects)
        assert reads(machine.on(keys(50, 5, 5), 10))  # while the tail is folded it reads on
        effects = machine.on(Done(fold.number, fold.do()), 11)
        [write] = [e for e in effects if isinstance(e, WriteCheckpoint)]
        assert write.checkpoint.positions == {"flows": {0: 3}}
        assert sum(map(len, write.checkpoint.tail)) == 15
        assert all(len(piece) <= 4 for piece in write.checkpoint.tail)
        machine.validate()
        other = Executor("plan", LATEST)
        other.restore(write.checkpoint.state, write.checkpoint.given)
        assert other.stable == 3


def test_snapshots_that_take_longer_than_they_are_apart_leave_time_to_read() -> None:
    with small():
        machine = filled()
        asked = machine.on(TakeCheckpoint(3, "0-plan-3-1"), 5)
        machine.on(keys(40, 5, 4), 6)
        assert machine.on(TakeCheckpoint(3, "0-plan-3-2"), 7) == []  # the order comes again
        effects = done(machine, asked, 9)
        assert reads(effects)
        assert len([e for e in effects if isinstance(e, WriteCheckpoint)]) == 1
        assert machine.on(TakeCheckpoint(3, "0-plan-3-3"), 10) == []  # the disk is still at it
        machine.on(CheckpointWritten("0-plan-3-1"), 11)
        assert works(machine.on(TakeCheckpoint(3, "0-plan-3-4"), 12))


def test_a_snapshot_that_takes_long_is_said_to_be_what_a_replica_waits_for() -> None:
    with small():
        machine = filled()
        [work] = works(machine.on(TakeCheckpoint(3, "0-plan-3-1"), 5))
        machine.on(keys(40, 5, 4), 6)
        [early] = sent(machine.on(Tick(), 5 + T.heartbeat_ms), ReplicaStatus)
        [late] = sent(machine.on(Tick(), 6 + T.hang_ms), ReplicaStatus)
        assert (early.waits_for, late.waits_for) == ("", "its snapshot is being made")
        machine.on(Done(work.number, work.do()), 7 + T.hang_ms)
        [again] = sent(machine.on(Tick(), 7 + 2 * T.hang_ms), ReplicaStatus)
        assert not again.waits_for


def test_a_peer_gets_a_snapshot_larger_than_a_message_by_the_disk_and_drops_it() -> None:
    with small():
        giver = filled()
        joiner = Replica(
            PEER,
            started_with(LivePeer(LIFE), Replay(), mergers=(FIRST,)),
            Executor("plan", LATEST),
            T,
        )
        [asked] = sent(joiner.on(Start(), 0), SnapshotRequest)
        effects = giver.on(asked, 1)
        [work], [coming] = works(effects), sent(effects, SnapshotReply)
        assert coming.is_coming
        late = T.snapshot_ms - 1
        joiner.on(coming, late)
        [still] = sent(giver.on(Tick(), late + T.heartbeat_ms), SnapshotReply)
        assert still == coming
        joiner.on(Tick(), late + T.snapshot_ms - 1)
        assert waits(joiner)
        [write] = [e for e in done(giver, [work], 5) if isinstance(e, WriteCheckpoint)]
        [given] = sent(giver.on(CheckpointWritten(write.name), 6), SnapshotReply)
        assert (given.stored, given.checkpoint) == (write.name, None)
        assert joiner.on(given, 7) == [LoadCheckpoint(write.name)]
        effects = joiner.on(CheckpointLoaded(write.name, write.checkpoint), 8)
        assert DropCheckpoint(write.name) in effects
        assert waits(joiner)
        done(joiner, effects, 9)
        assert not waits(joiner)
        assert joiner.output.tail.since == giver.output.tail.since
        assert len(joiner.output.tail) == 15
        joiner.validate()


class ReadsWhileItIsDrawn(Replica):
    """Lets the plan go on while its snapshot is made."""

    def on(self, event: ReplicaEvent, now: int) -> list[ReplicaEffect]:
        self._snapshots.has_state()
        return super().on(event, now)


def test_a_snapshot_of_a_plan_that_goes_on_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.failover.replica.large.Replica", ReadsWhileItIsDrawn)
    with pytest.raises((AssertionError, ValueError)):
        test_a_large_snapshot_is_made_beside_and_nothing_is_read_until_its_state_is_there()


def test_so_many_may_wait_for_a_snapshot_and_who_asks_beyond_that_tries_its_next_origin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshots, "ASKED_MAX", 2)
    with small():
        machine = filled()
        askers = [Life("r0.1", Incarnation(3, n)) for n in range(2, 6)]
        effects = [machine.on(SnapshotRequest(asker, "plan"), 5) for asker in askers]
        assert [len(sent(e, SnapshotReply)) for e in effects] == [1, 1, 1, 0]
        after = done(machine, list(works(effects[0])), 6)  # also for those who asked meanwhile
        assert sum(isinstance(e, WriteCheckpoint) for e in after) == 3
