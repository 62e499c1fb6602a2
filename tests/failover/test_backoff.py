"""A slot's waits double while its lives fail, and begin anew behind a life that was of use."""

from __future__ import annotations

import pytest

from gapless.failover.backoff import DOUBLINGS_MAX, FAILURES_MAX, STOOD_HEARTBEATS, Backoff
from gapless.failover.timing import Timing
from gapless.protocol.errors import Bug

TIMING = Timing(backoff_ms=100, backoff_max_ms=1_000, steady_ms=5_000, heartbeat_ms=50)


def waits(backoff: Backoff, now: int) -> int:
    """How long the next life waits, in steps of a millisecond."""
    return next(ms for ms in range(10_000) if backoff.allows(now + ms))


def failed(times: int, timing: Timing = TIMING) -> Backoff:
    backoff = Backoff(timing)
    for _ in range(times):
        backoff.failed(0, ran_ms=0)
    return backoff


def test_the_first_life_may_start_at_once() -> None:
    assert Backoff(TIMING).allows(0)


def test_waits_double_up_to_the_longest() -> None:
    assert [waits(failed(n), 0) for n in range(1, 7)] == [100, 200, 400, 800, 1_000, 1_000]


def test_no_number_of_failures_makes_a_wait_overflow() -> None:
    backoff = failed(3 * DOUBLINGS_MAX)
    assert waits(backoff, 0) == TIMING.backoff_max_ms


def test_a_wait_counts_from_the_moment_of_the_failure() -> None:
    backoff = Backoff(TIMING)
    backoff.failed(7_000, ran_ms=0)
    assert not backoff.allows(7_099)
    assert backoff.allows(7_100)


def test_a_steady_life_is_no_failure() -> None:
    backoff = failed(5)
    backoff.failed(0, ran_ms=TIMING.steady_ms - 1)
    assert backoff.failures == 6
    backoff.failed(0, ran_ms=TIMING.steady_ms)
    assert (backoff.failures, waits(backoff, 0)) == (1, 100)


def test_a_life_that_got_farther_than_any_before_is_no_failure_and_the_next_must_beat_it() -> None:
    backoff = failed(5)
    backoff.failed(0, 0, reached=70)
    assert backoff.failures == 1
    backoff.failed(0, 0, reached=70)
    assert backoff.failures == 2
    backoff.failed(0, 0, reached=60)
    backoff.failed(0, 0, reached=65)
    assert backoff.failures == 4, "the farthest counts, not the last"


def test_a_life_that_stood_where_it_was_for_some_heartbeats_was_not_ended_by_a_row() -> None:
    stood_ms = STOOD_HEARTBEATS * TIMING.heartbeat_ms
    backoff = failed(5)
    backoff.failed(0, 0, stood_ms=stood_ms - 1)
    assert backoff.failures == 6
    backoff.failed(0, 0, stood_ms=stood_ms)
    assert backoff.failures == 1


def test_a_slot_is_spent_after_so_many_failures_until_it_is_reset() -> None:
    assert not failed(FAILURES_MAX - 1).is_spent
    spent = failed(FAILURES_MAX)
    assert spent.is_spent
    spent.reset()
    assert (spent.is_spent, spent.allows(0)) == (False, True)
    spent.validate()


def test_one_that_has_failed_and_does_not_wait_is_a_bug() -> None:
    backoff = failed(1)
    backoff.validate()
    backoff._free_at = None
    with pytest.raises(Bug, match="1 failures"):
        backoff.validate()
