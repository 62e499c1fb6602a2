"""A producer's machine: what it tells whom, when it lets go, and how it is born again."""

from __future__ import annotations

import pytest

from gapless.failover.effects import Send
from gapless.failover.messages import Ack, Attach, Data, Life, Session
from gapless.failover.replica.link import CREDITS
from gapless.protocol.elements import BEGIN
from gapless.protocol.envelope import Incarnation
from gapless.sidecar.client import output_sender as pushing_module
from gapless.sidecar.client.output_sender import TIMING, Pushing
from tests.sidecar.helpers import SCHEMA, frame_of

LIFE = Life("a", Incarnation(1, 1))


def messages(effects: list[Send], to: str) -> list[Attach | Data]:
    sent = [e.message for e in effects if e.to == to]
    return [m for m in sent if isinstance(m, Attach | Data)]


def ack(session: Session | None, sequence: int, durable: int = BEGIN) -> Ack:
    assert session is not None
    return Ack(session, 1, sequence, durable, durable)


def test_nothing_is_said_to_who_is_not_reached() -> None:
    pushing = Pushing(LIFE, ("x", "y"), SCHEMA)
    assert pushing.push(frame_of("ins((A,7),6,20) stable(10)"), 0) == []
    effects = pushing.reached("y", 1)
    assert [type(m) for m in messages(effects, "y")] == [Attach]
    assert messages(effects, "x") == []
    pushing.validate()


def test_who_is_reached_again_is_told_all_that_is_not_durable() -> None:
    pushing = Pushing(LIFE, ("x",), SCHEMA)
    pushing.push(frame_of("ins((A,7),6,9) ins((B,8),6,20) stable(10)"), 0)
    (first,) = messages(pushing.reached("x", 1), "x")
    pushing.heard(ack(first.session, 0, durable=10), 2)
    pushing.lost("x", 3)
    (again,) = messages(pushing.reached("x", 3 + TIMING.reattach_ms), "x")
    assert isinstance(again, Attach)
    assert again.session.attempt == 2
    assert again.join_at == 10
    assert again.tail == frame_of("ins((B,8),6,20) stable(10)")


def test_no_more_is_sent_than_there_is_credit_for() -> None:
    pushing = Pushing(LIFE, ("x",), SCHEMA)
    (first,) = messages(pushing.reached("x", 0), "x")
    pushing.heard(ack(first.session, 0), 1)
    sent = [
        message
        for t in range(20)
        for message in messages(pushing.push(frame_of(f"ins((A,{t}),{t},{t + 5})"), 2), "x")
    ]
    assert len(sent) == CREDITS
    assert not pushing.has_room
    more = messages(pushing.heard(ack(first.session, CREDITS), 3), "x")
    assert sum(len(m.frame) for m in more if isinstance(m, Data)) == 20 - CREDITS


def test_a_sidecar_that_is_away_is_let_go_but_never_the_last() -> None:
    pushing = Pushing(LIFE, ("x", "y"), SCHEMA)
    (first,) = messages(pushing.reached("x", 0), "x")
    pushing.push(frame_of("ins((A,7),6,9) stable(10)"), 1)
    pushing.heard(ack(first.session, 0), 2)
    pushing.heard(ack(first.session, 1, durable=10), 2)
    assert len(pushing.tail) == 1  # for the one that is away
    pushing.tick(TIMING.absent_ms)
    assert pushing.mergers == ("x",)
    assert len(pushing.tail) == 0
    pushing.lost("x", TIMING.absent_ms)
    pushing.tick(3 * TIMING.absent_ms)
    assert pushing.mergers == ("x",)
    assert messages(pushing.reached("y", 3 * TIMING.absent_ms), "y")


def test_who_was_let_go_is_born_again_and_tells_all_anew() -> None:
    pushing = Pushing(LIFE, ("x",), SCHEMA)
    pushing.push(frame_of("ins((A,7),6,20) stable(10)"), 0)
    pushing.reached("x", 1)
    pushing.lost("x", 2)
    pushing.be_born_again()
    (again,) = messages(pushing.reached("x", 200), "x")
    assert again.session.life == Life("a", Incarnation(1, 2))
    assert isinstance(again, Attach)
    assert again.tail == frame_of("ins((A,7),6,20) stable(10)")
    pushing.validate()


def has_room(pushing: Pushing) -> bool:
    """Asked anew each time."""
    return pushing.has_room


def test_what_lives_holds_nothing_back_and_what_is_on_its_way_does() -> None:
    """Ten times as many rows live as may be on their way, and all of them are told again."""
    pushing = Pushing(LIFE, ("x",), SCHEMA, rows_max=10)
    (first,) = messages(pushing.reached("x", 0), "x")
    pushing.heard(ack(first.session, 0), 1)
    for t in range(1, 101):
        assert has_room(pushing)
        (sent,) = messages(pushing.push(frame_of(f"ins((A,{t}),{t},inf) stable({t})"), t), "x")
        assert isinstance(sent, Data)
        pushing.heard(ack(sent.session, sent.sequence, durable=t), t)
        pushing.validate()
    assert len(pushing.tail) == 100
    pushing.lost("x", 101)
    for t in range(101, 111):
        assert has_room(pushing)
        pushing.push(frame_of(f"ins((A,{t}),{t},inf)"), t)
    assert not has_room(pushing)  # ten are on their way to somebody who is away
    (again,) = messages(pushing.reached("x", 1000), "x")
    assert isinstance(again, Attach)
    assert len(again.tail) == 110
    pushing.heard(ack(again.session, 0, durable=100), 1001)
    assert has_room(pushing)
    pushing.validate()


def test_of_two_sidecars_the_slower_one_holds_back_until_it_is_let_go() -> None:
    pushing = Pushing(LIFE, ("x", "y"), SCHEMA, rows_max=3)
    (x,) = messages(pushing.reached("x", 0), "x")
    pushing.heard(ack(x.session, 0), 1)
    for t in range(1, 4):
        (sent,) = messages(pushing.push(frame_of(f"ins((A,{t}),{t},inf) stable({t})"), 1), "x")
        assert isinstance(sent, Data)
        pushing.heard(ack(sent.session, sent.sequence, durable=t), 1)
    assert not has_room(pushing)
    pushing.tick(TIMING.absent_ms)
    assert has_room(pushing)
    messages(pushing.reached("y", TIMING.absent_ms), "y")  # it is told all, and holds nobody up
    assert has_room(pushing)
    pushing.validate()


def test_over_a_link_that_lags_frames_go_together_up_to_what_one_message_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pushing_module, "RUN_BYTES_MAX", 200)
    pushing = Pushing(LIFE, ("x",), SCHEMA)
    (first,) = messages(pushing.reached("x", 0), "x")
    for t in range(40):
        pushing.push(frame_of(f"ins((A,{t}),{t},{t + 5}) stable({t})"), 2)
    sent = messages(pushing.heard(ack(first.session, 0), 3), "x")
    frames = [m.frame for m in sent if isinstance(m, Data)]
    assert all(len(frame) == 1 or frame.nbytes <= 200 for frame in frames)
    assert max(map(len, frames)) > 1
    pushing.validate()
