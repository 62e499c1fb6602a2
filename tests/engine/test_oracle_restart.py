"""Oracle: an instance that is snapshotted, fast-forwarded or begun in the middle says the same."""

from __future__ import annotations

import random
from collections.abc import Mapping

from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.frame import Frame
from gapless.protocol.text import format_element
from tests.engine.oracles.cases import Case, seeds
from tests.engine.oracles.random_queries import Taste
from tests.engine.oracles.random_streams import SPAN
from tests.engine.oracles.running import Running, stored


def said(frame: Frame) -> tuple[list[str], int | None]:
    """What a frame says, whatever the order of its rows."""
    return sorted(map(format_element, frame.with_stable(None).elements())), frame.stable


def test_a_restored_graph_puts_out_what_the_old_one_puts_out() -> None:
    for seed in seeds(250, start=10_000):
        case = Case.draw(seed)
        rng = random.Random(f"moment {seed}")
        told = case.told()
        moment = rng.randint(0, len(told))
        old = Running(case.plan())
        for item in told[:moment]:
            old.take(item)
        state, so_far = old.graph.snapshot(), len(old.pushed)
        for item in told[moment:]:
            old.take(item)
        old.finish()
        new = Running(case.plan())
        new.graph.restore(stored(state))
        new.graph.validate()
        for frame in old.frames[:so_far]:
            new.tdb.fold(frame)
        for push, was in zip(old.pushed[so_far:], old.frames[so_far:], strict=True):
            assert said(new.push(push)) == said(was), f"seed {seed}: {case.outline()}"
        assert case.difference(new.tdb.events) == ""
        assert new.graph.snapshot().keys() == old.graph.snapshot().keys()


def a_time(rng: random.Random, case: Case) -> int:
    """One near the times of rows; now and then beyond all of them."""
    times: list[int] = [row[0] for rows in case.rows.values() for row in rows] or [0]
    return rng.choice((*times, max(times) + SPAN, INF)) + rng.choice((0, -1, -5))


def test_fast_forward_changes_no_event_that_ends_at_its_time_or_later() -> None:
    for seed in seeds(250, start=20_000):
        assert harmed_by_skipping(Case.draw(seed)) == ""


def harmed_by_skipping(case: Case) -> str:
    """What a fast-forward at a random moment changes of what ends at its time or later."""
    rng = random.Random(f"skip {case.seed}")
    told = case.told()
    running = Running(case.plan())
    moments = sorted(rng.sample(range(len(told) + 1), min(2, len(told) + 1)))
    t = min(a_time(rng, case), a_time(rng, case))
    for at, item in enumerate(told):
        if at in moments:
            t = max(t, rng.choice((t, a_time(rng, case), running.tdb.stable)))
            running.unwanted = running.graph.fast_forward(t)
            running.graph.validate()
        running.take(item)
    running.finish()
    return case.difference(running.tdb.events, since=t)


def test_who_starts_at_a_time_less_reach_gives_every_event_that_ends_later() -> None:
    begun = 0
    for seed in seeds(250, start=30_000):
        case = Case.draw(seed, Taste(finite_reach=True))
        reach = Running(case.plan()).graph.reach
        if max(reach.values()) < INF:
            begun += 1
            assert harmed_by_starting_late(case, reach) == ""
    assert begun > 100


def harmed_by_starting_late(case: Case, reach: Mapping[str, int]) -> str:
    """What the lack of early rows changes of what ends at a random time or later."""
    rng = random.Random(f"start {case.seed}")
    t = a_time(rng, case)
    running = Running(case.plan())
    running.unwanted = {name: max(BEGIN, t - reach[name]) for name in reach}
    if rng.random() < 0.5:
        running.graph.fast_forward(t)
    for item in case.told():
        running.take(item)
    running.finish()
    return case.difference(running.tdb.events, since=t)
