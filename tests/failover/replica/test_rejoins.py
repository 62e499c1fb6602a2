"""How a replica comes back: what it began with, how soon, what it skipped, and where it begins
when the sources of its state are gone.
"""

from __future__ import annotations

import pytest

from gapless.failover.effects import Exit, Start, Tick
from gapless.failover.life_start import LivePeer, Origin, Replay, Stored
from gapless.failover.messages import Ack, Attach, SnapshotReply, SnapshotRequest
from gapless.failover.replica.effects import (
    CheckpointLoaded,
    LoadCheckpoint,
    ReplicaEffect,
    SourceFailed,
    SourceRead,
)
from gapless.failover.replica.machine import Replica
from gapless.failover.replica.output_sender import OutputSender
from gapless.failover.statuses import NOT_YET, Rejoin, ReplicaStatus
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame
from tests.failover.replica.test_machine_start import MERGER, PEER, Job, opened
from tests.failover.replicas import Receiver, sent

GONE = SourceFailed("", "row 3 has been trimmed")


def status_of(machine: Replica, now: int) -> ReplicaStatus:
    """What its next heartbeat says."""
    [status] = sent(machine.on(Tick(), now), ReplicaStatus)
    assert isinstance(status, ReplicaStatus)
    return status


# -- the next origin --------------------------------------------------------------------------


def check_a_state_whose_sources_are_gone_is_given_up(*origins: Origin) -> None:
    """The first origin's sources cannot be opened; a replay from the beginning gives it all."""
    job = Job("counting")
    _, checkpoint = job.half_way()
    machine = job.replica(*origins, Replay())
    receiver = Receiver(MERGER, machine.schema)
    given = (
        SnapshotReply(PEER, checkpoint)
        if isinstance(origins[0], LivePeer)
        else CheckpointLoaded("c", checkpoint)
    )
    machine.on(Start(), 0)
    [first] = sent(machine.on(given, 10), Attach)
    machine.on(receiver.on(first), 20)
    effects = machine.on(GONE, 30)
    machine.validate()
    open_sources = opened(effects)
    assert open_sources is not None
    assert open_sources.positions is None
    for effect in [effects, machine.on(Tick(), 40)]:
        for attach in sent(effect, Attach):
            machine.on(receiver.on(attach), 50)
    job.pump.shown = None
    job.pump.answers(open_sources)
    waiting = job.pump.drive(machine, job.pump.read("flows"), 60)
    while waiting:
        send = waiting.pop(0)
        if send.to == MERGER:
            waiting += job.pump.drive(machine, receiver.on(send.message), 60)
    machine.validate()
    assert receiver.table == job.truth
    assert receiver.table.stable == INF


def test_a_state_whose_sources_are_gone_is_given_up_for_a_replay() -> None:
    check_a_state_whose_sources_are_gone_is_given_up(Stored("c"))
    check_a_state_whose_sources_are_gone_is_given_up(LivePeer(PEER))


def test_one_that_goes_on_with_the_state_that_it_gave_up_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from gapless.failover.replica.executor import Executor

    monkeypatch.setattr(Executor, "begin_anew", lambda _: None)
    with pytest.raises((AssertionError, Bug)):
        check_a_state_whose_sources_are_gone_is_given_up(Stored("c"))


def test_one_that_keeps_its_sessions_though_it_begins_anew_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(OutputSender, "begin_anew", lambda _: None)
    with pytest.raises((AssertionError, Bug)):
        check_a_state_whose_sources_are_gone_is_given_up(Stored("c"))


def test_origins_are_tried_one_after_the_other_and_the_last_failure_ends_the_life() -> None:
    job = Job("counting")
    _, checkpoint = job.half_way()
    machine = job.replica(LivePeer(PEER), Stored("c"), Replay())
    machine.on(Start(), 0)
    machine.on(SnapshotReply(PEER, checkpoint), 0)
    effects = machine.on(GONE, 0)
    assert LoadCheckpoint("c") in effects
    [status] = sent(effects, ReplicaStatus)
    assert (status.is_joining, status.origin) == (True, "checkpoint c")
    assert machine.on(GONE, 0) == [], "it has none open"
    assert opened(machine.on(CheckpointLoaded("c", checkpoint), 0)) is not None
    assert opened(machine.on(GONE, 0)) is not None
    assert machine.on(GONE, 0) == [Exit("source : row 3 has been trimmed")]


