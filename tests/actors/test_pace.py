"""How many rows a replica reads at once, against plans of which every cost is known.

Time is virtual: a push takes what the plan's cost says, and what a disturbance adds to it. As in
the shell, the next frame has been read before the pace hears of the last.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import pytest

from gapless.actors.pace import PUSH_MS_MAX, ROWS_FIRST, Cost, Pace
from gapless.actors.pump import TICK_MS
from gapless.actors.setup import RAY_TIMING
from gapless.journal.reader import FRAME_ROWS

CALLS_MS = (5, 30, 60, 200)
ROW_MS = 0.001
HIGH = 0.8
"""Of the best rate that there is."""
BACK_MS = 10_000
"""After a disturbance it is reached again by then."""


class Paced(Protocol):
    rows: int

    def took(self, rows: int, ms: float) -> object: ...


class Proportional:
    """A broken variant: it takes all cost for a cost by row, and grows with short frames."""

    def __init__(self) -> None:
        self.rows = 2048

    def took(self, rows: int, ms: float) -> None:
        if ms > TICK_MS and rows > 64:
            self.rows = max(64, int(rows * TICK_MS / ms))
        elif ms < TICK_MS / 2:
            self.rows = min(FRAME_ROWS, 2 * self.rows)


@dataclass
class Seen:
    at_ms: float
    rows: int
    ms: float


class Machine:
    """Pushes frames of a plan, one after the other."""

    def __init__(self, pace: Paced, cost: Cost, noise: float = 0.0, seed: int = 0) -> None:
        self.pace, self.cost, self.noise = pace, cost, noise
        self.now_ms = 0.0
        self.pushes: list[Seen] = []
        self._rng = random.Random(seed)
        self._ahead: int | None = None

    def push(self, rows: int, more_ms: float = 0.0, times: float = 1.0) -> None:
        ms = self.cost.of(rows) * times * (1 + self._rng.uniform(-self.noise, self.noise)) + more_ms
        self.now_ms += ms
        self.pushes.append(Seen(self.now_ms, rows, ms))
        self.pace.took(rows, ms)

    def run(self, for_ms: float, times: float = 1.0) -> None:
        """There is more than can be read."""
        until = self.now_ms + for_ms
        while self.now_ms < until:
            rows = self.pace.rows if self._ahead is None else self._ahead
            if rows > 2 * self.pace.rows:  # the shell reads it again
                rows = self.pace.rows
            self._ahead = self.pace.rows
            self.push(rows, times=times)

    def rate(self, since_ms: float) -> float:
        of = [seen for seen in self.pushes if seen.at_ms > since_ms]
        return sum(seen.rows for seen in of) / sum(seen.ms for seen in of)


def best_rate(cost: Cost) -> float:
    rows = max(1.0, min(FRAME_ROWS, (cost.ms_max - cost.frame) / cost.row))
    return rows / cost.of(rows)


def stall(ms: float) -> Callable[[Machine], None]:
    return lambda machine: machine.push(machine.pace.rows, more_ms=ms)


def starvation(machine: Machine) -> None:
    machine.run(1000, times=10)


def share_reached(
    pace: Paced, cost: Cost, noise: float, disturb: Callable[[Machine], None]
) -> float:
    """The least share of the best rate: before it is disturbed, and ten seconds after."""
    machine = Machine(pace, cost, noise)
    machine.run(BACK_MS)
    since = machine.now_ms
    machine.run(BACK_MS)
    before = machine.rate(since)
    disturb(machine)
    machine.run(BACK_MS)
    since = machine.now_ms
    machine.run(BACK_MS)
    return min(before, machine.rate(since)) / best_rate(cost)


DISTURBANCES = {"0.4 s": stall(400), "1 s": stall(1000), "a tenth of a core": starvation}


@pytest.mark.parametrize("call_ms", CALLS_MS)
@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("disturbance", DISTURBANCES)
def test_a_costly_call_is_paid_for_many_rows_also_after_a_hiccup(
    call_ms: float, noise: float, disturbance: str
) -> None:
    cost = Cost(call_ms, ROW_MS)
    assert share_reached(Pace(), cost, noise, DISTURBANCES[disturbance]) >= HIGH


@pytest.mark.parametrize("frame", [0.0, 0.3, 5, 30, 60, 100])
@pytest.mark.parametrize("row", [0.0001, 0.01, 0.1, 1, 10])
def test_every_plan_comes_near_its_best_rate(frame: float, row: float) -> None:
    assert share_reached(Pace(), Cost(frame, row), 0.0, stall(1000)) >= HIGH


@pytest.mark.parametrize("call_ms", [30, 60, 200])
def test_a_pace_that_takes_a_call_for_rows_is_found_out(call_ms: float) -> None:
    assert share_reached(Proportional(), Cost(call_ms, ROW_MS), 0.0, stall(400)) < HIGH / 2


# -- how long a push takes --------------------------------------------------------------------


def short_frames(pace: Paced, cost: Cost, sizes: Iterable[int]) -> Machine:
    """After an idle time with a few rows now and then, more than can be read."""
    machine = Machine(pace, cost)
    for size in sizes:
        machine.push(size)
    machine.run(5000)
    return machine


SIZES = {
    "one": [1] * 50,
    "a few": [1 + i % 9 for i in range(50)],
    "more, then one": [20, 10, 4] + [1] * 50,
    "none": [],
}


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("row_ms", [0.01, 0.1, 1.0, 10.0])
def test_a_slow_plan_is_never_long_inside_the_pump_after_short_frames(
    sizes: str, row_ms: float
) -> None:
    machine = short_frames(Pace(), Cost(0.3, row_ms), SIZES[sizes])
    assert max(seen.ms for seen in machine.pushes) <= PUSH_MS_MAX
    assert RAY_TIMING.hang_ms > 3 * PUSH_MS_MAX


def test_a_pace_that_grows_with_short_frames_is_found_out() -> None:
    machine = short_frames(Proportional(), Cost(0.3, 1.0), SIZES["one"])
    assert max(seen.ms for seen in machine.pushes) > 16_000


def test_a_plan_that_becomes_slow_is_long_inside_the_pump_once() -> None:
    machine = Machine(Pace(), Cost(0.3, ROW_MS))
    machine.run(1000)
    machine.cost = Cost(0.3, 1.0)
    machine.run(60_000)
    assert sum(seen.ms > PUSH_MS_MAX for seen in machine.pushes) == 1


def test_between_two_ticks_there_is_a_frame_of_a_plan_whose_rows_cost() -> None:
    machine = Machine(Pace(), Cost(0.3, 0.1))
    machine.run(5000)
    assert max(seen.ms for seen in machine.pushes) <= 2 * TICK_MS
    assert machine.pace.rows == pytest.approx(TICK_MS / 0.1, rel=0.02)


def test_a_quick_plan_soon_gets_as_much_as_there_may_be() -> None:
    pace, pushes = Pace(), 0
    while pace.rows < FRAME_ROWS:
        pace.took(pace.rows, 0.3)
        pushes += 1
    assert pushes <= 5


def test_a_frame_that_the_next_record_did_not_fit_into_is_full() -> None:
    pace, records = Pace(), 100
    for _ in range(20):
        pace.took(max(records * (pace.rows // records), min(records, pace.rows)), 0.3)
    assert pace.rows == FRAME_ROWS


def test_short_frames_never_make_it_grow() -> None:
    pace = Pace()
    for rows in [1, 3, ROWS_FIRST // 2] * 20:
        assert pace.took(rows, 0.01) == ROWS_FIRST


def test_a_frame_without_rows_says_nothing() -> None:
    assert Pace().took(0, 1000.0) == ROWS_FIRST
