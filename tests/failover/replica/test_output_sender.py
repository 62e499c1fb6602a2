"""The output of a replica on its way: tails larger than a message, and links that lag."""

from __future__ import annotations

import pytest

from gapless.chaos.sim.disk import SimulatedDisk
from gapless.failover.effects import Tick
from gapless.failover.merger.inputs import AttachedInput as Input
from gapless.failover.messages import Ack, Attach, Data, Life, Refused, Session
from gapless.failover.replica import intake
from gapless.failover.replica import output_sender as sending
from gapless.failover.replica.machine import Replica
from gapless.failover.replica.output_sender import OutputSender
from gapless.failover.statuses import MergerStatus, ReplicaStatus
from gapless.merge import in_order
from gapless.protocol.elements import BEGIN
from gapless.protocol.envelope import Incarnation
from gapless.protocol.frame import Frame
from tests.failover.mergers import Pump, data, frame, merger, text
from tests.failover.mergers import sent as said
from tests.failover.replica.large import (
    FIRST,
    PEER,
    T,
    ack,
    filled,
    keys,
    reads,
    small,
    started,
)
from tests.failover.replica.test_machine_network import CALM_TICKS, SEEDS, difference
from tests.failover.replicas import LIFE, MERGERS, sent


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
        session = machine.output.links[FIRST].session
        assert session is not None
        refused = Refused(session, 1, "no such session")
        [first] = sent(machine.on(refused, T.reattach_ms), Attach)
        assert (len(first.tail), first.tail.stable, first.parts) == (3, None, 4)
        told = [machine.on(ack(machine, i), T.reattach_ms) for i in range(3)]
        parts = [message.frame for effects in told for message in sent(effects, Data)]
        assert [len(sent(effects, Data)) for effects in told] == [2, 1, 1]
        assert [len(part) for part in parts] == [3, 3, 3, 3]
        assert [part.stable for part in parts] == [None, None, None, 4]
        assert machine.output.links[FIRST].told == 4
        for i in range(3, 5):
            assert not machine.output.links[FIRST].is_whole
            machine.on(ack(machine, i), T.reattach_ms)
        assert machine.output.links[FIRST].is_whole
        machine.validate()


def read_behind_a_tail(machine: Replica) -> list[bool]:
    """Whether it reads on behind reads of ten rows each, while its merger takes in no part."""
    with small():
        for i in range(5):
            machine.on(keys(3 * i, 3, i), i)
            machine.on(ack(machine, i + 1, i - 1), i)
        session = machine.output.links[FIRST].session
        assert session is not None
        machine.on(Refused(session, 1, "none"), T.reattach_ms)
        machine.on(ack(machine, 0), T.reattach_ms)
        more = [keys(10 * i, 10, i) for i in range(5, 10)]
        asked = [reads(machine.on(event, T.reattach_ms + 5)) for event in more]
        left = len(machine.output.links[FIRST].parts)
        [status] = sent(machine.on(Tick(), T.heartbeat_ms), ReplicaStatus)
        assert status.parts_left == left > 0
        machine.validate()
        return asked


def attached(monkeypatch: pytest.MonkeyPatch, rows_max: int) -> Replica:
    monkeypatch.setattr(intake, "TAIL_ROWS_MAX", rows_max)
    monkeypatch.setattr(sending, "PARTS_CREDITS", 2)
    machine = started()
    machine.on(ack(machine, 0), 0)
    return machine


def test_who_tells_a_large_tail_reads_on_meanwhile_as_far_as_rows_may_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = attached(monkeypatch, intake.TAIL_ROWS_MAX)
    assert read_behind_a_tail(machine) == [True] * 5
    assert machine.output.tail.stable == 9, "nobody takes it for one that is behind"
    machine = attached(monkeypatch, 30)
    assert read_behind_a_tail(machine) == [True, True, False, False, False]


def test_a_link_that_still_gets_its_tail_keeps_its_place_until_too_much_waits_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sending, "KEPT_FRAMES_MAX", 1)
    with small(2):
        machine = filled()
        session = machine.output.links[FIRST].session
        assert session is not None
        [attach_] = sent(machine.on(Refused(session, 1, "none"), T.reattach_ms), Attach)
        assert attach_.parts > 3
        monkeypatch.setattr(sending, "KEPT_ROWS_MAX", machine.output.pending_rows + 8)
        end = machine.output.tail.end
        kept = []
        for _ in range(4):
            machine.output.tail.add(
                machine.output.tail[machine.output.tail.first].frame
            )  # two rows more wait
            kept.append(machine.output._kept_from() == end)
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
    monkeypatch.setattr("gapless.failover.merger.inputs.AttachedInput", QualifiesWithTheFirstPart)
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

    class OUTPUT(OutputSender):
        def retell(self) -> list[Frame]:
            told = super().retell()
            return told if len(told) < 3 else [*told[:-2], told[-1]]


class SaysTheStableFirst(Replica):
    """Promises with the first part what the last has."""

    class OUTPUT(OutputSender):
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
