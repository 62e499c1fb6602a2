"""A flight recorder holds the last events, within its bounds, and what the machine was before."""

from __future__ import annotations

import gc

import numpy as np
import pyarrow as pa
import pytest

from gapless.failover.effects import Tick
from gapless.failover.machines import Effect, Event
from gapless.failover.merger.effects import Appended, PeerRead
from gapless.failover.recorder import budget as budgets
from gapless.failover.recorder import recorder as recorders
from gapless.failover.recorder.budget import Budget
from gapless.failover.recorder.image import IMAGE_BYTES_MAX, NoImage, written
from gapless.failover.recorder.recorder import (
    BLOCK_EVENTS,
    EVENTS_MAX,
    IMAGE_EVERY,
    IMAGES_HELD,
    Packed,
    Recorder,
    Taken,
    held_bytes,
    unpacked,
)
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

SCHEMA = StreamSchema({"n": "int64"})
HELD_MAX = EVENTS_MAX + IMAGE_EVERY + BLOCK_EVENTS


class Machine:
    """Has the image that a test gives it: how many events it was given, and as many bytes more."""

    def __init__(self, size: int = 0) -> None:
        self.held = bytes(size)
        self.given = 0

    def on(self, event: Event, now: int) -> list[Effect]:  # noqa: ARG002  # any machine's
        self.given += 1
        return []


def frame(rows: int) -> Frame:
    times = np.arange(rows, dtype=np.int64)
    return Frame.from_columns(SCHEMA, times, times + 1, [pa.array(times)])


def clock() -> int:
    return 0


def turn(recorder: Recorder, machine: Machine, event: Event, now: int) -> None:
    """As a pump does."""
    recorder.note(event, now)
    machine.on(event, now)


def check_whole(taken: Taken, now: int) -> None:
    """The machine had been given what came before the first event, of events at 0, 1, 2, ..."""
    assert taken.image is not None
    first = int(taken.image)
    assert [at for _, at in taken.events] == list(range(first, now + 1))


@pytest.fixture(autouse=True)
def _images(monkeypatch: pytest.MonkeyPatch) -> None:
    def image(machine: Machine, bytes_max: int) -> bytes:
        if len(machine.held) > bytes_max:
            raise NoImage("it is too large")
        return str(machine.given).encode()

    monkeypatch.setattr(recorders, "written", image)


def test_the_last_events_are_there_and_those_back_to_an_image_before_them() -> None:
    machine = Machine()
    recorder = Recorder(machine, Budget(clock))
    for i in range(3 * EVENTS_MAX):
        turn(recorder, machine, Appended(i, i), i)
        if i % 501 == 0:
            taken = recorder.take()
            check_whole(taken, i)
            assert min(i + 1, EVENTS_MAX) <= len(taken.events) <= HELD_MAX


def test_of_large_frames_as_many_are_held_as_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    event = PeerRead("m0.1", frame(100))
    size = held_bytes(event.frame)
    assert size >= 100 * 8
    monkeypatch.setattr(budgets, "BYTES_MAX", 30 * size)
    machine = Machine()
    recorder = Recorder(machine, Budget(clock))
    for i in range(200):
        turn(recorder, machine, event if i % 2 else Tick(), i)
        taken = recorder.take()
        check_whole(taken, i)
        large = sum(type(e) is PeerRead for e, _ in taken.events)
        assert large <= 30
        if i > 100:
            assert large >= 30 * (IMAGES_HELD - 1) // IMAGES_HELD


