"""A producer whose machine breaks down leaves a flight record, which replays what it did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gapless.failover.effects import Tick
from gapless.failover.machines import Effect
from gapless.failover.messages import Ack, Attach, Data, Life
from gapless.failover.recorder.record import decode
from gapless.failover.recorder.replay import replayed
from gapless.protocol.elements import BEGIN
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import Bug, JobError
from gapless.sidecar.client.producer import Producer
from gapless.sidecar.client.producer_machine import (
    Credit,
    LetGo,
    Lost,
    ProducerEvent,
    ProducerMachine,
    Push,
    Reached,
)
from gapless.sidecar.client.producer_record import producer_record
from gapless.testing import ReplayFailed, replay
from tests.sidecar.helpers import PATIENCE_S, SCHEMA, frame_of, sidecar

LIFE = Life("a", Incarnation(1, 7))


def test_a_record_of_a_producer_does_again_what_that_did(tmp_path: Path) -> None:
    machine = ProducerMachine(LIFE, ("x", "y"), SCHEMA)
    record = producer_record("talkers", machine, tmp_path)
    did: list[list[Effect]] = []
    sessions: dict[str, Any] = {}

    def happens(event: ProducerEvent, now: int) -> None:
        record.note(event, now)
        did.append(list(machine.on(event, now)))
        for effect in did[-1]:
            message = getattr(effect, "message", None)
            if isinstance(message, Attach):
                sessions[effect.to] = message.session  # type: ignore[union-attr]  # a Send

    now = 0
    for round_ in range(3):
        for name in ("x", "y"):
            happens(Reached(name), now)
            happens(Credit(name, 4), now)
            happens(Ack(sessions[name], 1, 0, BEGIN, BEGIN), now)
        for t in range(20 * round_ + 1, 20 * round_ + 20):
            now += 10
            happens(Push(frame_of(f"ins((A,{t}),{t},{t + 30}) stable({t})")), now)
            happens(Tick(), now)
        happens(Lost("x"), now)
        happens(Lost("y"), now)
        if round_ == 1:
            happens(LetGo(), now)
        now += 1000
    record.write("breakdown: of a test")
    (file,) = (tmp_path / "records").glob("*")
    assert file.name.endswith("-talkers.a-1.7")
    read = decode(file.read_bytes())
    assert (read.life, read.machine) == ("talkers.a/1.7", "ProducerMachine")
    steps = list(replayed(read))
    assert [step.error for step in steps if step.error is not None] == []
    assert [step.effects for step in steps] == did
    assert sum(isinstance(e.message, Data) for step in steps for e in step.effects) > 10  # type: ignore[union-attr]  # each is a Send


def test_a_producer_that_breaks_down_says_so_and_leaves_what_led_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ProducerMachine.on

    def on(self: ProducerMachine, event: ProducerEvent, now: int) -> Any:
        if isinstance(event, Ack) and event.durable_stable >= 10:
            raise Bug("a frame is sent before its turn")
        return whole(self, event, now)

    folder = tmp_path / "records of a"
    with sidecar(tmp_path) as one:
        producer = Producer(one.address, "s", "a", SCHEMA, incarnation=9, records=folder)
        monkeypatch.setattr(ProducerMachine, "on", on)
        producer.push(frame_of("ins((A,7),6,20) stable(10)"))
        with pytest.raises(Bug, match="before its turn"):
            producer.wait_durable(10, PATIENCE_S)
        producer.abandon()
        (file,) = (folder / "records").glob("*")
        assert file.name.endswith("-s.a-0.9")
        assert decode(file.read_bytes()).reason == "breakdown: Bug: a frame is sent before its turn"
        with pytest.raises(ReplayFailed, match="before its turn"):
            replay(file)
        monkeypatch.setattr(ProducerMachine, "on", whole)
        assert replay(file)[-1].error is None


def test_the_clock_that_breaks_down_ends_the_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ProducerMachine.on

    def on(self: ProducerMachine, event: ProducerEvent, now: int) -> Any:
        if isinstance(event, Tick):
            raise ValueError("no such time")
        return whole(self, event, now)

    monkeypatch.setattr(ProducerMachine, "on", on)
    producer = Producer("127.0.0.1:1", "s", "a", SCHEMA)
    with pytest.raises(JobError, match="pushing broke down: ValueError: no such time"):
        producer.wait_durable(10, PATIENCE_S)
    producer.abandon()
