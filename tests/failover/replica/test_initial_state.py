"""The initial state of a replica: waited for no longer than a bound, restored, passed over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gapless.failover.effects import Start, Tick
from gapless.failover.life_start import LivePeer, Replay
from gapless.failover.messages import SnapshotReply, SnapshotRequest
from gapless.failover.replica import initial_state
from gapless.failover.replica.effects import (
    CheckpointLoaded,
    Done,
    DropCheckpoint,
    OpenSources,
    ReplicaEffect,
    WriteCheckpoint,
)
from gapless.failover.replica.executor import Executor
from gapless.failover.replica.jumpstart import Jumpstart
from gapless.failover.replica.machine import Replica
from gapless.failover.statuses import ReplicaStatus
from tests.failover.replica.large import (
    FIRST,
    LATEST,
    PEER,
    T,
    done,
    filled,
    reads,
    small,
    waits,
    works,
)
from tests.failover.replicas import LIFE, sent, started_with


def joining() -> Replica:
    """One that has asked a peer for its snapshot."""
    origins = (LivePeer(LIFE), Replay())
    machine = Replica(PEER, started_with(*origins, mergers=(FIRST,)), Executor("plan", LATEST), T)
    machine.on(Start(), 0)
    return machine


def begins_at(joiner: Replica, coming: SnapshotReply) -> int:
    """When it begins, where a peer says for ever, with each heartbeat, that one is coming."""
    for now in range(T.heartbeat_ms, 10 * T.busy_ms, T.heartbeat_ms):
        joiner.on(coming, now)
        joiner.on(Tick(), now)
        if not waits(joiner):
            return now
    raise AssertionError("it waits for ever")


def test_a_snapshot_that_is_coming_for_ever_is_not_waited_for() -> None:
    coming = SnapshotReply(LIFE, None, is_coming=True)
    assert begins_at(joining(), coming) == T.busy_ms


class Patient(Jumpstart):
    """Waits as long as somebody says that one is coming."""

    def on_reply(self, reply: SnapshotReply, now: int) -> list[ReplicaEffect]:
        self._since = now
        return super().on_reply(reply, now)


def test_the_test_of_that_wait_sees_who_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(initial_state, "Jumpstart", Patient)
    with pytest.raises(AssertionError, match="for ever"):
        begins_at(joining(), SnapshotReply(LIFE, None, is_coming=True))


def test_a_checkpoint_that_a_disk_never_gives_is_not_waited_for() -> None:
    joiner = joining()
    joiner.on(SnapshotReply(LIFE, None, stored="given-r0.0-3-1-1"), 10)
    joiner.on(Tick(), 9 + T.busy_ms)
    assert waits(joiner)
    joiner.on(Tick(), 10 + T.busy_ms)
    assert not waits(joiner)
    late = CheckpointLoaded("given-r0.0-3-1-1", None, "too late")
    assert joiner.on(late, 11 + T.busy_ms) == []
    joiner.validate()


def test_a_snapshot_that_came_too_late_is_dropped_all_the_same() -> None:
    with small():
        joiner = Replica(
            PEER,
            started_with(LivePeer(LIFE), Replay(), mergers=(FIRST,)),
            Executor("plan", LATEST),
            T,
        )
        joiner.on(Start(), 0)
        joiner.on(Tick(), T.snapshot_ms)
        assert not joiner.is_joining
        reply = SnapshotReply(LIFE, None, stored="given-r0.0-3-1-1")
        assert joiner.on(reply, T.snapshot_ms + 1) == [DropCheckpoint(reply.stored)]


def test_a_large_state_is_taken_over_beside_the_pump_which_goes_on_and_says_so() -> None:
    with small():
        giver, joiner = filled(), joining()
        told = done(giver, giver.on(SnapshotRequest(PEER, "plan"), 1), 1)
        [write] = [e for e in told if isinstance(e, WriteCheckpoint)]
        joiner.on(SnapshotReply(LIFE, None, stored=write.name), 2)
        [work] = works(joiner.on(CheckpointLoaded(write.name, write.checkpoint), 3))
        for now in range(T.heartbeat_ms, 4 * T.busy_ms, T.heartbeat_ms):
            [status] = sent(joiner.on(Tick(), now), ReplicaStatus)
            assert status.is_joining
        assert joiner.on(SnapshotReply(LIFE, None, is_coming=True), 5 * T.busy_ms) == []
        effects = joiner.on(Done(work.number, work.do()), 5 * T.busy_ms)
        assert reads(effects)
        [status] = sent(effects, ReplicaStatus)
        assert not status.is_joining
        assert joiner.output.tail.fold() == giver.output.tail.fold()
        joiner.validate()


def test_a_state_that_turns_out_to_be_none_leads_to_the_next_origin() -> None:
    with small():
        giver, joiner = filled(), joining()
        told = done(giver, giver.on(SnapshotRequest(PEER, "plan"), 1), 1)
        [write] = [e for e in told if isinstance(e, WriteCheckpoint)]
        joiner.on(SnapshotReply(LIFE, None, stored=write.name), 2)
        other = replace(write.checkpoint, state={})
        effects = joiner.on(CheckpointLoaded(write.name, other), 3)
        told = done(joiner, effects, 4)
        assert [e.positions for e in told if isinstance(e, OpenSources)] == [None]  # a replay
        assert not waits(joiner)
