"""A stream that breaks down or raises an alarm leaves a flight record, which is replayed."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gapless.failover.effects import Tick
from gapless.failover.merger.machine import Merger
from gapless.failover.merger.output_journal import OutputJournal
from gapless.failover.messages import Data, Life, Session
from gapless.failover.recorder import recorder as recorders
from gapless.failover.recorder.folder import RECORDS_MAX
from gapless.failover.recorder.record import decode
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import Bug, DiskFull
from gapless.sidecar.client.consumer import Consumer
from gapless.sidecar.client.producer import Producer
from gapless.sidecar.server import flight_records
from gapless.sidecar.server.flight_records import FlightRecords
from gapless.testing import ReplayFailed, replay
from tests.sidecar.helpers import PATIENCE_S, SCHEMA, frame_of, read_until, sidecar, table_of

SESSION = Session(Life("a", Incarnation(0, 1)), "s", 1)


def written(data: Path) -> list[Path]:
    """All records, once the sidecar has stopped."""
    return sorted((data / "records").glob("*"))


def breaks_at(monkeypatch: pytest.MonkeyPatch, stable: int) -> None:
    """Has each merger break down at the frame with this stable, once."""
    on, broken = Merger.on, threading.Event()

    def broken_on(self: Merger, event: Any, now: int) -> Any:
        if isinstance(event, Data) and event.frame.stable == stable and not broken.is_set():
            broken.set()
            raise Bug("rows out of order")
        return on(self, event, now)

    monkeypatch.setattr(Merger, "on", broken_on)


def test_a_merger_that_breaks_down_leaves_what_led_to_it_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sidecar(tmp_path) as one, Producer(one.address, "talkers", "a", SCHEMA) as a:
        a.push(frame_of("ins((A,7),6,20) stable(10)"))
        assert a.wait_durable(10)
        with monkeypatch.context() as patch:
            breaks_at(patch, 13)
            a.push(frame_of("ins((B,8),12,20) stable(13)"))
            assert a.wait_durable(13, PATIENCE_S)
        with Consumer(one.address, "talkers", start="earliest") as consumer:
            assert read_until(consumer, 13) == table_of("ins((A,7),6,20) ins((B,8),12,20)")
    (file,) = written(tmp_path)
    record = decode(file.read_bytes())
    assert file.name.endswith("-talkers-1.1")
    assert (record.life, record.machine) == ("talkers/1.1", "Merger")
    assert record.reason == "breakdown: it broke down: Bug: rows out of order"
    last, _ = record.events[-1]
    assert isinstance(last, Data)
    assert last.frame == frame_of("ins((B,8),12,20) stable(13)")

    steps = replay(file)  # the mistake is mended by now
    assert len(steps) == len(record.events)
    assert any(type(step.event) is Data and step.effects for step in steps)
    breaks_at(monkeypatch, 13)
    with pytest.raises(ReplayFailed, match="rows out of order"):
        replay(file)


def test_a_worker_that_fails_as_nobody_foresaw_leaves_a_record_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sidecar(tmp_path) as one, Producer(one.address, "s", "a", SCHEMA) as a:
        a.push(frame_of("stable(10)"))
        assert a.wait_durable(10)
        with monkeypatch.context() as patch:
            failed = threading.Event()

            def append(*_: Any) -> None:
                failed.set()
                raise ValueError("not as it should be")

            patch.setattr(OutputJournal, "append", append)
            a.push(frame_of("ins((B,8),12,20) stable(13)"))
            assert failed.wait(PATIENCE_S)
        assert a.wait_durable(13, PATIENCE_S)
    first, *_ = written(tmp_path)
    assert decode(first.read_bytes()).reason == "breakdown: ValueError: not as it should be"


def test_an_alarm_of_another_thread_leaves_a_record_and_the_stream_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seal(*_: Any) -> None:
        raise DiskFull("no room for a base")

    with sidecar(tmp_path) as one:
        with Producer(one.address, "s", "a", SCHEMA) as a:
            a.push(frame_of("ins((A,7),6,20) stable(10)"))
            assert a.wait_durable(10)
        monkeypatch.setattr(OutputJournal, "seal", seal)
    (file,) = written(tmp_path)
    record = decode(file.read_bytes())
    assert record.reason == "alarm: no base of the output: no room for a base"
    assert replay(file)


def test_a_sidecar_keeps_so_many_records_of_all_its_streams(tmp_path: Path) -> None:
    records = FlightRecords(tmp_path, "t", iter(range(1000)).__next__, lambda: 40)
    with sidecar(tmp_path / "data") as one, Producer(one.address, "s", "a", SCHEMA) as a:
        a.push(frame_of("ins((A,7),6,20) stable(10)"))
        assert a.wait_durable(10)
        machine = one.server.registry.streams["s"].machine
        for number in range(40):
            record = records.of(f"stream{number}", machine)
            one.on_loop(partial(record.note, Tick(), 0))
            record.write_beside("breakdown: of many").result(PATIENCE_S)
    records.close()
    names = [path.name for path in written(tmp_path)]
    assert names == [f"{n:013}-stream{n}-1.1" for n in range(40 - RECORDS_MAX, 40)]


def test_the_more_streams_there_are_the_less_each_record_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = frame_of("ins((A,7),6,20) stable(10)")
    size = recorders.held_bytes(frame)
    monkeypatch.setattr(flight_records, "RECORDED_BYTES_MAX", 30 * size)
    with sidecar(tmp_path) as one, Producer(one.address, "s", "a", SCHEMA) as a:
        a.push(frame)
        assert a.wait_durable(10)
        machine = one.server.registry.streams["s"].machine
        for streams in (1, 10):
            records = FlightRecords(tmp_path, "t", lambda: 0, partial(int, streams))
            record = records.of("s", machine)

            def note(record: Any = record) -> None:
                for number in range(1, 101):
                    record.note(Data(SESSION, number, frame), number)

            one.on_loop(note)
            assert 20 // streams <= len(record.take().events) <= 30 // streams
            records.close()