@pytest.mark.parametrize("seed", range(20))
def test_whatever_the_sizes_a_record_begins_with_an_image_and_has_all_behind_it(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(seed)
    frames = [frame(int(rows)) for rows in draw.integers(0, 200, 10)]
    largest = max(held_bytes(each) for each in frames)
    monkeypatch.setattr(recorders, "EVENTS_MAX", int(draw.integers(1, 60)))
    monkeypatch.setattr(recorders, "IMAGE_EVERY", int(draw.integers(1, 60)))
    monkeypatch.setattr(recorders, "BLOCK_EVENTS", int(draw.integers(1, 60)))
    monkeypatch.setattr(recorders, "EVENT_BYTES_MAX", int(draw.integers(largest // 2, 2 * largest)))
    monkeypatch.setattr(budgets, "BYTES_MAX", int(draw.integers(1, 20) * largest))
    machine = Machine()
    recorder = Recorder(machine, Budget(clock))
    for i in range(500):
        large = PeerRead("m0.1", frames[int(draw.integers(10))])
        event = large if draw.random() < 0.5 else Appended(i, i)
        turn(recorder, machine, event, i)
        taken = recorder.take()
        kept = sum(held_bytes(e.frame) for e, _ in taken.events if type(e) is PeerRead)
        assert kept <= budgets.BYTES_MAX
        held_max = recorders.EVENTS_MAX + recorders.IMAGE_EVERY + recorders.BLOCK_EVENTS
        assert len(taken.events) <= held_max
        if taken.events and taken.image is not None:
            check_whole(taken, i)
        else:
            assert taken.why_none


def test_behind_an_event_that_is_too_large_the_record_begins_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recorders, "EVENT_BYTES_MAX", 1000)
    recorder = Recorder(Machine(), Budget(clock))
    for now, rows in enumerate((1, 1000, 2, 3)):
        recorder.note(PeerRead("m0.1", frame(rows)), now)
    taken = recorder.take()
    assert [now for _, now in taken.events] == [2, 3]
    assert taken.image is not None


def test_a_machine_that_was_changed_beside_its_events_has_a_record_from_then_on() -> None:
    machine = Machine()
    recorder = Recorder(machine, Budget(clock))
    for now in range(5):
        turn(recorder, machine, Tick(), now)
    recorder.begin_anew()
    assert recorder.take().events == []
    for now in range(5, 8):
        turn(recorder, machine, Tick(), now)
    check_whole(recorder.take(), 7)


def test_a_machine_that_is_too_large_has_events_alone_until_it_is_small_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recorders, "EVENTS_MAX", 20)
    monkeypatch.setattr(recorders, "IMAGE_EVERY", 10)
    machine = Machine(IMAGE_BYTES_MAX + 1)
    recorder = Recorder(machine, Budget(clock))
    for now in range(15):
        turn(recorder, machine, Tick(), now)
    taken = recorder.take()
    assert taken.image is None
    assert taken.why_none == "it is too large"
    assert len(taken.events) == 15
    machine.held = b""
    for now in range(15, 25):
        turn(recorder, machine, Tick(), now)
    check_whole(recorder.take(), 24)
    assert [now for _, now in recorder.take().events] == [20, 21, 22, 23, 24]


def test_where_images_are_too_rare_a_record_says_why_it_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recorders, "EVENTS_MAX", 20)
    monkeypatch.setattr(recorders, "IMAGE_EVERY", 10)
    monkeypatch.setattr(recorders, "BLOCK_EVENTS", 10)
    worked = iter([0, 50, *[51] * 1000])  # the first image takes long, and no time passes then
    recorder = Recorder(Machine(), Budget(lambda: next(worked)))
    for now in range(100):
        recorder.note(Tick(), now)
    taken = recorder.take()
    assert (taken.image, len(taken.events)) == (None, 40)
    assert taken.why_none == "events come too fast for another image of the machine"


def test_of_many_that_share_a_thread_each_gets_its_image_in_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worked = 0

    def image(machine: Machine, _: int) -> bytes:
        nonlocal worked
        worked += 10
        return str(machine.given).encode()

    monkeypatch.setattr(recorders, "written", image)
    budget = Budget(lambda: worked)
    machines = [Machine() for _ in range(10)]
    recording = [Recorder(machine, budget) for machine in machines]
    for now in range(2 * (EVENTS_MAX + IMAGE_EVERY)):
        for machine, recorder in zip(machines, recording, strict=True):
            turn(recorder, machine, Tick(), now)
            worked += 1
    for recorder in recording:
        taken = recorder.take()
        check_whole(taken, now)
        assert len(taken.events) >= EVENTS_MAX // 2


def test_where_many_share_a_bound_each_holds_less_and_soon_lets_go_of_what_it_held() -> None:
    event = PeerRead("m0.1", frame(100))
    size, count = held_bytes(event.frame), 1
    recorder = Recorder(Machine(), Budget(clock, recorders=lambda: count, bytes_max=40 * size))

    def held() -> int:
        return sum(type(each) is PeerRead for each, _ in recorder.take().events)

    for now in range(40):
        recorder.note(event, now)
    assert held() > 20
    count = 10
    for now in range(IMAGE_EVERY):
        recorder.note(Tick(), now)
    assert held() <= 4
    count = 1000
    for now in range(IMAGE_EVERY):
        recorder.note(Tick(), now)
    recorder.note(event, 0)
    assert held() == 0, "one alone is more than its part"


def test_what_is_held_leaves_nothing_behind_for_collections_of_garbage() -> None:
    """A recorder that is full lets go of as many objects as it takes."""
    recorder = Recorder(Machine(), Budget(clock))
    for now in range(EVENTS_MAX + IMAGE_EVERY):
        recorder.note(Appended(now, now), now)
    gc.collect()
    before = gc.get_stats()[0]["collections"]
    for now in range(EVENTS_MAX):
        recorder.note(Appended(now, now), now)
    assert gc.get_stats()[0]["collections"] - before <= 1


def test_of_a_message_the_call_that_it_came_with_is_held_and_read_back_in_its_place() -> None:
    calls = {bytes([i]): [Appended(i, place) for place in range(3)] for i in range(100)}
    recorder = Recorder(Machine(), Budget(clock))
    noted: list[tuple[Event, int]] = []
    for now, (call, messages) in enumerate(calls.items()):
        for place, message in enumerate(messages):
            recorder.note(message, now, (message, call, place))
            noted.append((message, now))
        recorder.note(Tick(), now, (messages[-1], call, 2))
        noted.append((Tick(), now))
    events = recorder.take().events
    assert {type(event) for event, _ in events} == {Packed, Tick}
    assert [event.call for event, _ in events if type(event) is Packed] == [
        call for call in calls for _ in range(3)
    ]
    assert list(unpacked(events, calls.__getitem__)) == noted


def test_nothing_is_held_of_a_machine_that_has_heard_nothing() -> None:
    taken = Recorder(Machine(), Budget(clock)).take()
    assert (taken.image, taken.events) == (None, [])
    assert taken.why_none


def test_an_image_ends_at_its_bound() -> None:
    with pytest.raises(NoImage, match="larger than 10 bytes"):
        written(list(range(100)), 10)
