"""Any well-formed message, in any order, at any time: a replica breaks nothing, and gives nothing
away that it cannot keep.
"""

from __future__ import annotations

import random

import pytest

from gapless.failover.effects import Exit, Start, Tick
from gapless.failover.life_start import LivePeer, Replay, Stored
from gapless.failover.messages import (
    Ack,
    Assign,
    Drain,
    Hold,
    Life,
    Refused,
    Retire,
    Session,
    SnapshotReply,
    SnapshotRequest,
    TakeCheckpoint,
)
from gapless.failover.replica.checkpoint import Checkpoint
from gapless.failover.replica.effects import (
    CheckpointLoaded,
    CheckpointWritten,
    ReplicaEvent,
    SourceFailed,
    SourceRead,
)
from gapless.failover.replica.executor import Executor
from gapless.failover.replica.machine import Replica
from gapless.failover.timing import Timing
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import Misuse
from tests.failover.replica.test_machine_start import Job
from tests.failover.replicas import LIFE, MERGERS, PLANS, journal, started_with

LIVES = (LIFE, Life("r0.0", Incarnation(3, 2)), Life("r0.1", Incarnation(2, 1)))


def a_time(rng: random.Random) -> int:
    return rng.choice([BEGIN, BEGIN + 1, -3, 0, 5, 40, 90, INF - 1, INF])


def a_session(rng: random.Random) -> Session:
    life = rng.choice([LIFE, LIFE, LIFE, *LIVES])
    return Session(life, rng.choice([*MERGERS, "m9.9"]), rng.randrange(5))


def a_message(rng: random.Random, stored: Checkpoint) -> ReplicaEvent:
    messages: list[ReplicaEvent] = [
        Ack(a_session(rng), rng.randrange(3), rng.randint(-1, 9), a_time(rng), a_time(rng)),
        Refused(a_session(rng), rng.randrange(3), "no", fenced=rng.random() < 0.02),
        SnapshotRequest(rng.choice(LIVES), rng.choice(["plan", "other"])),
        SnapshotReply(rng.choice(LIVES), None, "no"),
        CheckpointLoaded(rng.choice("cd"), None, "damaged"),
        CheckpointLoaded(rng.choice("cd"), stored),
        CheckpointWritten(rng.choice("cd"), rng.choice(["", "full"])),
        TakeCheckpoint(rng.randrange(5), rng.choice("cd")),
        Assign(rng.randrange(5), rng.randrange(5), rng.choice([MERGERS, MERGERS[:1], ("m0.7",)])),
        Hold(rng.randrange(5), a_time(rng)),
        Tick(),
        Tick(),
    ]
    if rng.random() < 0.1:
        return SourceFailed("x", "gone")
    if rng.random() < 0.03:
        messages += [Drain(3), Retire(3, rng.choice(LIVES), "so be it"), SourceFailed("x", "gone")]
    return rng.choice(messages)


@pytest.mark.parametrize("plan", PLANS)
def test_a_replica_stays_whole_whatever_it_is_told(plan: str) -> None:
    made = PLANS[plan]()
    _, stored = Job(plan).half_way()
    begun = set()
    for seed in range(25):
        rng = random.Random(f"{plan} {seed}")
        executor = Executor("plan", made)
        frames = {name: journal(schema, rng, 20) for name, schema in executor.sources.items()}
        origins = (LivePeer(LIVES[2]), Stored("c"), Stored("d"), Replay(rng.choice([BEGIN, 5, 40])))
        machine = Replica(LIFE, started_with(*origins, held_at=a_time(rng)), executor)
        machine.on(Start(), 0)
        ended = False
        for now in range(0, 6000, 40):
            effects = machine.on(a_message(rng, stored), now)
            name = rng.choice(list(frames))
            if rng.random() < 0.5 and frames[name]:
                effects += machine.on(SourceRead(name, frames[name][0], {0: now}), now)
                frames[name].pop(0)
            assert not (ended and effects), f"seed {seed}: it is over, and does {effects}"
            ended = ended or any(isinstance(e, Exit) for e in effects)
            machine.validate()
            begun.add((machine.is_joining, machine._initial_state.origin))
    words = [word for is_joining, word in begun if not is_joining]
    assert {"checkpoint c", "checkpoint d", "replay"} <= {*words}


def test_waits_that_mean_nothing_cannot_be_made() -> None:
    with pytest.raises(Misuse, match="resend_ms 0"):
        Timing(resend_ms=0)
