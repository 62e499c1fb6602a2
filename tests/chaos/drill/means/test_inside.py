"""Hooks in a process: they obey what holds, count it, and let everything be without orders."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gapless.actors.root import Root
from gapless.actors.shell import Shell
from gapless.actors.wire import MessageDecoder, Wire
from gapless.chaos.drill.means import inside
from gapless.chaos.drill.means.inside import Inside, plant_orders
from gapless.chaos.drill.means.orders import BROKEN, FOLDER, Order, Orders
from gapless.failover.messages import Ack, Data, Life, Session
from gapless.protocol.envelope import Incarnation
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

SCHEMA = StreamSchema({"p": "int32"})
LIFE = Life("m0.0", Incarnation(1, 1))
SESSION = Session(Life("r0.0", Incarnation(1, 2)), "m0.0", 1)
FRAME = Data(SESSION, 1, Frame.empty(SCHEMA, 5))
ACK = Ack(SESSION, 1, 1, 0, 0)


class FakePump:
    """Does at once what it is given."""

    ended = None

    def __init__(self) -> None:
        self.happened: list[Any] = []

    def do(self, work: Callable[[], None]) -> None:
        work()

    def happens(self, event: Any) -> None:
        self.happened.append(event)


class FakeShell(Shell):
    """A shell without a cluster: what it hears goes through the very methods of the product."""

    def __init__(self) -> None:
        setup = SimpleNamespace(life=LIFE, schema=SCHEMA, node="n")
        super().__init__(setup, None, lambda _: None)  # type: ignore[arg-type]  # it looks no further
        self.told: list[str] = []
        self._intake = MessageDecoder(self.wire, self.told.append)
        self.fake = self.pump = FakePump()  # type: ignore[assignment]  # what hear and _take use


@dataclass
class Planted:
    orders: Orders
    shell: FakeShell
    look: Callable[[], None]

    def give(self, order: Order) -> int:
        number = self.orders.give(order)
        self.look()
        return number

    def hear(self, *messages: Any) -> list[Any]:
        """What the machine of a shell is given when these come in one call."""
        self.shell.fake.happened.clear()
        self.shell.hear(Wire(SCHEMA).encode(list(messages)))
        return self.shell.fake.happened


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Planted]:
    made: list[Inside] = []

    def kept(folder: Path) -> Inside:
        made.append(Inside(folder))
        return made[-1]

    monkeypatch.setattr(inside, "Inside", kept)
    monkeypatch.setattr(Inside, "_run", lambda _: None)  # a test looks when it has given an order
    orders = Orders(tmp_path)
    with ExitStack() as undo:
        undo.callback(plant_orders(tmp_path))
        yield Planted(orders, FakeShell(), made[0].look)


HOOKED = [
    (Shell, ("__init__", "hear", "_take")),
    (Root, ("__init__", "hear", "_take")),
    (os, ("fsync", "fdatasync")),
    (time, ("time", "time_ns")),
]


def bound() -> list[Any]:
    return [getattr(owner, name) for owner, names in HOOKED for name in names]


def test_all_hooks_are_planted_and_taken_out_again(tmp_path: Path) -> None:
    before = bound()
    Orders(tmp_path)
    undo = plant_orders(tmp_path)
    assert all(now is not was for now, was in zip(bound(), before, strict=True))
    undo()
    assert bound() == before


def test_a_process_that_is_told_nothing_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER, raising=False)
    monkeypatch.delenv(BROKEN, raising=False)
    before = bound()
    inside.plant()
    assert bound() == before


def test_without_orders_messages_and_clock_are_as_they_are(planted: Planted) -> None:
    assert planted.hear(FRAME, ACK) == [FRAME, ACK]
    assert abs(time.time_ns() / 1e9 - time.time()) < 60


def test_an_order_for_another_slot_is_not_obeyed(planted: Planted) -> None:
    number = planted.give(Order("lose", "m0.1"))
    assert planted.hear(FRAME) == [FRAME]
    assert planted.orders.struck(number) == 0


def test_frames_are_lost_as_long_as_the_order_holds(planted: Planted) -> None:
    number = planted.give(Order("lose", "m*", "frames"))
    assert planted.hear(FRAME, ACK) == [ACK]
    planted.orders.take_back(number)
    planted.look()
    assert planted.hear(FRAME, ACK) == [FRAME, ACK]
    assert planted.orders.struck(number) == 1


def test_what_waits_is_taken_when_the_order_is_taken_back(planted: Planted) -> None:
    number = planted.give(Order("delay", ms=1e6))
    assert planted.hear(FRAME, ACK) == []
    planted.orders.take_back(number)
    planted.look()
    assert planted.shell.fake.happened == [FRAME, ACK]
    assert planted.orders.struck(number) == 2


def test_a_corrupt_call_is_dropped_with_an_alarm(planted: Planted) -> None:
    number = planted.give(Order("corrupt", messages="frames"))
    assert planted.hear(ACK) == [ACK], "it is about frames"
    assert planted.hear(FRAME, ACK) == []
    assert planted.orders.struck(number) == 1
    assert len(planted.shell.told) == 1


def test_two_orders_may_damage_one_call(planted: Planted) -> None:
    first = planted.give(Order("corrupt"))
    second = planted.give(Order("corrupt", messages="frames"))
    assert planted.hear(FRAME) == []
    assert [planted.orders.struck(n) for n in (first, second)] == [1, 0]


def test_a_disk_is_slow_by_so_much(planted: Planted, tmp_path: Path) -> None:
    number = planted.give(Order("slow disk", ms=50))
    with (tmp_path / "file").open("wb") as f:
        began = time.monotonic()
        os.fdatasync(f.fileno())
        os.fsync(f.fileno())
    assert time.monotonic() - began >= 0.1
    assert planted.orders.struck(number) == 2


@pytest.mark.parametrize("ms", [3_600_000, -3_600_000])
def test_a_wall_clock_jumps_and_comes_back(planted: Planted, ms: int) -> None:
    right = time.time()
    number = planted.give(Order("clock", ms=ms))
    assert abs(time.time() - right - ms / 1_000) < 60
    wrong_ns = time.time_ns()
    assert isinstance(wrong_ns, int)
    assert abs(wrong_ns / 1e9 - right - ms / 1_000) < 60
    planted.orders.take_back(number)
    planted.look()
    assert abs(time.time() - right) < 60
    assert planted.orders.struck(number) >= 2


def test_a_process_looks_for_orders_by_itself(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    process = Inside(tmp_path)
    process.begin("r0.1")
    number = orders.give(Order("lose", "r0.1"))
    until = time.monotonic() + 30
    while number not in process.orders and time.monotonic() < until:
        process._ends.wait(0.01)
    process.end()
    assert process._ends.is_set()
    assert time.monotonic() < until
