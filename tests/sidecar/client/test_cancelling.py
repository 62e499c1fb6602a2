"""Calls of the clients are cancelled, timed out, interrupted and forgotten: nothing is lost."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gapless.client import AsyncConsumer, AsyncProducer, Consumer, Producer
from gapless.failover.subscriber import handover
from gapless.protocol.errors import JobError
from gapless.sidecar.assembly import Delivered
from gapless.sidecar.client import consumer as consumer_module
from gapless.sidecar.client import gathered_rows
from gapless.sidecar.client.producer_machine import UNACKED_ROWS_MAX, ProducerMachine
from tests.interrupts import Interrupts, interrupt_the_wait
from tests.sidecar.helpers import PATIENCE_S, SCHEMA, frame_of, read_until, sidecar, table_of

NOWHERE = "127.0.0.1:1"
COUNT = 12


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    gc.collect()
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE_S)
    assert {t.name for t in set(threading.enumerate()) - before} == set()


# -- reading --------------------------------------------------------------------------------------


class Scripted:
    """What a consumer reads, as far as the test lets it come."""

    def __init__(self, *_: Any) -> None:
        self.frames = [frame_of(f"ins((A,{t}),{t},{t + 5}) stable({t})") for t in range(1, COUNT)]
        self.may = threading.Semaphore(0)
        self.given = 0
        self._is_closed = False

    def let(self, frames: int) -> None:
        self.may.release(frames)

    def run(self, take: Callable[[Delivered], None]) -> None:
        for i, frame in enumerate(self.frames):
            self.may.acquire()
            if self._is_closed:
                return
            self.given += 1
            take(Delivered(frame, str(i + 1)))

    def close(self) -> None:
        self._is_closed = True
        self.let(COUNT)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """What is read by all consumers of a test, of two sidecars."""
    made = Scripted()
    monkeypatch.setattr(consumer_module, "MergedConsumer", lambda *_: made)
    return made


TWO = "127.0.0.1:1,127.0.0.1:2"


def numbers(frames: list[Any]) -> list[int]:
    return [n for frame in frames for n in frame.payload.column(1).to_pylist()]


def test_a_frame_that_comes_after_a_wait_was_given_up_is_given_to_the_next_one(
    scripted: Scripted,
) -> None:
    async def read() -> list[int]:
        async with AsyncConsumer(TWO, "s") as consumer:
            threads = threading.active_count()
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(anext(consumer), 0.001)
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(consumer.next_delivered(), 0.001)
            assert threading.active_count() == threads
            got = []
            for turn in range(40):
                task = asyncio.ensure_future(anext(consumer))
                scripted.let(1)
                for _ in range(turn % 4):
                    await asyncio.sleep(0)
                before = consumer.token
                task.cancel()
                try:
                    got.append(await task)
                    assert consumer.token == str(len(got))
                except asyncio.CancelledError:
                    assert consumer.token == before
                except StopAsyncIteration:
                    break
            return numbers([*got, *[frame async for frame in consumer]])

    assert asyncio.run(read()) == list(range(1, COUNT))


def test_a_call_that_times_out_has_taken_nothing(scripted: Scripted) -> None:
    with Consumer(TWO, "s") as consumer:
        assert consumer.next(0.001) is None
        assert consumer.next_delivered(0) is None
        assert consumer.token == ""
        scripted.let(COUNT)
        assert numbers(list(consumer)) == list(range(1, COUNT))
        with pytest.raises(StopIteration):
            consumer.next(0)


CALLS: dict[str, Callable[[Consumer], Any]] = {
    "next()": lambda c: c.next(PATIENCE_S),
    "next_delivered()": lambda c: c.next_delivered(PATIENCE_S)[0],  # type: ignore[index]  # one comes
    "for": lambda c: c.__next__(),
}


@pytest.mark.parametrize("how", CALLS)
def test_a_call_that_is_interrupted_at_any_line_has_taken_nothing(
    scripted: Scripted, how: str
) -> None:
    scripted.let(COUNT)
    interrupts = Interrupts(consumer_module, handover)
    got: list[Any] = []
    struck = 0
    with Consumer(TWO, "s") as consumer:
        for _ in range(COUNT - 1):
            before = consumer.token
            for result in interrupts.everywhere(lambda: CALLS[how](consumer)):
                if result is KeyboardInterrupt:
                    struck += 1
                    assert consumer.token == before
                else:
                    got.append(result)
    assert numbers(got) == list(range(1, COUNT))
    assert struck >= 10 * COUNT


def test_who_reads_elements_and_stops_between_two_has_the_token_before_that_frame(
    scripted: Scripted,
) -> None:
    scripted.let(COUNT)
    with Consumer(TWO, "s") as consumer:
        elements = consumer.elements()
        first = next(elements)
        assert consumer.token == ""
        del elements
        again = consumer.elements()
        assert next(again) == first
        next(again)
        assert consumer.token == "1"
        assert len(list(again)) == 2 * (COUNT - 2)


def test_rows_as_data_frames_are_read_on_after_an_iterator_was_left(scripted: Scripted) -> None:
    scripted.let(COUNT)
    with Consumer(TWO, "s") as consumer:
        first = next(consumer.pandas())
        assert (first["n"].tolist(), consumer.token) == ([1], "1")
        assert [n for each in consumer.pandas() for n in each["n"]] == list(range(2, COUNT))


def test_a_program_that_does_not_read_has_what_may_wait_and_one_more(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = scripted.frames[0].nbytes
    monkeypatch.setattr(handover.Handover.__init__, "__defaults__", (100, 3 * size))
    scripted.let(COUNT)
    with Consumer(TWO, "s") as consumer:
        got = [consumer.next(PATIENCE_S)]
        with consumer._line.changed:
            assert len(consumer._line._handover._waiting) <= 4
        assert scripted.given <= 6
        assert numbers([*got, *consumer]) == list(range(1, COUNT))


def test_a_consumer_that_is_forgotten_ends(scripted: Scripted) -> None:
    consumer = Consumer(TWO, "s")
    line = consumer._line
    del consumer
    gc.collect()
    assert line._is_closed
    assert scripted._is_closed


# -- pushing --------------------------------------------------------------------------------------


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rows that nobody has taken in, and no more."""
    monkeypatch.setattr(gathered_rows, "GATHER_ROWS", 2)
    defaults = ProducerMachine.__init__.__defaults__ or ()
    values = [2 if v == UNACKED_ROWS_MAX else v for v in defaults]
    monkeypatch.setattr(ProducerMachine.__init__, "__defaults__", tuple(values))


