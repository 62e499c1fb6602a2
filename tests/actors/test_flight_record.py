"""The flight record of a life is written where it breaks down or raises an alarm, within bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gapless.actors import flight_record as records
from gapless.actors.flight_record import ALARMS_APART_MS, FlightRecord
from gapless.actors.pump import Pump
from gapless.failover.effects import Appended, Effect, Start, Tick
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


@pytest.fixture
def record(tmp_path: Path) -> FlightRecord:
    return FlightRecord(LIFE, Machine(), LocalDisk(tmp_path), "test")


def written(folder: Path) -> list[Path]:
    return sorted((folder / "records").glob("*"))


def test_a_pump_whose_machine_breaks_down_writes_what_led_to_it(
    record: FlightRecord, tmp_path: Path
) -> None:
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


def test_an_alarm_writes_it_and_others_soon_after_do_not(
    record: FlightRecord, tmp_path: Path
) -> None:
    record.note(Start(), 0)
    for now in (0, 1, ALARMS_APART_MS - 1, ALARMS_APART_MS):
        writer = record.alarm(f"the disk is full at {now}", now)
        if writer is not None:
            writer.join(WAIT_S)
    told = [decode(file.read_bytes()).reason for file in written(tmp_path)]
    assert told == ["alarm: the disk is full at 0", f"alarm: the disk is full at {ALARMS_APART_MS}"]


def test_a_record_that_cannot_be_written_is_in_the_log_and_stops_nothing(
    record: FlightRecord,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(records, "write_record", full)
    record.write("breakdown: Bug")
    assert "no flight record of m0.1/2.7: [Errno 28] No space left" in caplog.text
    assert written(tmp_path) == []
