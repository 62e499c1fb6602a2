"""A producer's pump gives its machine one event at a time, and threads that wait hear of it."""

from __future__ import annotations

import threading

import pytest

from gapless.failover.messages import Ack, Attach, Data, Life
from gapless.protocol.elements import BEGIN
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import JobError, Misuse
from gapless.sidecar.client.producer_machine import Credit, ProducerMachine, Push, Reached
from gapless.sidecar.client.producer_pump import ProducerPump
from tests.sidecar.helpers import PATIENCE_S, SCHEMA, frame_of

LIFE = Life("a", Incarnation(0, 7))


class Line:
    """Keeps what it is to send."""

    def __init__(self) -> None:
        self.sent: list[Attach | Data] = []

    def send(self, message: Attach | Data) -> None:
        self.sent.append(message)


class Pumped:
    """A pump that only its test gives the time."""

    def __init__(self) -> None:
        self.heard = 0
        self.line = Line()
        self.pump = ProducerPump("s", ProducerMachine(LIFE, ("x",), SCHEMA), self._hear)
        self.pump._lines = {"x": self.line}

    def _hear(self) -> None:
        self.heard += 1


@pytest.fixture
def pumped() -> Pumped:
    return Pumped()


def test_what_follows_from_an_event_goes_over_the_line_it_is_for(pumped: Pumped) -> None:
    pumped.pump.happens(Push(frame_of("ins((A,7),6,20)")))
    assert pumped.line.sent == []
    pumped.pump.happens(Reached("x"))
    (attach,) = pumped.line.sent
    assert isinstance(attach, Attach)
    assert pumped.heard == 0
    pumped.pump.hears(Credit("x", 8), Ack(attach.session, 1, 0, BEGIN, BEGIN))
    assert pumped.heard == 1
    assert pumped.pump.machine.all_acked


def test_whoever_waits_looks_again_when_something_was_heard(pumped: Pumped) -> None:
    pumped.pump.happens(Reached("x"))
    (attach,) = pumped.line.sent
    ack = Ack(attach.session, 1, 0, 10, 10)
    speaker = threading.Thread(target=lambda: pumped.pump.hears(ack))
    with pumped.pump.changed:
        speaker.start()
        assert pumped.pump.wait(lambda: pumped.pump.machine.settled.durable >= 10, PATIENCE_S)
    speaker.join(PATIENCE_S)


def test_the_first_error_is_what_ends_it_and_is_raised_wherever_it_is_waited(
    pumped: Pumped,
) -> None:
    pump = pumped.pump
    pump.fail(JobError("the first"))
    pump.break_down(ValueError("the second"))
    with pump.changed, pytest.raises(JobError, match="the first"):
        pump.wait(lambda: True, 0)
    assert pumped.heard == 2


def test_nothing_is_waited_for_once_it_is_closed(pumped: Pumped) -> None:
    pumped.pump.closing.set()
    with pumped.pump.changed, pytest.raises(Misuse, match="is closed"):
        pumped.pump.wait(lambda: False, None)


def test_a_problem_is_logged_once_for_each_reason_and_forgotten_when_it_is_well(
    pumped: Pumped, caplog: pytest.LogCaptureFixture
) -> None:
    pump = pumped.pump
    assert [pump.problem] == [None]
    for why in ("full", "full", "away"):
        pump.has_trouble("x", why)
    pump.has_trouble("y", "full")
    assert pump.problem == "x: away; y: full"
    assert len(caplog.records) == 3
    pump.is_well("x")
    pump.is_well("y")
    assert [pump.problem] == [None]
