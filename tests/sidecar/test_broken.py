"""Faults planted in the sidecar and its client: what the other tests check catches each."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gapless.failover import messages as said
from gapless.failover.merger.output_journal import OutputJournal
from gapless.protocol.elements import Insert
from gapless.protocol.errors import DiskFull, Trimmed
from gapless.sidecar.client.consumer import Consumer
from gapless.sidecar.client.producer import Producer
from gapless.sidecar.client.subscription import SidecarSubscription
from gapless.sidecar.server.push_call import Attachment
from gapless.sidecar.server.stream import Stream
from tests.sidecar.helpers import (
    PATIENCE_S,
    SCHEMA,
    Running,
    frame_of,
    read_until,
    sidecar,
    table_of,
)

Plant = Callable[[pytest.MonkeyPatch], None]


def rows_over_a_restart(tmp_path: Path) -> list[int]:
    """What a consumer gets of ten rows, half of them pushed before the sidecar is killed."""
    numbers: list[int] = []
    with sidecar(tmp_path) as one:
        producer = Producer(one.address, "s", "a", SCHEMA)
        consumer = Consumer(one.address, "s", start="earliest")
        producer.push(frame_of("stable(0)"))
        assert producer.flush()  # so that what follows goes frame by frame
        for first, behind in ((1, 6), (6, 11)):
            for t in range(first, behind):
                producer.push(frame_of(f"ins((A,{t}),{t},{t + 1}) stable({t})"))
            stable = 0
            while stable < behind - 1:
                try:
                    frame = consumer.next(2.0)
                except Trimmed:  # what it has read is not there any more: it has been told so
                    return numbers
                if frame is None:
                    break
                numbers += [e.payload[1] for e in frame.elements() if isinstance(e, Insert)]
                stable = frame.stable or stable
            one.restart()
        producer.abandon()
        consumer.close()
    return numbers


def test_unbroken_each_row_comes_once(tmp_path: Path) -> None:
    assert rows_over_a_restart(tmp_path) == list(range(1, 11))


def reads_from_its_first_start_again(patch: pytest.MonkeyPatch) -> None:
    whole = SidecarSubscription._read

    def read(self: SidecarSubscription, take: Any) -> None:
        self.wish = replace(self.wish, start="earliest")
        whole(self, take)

    patch.setattr(SidecarSubscription, "_read", read)


def forgets_what_it_acknowledged(patch: pytest.MonkeyPatch) -> None:
    """Frames are acknowledged, with a durable stable, that no merger has seen."""
    whole = Attachment._take

    async def take(self: Attachment, message: Any) -> None:
        if message.sequence % 2:
            message.body = b""
            message.ClearField("crc32")
        await whole(self, message)

    patch.setattr(Attachment, "_take", take)


def says_that_it_is_durable_and_appends_nothing(patch: pytest.MonkeyPatch) -> None:
    def append(self: OutputJournal, frame: Any) -> None:
        self._unsynced.append(frame)

    real = OutputJournal.sync
    counts: dict[int, int] = {}

    def sync(self: OutputJournal) -> Any:
        counts[id(self)] = counts.get(id(self), 0) + sum(map(len, self._unsynced))
        stable = [frame.stable for frame in self._unsynced if frame.stable is not None]
        done = real(self)
        return replace(done, offset=counts[id(self)], stable=max([done.stable, *stable]))

    patch.setattr(OutputJournal, "append", append)
    patch.setattr(OutputJournal, "sync", sync)


PLANTS: dict[str, Plant] = {
    "the client begins anew instead of at its token": reads_from_its_first_start_again,
    "frames are acknowledged and dropped": forgets_what_it_acknowledged,
    "the journal is told durable and is empty": says_that_it_is_durable_and_appends_nothing,
}


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_fault_loses_or_doubles_rows(
    tmp_path: Path, plant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    PLANTS[plant](monkeypatch)
    assert rows_over_a_restart(tmp_path) != list(range(1, 11))


def test_a_merger_that_breaks_down_is_read_back_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Stream._turn
    broken: list[Running] = []

    def turn(self: Stream, event: Any) -> None:
        if isinstance(event, said.Data) and event.frame.stable == 13 and not broken:
            broken.append(one)
            raise RuntimeError("a mistake of ours")
        whole(self, event)

    with sidecar(tmp_path) as one, Producer(one.address, "s", "a", SCHEMA) as a:
        a.push(frame_of("ins((A,7),6,20) stable(10)"))
        assert a.wait_durable(10)
        monkeypatch.setattr(Stream, "_turn", turn)
        a.push(frame_of("ins((B,8),12,20) stable(13)"))
        assert a.wait_durable(13, PATIENCE_S)
        assert broken


def test_while_the_disk_is_full_nothing_is_delivered_and_nothing_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, refused = OutputJournal.append, threading.Event()
    has_room = threading.Event()

    def append(self: OutputJournal, frame: Any) -> None:
        if not has_room.is_set():
            refused.set()
            raise DiskFull("no room")
        real(self, frame)

    with sidecar(tmp_path) as one, Producer(one.address, "s", "a", SCHEMA) as a:
        a.push(frame_of("ins((A,7),6,20) stable(10)"))
        assert a.wait_durable(10)
        monkeypatch.setattr(OutputJournal, "append", append)
        a.push(frame_of("ins((B,8),12,20) stable(13)"))
        assert refused.wait(PATIENCE_S)
        assert a.durable_stable == 10
        with Consumer(one.address, "s", start="earliest") as consumer:
            assert read_until(consumer, 10) == table_of("ins((A,7),6,20)")
            has_room.set()
            assert a.wait_durable(13)
            frame = consumer.next(PATIENCE_S)
            assert frame == frame_of("ins((B,8),12,20) stable(13)")
