"""A producer's machine: what it tells whom, when it lets go, and how it is born again."""

from __future__ import annotations

import pytest

from gapless.failover.effects import Send, Start, Tick
from gapless.failover.messages import Ack, Attach, Data, Life, Session
from gapless.failover.replica.link import CREDITS
from gapless.protocol.elements import BEGIN
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import Bug
from gapless.sidecar.client import producer_machine
from gapless.sidecar.client.producer_machine import (
    TIMING,
    Credit,
    LetGo,
    Lost,
    ProducerMachine,
    Push,
    Reached,
)
from tests.sidecar.helpers import SCHEMA, frame_of

LIFE = Life("a", Incarnation(1, 1))


def messages(effects: list[Send], to: str) -> list[Attach | Data]:
    sent = [e.message for e in effects if e.to == to]
    return [m for m in sent if isinstance(m, Attach | Data)]


def ack(session: Session | None, sequence: int, durable: int = BEGIN) -> Ack:
    assert session is not None
    return Ack(session, 1, sequence, durable, durable)


def test_nothing_is_said_to_who_is_not_reached() -> None:
    machine = ProducerMachine(LIFE, ("x", "y"), SCHEMA)
    assert machine.on(Push(frame_of("ins((A,7),6,20) stable(10)")), 0) == []
    effects = machine.on(Reached("y"), 1)
    assert [type(m) for m in messages(effects, "y")] == [Attach]
    assert messages(effects, "x") == []
    machine.validate()


def test_who_is_reached_again_is_told_all_that_is_not_durable() -> None:
    machine = ProducerMachine(LIFE, ("x",), SCHEMA)
    machine.on(Push(frame_of("ins((A,7),6,9) ins((B,8),6,20) stable(10)")), 0)
    (first,) = messages(machine.on(Reached("x"), 1), "x")
    machine.on(ack(first.session, 0, durable=10), 2)
    machine.on(Lost("x"), 3)
    (again,) = messages(machine.on(Reached("x"), 3 + TIMING.reattach_ms), "x")
    assert isinstance(again, Attach)
    assert again.session.attempt == 2
    assert again.join_at == 10
    assert again.tail == frame_of("ins((B,8),6,20) stable(10)")


def test_no_more_is_sent_than_there_is_credit_for() -> None:
    machine = ProducerMachine(LIFE, ("x",), SCHEMA)
    (first,) = messages(machine.on(Reached("x"), 0), "x")
    machine.on(ack(first.session, 0), 1)
    sent = [
        message
        for t in range(20)
        for message in messages(machine.on(Push(frame_of(f"ins((A,{t}),{t},{t + 5})")), 2), "x")
    ]
    assert len(sent) == CREDITS
    assert not machine.has_room
    more = messages(machine.on(ack(first.session, CREDITS), 3), "x")
    assert sum(len(m.frame) for m in more if isinstance(m, Data)) == 20 - CREDITS


@pytest.mark.parametrize(("said", "sent"), [(0, 0), (2, 2), (100, CREDITS)])
def test_a_sidecar_says_for_how_many_frames_it_has_credit_and_a_link_has_no_more(
    said: int, sent: int
) -> None:
    machine = ProducerMachine(LIFE, ("x",), SCHEMA)
    (first,) = messages(machine.on(Reached("x"), 0), "x")
    assert machine.on(Credit("x", said), 1) == []
    machine.on(ack(first.session, 0), 1)
    frames = [
        message
        for t in range(20)
        for message in messages(machine.on(Push(frame_of(f"ins((A,{t}),{t},{t + 5})")), 2), "x")
    ]
    assert len(frames) == sent
    assert machine.on(Credit("y", 3), 3) == [], "of a sidecar that takes no part"
    machine.validate()


def test_a_sidecar_that_is_away_is_let_go_but_never_the_last() -> None:
    machine = ProducerMachine(LIFE, ("x", "y"), SCHEMA)
    (first,) = messages(machine.on(Reached("x"), 0), "x")
    machine.on(Push(frame_of("ins((A,7),6,9) stable(10)")), 1)
    machine.on(ack(first.session, 0), 2)
    machine.on(ack(first.session, 1, durable=10), 2)
    assert len(machine.tail) == 1  # for the one that is away
    machine.on(Tick(), TIMING.absent_ms)
    assert machine.sidecars == ("x",)
    assert len(machine.tail) == 0
    machine.on(Lost("x"), TIMING.absent_ms)
    machine.on(Tick(), 3 * TIMING.absent_ms)
    assert machine.sidecars == ("x",)
    assert messages(machine.on(Reached("y"), 3 * TIMING.absent_ms), "y")


