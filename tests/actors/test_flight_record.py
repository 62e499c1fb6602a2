"""A pump whose machine breaks down writes its flight record to the job's directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gapless.actors.flight_record import JobFlightRecord, flight_record
from gapless.actors.pump import BURST_MAX, Pump, each_heard
from gapless.actors.wire import Wire
from gapless.failover.effects import Start, Tick
from gapless.failover.machines import Effect
from gapless.failover.merger.effects import Appended
from gapless.failover.messages import Ack, Data, Life, Message, Session
from gapless.failover.recorder.budget import Budget
from gapless.failover.recorder.record import decode
from gapless.failover.recorder.recorder import (
    BLOCK_EVENTS,
    EVENT_BYTES_MAX,
    EVENTS_MAX,
    HEARD_BYTES_MAX,
    IMAGE_EVERY,
    Packed,
)
from gapless.journal.disk import LocalDisk
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

LIFE = Life("m0.1", Incarnation(2, 7))
WAIT_S = 20.0
SCHEMA = StreamSchema({"n": "int64"})
WIRE = Wire(SCHEMA)


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
    record = flight_record(LIFE, Machine(), LocalDisk(tmp_path), "test", WIRE)
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
    record = flight_record(LIFE, Machine(), LocalDisk(tmp_path), "test", WIRE)
    record.note(Start(), 0)
    writer = record.alarm("the disk is full", 0)
    assert writer is not None
    writer.join(WAIT_S)
    (file,) = written(tmp_path)
    assert decode(file.read_bytes()).reason == "alarm: the disk is full"


def test_of_all_that_a_pump_was_given_its_record_holds_the_last_and_little_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Budget, "has_time", True)  # however long an image takes on this machine
    record = flight_record(LIFE, Machine(), LocalDisk(tmp_path), "test", WIRE)
    pump = Pump("test", Machine(), {}, record=record)
    for _ in range(3 * EVENTS_MAX):
        pump.post(Tick())
    pump.end("all is done")
    pump.start()
    pump.join(WAIT_S)
    taken = record.take()
    assert EVENTS_MAX <= len(taken.events) <= EVENTS_MAX + IMAGE_EVERY + BLOCK_EVENTS + BURST_MAX
    assert len(record.recorder.recent) <= BLOCK_EVENTS + BURST_MAX


def heard(record: JobFlightRecord, *calls: list[Message]) -> list[Message]:
    """What a pump is given that hears these calls."""
    pump, given = Pump("test", Machine(), {}, record=record), []
    for messages in calls:
        call = WIRE.encode(messages)
        for message in each_heard(pump, call, WIRE.decode(call)):
            pump.happens(message)
            given.append(message)
        pump.happens(Tick())
        given.append(Tick())
    return given


def test_messages_are_held_as_they_came_and_written_as_what_they_are(tmp_path: Path) -> None:
    record = flight_record(LIFE, Machine(), LocalDisk(tmp_path), "test", WIRE)
    rows, session = np.arange(3), Session(LIFE, "m0.1", 1)
    data = Data(session, 1, Frame.from_columns(SCHEMA, rows, rows + 1, [pa.array(rows)]))
    given = heard(record, [Ack(session, 1, 1, 0, 0), data], [Ack(session, 1, 2, 0, 0)])
    taken = record.take()
    assert [type(event) for event, _ in taken.events] == [Packed, Packed, Tick, Packed, Tick]
    read = decode(record.encoded(taken, "asked for"))
    assert [event for event, _ in read.events] == given


def test_of_a_large_call_the_messages_themselves_are_held(tmp_path: Path) -> None:
    record = flight_record(LIFE, Machine(), LocalDisk(tmp_path), "test", WIRE)
    rows, session = np.arange(HEARD_BYTES_MAX // 8), Session(LIFE, "m0.1", 1)
    assert rows.nbytes * 5 < EVENT_BYTES_MAX
    data = Data(session, 1, Frame.from_columns(SCHEMA, rows, rows + 1, [pa.array(rows)]))
    heard(record, [Ack(session, 1, 1, 0, 0), data])
    assert [type(event) for event, _ in record.take().events] == [Ack, Data, Tick]
