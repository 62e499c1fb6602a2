"""A source that is read to its end gathers rows for a moment, where the cores are taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gapless.actors.lull import LULL_MS_MAX, NAP_MS_MAX, Lull, lull_ms
from gapless.actors.merger import MergerShell
from gapless.actors.pump import LATE_OF, Pump
from gapless.actors.replica import ReplicaShell
from gapless.failover.effects import Start, Tick
from gapless.failover.machines import Effect
from tests.actors.test_reader_registry_shell import World, until

IDLE_MS, TAKEN_MS = 0.04, 2.0
"""How late a wait ends on a machine that is idle, and on one whose cores are taken."""


def reads(late_ms: float, *, feed_ms: int = 10, seconds: int = 1) -> int:
    """How often a feed of a record each `feed_ms` is read: as soon as there is a record."""
    lull, now, count = Lull(), 0, 0
    for _ in range(1000 * seconds // feed_ms):
        fed_at = now if count == 0 else (now // feed_ms + 1) * feed_ms
        now = max(fed_at, now + lull.left_ms("flows", late_ms, now))
        if now >= 1000 * seconds:
            break
        lull.was_read("flows", to_its_end=True, now=now)
        count += 1
    return count


def test_a_feed_is_read_as_it_comes_where_there_is_room_and_else_half_as_often() -> None:
    assert reads(IDLE_MS) == 100
    assert reads(TAKEN_MS) <= 50


def test_a_lull_is_as_long_as_the_pump_is_late_and_bounded() -> None:
    assert lull_ms(IDLE_MS) == 0
    assert 0 < lull_ms(0.3) < lull_ms(0.6) < LULL_MS_MAX
    assert lull_ms(TAKEN_MS) == lull_ms(10_000.0) == LULL_MS_MAX


def test_a_source_that_has_more_to_be_read_knows_no_lull() -> None:
    lull = Lull()
    lull.was_read("flows", to_its_end=False, now=100)
    assert lull.left_ms("flows", TAKEN_MS, 100) == 0
    lull.was_read("flows", to_its_end=True, now=101)
    assert lull.left_ms("flows", TAKEN_MS, 105) == LULL_MS_MAX - 4
    lull.was_read("flows", to_its_end=False, now=106)
    assert lull.left_ms("flows", TAKEN_MS, 106) == 0


def test_the_lull_of_one_source_keeps_no_other_waiting() -> None:
    lull = Lull()
    lull.was_read("flows", to_its_end=True, now=100)
    assert lull.left_ms("names", TAKEN_MS, 100) == 0


def test_a_lull_ends_as_soon_as_the_machine_has_room() -> None:
    lull = Lull()
    lull.was_read("flows", to_its_end=True, now=100)
    assert lull.left_ms("flows", TAKEN_MS, 100) == LULL_MS_MAX
    assert lull.left_ms("flows", IDLE_MS, 100) == 0
    assert lull.left_ms("flows", TAKEN_MS, 100 + LULL_MS_MAX) == 0


def test_a_replica_leaves_a_source_alone_once_it_has_read_it_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And reads on without a pause until then."""
    waited: list[int] = []
    was_read: list[bool] = []
    note, later = Lull.was_read, Pump.later
    lull = LULL_MS_MAX - 1  # no other delay of a shell's

    def noted(self: Lull, source: str, *, to_its_end: bool, now: int) -> None:
        was_read.append(to_its_end)
        note(self, source, to_its_end=to_its_end, now=now)

    def left(*_: object) -> int:
        return lull if was_read and was_read[-1] else 0

    def delayed(self: Pump, delay_ms: int, work: object) -> None:
        if delay_ms == lull:
            waited.append(len(was_read))
        later(self, delay_ms, work)  # type: ignore[arg-type]  # as it is given

    monkeypatch.setattr("gapless.actors.pace.ROWS_FIRST", 64)
    monkeypatch.setattr(Lull, "was_read", noted)
    monkeypatch.setattr(Lull, "left_ms", left)
    monkeypatch.setattr(Pump, "later", delayed)
    with World(tmp_path).replica():
        until(lambda: bool(waited))
    assert was_read.index(True) > 0  # it took several reads
    assert waited[0] == was_read.index(True) + 1


def test_a_merger_naps_and_a_replica_which_has_its_lull_does_not() -> None:
    assert MergerShell.NAPS
    assert not ReplicaShell.NAPS


class Machine:
    """Hears, and has nothing done."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def on(self, event: Any, now: int) -> list[Effect]:
        assert now > 0
        if not isinstance(event, Tick):
            self.heard.append(event)
        return []

    def validate(self) -> None:
        """Has no invariants."""


@pytest.mark.parametrize(
    ("late_ms", "naps", "gathers"), [(1e6, True, True), (0.0, True, False), (1e6, False, False)]
)
def test_a_late_pump_that_naps_takes_together_what_comes_meanwhile(
    monkeypatch: pytest.MonkeyPatch, late_ms: float, naps: bool, gathers: bool
) -> None:
    machine, slept = Machine(), []
    taken: list[int] = []
    pump = Pump("test", machine, {}, flush=lambda: taken.append(len(machine.heard)), naps=naps)

    def asleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 1:
            for number in range(3):
                pump.post(number)  # type: ignore[arg-type]  # the machine takes anything
        pump.end("slept")

    monkeypatch.setattr("gapless.actors.pump.rest", asleep)
    monkeypatch.setattr("gapless.actors.pump.TICK_MS", 10**6)  # no tick cuts what is taken at once
    pump.late_ms = late_ms
    pump.post(Start())
    if not gathers:
        pump.end("nobody slept")
    pump.start()
    pump.join(20.0)
    assert pump.ended == ("slept" if gathers else "nobody slept")
    if gathers:
        assert all(0 < seconds <= NAP_MS_MAX / 1000 for seconds in slept)
        assert 5 in taken  # the two before, and the three
        assert not {3, 4} & set(taken)
    else:
        assert not slept


def test_a_pump_knows_how_late_it_has_lately_woken_and_forgets_a_hiccup() -> None:
    pump = Pump("test", Machine(), {})
    for _ in range(5 * LATE_OF):
        pump.woke(TAKEN_MS)
    assert lull_ms(pump.late_ms) == LULL_MS_MAX
    for _ in range(10 * LATE_OF):
        pump.woke(-1.0)  # a clock of whole milliseconds, say
    assert lull_ms(pump.late_ms) == 0
