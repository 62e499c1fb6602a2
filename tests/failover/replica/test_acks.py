"""An ack costs as much as the message that it is for: a few of a stretch are acked together."""

from __future__ import annotations

from gapless.failover.effects import Tick
from gapless.failover.messages import Ack, Attach
from gapless.failover.replica.link import CREDITS
from tests.failover.mergers import R0, attach, data, frame, merger, sent

FAR = 10 * CREDITS
EVERY = CREDITS // 2


def test_a_session_that_is_young_hears_of_each_frame() -> None:
    machine = merger()
    acked = [ack.sequence for ack in sent(attach(machine, R0), Ack)]
    for sequence in range(1, CREDITS + 1):
        acked += [ack.sequence for ack in sent(data(machine, R0, sequence, ""), Ack)]
    assert acked == list(range(CREDITS + 1))


def test_then_every_fourth_is_acked_and_no_sender_is_without_credit() -> None:
    machine = merger()
    attach(machine, R0)
    acks, last = 0, 0
    for sequence in range(1, FAR + 1):
        for ack in sent(data(machine, R0, sequence, ""), Ack):
            assert ack.sequence == sequence
            acks, last = acks + 1, sequence
        assert sequence - last < EVERY
    assert acks == CREDITS + (FAR - CREDITS) // EVERY


def test_where_an_ack_costs_little_each_frame_has_its_own() -> None:
    machine = merger(acks_each=True)
    attach(machine, R0)
    for sequence in range(1, FAR + 1):
        acks = sent(data(machine, R0, sequence, ""), Ack)
        assert [ack.sequence for ack in acks] == [sequence]


def test_what_no_ack_has_said_the_next_tick_says_once() -> None:
    machine = merger()
    attach(machine, R0)
    for sequence in range(1, CREDITS + 2):
        data(machine, R0, sequence, "")
    assert [ack.sequence for ack in sent(machine.on(Tick(), 50), Ack)] == [CREDITS + 1]
    assert sent(machine.on(Tick(), 100), Ack) == []


def test_what_is_repeated_is_acked_each_time_as_an_ack_was_lost() -> None:
    machine = merger()
    attach(machine, R0)
    for sequence in range(1, FAR + 1):
        data(machine, R0, sequence, "")
    for _ in range(2):
        assert [ack.sequence for ack in sent(data(machine, R0, FAR - 1, ""), Ack)] == [FAR]


def test_each_part_of_a_large_tail_is_acked_as_few_are_on_the_way() -> None:
    machine = merger()
    parts = 3 * CREDITS
    machine.on(Attach(R0, 0, frame(), parts=parts), 0)
    for sequence in range(1, parts + 1):
        assert len(sent(data(machine, R0, sequence, ""), Ack)) == 1
