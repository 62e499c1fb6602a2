"""A producer's machine: what it tells whom, when it lets go, and how it is born again."""

from __future__ import annotations

from gapless.failover.effects import Effect, Send
from gapless.failover.link import CREDITS
from gapless.failover.messages import Ack, Attach, Data, Life, Session
from gapless.protocol.elements import BEGIN
from gapless.protocol.envelope import Incarnation
from gapless.sidecar.pushing import TIMING, Pushing
from tests.sidecar.helpers import SCHEMA, frame_of

LIFE = Life("a", Incarnation(1, 1))


def messages(effects: list[Effect], to: str) -> list[Attach | Data]:
    sent = [e.message for e in effects if isinstance(e, Send) and e.to == to]
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