def test_who_was_let_go_is_born_again_and_tells_all_anew() -> None:
    machine = ProducerMachine(LIFE, ("x",), SCHEMA)
    machine.on(Push(frame_of("ins((A,7),6,20) stable(10)")), 0)
    machine.on(Reached("x"), 1)
    machine.on(Lost("x"), 2)
    machine.on(LetGo(), 2)
    (again,) = messages(machine.on(Reached("x"), 200), "x")
    assert again.session.life == Life("a", Incarnation(1, 2))
    assert isinstance(again, Attach)
    assert again.tail == frame_of("ins((A,7),6,20) stable(10)")
    machine.validate()


def has_room(machine: ProducerMachine) -> bool:
    """Asked anew each time."""
    return machine.has_room


def test_what_lives_holds_nothing_back_and_what_is_on_its_way_does() -> None:
    """Ten times as many rows live as may be on their way, and all of them are told again."""
    machine = ProducerMachine(LIFE, ("x",), SCHEMA, rows_max=10)
    (first,) = messages(machine.on(Reached("x"), 0), "x")
    machine.on(ack(first.session, 0), 1)
    for t in range(1, 101):
        assert has_room(machine)
        (sent,) = messages(machine.on(Push(frame_of(f"ins((A,{t}),{t},inf) stable({t})")), t), "x")
        assert isinstance(sent, Data)
        machine.on(ack(sent.session, sent.sequence, durable=t), t)
        machine.validate()
    assert len(machine.tail) == 100
    machine.on(Lost("x"), 101)
    for t in range(101, 111):
        assert has_room(machine)
        machine.on(Push(frame_of(f"ins((A,{t}),{t},inf)")), t)
    assert not has_room(machine)  # ten are on their way to somebody who is away
    (again,) = messages(machine.on(Reached("x"), 1000), "x")
    assert isinstance(again, Attach)
    assert len(again.tail) == 110
    machine.on(ack(again.session, 0, durable=100), 1001)
    assert has_room(machine)
    machine.validate()


def test_of_two_sidecars_the_slower_one_holds_back_until_it_is_let_go() -> None:
    machine = ProducerMachine(LIFE, ("x", "y"), SCHEMA, rows_max=3)
    (x,) = messages(machine.on(Reached("x"), 0), "x")
    machine.on(ack(x.session, 0), 1)
    for t in range(1, 4):
        (sent,) = messages(machine.on(Push(frame_of(f"ins((A,{t}),{t},inf) stable({t})")), 1), "x")
        assert isinstance(sent, Data)
        machine.on(ack(sent.session, sent.sequence, durable=t), 1)
    assert not has_room(machine)
    machine.on(Tick(), TIMING.absent_ms)
    assert has_room(machine)
    messages(machine.on(Reached("y"), TIMING.absent_ms), "y")  # it is told all, and holds nobody up
    assert has_room(machine)
    machine.validate()


def test_over_a_link_that_lags_frames_go_together_up_to_what_one_message_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producer_machine, "RUN_BYTES_MAX", 200)
    machine = ProducerMachine(LIFE, ("x",), SCHEMA)
    (first,) = messages(machine.on(Reached("x"), 0), "x")
    for t in range(40):
        machine.on(Push(frame_of(f"ins((A,{t}),{t},{t + 5}) stable({t})")), 2)
    sent = messages(machine.on(ack(first.session, 0), 3), "x")
    frames = [m.frame for m in sent if isinstance(m, Data)]
    assert all(len(frame) == 1 or frame.nbytes <= 200 for frame in frames)
    assert max(map(len, frames)) > 1
    machine.validate()


def test_what_no_producer_is_given_is_a_bug() -> None:
    machine = ProducerMachine(LIFE, ("x",), SCHEMA)
    with pytest.raises(Bug, match="a producer was given Start"):
        machine.on(Start(), 0)  # type: ignore[arg-type]  # of another machine


def test_an_attachment_without_a_call_is_a_bug() -> None:
    machine = ProducerMachine(LIFE, ("x",), SCHEMA)
    machine.on(Reached("x"), 0)
    machine.validate()
    machine._reached.clear()
    with pytest.raises(Bug, match="there is no call to it"):
        machine.validate()
