"""A life whose pump is inside something for long says so, and one that is not says nothing more."""

from __future__ import annotations

from gapless.actors.heart import LATE_HEARTBEATS, Heart
from gapless.actors.pump import Pump
from gapless.failover.effects import Tick
from gapless.failover.machines import Effect, Event
from gapless.failover.messages import Life
from gapless.failover.statuses import ReplicaStatus
from gapless.protocol.elements import INF
from gapless.protocol.envelope import Incarnation

HEARTBEAT_MS = 100
LATE_MS = LATE_HEARTBEATS * HEARTBEAT_MS
STATUS = ReplicaStatus(Life("r0.0", Incarnation(1, 1)), "p", 0, 7, 1, 0, False, False, INF)


class Machine:
    """Has the heart beat while the pump is inside an event of it."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.heart: Heart | None = None
        self.inside_ms = 0

    def on(self, event: Event, now: int) -> list[Effect]:  # noqa: ARG002  # one form for all
        if self.heart is not None:
            self.heart.beat(now + self.inside_ms)
        return []

    def validate(self) -> None:
        """Nothing can be broken."""


def beating(inside_ms: int, last: ReplicaStatus | None = STATUS) -> list[str]:
    machine = Machine()
    pump = Pump("test", machine, {})
    machine.heart = Heart(pump, lambda status: machine.said.append(status.busy), HEARTBEAT_MS)
    machine.heart.last, machine.inside_ms = last, inside_ms
    machine.heart.beat(10**12)  # it waits for events
    pump.happens(Tick())
    return machine.said


def test_a_pump_that_waits_or_is_inside_something_for_a_moment_is_not_busy() -> None:
    assert beating(LATE_MS - 1) == []


def test_one_that_is_inside_an_event_for_long_is_busy_with_that() -> None:
    assert beating(LATE_MS) == ["Tick, for 0.2 s"]


def test_a_life_that_has_not_spoken_yet_says_nothing_of_the_kind() -> None:
    assert beating(LATE_MS, None) == []
