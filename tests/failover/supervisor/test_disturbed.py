"""Every controller that is disturbed for a second is back at its rate within ten.

What adapts (waits that double, time-outs that are learned, tokens that come back) may go too far,
and stay there. Each is measured, disturbed, left alone, and measured again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import count

import pytest

from gapless.actors.setup import RAY_TIMING
from gapless.failover.backoff import Backoff
from gapless.failover.effects import Send, Tick
from gapless.failover.job.desired import Desired
from gapless.failover.messages import Data
from gapless.failover.replica.effects import SourceRead
from gapless.protocol.elements import INF
from gapless.protocol.frame import Frame
from gapless.protocol.text import parse
from tests.failover.replica.test_link_recovery import FIRST, TICK_MS, OneMerger
from tests.failover.replica.test_link_recovery import T as LINK_TIMING
from tests.failover.replica.test_machine import SOURCE
from tests.failover.supervised import World, machine, whole
from tests.failover.supervised_lives import Machine

SECOND_MS = 1_000
WITHIN_MS = 10_000
STEP_MS = 10
SLACK_MS = 250
"""What drawn delays of messages and starts make of one measurement and another."""
CHECKPOINT_MS = 500
TIMING = replace(RAY_TIMING, checkpoint_ms=CHECKPOINT_MS)


# -- disturbances -----------------------------------------------------------------------------


def lives_die_at_once(world: World) -> None:
    world.doomed = {"r0.1"}
    world.crash(machine(world, "r0.1"))
    world.run(SECOND_MS)
    world.doomed = set()


def mergers_die_at_once(world: World) -> None:
    world.doomed = {"m0.1"}
    world.crash(machine(world, "m0.1"))
    world.run(SECOND_MS)
    world.doomed = set()


def all_stand_still(world: World) -> None:
    for life in world.lives.values():
        life.frozen_until = world.now + SECOND_MS
    world.run(SECOND_MS)


def one_stands_still(world: World) -> None:
    machine(world, "r0.1").frozen_until = world.now + SECOND_MS
    world.run(SECOND_MS)


def messages_are_lost(world: World) -> None:
    world.loss = 1.0
    world.run(SECOND_MS)
    world.loss = 0.0


def the_supervisor_sleeps(world: World) -> None:
    asleep, world.supervisor = world.supervisor, None
    world.run(SECOND_MS)
    world.supervisor = asleep


def the_root_dies(world: World) -> None:
    world.lose_supervisor()
    world.run(SECOND_MS)
    world.start_supervisor()


DISTURBANCES = (
    lives_die_at_once,
    mergers_die_at_once,
    all_stand_still,
    one_stands_still,
    messages_are_lost,
    the_supervisor_sleeps,
    the_root_dies,
)


# -- measurements -----------------------------------------------------------------------------


def until_another(world: World, slot: str, strike: Callable[[Machine], None]) -> int:
    """From a strike on a life until another one has its slot, and all is well."""
    struck = machine(world, slot)
    began, before = world.now, struck.life
    strike(struck)
    while True:
        world.run(STEP_MS)
        newest = world.newest(slot)
        if newest is not None and newest.life > before and world.is_whole():
            return world.now - began
        assert world.now < began + 20_000


def stop(life: Machine) -> None:
    life.frozen_until = INF


def back_off(world: World) -> int:
    return until_another(world, "r0.1", world.crash)


def back_off_of_a_merger(world: World) -> int:
    return until_another(world, "m0.1", world.crash)


def suspicion(world: World) -> int:
    return until_another(world, "r0.1", stop)


def suspicion_of_a_merger(world: World) -> int:
    return until_another(world, "m0.1", stop)


def checkpoints(world: World) -> int:
    """Time between two of them, tenfold."""
    there, took = {info.name for info in world.kept}, 0
    began = world.now
    while took < 10:
        world.run(STEP_MS)
        now = {info.name for info in world.kept}
        took += len(now - there)
        there |= now
        assert world.now < began + 20_000
    return world.now - began


MEASURES = (back_off, back_off_of_a_merger, suspicion, suspicion_of_a_merger, checkpoints)


def whole_job() -> World:
    return whole(Desired(3, ("p",), mergers=2), timing=TIMING)


@cache
def usual_ms(measure: Callable[[World], int]) -> int:
    """Of a job that nothing has disturbed."""
    return measure(whole_job())


@pytest.mark.parametrize("disturb", DISTURBANCES, ids=lambda f: f.__name__)
def test_each_of_the_supervisors_controllers_is_back_at_its_rate_within_ten_seconds(
    disturb: Callable[[World], None],
) -> None:
    for measure in MEASURES:
        world = whole_job()
        disturb(world)
        world.run(WITHIN_MS)
        assert measure(world) <= usual_ms(measure) + SLACK_MS, measure.__name__


def test_a_back_off_that_does_not_forget_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = Backoff.failed

    def remembers(self: Backoff, now: int, *_: int, **__: int | None) -> None:
        failed(self, now, 0)

    monkeypatch.setattr(Backoff, "failed", remembers)
    with pytest.raises(AssertionError, match="back_off"):
        test_each_of_the_supervisors_controllers_is_back_at_its_rate_within_ten_seconds(
            lives_die_at_once
        )


# -- a replica's ------------------------------------------------------------------------------


def lost_frame(world: OneMerger) -> int:
    """How long until a frame that was lost is sent again."""
    world.run(TICK_MS)
    taken = world.merger.taken
    world.is_up = False
    world.run(TICK_MS)
    world.is_up, began = True, world.now
    while world.merger.taken <= taken:
        world.run(TICK_MS)
        assert world.now < began + 20_000
    return world.now - began


def test_resending_is_back_at_its_rate_within_ten_seconds() -> None:
    fresh, world = OneMerger(), OneMerger()
    fresh.run(500)
    at_first_ms = lost_frame(fresh)
    assert at_first_ms <= LINK_TIMING.resend_ms + TICK_MS
    world.run(500)
    world.is_up = False
    world.run(SECOND_MS)
    world.is_up = True
    world.run(WITHIN_MS)
    assert lost_frame(world) <= at_first_ms


def test_gathering_is_over_with_the_last_frame_that_has_another_behind_it() -> None:
    world = OneMerger()
    world.run(500)
    rows = count(10_000)

    def reads(*, more: bool) -> list[Send]:
        i = next(rows)
        frame = Frame.from_elements(SOURCE, parse(f"ins((0,A,1),{i},{i + 1})", SOURCE))
        effects = world.replica.on(SourceRead("flows", frame, {0: i}, more), world.now)
        sent = [e for e in effects if isinstance(e, Send) and isinstance(e.message, Data)]
        for send in sent:
            world.give(world.merger.on(send.message))
        return sent

    for _ in range(20):
        world.now += TICK_MS
        reads(more=True)
        world.give(Tick())
    reads(more=False)
    world.now += TICK_MS
    assert len(reads(more=False)) == 1
    assert world.replica.output.offered == world.replica.output.tail.end
    assert not world.replica.output.links[FIRST].window
