"""A shard that stands still while it could go on has to say why."""

from __future__ import annotations

from typing import Any

import pytest

from gapless.chaos.judge.history import Ended, Fact, Healed, Said, Started, Struck, Verdict, Written
from gapless.chaos.sim.checkers.silence import SILENT_MS, WRITTEN_MIN, NoSilentStall
from gapless.protocol.elements import INF
from tests.chaos.sim.checkers.small import catches, durable, life, world

R, M = life("r0.0"), life("m0.0")
LATE = 10 * SILENT_MS


def grows(first: int, last: int) -> list[tuple[int, Fact]]:
    """Batches that come evenly."""
    step = max(1, (last - first) // (2 * WRITTEN_MIN))
    return [(now, Written("rows", now)) for now in range(first, last + 1, step)]


def heard(*facts: tuple[int, Fact]) -> NoSilentStall:
    checker = NoSilentStall(1)
    methods = checker.hears()
    lives: list[tuple[int, Fact]] = [(0, Started(R, "n1")), (0, Started(M, "n1"))]
    for now, fact in sorted([*lives, *facts], key=lambda each: each[0]):
        if type(fact) in methods:
            methods[type(fact)](now, fact)
    return checker


def advances(now: int, text: str) -> tuple[int, Fact]:
    [fact] = durable(text, merger=M)
    return now, fact


def test_sources_that_grow_and_an_output_that_does_not_are_a_stall() -> None:
    with catches("no output of shard 0 has advanced"):
        heard(advances(10, "stable(1)"), *grows(20, LATE))


def test_an_end_of_the_sources_that_no_output_comes_to_is_a_stall() -> None:
    at_end: Any = world("")
    at_end.now = LATE
    checker = heard(advances(10, "stable(1)"), (20, Written("rows", INF)))
    with catches("nobody has said anything"):
        checker.verdict(at_end)
    done = heard(advances(10, "stable(inf)"), (5, Written("rows", INF)))
    done.verdict(at_end)


EXCUSES: dict[str, list[tuple[int, Fact]]] = {
    "it advances": [advances(at, f"stable({at})") for at in range(100, LATE, SILENT_MS // 2)],
    "an alarm": [(at, Said(M, "the output waits")) for at in range(100, LATE, SILENT_MS // 2)],
    "a fault": [
        (100, Struck("freeze merger", "m0.0/1.1")),
        (LATE, Healed("freeze merger", "m0.0")),
    ],
    "nobody who could": [(100, Ended(R, "crashes"))],
    "lives come and go": [
        (at, Started(life("r0.1", at), "n1")) for at in range(100, LATE, SILENT_MS // 2)
    ],
}


@pytest.mark.parametrize("excuse", EXCUSES)
def test_what_goes_on_or_is_said_is_none(excuse: str) -> None:
    heard(*EXCUSES[excuse], *grows(20, LATE))


def test_where_the_sources_rest_nothing_is_known() -> None:
    at_end: Any = world("")
    at_end.now = LATE
    assert heard(advances(10, "stable(1)")).verdict(at_end) is Verdict.UNKNOWN