def test_who_has_read_on_from_a_state_does_not_begin_elsewhere() -> None:
    job = Job("counting")
    _, checkpoint = job.half_way()
    machine = job.replica(Stored("c"), Replay())
    machine.on(Start(), 0)
    machine.on(CheckpointLoaded("c", checkpoint), 0)
    machine.on(SourceRead("flows", job.journals["flows"][30], {0: 31}), 0)
    [effect] = machine.on(GONE, 0)
    assert isinstance(effect, Exit)


def test_what_comes_late_of_the_sessions_before_changes_nothing() -> None:
    job = Job("counting")
    _, checkpoint = job.half_way()
    machine = job.replica(Stored("c"), LivePeer(PEER), Replay())
    machine.on(Start(), 0)
    [attach] = sent(machine.on(CheckpointLoaded("c", checkpoint), 0), Attach)
    machine.on(GONE, 0)
    assert machine.on(Ack(attach.session, 1, 0, 50, 50), 1) == []
    machine.validate()
    effects = machine.on(SnapshotReply(PEER, None), 2)
    [anew] = sent(effects, Attach)
    assert anew.session > attach.session


# -- what it says -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("origins", "words"),
    [
        ((LivePeer(PEER), Replay()), "live r0.1/3.2"),
        ((Stored("0-p-1-7"), Replay()), "checkpoint 0-p-1-7"),
        ((Replay(),), "replay"),
    ],
)
def test_a_replica_says_what_it_began_with(origins: tuple[Origin, ...], words: str) -> None:
    job = Job("counting")
    _, checkpoint = job.half_way()
    machine = job.replica(*origins)
    machine.on(Start(), 0)
    machine.on(SnapshotReply(PEER, checkpoint), 0)
    machine.on(CheckpointLoaded("0-p-1-7", checkpoint), 0)
    status = status_of(machine, 10_000)
    assert (status.origin, status.is_joining) == (words, False)


def test_the_phases_of_a_rejoin_are_timed_from_the_start() -> None:
    job = Job("counting")
    _, checkpoint = job.half_way()
    machine = job.replica(LivePeer(PEER), Replay())
    machine.on(Start(), 1_000)
    assert status_of(machine, 1_300).rejoin == NOT_YET
    [attach] = sent(machine.on(SnapshotReply(PEER, checkpoint), 1_400), Attach)
    assert status_of(machine, 1_700).rejoin == Rejoin(400)
    machine.on(SourceRead("flows", None, {0: 30}), 1_750)
    machine.on(Tick(), 1_760)
    machine.on(SourceRead("flows", job.journals["flows"][30], {0: 31}), 1_800)
    machine.on(Ack(attach.session, 1, 0, BEGIN, BEGIN), 1_900)
    machine.on(Ack(attach.session, 1, 0, BEGIN, BEGIN), 2_500)
    assert status_of(machine, 3_000).rejoin == Rejoin(400, 800, 900)


def fed(machine: Replica, *feedback: int, now: int = 1_000) -> ReplicaStatus:
    """After acks with this feedback, a tick each; it attaches with the first."""
    attach = None
    for t in feedback:
        effects: list[ReplicaEffect] = machine.on(Tick(), now)
        attach = next(iter(sent(effects, Attach)), attach)
        if attach is None:
            link = machine.output.links[MERGER]
            assert link.session is not None
            attach = Attach(link.session, BEGIN, Frame.empty(machine.schema))
        machine.on(Ack(attach.session, 1, 0, BEGIN, t), now)
        machine.on(Tick(), now)
        now += 1_000
    return status_of(machine, now)


def test_stream_time_that_feedback_skips_is_summed_up_and_nothing_is_counted_twice() -> None:
    job = Job("counting")
    _, checkpoint = job.half_way()
    machine = job.replica(Stored("c"), Replay())
    machine.on(Start(), 0)
    machine.on(CheckpointLoaded("c", checkpoint), 0)
    at = machine.executor.stable
    assert at > 0
    assert fed(machine, at - 5).jumped_ms == 0
    status = fed(machine, at + 100, at + 250, now=10_000)
    assert (status.forwarded, status.jumped_ms) == (at + 250, 250)
    assert fed(machine, INF, now=20_000).jumped_ms == 250, "an end is no time that was skipped"


def test_who_has_said_nothing_yet_has_skipped_nothing() -> None:
    machine = Job("counting").replica()
    machine.on(Start(), 0)
    status = fed(machine, 500)
    assert (status.forwarded, status.jumped_ms) == (500, 0)
    assert machine.on(SnapshotRequest(PEER, "plan"), 0)
