"""Memory and descriptors of a long run: flat is flat, and a leak is seen."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from gapless.chaos.drill.flatness import FDS_MAX, GROWTH_MAX, MB, SAMPLES_MIN, SPARE_BYTES, flatness
from gapless.chaos.drill.outcome import Requirement
from gapless.chaos.judge.record import Record

SAMPLES = 300
Shape = Callable[[int], float]


def run(rss_mb: Shape, fds: Shape, samples: int = SAMPLES) -> Record:
    """A look at one replica each second, and at a merger that is as flat as can be."""
    record = Record()
    for second in range(samples):
        rss = round(MB * rss_mb(second))
        record.see("process", "r0.0", at_ms=1_000 * second, rss=rss, fds=round(fds(second)))
        record.see("process", "m0.0", at_ms=1_000 * second, rss=90 * MB, fds=40)
    return record


def verdicts(record: Record) -> dict[str, Requirement]:
    return {held.name: held for held in flatness(record)}


def steady(value: float, noise: float = 0.0) -> Shape:
    rng = random.Random(1)
    return lambda _: value + rng.uniform(-noise, noise)


def test_what_stays_is_flat_and_told_with_its_figures() -> None:
    found = verdicts(run(steady(200, 20), steady(50, 3)))
    assert list(found) == ["memory is flat", "descriptors are flat"]
    assert all(held.ok for held in found.values())
    assert "m0.0 90 to 90 MB" in found["memory is flat"].found
    assert "m0.0 40 to 40" in found["descriptors are flat"].found


def test_a_process_may_fill_its_caches_first() -> None:
    def warms(second: int) -> float:
        return 200 + min(second, SAMPLES // 10) * 10

    assert all(held.ok for held in flatness(run(warms, steady(50))))


@pytest.mark.parametrize("mb_a_minute", [40, 100])
def test_memory_that_grows_without_end_is_not_flat(mb_a_minute: float) -> None:
    found = verdicts(run(lambda second: 200 + second / 60 * mb_a_minute, steady(50)))
    assert not found["memory is flat"].ok
    assert found["descriptors are flat"].ok
    assert "r0.0 " in found["memory is flat"].found


def test_descriptors_that_nobody_closes_are_not_flat() -> None:
    found = verdicts(run(steady(200), lambda second: 50 + second / 10))
    assert found["memory is flat"].ok
    assert not found["descriptors are flat"].ok


def test_as_much_as_is_said_is_flat_and_no_more() -> None:
    limit = 200 * GROWTH_MAX + SPARE_BYTES / MB

    def step(last_mb: float, last_fds: float) -> Record:
        def late(first: float, last: float) -> Shape:
            return lambda second: last if second >= SAMPLES * 0.6 else first

        return run(late(200, last_mb), late(50, last_fds))

    assert all(held.ok for held in flatness(step(limit - 0.1, 50 + FDS_MAX)))
    assert not any(held.ok for held in flatness(step(limit + 0.1, 50 + FDS_MAX + 1)))


def test_what_was_there_before_the_job_was_whole_does_not_count() -> None:
    record = run(steady(200), steady(50))
    for second in range(1, SAMPLES):
        record.see("process", "r0.0", at_ms=-1_000 * second, rss=1, fds=1)
    assert all(held.ok for held in flatness(record))


@pytest.mark.parametrize("samples", [0, SAMPLES_MIN - 1])
def test_where_too_little_was_seen_nothing_is_said_to_be_flat(samples: int) -> None:
    found = flatness(run(steady(200), steady(50), samples))
    assert [held.found for held in found] == ["nothing was seen long enough"] * 2
    assert not any(held.ok for held in found)
    assert all(held.ok for held in flatness(run(steady(200), steady(50), SAMPLES_MIN)))
