"""What a replica's process adds to its interpreter: how many rows at once, and in which order."""

from __future__ import annotations

from typing import Any

from gapless.chaos.sim.replica_process import FRAME_ROWS, PACED_SHARE, PACES, ReadPace
from gapless.chaos.sim.step_queue import StepQueue
from gapless.failover.io.steps import Outcome, Step
from gapless.failover.replica.effects import Done, ReplicaEvent


def test_a_small_share_of_the_runs_has_a_pace_that_changes_and_others_read_what_is_there() -> None:
    paced = sum(ReadPace.is_drawn(seed) for seed in range(2_000)) / 2_000
    assert 0.7 * PACED_SHARE < paced < 1.3 * PACED_SHARE
    fixed, drawn = ReadPace("a", is_drawn=False), ReadPace("a", is_drawn=True)
    seen = set()
    for _ in range(300):
        fixed.goes_on()
        drawn.goes_on()
        assert fixed.rows() == FRAME_ROWS
        seen.add(drawn.rows())
    assert seen == set(PACES)


class Agenda:
    """A process that does nothing but what is due."""

    def __init__(self) -> None:
        self.due: list[tuple[int, Any]] = []
        self.world = self

    def below(self, n: int) -> int:
        return n - 1

    def disk_ms(self, quick_ms: int) -> int:
        return quick_ms

    def later(self, delay_ms: int, call: Any) -> None:
        self.due.append((delay_ms, call))

    def goes_on(self) -> None:
        self.due.pop(0)[1]()


def test_steps_of_one_place_are_done_one_after_the_other() -> None:
    agenda, done = Agenda(), list[Outcome[ReplicaEvent]]()
    queue: StepQueue[ReplicaEvent] = StepQueue(agenda, 40, done.append)  # type: ignore[arg-type]  # as much of one as it needs
    for number in range(3):
        queue.put(Step("work", lambda n=number: Done(n, None)))  # type: ignore[misc]  # bound now
    for number in range(3):
        assert len(done) == number
        assert [ms for ms, _ in agenda.due] == [40], "the next one waits"
        agenda.goes_on()
    assert done == [Done(n, None) for n in range(3)]
    assert not agenda.due
