"""A merger that dies is found again as soon as it is back, the second time as the first."""

from __future__ import annotations

from itertools import count

import pytest

from gapless.failover.effects import Send, Start, Tick
from gapless.failover.messages import Ack, Attach, Data, Refused
from gapless.failover.replica.effects import ReplicaEvent, SourceRead
from gapless.failover.replica.executor import Executor
from gapless.failover.replica.machine import Replica
from gapless.failover.timing import Timing
from gapless.protocol.frame import Frame
from gapless.protocol.text import parse
from tests.failover.replica.test_machine import PASSES, SOURCE
from tests.failover.replicas import LIFE, MERGERS, Receiver, started_with

T = Timing()
TICK_MS = 50
FIRST = MERGERS[0]


class OneMerger:
    """A replica with rows all the time, and a merger that is there or not."""

    def __init__(self) -> None:
        self.replica = Replica(LIFE, started_with(mergers=(FIRST,)), Executor("plan", PASSES), T)
        self.merger = Receiver(FIRST, self.replica.schema)
        self.is_up = True
        self.now = 0
        self.rows = count(1)
        self.attached_at: list[int] = []
        self.give(Start())

    def give(self, event: ReplicaEvent) -> None:
        answers: list[Ack | Refused] = []
        for effect in self.replica.on(event, self.now):
            if self.is_up and isinstance(effect, Send) and effect.to == FIRST:
                if isinstance(effect.message, Attach):
                    self.attached_at.append(self.now)
                if isinstance(effect.message, Attach | Data):
                    answers.append(self.merger.on(effect.message))
        for answer in answers:
            self.give(answer)

    def run(self, ms: int) -> None:
        for _ in range(ms // TICK_MS):
            self.now += TICK_MS
            i = next(self.rows)
            frame = Frame.from_elements(SOURCE, parse(f"ins((0,A,1),{i},{i + 1})", SOURCE))
            self.give(SourceRead("flows", frame, {0: i}))
            self.give(Tick())

    def dies_for(self, ms: int) -> int:
        """How long after it is back it has the replica's output again."""
        self.is_up = False
        self.run(ms)
        self.merger.restart()
        self.is_up, back_at = True, self.now
        while not (self.attached_at and self.attached_at[-1] > back_at):
            self.run(TICK_MS)
            assert self.now < back_at + 10_000
        return self.attached_at[-1] - back_at


@pytest.mark.parametrize("away_ms", range(50, 6_000, 350))
def test_a_merger_that_is_back_has_the_output_at_once_however_long_it_was_away(
    away_ms: int,
) -> None:
    world = OneMerger()
    world.run(500)
    bound_ms = T.resend_ms + T.reattach_ms + TICK_MS
    for _ in range(4):
        assert world.dies_for(away_ms) <= bound_ms
        world.run(300)


def test_one_that_dies_again_before_it_has_answered_an_attach_is_found_as_soon() -> None:
    world = OneMerger()
    world.run(500)
    for away_ms in (700, 1_500, 3_100):
        world.dies_for(1_000)
        assert world.dies_for(away_ms) <= T.resend_ms + T.reattach_ms + TICK_MS


def test_asking_for_a_session_changes_nothing_at_a_merger_that_is_merely_slow() -> None:
    world = OneMerger()
    world.run(500)
    world.is_up = False
    world.run(3_000)
    world.is_up = True
    world.run(1_000)
    assert world.merger.detours == 0
    assert world.merger.epoch == 1
    assert world.merger.taken == world.replica.output.links[FIRST].sent
