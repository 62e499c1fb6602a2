"""The intake of a replica: it reads on however much lives, and stops at what mergers lack."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gapless.failover import parts
from gapless.failover.effects import Start, Tick
from gapless.failover.messages import Data, Hold, SnapshotReply, SnapshotRequest
from gapless.failover.replica import intake
from gapless.failover.replica.executor import Executor
from gapless.failover.replica.machine import Replica
from gapless.failover.statuses import ReplicaStatus
from gapless.protocol.elements import INF
from gapless.protocol.frame import Frame
from tests.failover.replica.large import (
    LATEST,
    SECOND,
    T,
    ack,
    keys,
    reads,
    started,
)
from tests.failover.replicas import LIFE, MERGERS, sent, started_with


def test_a_replica_reads_on_however_many_rows_of_its_output_live(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(intake, "TAIL_ROWS_MAX", 30)
    machine = started()
    machine.on(ack(machine, 0), 0)
    for i in range(20):
        effects = machine.on(keys(10 * i, 10, i), i)
        [message] = sent(effects, Data)
        assert reads(effects) or reads(machine.on(ack(machine, message.sequence, i), i))
    assert len(machine.output.tail) == 200


def test_it_stops_at_what_a_merger_has_not_taken_in_and_says_so_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(intake, "TAIL_ROWS_MAX", 30)
    machine = started(mergers=MERGERS)
    for merger_ in MERGERS:
        machine.on(ack(machine, 0, merger=merger_), 0)
    asked = []
    for i in range(1, 5):
        effects = machine.on(keys(10 * i, 10, i), i)
        effects += machine.on(ack(machine, i, i), i)  # the first takes all in, the second nothing
        asked.append(reads(effects))
    assert asked == [True, True, False, False]
    assert machine.output.pending_rows == 30
    [early] = sent(machine.on(Tick(), T.heartbeat_ms), ReplicaStatus)
    assert not early.waits_for
    [late] = sent(machine.on(Tick(), 2 * T.hang_ms), ReplicaStatus)
    assert late.waits_for.startswith(f"{SECOND} has not taken in 30 rows of output, 30 at most")
    machine.on(ack(machine, 3, merger=SECOND), 2 * T.hang_ms)
    [again] = sent(machine.on(Tick(), 3 * T.hang_ms), ReplicaStatus)
    assert not again.waits_for


class InParts(Executor):
    """Ten rows of an output at a time."""

    def parts(self, source: str, frame: Frame) -> Iterator[Frame]:
        for part in super().parts(source, frame):
            yield from parts.cut(part, 10)


def test_what_one_read_causes_is_put_out_as_far_as_the_tail_has_room_and_the_rest_with_acks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(intake, "TAIL_ROWS_MAX", 30)
    machine = Replica(LIFE, started_with(mergers=MERGERS[:1]), InParts("plan", LATEST), T)
    machine.on(Start(), 0)
    machine.on(ack(machine, 0), 0)
    given = keys(0, 100, 7)
    effects, sizes, rows = machine.on(given, 1), [], 0
    while True:
        machine.validate()
        sizes.append(len(machine.output.tail))
        messages = sent(effects, Data)
        rows += sum(len(message.frame) for message in messages)
        if reads(effects):
            break
        assert machine.output.tail.stable < 7  # the stable comes behind the rows that it speaks of
        [reply] = sent(machine.on(SnapshotRequest(LIFE, "plan"), 2), SnapshotReply)
        assert "putting out" in reply.reason
        machine.on(Hold(0, 1, INF), 2)
        effects = machine.on(Tick(), 3) + machine.on(ack(machine, messages[-1].sequence), 3)
    assert sizes == [30, 60, 90, 100]
    assert rows == 100
    assert machine.output.tail.stable == machine.executor.stable
    [reply] = sent(machine.on(SnapshotRequest(LIFE, "plan"), 2), SnapshotReply)
    assert not reply.reason
