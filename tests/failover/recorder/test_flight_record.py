"""A flight record is written where its machine breaks down or raises an alarm, within bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gapless.chaos.sim.disk import SimulatedDisk
from gapless.failover.effects import Start
from gapless.failover.machines import Effect
from gapless.failover.merger.effects import Appended
from gapless.failover.recorder import flight_record as records
from gapless.failover.recorder.budget import Budget
from gapless.failover.recorder.flight_record import ALARMS_APART_MS, FlightRecord, Shell
from gapless.failover.recorder.folder import FOLDER
from gapless.failover.recorder.record import decode
from gapless.protocol.errors import RecordError


class Machine:
    """Any machine."""

    def on(self, event: Any, now: int) -> list[Effect]:  # noqa: ARG002  # any machine's
        return []


class World:
    """What is around the machine: a disk, a log, and a thread that works when the test says so."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.log: list[str] = []
        self.waiting: list[Callable[[], None]] = []
        self.wall_ms = 1000
        shell = Shell(
            self.disk, "t", lambda: "0.1.0", self._now, self.waiting.append, self.log.append
        )
        self.record = FlightRecord("m0.1/2.7", Machine(), Budget(lambda: 0), shell)

    def _now(self) -> int:
        self.wall_ms += 1
        return self.wall_ms

    def write(self) -> None:
        """The other thread does what it was asked for."""
        while self.waiting:
            self.waiting.pop(0)()

    def written(self) -> list[tuple[str, str, int]]:
        """Of each record its name, its reason and how many events it has."""
        made = []
        for name in sorted(self.disk.list(FOLDER)):
            path = f"{FOLDER}/{name}"
            record = decode(self.disk.read(path, 0, self.disk.size(path)))
            made.append((name, record.reason, len(record.events)))
        return made


@pytest.fixture
def world() -> World:
    return World()


def test_a_breakdown_is_written_at_once(world: World) -> None:
    world.record.note(Start(), 0)
    world.record.note(Appended(3, 4), 1)
    world.record.write("breakdown: Bug: rows out of order")
    name = "0000000001001-m0.1-2.7"
    assert world.written() == [(name, "breakdown: Bug: rows out of order", 2)]
    assert f"flight record of m0.1/2.7: records/{name}" in world.log[0]


def test_what_another_thread_writes_is_what_was_held_when_it_was_asked_for(world: World) -> None:
    world.record.note(Start(), 0)
    world.record.write_beside("breakdown: Bug")
    world.record.note(Appended(3, 4), 1)
    assert world.written() == []
    world.write()
    assert [(why, events) for _, why, events in world.written()] == [("breakdown: Bug", 1)]


def test_an_alarm_writes_it_and_others_soon_after_do_not(world: World) -> None:
    world.record.note(Start(), 0)
    for now in (0, 1, ALARMS_APART_MS - 1, ALARMS_APART_MS):
        world.record.alarm(f"the disk is full at {now}", now)
        world.write()
    told = [why for _, why, _ in world.written()]
    assert told == ["alarm: the disk is full at 0", f"alarm: the disk is full at {ALARMS_APART_MS}"]


def test_a_record_that_cannot_be_written_is_in_the_log_and_stops_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(records, "write_record", full)
    world.record.write("breakdown: Bug")
    assert world.log == ["no flight record of m0.1/2.7: [Errno 28] No space left on device"]
    assert world.written() == []


def test_an_event_that_has_no_form_as_bytes_is_told_to_whoever_asks_for_the_record(
    world: World,
) -> None:
    world.record.note(lambda: None, 0)
    with pytest.raises(RecordError, match=r"what m0\.1/2\.7 was given has no form as bytes"):
        world.record.encoded(world.record.take(), "asked for")
    world.record.write("breakdown: Bug")
    assert "has no form as bytes" in world.log[0]
