"""What lives has no bound: tails larger than a message, than a fold, than what may be pending."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import pytest

from gapless.chaos.sim.disk import SimulatedDisk
from gapless.engine.plan import Plan
from gapless.failover import fold as fold_module
from gapless.failover import parts
from gapless.failover.effects import (
    Alarm,
    CheckpointLoaded,
    CheckpointWritten,
    Done,
    DropCheckpoint,
    LoadCheckpoint,
    OpenSources,
    ReadSource,
    ReplicaEffect,
    ReplicaEvent,
    SourceRead,
    Spawn,
    Start,
    Tick,
    Work,
    WriteCheckpoint,
)
from gapless.failover.fold import folded, folded_parts
from gapless.failover.job.desired import Desired
from gapless.failover.life_start import LivePeer, Replay
from gapless.failover.merger.inputs import Link as Input
from gapless.failover.messages import (
    Ack,
    Attach,
    Data,
    Hold,
    Life,
    MergerStatus,
    Refused,
    ReplicaStatus,
    Session,
    SnapshotReply,
    SnapshotRequest,
    TakeCheckpoint,
)
from gapless.failover.replica import machine as replica_module
from gapless.failover.replica import output_sender as sending
from gapless.failover.replica import snapshots
from gapless.failover.replica.executor import Executor
from gapless.failover.replica.jumpstart import Jumpstart
from gapless.failover.replica.machine import Replica
from gapless.failover.replica.tail import Tail
from gapless.failover.supervisor.machine import Supervisor
from gapless.failover.timing import Timing
from gapless.merge import in_order
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.envelope import Incarnation
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import DEFAULT_SCHEMA, parse
from tests.failover.mergers import Pump, data, frame, merger, text
from tests.failover.mergers import sent as said
from tests.failover.replica.test_machine_network import CALM_TICKS, SEEDS, difference
from tests.failover.replicas import LIFE, MERGERS, flows, sent, started_with

T = Timing()
FIRST, SECOND = MERGERS
LATEST = Plan(flows().latest_by("src"))
SOURCE = LATEST.query.sources["flows"].schema
PEER = Life("r0.1", Incarnation(3, 2))


@contextmanager
def small(rows: int = 4) -> Iterator[None]:
    """All that is large is so from a few rows on."""
    with (
        patch.object(parts, "ROWS_MAX", rows),
        patch.object(fold_module, "SHARE_ROWS", rows),
        patch.object(replica_module, "STATE_BYTES_MAX", 0),
        patch.object(snapshots, "MESSAGE_BYTES_MAX", 0),
    ):
        yield


def started(*, mergers: tuple[str, ...] = (FIRST,)) -> Replica:
    machine = Replica(LIFE, started_with(mergers=mergers), Executor("plan", LATEST), T)
    machine.on(Start(), 0)
    return machine


def keys(first: int, count: int, at: int) -> SourceRead:
    """A read of rows of new keys: each of them lives for ever."""
    rows = [f"ins(({at},k{i},1),{at},{at + 1})" for i in range(first, first + count)]
    elements = parse(" ".join([*rows, f"stable({at})"]), SOURCE)
    return SourceRead("flows", Frame.from_elements(SOURCE, elements), {0: at})


def ack(machine: Replica, sequence: int, durable: int = BEGIN, merger: str = FIRST) -> Ack:
    session = machine.links[merger].session
    assert session is not None
    return Ack(session, 1, sequence, durable, durable)


def reads(effects: list[ReplicaEffect]) -> bool:
    return any(isinstance(effect, ReadSource) for effect in effects)


def waits(machine: Replica) -> bool:
    """Whether it waits for a state; a call, as the type checker believes a property for good."""
    return machine.is_joining


def works(effects: list[ReplicaEffect]) -> list[Work]:
    return [effect for effect in effects if isinstance(effect, Work)]


# -- what lives, and what is pending ----------------------------------------------------------


def test_a_replica_reads_on_however_many_rows_of_its_output_live(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replica_module, "TAIL_ROWS_MAX", 30)
    machine = started()
    machine.on(ack(machine, 0), 0)
    for i in range(20):
        effects = machine.on(keys(10 * i, 10, i), i)
        [message] = sent(effects, Data)
        assert reads(effects) or reads(machine.on(ack(machine, message.sequence, i), i))
    assert len(machine.tail) == 200


def test_it_stops_at_what_a_merger_has_not_taken_in_and_says_so_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replica_module, "TAIL_ROWS_MAX", 30)
    machine = started(mergers=MERGERS)
    for merger_ in MERGERS:
        machine.on(ack(machine, 0, merger=merger_), 0)
    asked = []
    for i in range(1, 5):
        effects = machine.on(keys(10 * i, 10, i), i)
        effects += machine.on(ack(machine, i, i), i)  # the first takes all in, the second nothing
        asked.append(reads(effects))
    assert asked == [True, True, False, False]
    assert machine.pending_rows == 30
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
    monkeypatch.setattr(replica_module, "TAIL_ROWS_MAX", 30)
    machine = Replica(LIFE, started_with(mergers=MERGERS[:1]), InParts("plan", LATEST), T)
    machine.on(Start(), 0)
    machine.on(ack(machine, 0), 0)
    given = keys(0, 100, 7)
    effects, sizes, rows = machine.on(given, 1), [], 0
    while True:
        machine.validate()
        sizes.append(len(machine.tail))
        messages = sent(effects, Data)
        rows += sum(len(message.frame) for message in messages)
        if reads(effects):
            break
        assert machine.tail.stable < 7  # the stable comes behind the rows that it speaks of
        [reply] = sent(machine.on(SnapshotRequest(LIFE, "plan"), 2), SnapshotReply)
        assert "putting out" in reply.reason
        machine.on(Hold(0, 1, INF), 2)
        effects = machine.on(Tick(), 3) + machine.on(ack(machine, messages[-1].sequence), 3)
    assert sizes == [30, 60, 90, 100]
    assert rows == 100
    assert machine.tail.stable == machine.executor.stable
    [reply] = sent(machine.on(SnapshotRequest(LIFE, "plan"), 2), SnapshotReply)
    assert not reply.reason


# -- in parts ---------------------------------------------------------------------------------


def test_a_tail_larger_than_a_message_goes_in_parts_and_its_stable_comes_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sending, "PARTS_CREDITS", 2)
    machine = started(mergers=MERGERS)
    machine.on(ack(machine, 0), 0)
    with small():
        for i in range(5):
            machine.on(keys(3 * i, 3, i), i)
            machine.on(ack(machine, i + 1, i - 1), i)
        session = machine.links[FIRST].session
        assert session is not None
        refused = Refused(session, 1, "no such session")
        [first] = sent(machine.on(refused, T.reattach_ms), Attach)
        assert (len(first.tail), first.tail.stable, first.parts) == (3, None, 4)
        told = [machine.on(ack(machine, i), T.reattach_ms) for i in range(3)]
        parts = [message.frame for effects in told for message in sent(effects, Data)]
        assert [len(sent(effects, Data)) for effects in told] == [2, 1, 1]
        assert [len(part) for part in parts] == [3, 3, 3, 3]
        assert [part.stable for part in parts] == [None, None, None, 4]
        assert machine.links[FIRST].told == 4
        for i in range(3, 5):
            assert not machine.links[FIRST].is_whole
            machine.on(ack(machine, i), T.reattach_ms)
        assert machine.links[FIRST].is_whole
        machine.validate()


def read_behind_a_tail(machine: Replica) -> list[bool]:
    """Whether it reads on behind reads of ten rows each, while its merger takes in no part."""
    with small():
        for i in range(5):
            machine.on(keys(3 * i, 3, i), i)
            machine.on(ack(machine, i + 1, i - 1), i)
        session = machine.links[FIRST].session
        assert session is not None
        machine.on(Refused(session, 1, "none"), T.reattach_ms)
        machine.on(ack(machine, 0), T.reattach_ms)
        more = [keys(10 * i, 10, i) for i in range(5, 10)]
        asked = [reads(machine.on(event, T.reattach_ms + 5)) for event in more]
        left = len(machine.links[FIRST].parts)
        [status] = sent(machine.on(Tick(), T.heartbeat_ms), ReplicaStatus)
        assert status.parts_left == left > 0
        machine.validate()
        return asked


def attached(monkeypatch: pytest.MonkeyPatch, rows_max: int) -> Replica:
    monkeypatch.setattr(replica_module, "TAIL_ROWS_MAX", rows_max)
    monkeypatch.setattr(sending, "PARTS_CREDITS", 2)
    machine = started()
    machine.on(ack(machine, 0), 0)
    return machine


def test_who_tells_a_large_tail_reads_on_meanwhile_as_far_as_rows_may_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = attached(monkeypatch, replica_module.TAIL_ROWS_MAX)
    assert read_behind_a_tail(machine) == [True] * 5
    assert machine.tail.stable == 9, "nobody takes it for one that is behind"
    machine = attached(monkeypatch, 30)
    assert read_behind_a_tail(machine) == [True, True, False, False, False]


def test_a_link_that_still_gets_its_tail_keeps_its_place_until_too_much_waits_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sending, "KEPT_FRAMES_MAX", 1)
    with small(2):
        machine = filled()
        session = machine.links[FIRST].session
        assert session is not None
        [attach_] = sent(machine.on(Refused(session, 1, "none"), T.reattach_ms), Attach)
        assert attach_.parts > 3
        monkeypatch.setattr(sending, "KEPT_ROWS_MAX", machine.pending_rows + 8)
        end = machine.tail.end
        kept = []
        for _ in range(4):
            machine.tail.add(machine.tail[machine.tail.first].frame)  # two rows more wait
            kept.append(machine._kept_from() == end)
        assert kept == [True, True, True, False]


def test_an_input_keeps_its_promise_once_all_parts_are_there_and_may_not_act_before() -> None:
    machine = merger("ins(A,1,inf) stable(5)")
    who = Session(LIFE, "m0.0", 1)
    machine.on(Attach(who, 5, frame("ins(A,1,inf)"), 2), 0)
    data(machine, who, 1, "ins(B,2,inf)")
    [status] = said(machine.on(Tick(), 5000), MergerStatus)
    assert [i.qualifies for i in status.inputs] == [False]
    data(machine, who, 2, "ins(C,6,inf) stable(7)")
    [status] = said(machine.on(Tick(), 10_000), MergerStatus)
    assert [i.qualifies for i in status.inputs] == [True]
    machine.validate()


class QualifiesWithTheFirstPart(Input):
    """Believes a promise that is not kept yet."""

    def may_act(self, stable: int) -> bool:
        return self.join_at <= stable


def test_the_test_of_the_promise_sees_an_input_that_is_believed_too_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gapless.failover.merger.inputs.Link", QualifiesWithTheFirstPart)
    with pytest.raises(AssertionError):
        test_an_input_keeps_its_promise_once_all_parts_are_there_and_may_not_act_before()


def test_who_dies_between_two_parts_is_told_all_again_by_its_successor() -> None:
    made = Pump(SimulatedDisk())
    old, new = (Session(Life("r0.0", Incarnation(1, n)), "m0.0", 1) for n in (1, 2))
    made.happens(Attach(old, BEGIN, frame("ins(A,1,inf)"), 2))
    made.happens(Data(old, 1, frame("ins(B,1,inf)")))
    made.happens(Attach(new, BEGIN, frame("ins(A,1,inf)"), 2))
    made.happens(Data(new, 1, frame("ins(B,1,inf)")))
    made.happens(Data(new, 2, frame("ins(C,1,inf) stable(3)")))
    made.machine.validate()
    live, rows = made.journal.recover()
    assert (text(live.with_stable(3)), rows) == (
        "ins(A,1,inf) ins(B,1,inf) ins(C,1,inf) stable(3)",
        3,
    )


@pytest.mark.parametrize("plan", ["counting", "early", "passing"])
def test_both_mergers_end_with_the_table_where_everything_is_large(plan: str) -> None:
    with small(6):
        for seed in range(SEEDS):
            wrong = difference(seed, plan, calm=2 * CALM_TICKS)  # it has many messages to send
            assert not wrong, f"seed {seed}: {wrong}"


class ForgetsTheLastPart(Replica):
    """Tells all parts but one."""

    def retell(self) -> list[Frame]:
        told = super().retell()
        return told if len(told) < 3 else [*told[:-2], told[-1]]


class SaysTheStableFirst(Replica):
    """Promises with the first part what the last has."""

    def retell(self) -> list[Frame]:
        told = super().retell()
        return [told[0].with_stable(told[-1].stable)] if len(told) > 1 else told


@pytest.mark.parametrize("broken", [ForgetsTheLastPart, SaysTheStableFirst])
def test_parts_that_do_not_arrive_are_seen(broken: type[Replica]) -> None:
    with small(3):
        assert any(difference(seed, "passing", broken) for seed in range(3 * SEEDS))


def test_what_is_held_back_of_an_input_ahead_of_the_output_has_it_wait_and_not_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(in_order, "HELD_ROWS_MAX", 3)
    made = Pump(SimulatedDisk(), case="r1")
    old, new = Session(LIFE, "m0.0", 1), Session(PEER, "m0.0", 1)
    made.happens(Attach(old, BEGIN, frame("ins(A,1,inf) stable(1)")))
    made.happens(Attach(new, 9, frame("ins(A,1,inf) ins(B,9,inf)"), 1))
    made.happens(Data(new, 1, frame("ins(C,10,inf) ins(D,11,inf) stable(11)")))
    assert made.answers(Ack)[-1].throttled
    made.happens(Data(old, 1, frame("ins(B,9,inf) stable(9)")))
    made.happens(Data(new, 1, frame("ins(C,10,inf) ins(D,11,inf) stable(11)")))
    assert not made.answers(Refused)
    assert made.machine.attached == {LIFE, PEER}
    assert made.machine.durable_stable == 11


# -- folds ------------------------------------------------------------------------------------


def stream(rows: int) -> list[Frame]:
    """Of each four events one is taken back, one ends, two go on for ever."""
    frames = []
    for i in range(0, rows, 4):
        frames.append(frame(" ".join(f"ins(k{n},{n % 7},inf)" for n in range(i, i + 4))))
        frames.append(frame(f"adj(k{i},{i % 7},inf,{i % 7}) adj(k{i + 1},{(i + 1) % 7},inf,40)"))
    return frames


def test_a_fold_in_parts_leaves_the_same_events_as_one_at_once() -> None:
    frames = stream(64)
    for floor in (BEGIN, 41):
        whole = folded(DEFAULT_SCHEMA, frames)
        whole = whole.take(whole.ve >= floor)
        with small(5):
            made = folded_parts(DEFAULT_SCHEMA, frames, floor)
        assert len(made) > 3
        assert all(len(piece) <= 5 for piece in made)
        told = sorted(e for piece in made for e in text(piece).split(") "))
        assert len(told) == len(whole)
        assert tdb(made) == tdb([whole])


def tdb(frames: list[Frame]) -> Tdb:
    table = Tdb(DEFAULT_SCHEMA)
    for each in frames:
        table.fold(each)
    return table


def few_changes(seed: int) -> list[Frame]:
    """Many rows that nobody takes back, some twice, and a few that change, again and again."""
    rng = random.Random(seed)
    frames = [frame(" ".join(f"ins(k{n % 90},{n % 5},inf)" for n in range(100)))]
    for n in rng.sample(range(10, 90), 5):
        end = rng.choice([f"{n % 5}", "40", "50"])
        more = f" ins(new{n},3,inf)" if rng.random() < 0.5 else ""
        frames.append(frame(f"adj(k{n},{n % 5},inf,{end}){more}"))
        if end == "50":
            frames.append(frame(f"adj(k{n},{n % 5},50,45)"))
    return frames


def test_a_fold_of_few_changes_looks_up_all_rows_and_folds_what_they_speak_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folds: list[int] = []
    real = fold_module.folded

    def counts(schema: StreamSchema, frames: list[Frame]) -> Frame:
        if not all(each.insert_only for each in frames):
            folds.append(sum(map(len, frames)))
        return real(schema, frames)

    monkeypatch.setattr(fold_module, "folded", counts)
    for seed in range(40):
        frames = few_changes(seed)
        for floor in (BEGIN, 44):
            folds.clear()
            made = folded_parts(DEFAULT_SCHEMA, frames, floor)
            assert max(folds) <= 20
            whole = real(DEFAULT_SCHEMA, frames)
            assert tdb(made) == tdb([whole.take(whole.ve >= floor)])
    monkeypatch.setattr(fold_module, "TOUCHED_SHARE", 10**6)  # as before: all rows are folded
    folded_parts(DEFAULT_SCHEMA, few_changes(1), BEGIN)
    assert max(folds) > 100


def test_rows_that_are_never_taken_back_keep_their_order_in_a_fold() -> None:
    frames = [frame(f"ins(k{i},{i},{i + 3}) ins(l{i},{i},{i + 9})") for i in range(9)]
    with small(5):
        made = folded_parts(DEFAULT_SCHEMA, frames, 8)
    starts = [int(t) for piece in made for t in piece.vs]
    assert starts == sorted(starts)
    assert min(int(piece.ve.min()) for piece in made) >= 8


def test_a_tail_goes_on_while_it_is_folded_and_has_the_same_events_afterwards() -> None:
    frames = stream(64)
    one, other = Tail(DEFAULT_SCHEMA), Tail(DEFAULT_SCHEMA)
    for each in frames[:20]:
        one.add(each)
        other.add(each)
    given, floor = one.begin_fold(18), one.floor
    for each in frames[20:]:
        one.add(each)
        other.add(each)
        assert not one.is_heavy
    one.add(frame("stable(40)"))
    other.add(frame("stable(40)"))
    one.trim(41)
    other.trim(41)
    with small(5):
        one.end_fold(folded_parts(DEFAULT_SCHEMA, given, floor))
    one.validate()
    assert len(one) < len(other)
    assert one.compacted == 18
    assert one.put_out == other.put_out == len(frames[0]) * 16 + 32
    assert tdb([one.fold().with_stable(None)]) == tdb([other.fold().with_stable(None)])
    told = tdb([each.with_stable(None) for each in one.frames()])
    assert told.since(41) == tdb([other.fold().with_stable(None)]).since(41)


def test_no_event_has_a_pump_fold_more_rows_than_a_piece_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    touched: list[int] = []
    real = fold_module.folded

    def counts(schema: StreamSchema, frames: list[Frame]) -> Frame:
        touched.append(sum(map(len, frames)))
        return real(schema, frames)

    monkeypatch.setattr(fold_module, "folded", counts)
    monkeypatch.setattr("gapless.failover.replica.tail.folded", counts)
    monkeypatch.setattr("gapless.failover.replica.tail.FOLD_ROWS_MIN", 4)
    with small(8):
        machine = started()
        machine.on(ack(machine, 0), 0)
        asked: list[Work] = []
        for i in range(1, 60):
            effects = machine.on(keys(5 * (i % 9), 5, i), i)
            effects += machine.on(ack(machine, i, i), i)
            asked += works(effects)
            assert max(touched, default=0) <= 8
            while asked and i % 3 == 0:
                work = asked.pop(0)
                done = work.do()
                touched.clear()
                machine.on(Done(work.number, done), i)
            machine.validate()
        assert len(machine.tail) <= 4 * 45


# -- snapshots --------------------------------------------------------------------------------


def filled() -> Replica:
    machine = started()
    machine.on(ack(machine, 0), 0)
    for i in range(1, 4):
        machine.on(keys(5 * i, 5, i), i)
        machine.on(ack(machine, i, i - 1), i)
    return machine


def done(machine: Replica, effects: list[ReplicaEffect], now: int) -> list[ReplicaEffect]:
    """Does all that is to be done beside a machine, and what comes of that; all other effects."""
    told: list[ReplicaEffect] = []
    while effects:
        effect = effects.pop(0)
        if isinstance(effect, Work):
            effects += machine.on(Done(effect.number, effect.do()), now)
        else:
            told.append(effect)
    return told


def test_a_large_snapshot_is_made_beside_and_nothing_is_read_until_its_state_is_there() -> None:
    with small():
        machine = filled()
        [state] = works(machine.on(TakeCheckpoint(3, "0-plan-3-1"), 5))
        assert machine.on(TakeCheckpoint(3, "0-plan-3-1"), 5) == []
        before = machine.tail.put_out
        late = machine.on(keys(40, 5, 4), 6)  # a read that was under way
        assert not reads(late)
        assert machine.tail.put_out == before
        assert sent(machine.on(Tick(), T.heartbeat_ms), ReplicaStatus)
        effects = machine.on(Done(state.number, state.do()), 9)
        assert reads(effects)
        assert machine.tail.put_out == before + 5
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
        assert joiner.tail.since == giver.tail.since
        assert len(joiner.tail) == 15
        joiner.validate()


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
    monkeypatch.setattr(replica_module, "Jumpstart", Patient)
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
        assert joiner.tail.fold() == giver.tail.fold()
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


class ReadsWhileItIsDrawn(Replica):
    """Lets the plan go on while its snapshot is made."""

    def on(self, event: ReplicaEvent, now: int) -> list[ReplicaEffect]:
        self._snapshots.has_state()
        return super().on(event, now)


def test_a_snapshot_of_a_plan_that_goes_on_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.failover.replica.test_large_tails.Replica", ReadsWhileItIsDrawn)
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


def test_the_supervisor_says_once_each_time_that_a_replica_reads_no_more_and_why() -> None:
    supervisor = Supervisor(1, Desired(1, ("p",)), (), ("n1",), T)
    spawned = [e.life for e in supervisor.on(Start(), 0) if isinstance(e, Spawn)]
    [life] = [life for life in spawned if life.slot.startswith("r")]

    def says(waits_for: str) -> list[str]:
        status = ReplicaStatus(life, "p", 0, 5, 10**6, 0, False, False, INF, waits_for=waits_for)
        return [e.what for e in supervisor.on(status, 1) if isinstance(e, Alarm)]

    told = [says(w) for w in ("", "m0.0 is away", "m0.0 is away", "", "a cutover")]
    assert [len(alarms) for alarms in told] == [0, 1, 0, 0, 1]
    assert told[1] == [f"{life} reads no more: m0.0 is away"]
