"""A pump whose machine breaks down writes its flight record to the job's directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gapless.actors.flight_record import flight_record
from gapless.actors.pump import Pump
from gapless.failover.effects import Start, Tick
from gapless.failover.machines import Effect
from gapless.failover.merger.effects import Appended
from gapless.failover.messages import Life
from gapless.failover.recorder.record import decode
from gapless.journal.disk import LocalDisk
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import Bug

LIFE = Life("m0.1", Incarnation(2, 7))
WAIT_S = 20.0


class Machine:
    """Breaks down at the first row that is durable."""

    def on(self, event: Any, now: int) -> list[Effect]:  # noqa: ARG002  # any machine's
        if isinstance(event, Appended):
            raise Bug("rows out of order")
        return []

    def validate(self) -> None:
        """Always whole."""


def written(folder: Path) -> list[Path]:
    return sorted((folder / "records").glob("*"))


def test_a_pump_whose_machine_breaks_down_writes_what_led_to_it(tmp_path: Path) -> None:
    record = flight_record(LIFE, Machine(), LocalDisk(tmp_path), "test")
    pump = Pump("test", Machine(), {}, record=record)
    pump.post(Appended(3, 4))
    pump.start()
    pump.join(WAIT_S)
    (file,) = written(tmp_path)
    assert file.name.endswith("-m0.1-2.7")
    read = decode(file.read_bytes())
    assert read.reason == "breakdown: Bug: rows out of order"
    assert [event for event, _ in read.events if not isinstance(event, Tick)] == [
        Start(),
        Appended(3, 4),
    ]


def test_an_alarm_is_written_by_a_thread_of_its_own(tmp_path: Path) -> None:
    record = flight_record(LIFE, Machine(), LocalDisk(tmp_path), "test")
    record.note(Start(), 0)
    writer = record.alarm("the disk is full", 0)
    assert writer is not None
    writer.join(WAIT_S)
    (file,) = written(tmp_path)
    assert decode(file.read_bytes()).reason == "alarm: the disk is full"
