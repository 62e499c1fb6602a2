"""A merger that its replicas have gone on without reads what it lacks from its peer's journal."""

import random

import pytest

from gapless.chaos.sim.disk import SimulatedDisk
from gapless.failover.effects import Alarm, Tick
from gapless.failover.fold import Fold
from gapless.failover.merger.effects import ClosePeer, PeerRead, ReadPeer
from gapless.failover.merger.machine import Merger
from gapless.failover.messages import Attach, Data
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.text import DEFAULT_SCHEMA
from gapless.protocol.variants import random_tdb, random_telling, tell
from tests.failover.mergers import (
    M1,
    M2,
    R0,
    R1,
    Pump,
    attach,
    data,
    frame,
    journal_rows,
    merger,
    none_of,
    only,
    session,
)

PAYLOADS: list[tuple[object, ...]] = [("A",), ("B",), ("C",)]


def stuck() -> Merger:
    """A merger at 5, whose only replica joined at 20."""
    machine = merger("stable(5)", peers=(M2,))
    attach(machine, R0, "ins(C,21,30) stable(25)", join_at=20)
    machine.on(Tick(), 0)
    return machine


def test_it_is_patient_and_then_reads_from_where_it_stands() -> None:
    machine = stuck()
    assert none_of(machine.on(Tick(), 99), ReadPeer)
    assert only(machine.on(Tick(), 100), ReadPeer) == ReadPeer(M2, 5)
    assert none_of(machine.on(Tick(), 200), ReadPeer)  # one at a time


def test_it_goes_on_until_a_replica_can_lead_and_then_closes_the_journal() -> None:
    machine = stuck()
    machine.on(Tick(), 100)
    effects = machine.on(PeerRead(M2, frame("ins(A,4,9) stable(5)"), 5), 110)
    assert only(effects, ReadPeer)
    assert none_of(machine.on(PeerRead(M2, None), 120), ReadPeer)
    assert only(machine.on(Tick(), 150), ReadPeer)
    machine.on(PeerRead(M2, frame("ins(C,21,30) stable(20)"), 5), 160)
    machine.validate()
    data(machine, R0, 1, "stable(26)", now=170)
    assert none_of(machine.on(Tick(), 200), ClosePeer)  # a read is under way
    assert machine.on(PeerRead(M2, frame("ins(D,26,30)"), 5), 210) == [ClosePeer(M2)]
    machine.validate()
    assert none_of(machine.on(Tick(), 1000), ReadPeer)


def test_replicas_that_are_merely_slow_start_no_backfill() -> None:
    machine = merger("stable(5)", peers=(M2,))
    attach(machine, R0, "stable(7)")
    for now in range(0, 1000, 50):
        assert none_of(machine.on(Tick(), now), ReadPeer)


def test_a_dead_replica_that_could_lead_does_not_hide_that_nobody_does() -> None:
    machine = merger("stable(5)", peers=(M2,))
    attach(machine, R0, "stable(7)")  # and is never heard of again
    attach(machine, R1, "ins(C,21,30) stable(25)", join_at=20)
    machine.on(Tick(), 10)
    assert only(machine.on(Tick(), 110), ReadPeer) == ReadPeer(M2, 7)
    effects = machine.on(Tick(), 160)
    assert none_of(effects, ClosePeer)  # what the dead one said before proves nothing


def test_while_the_output_moves_nobody_is_impatient() -> None:
    machine = merger("stable(5)", peers=(M2,))
    attach(machine, R0, "stable(6)")
    attach(machine, R1, "stable(50)", join_at=40)
    for i in range(10):
        data(machine, R0, i + 1, f"stable({7 + i})", now=i * 60)
        assert none_of(machine.on(Tick(), i * 60), ReadPeer)


def test_what_is_no_output_of_ours_is_refused_with_an_alarm() -> None:
    machine = stuck()
    machine.on(Tick(), 100)
    alarm, close = machine.on(PeerRead(M2, frame("adj(A,7,9,8)"), 5), 110)
    assert isinstance(alarm, Alarm)
    assert close == ClosePeer(M2)
    machine.validate()
    assert none_of(machine.on(Tick(), 1000), ReadPeer)


def test_without_a_peer_it_waits() -> None:
    machine = merger("stable(5)")
    attach(machine, R0, "stable(25)", join_at=20)
    for now in (0, 500, 1000):
        assert none_of(machine.on(Tick(), now), ReadPeer)
    assert machine.on(PeerRead(M2, frame("stable(9)")), 0) == []


@pytest.mark.parametrize("case", ["r3", "r4"])
@pytest.mark.parametrize("seed", range(12))
def test_a_merger_that_all_replicas_joined_ahead_of_ends_with_the_whole_table(
    case: str, seed: int
) -> None:
    rng = random.Random(f"backfill {seed}")
    disk = SimulatedDisk()
    table = random_tdb(rng, DEFAULT_SCHEMA, PAYLOADS, 40, duplicates=case == "r4")
    streams = [tell(table, random_telling(rng), seed * 2 + i) for i in range(2)]
    peer = Pump(disk, M2, case=case)  # type: ignore[arg-type]  # one of the two
    late = Pump(disk, M1, peers=(M2,), case=case)  # type: ignore[arg-type]  # parametrised by text
    tails = [_Tail(rng.choice((20, 40))) for _ in streams]
    peers = [session(f"r0.{i}", merger=M2) for i in range(2)]
    lates = [session(f"r0.{i}") for i in range(2)]
    for who in peers:
        peer.happens(Attach(who, BEGIN, frame()))
    at, joined = [0, 0], [0, 0]
    while late.machine.durable_stable < INF:
        i = rng.randrange(2)
        if at[i] < len(streams[i]):
            said = streams[i][at[i]]
            at[i] += 1
            tails[i].add(said)
            peer.happens(Data(peers[i], at[i], said))
            if joined[i]:
                late.happens(Data(lates[i], at[i] - joined[i] + 1, said))
        if not joined[i] and (at[i] == len(streams[i]) or tails[i].stable >= tails[i].since):
            late.happens(Attach(lates[i], tails[i].since, tails[i].table()))
            joined[i] = at[i] + 1
        if rng.random() < 0.3:
            late.tick()
            late.machine.validate()
    told, _ = journal_rows(disk, M1)
    assert told == table, told.difference(table)
    for _ in range(3):
        late.tick()
    late.machine.validate()
    assert "peer m0.1" not in late._readers


class _Tail(Fold):
    """What a replica holds with `ve >= since`."""

    def __init__(self, since: int) -> None:
        super().__init__(DEFAULT_SCHEMA, since)
        self.since = since