def said(producer: Producer) -> int:
    """Rows that were said or have gathered."""
    with producer._pump.changed:
        return producer._machine.pending_rows + len(producer._rows)


@pytest.mark.usefixtures("little_room")
def test_a_push_that_times_out_or_is_interrupted_keeps_what_has_gathered() -> None:
    producer = Producer(NOWHERE, "s", "a", SCHEMA)
    for n in (1, 2, 3):
        producer.insert(n, n + 5, src="A", n=n)
    assert said(producer) == 3
    for call in (
        lambda: producer.push(frame_of("ins((A,9),9,12)"), 0.001),
        lambda: producer.stable(9, 0.001),
        lambda: producer.flush(0.001),
    ):
        with pytest.raises(JobError, match="have had no room"):
            call()
        assert said(producer) == 3
    assert not producer.try_push(frame_of("ins((A,9),9,12)"))
    assert not producer.try_flush()
    assert not producer.wait_durable(3, 0.001)
    calls: tuple[Callable[[], None], ...] = (
        lambda: producer.insert(4, 9, src="A", n=4),
        lambda: producer.adjust(1, 6, 8, src="A", n=1),
        lambda: producer.push(frame_of("ins((A,9),9,12)")),
        lambda: producer.stable(9),
        producer.close,
    )
    for call in calls:
        interrupt_the_wait(call)
        assert said(producer) == 3
    producer.abandon()


def test_what_was_interrupted_is_said_again_once(tmp_path: Path) -> None:
    with sidecar(tmp_path) as one, Producer(one.address, "s", "a", SCHEMA) as producer:
        for n in range(5):
            producer.insert(n, n + 5, src="A", n=n)
        interrupt_the_wait(lambda: producer.wait_durable(99, PATIENCE_S))
        assert producer.flush()
        producer.stable(3)
        assert producer.flush()
        with Consumer(one.address, "s", start="earliest") as consumer:
            assert read_until(consumer, 3) == table_of(
                " ".join(f"ins((A,{n}),{n},{n + 5})" for n in range(5))
            )


@pytest.mark.usefixtures("little_room")
def test_awaits_of_a_producer_that_are_cancelled_leave_no_thread_and_lose_nothing() -> None:
    async def push() -> None:
        client = AsyncProducer(NOWHERE, "s", "a", SCHEMA)
        producer = client._producer
        for n in (1, 2, 3):
            producer.insert(n, n + 5, src="A", n=n)
        threads = threading.active_count()
        frame = frame_of("ins((A,9),9,12)")
        calls: tuple[Callable[[], Any], ...] = (
            lambda: client.push(frame),
            lambda: client.stable(9),
            client.flush,
            lambda: client.wait_durable(3),
        )
        for call in calls:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(call(), 0.001)
            assert said(producer) == 3
        assert not await client.flush(0.001)
        assert not await client.wait_durable(3, 0.001)
        assert threading.active_count() == threads
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.close(), 0.001)

    asyncio.run(push())


def test_a_producer_that_is_closed_by_await_has_said_all_and_has_left(tmp_path: Path) -> None:
    async def push(address: str) -> None:
        async with AsyncProducer(address, "s", "a", SCHEMA) as client:
            await client.push(frame_of("ins((A,1),1,9) stable(5)"))
        assert client._producer.has_left
        await client.close()  # again: nothing happens

    with sidecar(tmp_path) as one:
        asyncio.run(push(one.address))
        stream = one.server.registry.streams["s"]
        assert not one.on_loop(lambda: stream.machine.attached)
