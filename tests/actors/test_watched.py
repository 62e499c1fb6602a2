"""A plan is watched however it is asked for its output: whole, or in parts as replicas do."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from gapless.actors import watched
from gapless.actors.watched import WatchedExecutor
from gapless.engine.plan import Plan
from gapless.failover.replica.executor import Executor
from gapless.protocol.frame import Frame
from tests.actors.test_rejects import a_query, frame


def whole(executor: Executor, given: Frame) -> list[Frame]:
    return [executor.push("flows", given)]


def in_parts(executor: Executor, given: Frame) -> list[Frame]:
    return list(executor.parts("flows", given))


Ask = Callable[[Executor, Frame], list[Frame]]


@pytest.mark.parametrize("ask", [whole, in_parts])
def test_rows_that_are_set_aside_and_the_time_are_told_once_a_frame(ask: Ask) -> None:
    executor = WatchedExecutor("a", Plan(a_query()), None)
    took: list[int] = []
    aside: list[tuple[int, int]] = []
    executor.on_took = lambda rows, ms: took.append(rows) if ms >= 0 else None
    executor.on_aside = lambda kept, count: aside.append((len(kept), count))
    ask(executor, frame([(1, 8, 0), (1, 8, 1)]))
    ask(executor, frame([(2, 8, 1)], 3))
    assert (took, aside) == ([2, 1], [(1, 1)])


def test_the_time_between_two_parts_is_not_the_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def two_parts(*given: object) -> Iterator[Frame]:
        del given
        for _ in range(2):
            now[0] += 3
            yield frame([])
        now[0] += 1

    monkeypatch.setattr(watched, "clock_ms", lambda: now[0])
    monkeypatch.setattr(Executor, "parts", two_parts)
    executor = WatchedExecutor("a", Plan(a_query()), None)
    took: list[float] = []
    executor.on_took = lambda _, ms: took.append(ms)
    for _ in executor.parts("flows", frame([(1, 8, 1)])):
        assert took == [], "it is told when all of it is out"
        now[0] += 100  # what is done with it
    assert took == [7]
