"""Copies that differ physically, sidecars and producers that die at any moment: what a strict
subscriber is told is one stream, and the table that it describes is the one that was meant.
"""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

from gapless.failover.subscriber.effects import Emit
from gapless.failover.table import Received
from gapless.protocol.elements import INF, Adjust, Element, Insert, Stable
from gapless.protocol.frame import Frame, frames_of
from gapless.protocol.tdb import Tdb
from gapless.sidecar.client.consumer import Consumer
from gapless.sidecar.client.producer import Producer
from tests.sidecar.helpers import PATIENCE_S, SCHEMA, Running, sidecar

EVENTS = 400


def copy_of(seed: int) -> list[Frame]:
    """One physical form of the same table: ends come late, and order differs within bounds."""
    rng = random.Random(seed)
    elements: list[Element] = []
    late: list[tuple[int, Adjust]] = []
    for t in range(1, EVENTS + 1):
        payload, end = (f"k{t % 7}", t), t + 3 + t % 11
        if rng.random() < 0.4:
            guess = end + rng.randint(1, 5)
            elements.append(Insert(payload, t, guess))
            late.append((t + rng.randint(1, 3), Adjust(payload, t, guess, end)))
        else:
            elements.append(Insert(payload, t, end))
        due = [adjust for at, adjust in late if at <= t]
        late = [each for each in late if each[0] > t]
        elements += due
        if t % rng.randint(3, 9) == 0 and not late:
            elements.append(Stable(t + 1))
    elements += [adjust for _, adjust in late]
    return [*frames_of(SCHEMA, elements), Frame.empty(SCHEMA, INF)]


def meant() -> Tdb:
    table = Tdb(SCHEMA)
    for frame in copy_of(0):
        table.fold(frame)
    return table


def feed(producer: Producer, frames: list[Frame], until: int | None = None) -> None:
    for frame in frames[:until]:
        producer.push(frame, PATIENCE_S)


def received(consumer: Consumer) -> Received:
    """All that a strict subscriber is told, to the end of the stream."""
    strict = Received(SCHEMA)
    while strict.stable < INF:
        got = consumer.next_delivered(PATIENCE_S)
        assert got is not None, f"nothing came for {PATIENCE_S} s"
        strict.take(Emit(got.frame, {}, got.reset, got.since))
    return strict


@pytest.mark.parametrize("seed", range(3))
def test_sidecars_and_producers_die_and_one_stream_comes_out(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    with sidecar(tmp_path) as one:
        producers = [Producer(one.address, "s", name, SCHEMA) for name in "abc"]
        consumer = Consumer(one.address, "s", start="earliest")
        copies = [copy_of(10 * seed + i) for i in range(3)]
        dies_at = rng.randint(1, len(copies[0]) // 2)
        threads = [
            threading.Thread(
                target=feed, args=(producer, copy, dies_at if i == 0 else None), daemon=True
            )
            for i, (producer, copy) in enumerate(zip(producers, copies, strict=True))
        ]
        for thread in threads:
            thread.start()
        threads[0].join(PATIENCE_S)
        producers[0].abandon()
        for _ in range(2):
            one.restart(by_force=rng.random() < 0.7)
        strict = received(consumer)
        assert strict.tdb() == meant()
        for thread, producer in zip(threads[1:], producers[1:], strict=True):
            thread.join(PATIENCE_S)
            producer.validate()
            producer.abandon()
        consumer.close()


def test_of_two_sidecars_either_may_die_and_come_back(tmp_path: Path) -> None:
    with sidecar(tmp_path / "1") as one, sidecar(tmp_path / "2") as other:
        both = f"{one.address},{other.address}"
        producers = [Producer(both, "s", name, SCHEMA) for name in "ab"]
        consumer = Consumer(both, "s", start="earliest")
        copies = [copy_of(77), copy_of(78)]
        half = min(map(len, copies)) // 2
        for producer, copy in zip(producers, copies, strict=True):
            feed(producer, copy[:half])
        one.restart()
        for producer, copy in zip(producers, copies, strict=True):
            feed(producer, copy[half : half + 10])
        restart_both(other, one)
        for producer, copy in zip(producers, copies, strict=True):
            feed(producer, copy[half + 10 :])
        assert received(consumer).tdb() == meant()
        consumer.close()
        for producer in producers:
            producer.abandon()


def restart_both(first: Running, second: Running) -> None:
    """One after the other, so that one is always there."""
    first.restart()
    second.restart()


def test_a_copy_that_joins_late_takes_over_where_the_output_is_durable(tmp_path: Path) -> None:
    frames = copy_of(5)
    with sidecar(tmp_path) as one:
        first = Producer(one.address, "s", "a", SCHEMA)
        feed(first, frames, len(frames) // 2)
        assert first.flush()
        stable = max(frame.stable or 0 for frame in frames[: len(frames) // 2])
        assert first.wait_durable(stable)
        first.abandon()
        table = Tdb(SCHEMA)
        for frame in frames:
            table.fold(frame)
        rest = [event for event in table.events if event.ve >= stable]
        with Producer(one.address, "s", "b", SCHEMA, join_at=stable) as second:
            rows = [Insert(event.payload, event.vs, event.ve) for event in rest]
            second.push(Frame.from_elements(SCHEMA, rows).with_stable(INF))
            with Consumer(one.address, "s", start="earliest") as consumer:
                assert received(consumer).tdb() == meant()
