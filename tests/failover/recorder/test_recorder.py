"""A flight recorder holds the last events, within its bounds, and what the machine was before."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from gapless.failover.effects import Appended, Effect, Event, PeerRead, Tick
from gapless.failover.recorder import recorder as recorders
from gapless.failover.recorder.image import IMAGE_BYTES_MAX, NoImage, written
from gapless.failover.recorder.recorder import EVENTS_MAX, PART_EVENTS_MAX, PARTS_MAX, Recorder
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

SCHEMA = StreamSchema({"n": "int64"})


class Machine:
    """Has the image that a test gives it."""

    def __init__(self, size: int = 0) -> None:
        self.held = bytes(size)

    def on(self, event: Event, now: int) -> list[Effect]:  # noqa: ARG002  # any machine's
        return []


def frame(rows: int) -> Frame:
    times = np.arange(rows, dtype=np.int64)
    return Frame.from_columns(SCHEMA, times, times + 1, [pa.array(times)])


def clock() -> int:
    return 0


@pytest.fixture(autouse=True)
def _images(monkeypatch: pytest.MonkeyPatch) -> None:
    def image(machine: Machine, bytes_max: int) -> bytes:
        if len(machine.held) > bytes_max:
            raise NoImage("it is too large")
        return b"image of " + str(len(machine.held)).encode()

    monkeypatch.setattr(recorders, "written", image)


def test_the_last_events_are_there_and_as_many_more_as_a_part_has_at_most() -> None:
    recorder = Recorder(Machine(), clock)
    for i in range(3 * EVENTS_MAX):
        recorder.note(Appended(i, i), i)
        events = recorder.take().events if i % 501 == 0 else None
        if events is not None:
            assert [now for _, now in events] == list(range(i + 1))[-len(events) :]
            assert min(i + 1, EVENTS_MAX) <= len(events) <= EVENTS_MAX + PART_EVENTS_MAX
    assert recorder.take().image == b"image of 0"


def test_large_frames_end_a_part_before_it_has_its_events(monkeypatch: pytest.MonkeyPatch) -> None:
    event = PeerRead("m0.1", frame(100))
    size = recorders.held_bytes(event.frame)
    assert size >= 100 * 8
    monkeypatch.setattr(recorders, "PART_BYTES_MAX", 10 * size)
    recorder = Recorder(Machine(), clock)
    for i in range(100):
        recorder.note(event, i)
        assert len(recorder.take().events) <= PARTS_MAX * 10
    assert len(recorder.take().events) > (PARTS_MAX - 1) * 10


def test_behind_an_event_that_is_too_large_the_record_begins_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recorders, "EVENT_BYTES_MAX", 1000)
    recorder = Recorder(Machine(), clock)
    for now, rows in enumerate((1, 1000, 2, 3)):
        recorder.note(PeerRead("m0.1", frame(rows)), now)
    taken = recorder.take()
    assert [now for _, now in taken.events] == [2, 3]
    assert taken.image is not None


def test_a_machine_that_is_too_large_has_events_alone_until_it_is_small_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recorders, "PART_EVENTS_MAX", 10)
    machine = Machine(IMAGE_BYTES_MAX + 1)
    recorder = Recorder(machine, clock)
    for now in range(15):
        recorder.note(Tick(), now)
    taken = recorder.take()
    assert taken.image is None
    assert taken.why_none == "it is too large"
    assert len(taken.events) == 15
    machine.held = b""
    for now in range(15, 25):
        recorder.note(Tick(), now)
    assert recorder.take().image == b"image of 0"
    assert [now for _, now in recorder.take().events] == [20, 21, 22, 23, 24]


def test_images_take_no_more_than_their_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorders, "PART_EVENTS_MAX", 1)
    worked, spent, made = 0, 0, 0

    def image(_: Machine, __: int) -> bytes:
        nonlocal worked, spent, made
        worked, spent, made = worked + 30, spent + 30, made + 1
        return b""

    monkeypatch.setattr(recorders, "written", image)
    recorder = Recorder(Machine(), lambda: worked)
    for now in range(40_000):
        recorder.note(Tick(), now)
        worked += 1
    assert made > 10
    assert spent <= worked / recorders.SHARE_FACTOR + 30


def test_nothing_is_held_of_a_machine_that_has_heard_nothing() -> None:
    taken = Recorder(Machine(), clock).take()
    assert (taken.image, taken.events) == (None, [])
    assert taken.why_none


def test_an_image_ends_at_its_bound() -> None:
    with pytest.raises(NoImage, match="larger than 10 bytes"):
        written(list(range(100)), 10)
