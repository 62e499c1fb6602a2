"""How many lives are replaced on suspicion: a burst, then one each `replace_ms`."""

from __future__ import annotations

import pytest

from gapless.failover.effects import Alarm
from gapless.failover.supervisor.replacement_budget import (
    REPLACEMENTS_MAX,
    STRAINED_FACTOR,
    STRAINED_MAX,
    Bucket,
    Ration,
    ReplacementBudget,
)
from gapless.failover.timing import Timing
from gapless.protocol.errors import Bug

TIMING = Timing(replace_ms=1_000)


def replaced(ration: Ration, now: int, *, strained: bool = False) -> int:
    """How many may be replaced at this moment, one after the other."""
    count = 0
    while ration.may_take(now, strained=strained):
        ration.take(strained=strained)
        ration.validate()
        count += 1
    return count


def test_so_many_may_be_replaced_at_once_and_then_one_each_wait() -> None:
    ration = Ration(1_000, now=0)
    assert replaced(ration, 0) == REPLACEMENTS_MAX
    assert replaced(ration, 999) == 0
    assert replaced(ration, 1_000) == 1
    assert replaced(ration, 4_500) == 3
    assert replaced(ration, 5_000) == 1, "half a wait was not lost"


def test_no_silence_of_the_supervisor_saves_up_more_than_the_burst() -> None:
    ration = Ration(1_000, now=0)
    assert replaced(ration, 10_000_000) == REPLACEMENTS_MAX


def test_on_strained_machines_there_are_fewer_and_they_come_back_more_slowly() -> None:
    ration = Ration(1_000, now=0)
    assert replaced(ration, 0, strained=True) == STRAINED_MAX
    assert replaced(ration, STRAINED_FACTOR * 1_000 - 1, strained=True) == 0
    assert replaced(ration, STRAINED_FACTOR * 1_000, strained=True) == STRAINED_MAX


def test_what_was_replaced_under_strain_counts_in_calm_too() -> None:
    ration = Ration(1_000, now=0)
    ration.take(strained=True)
    assert replaced(ration, 0) == REPLACEMENTS_MAX - 1


def test_one_that_was_needless_halves_what_is_left() -> None:
    ration = Ration(1_000, now=0)
    ration.was_needless()
    ration.was_needless()
    assert replaced(ration, 0) == REPLACEMENTS_MAX // 4
    assert ration.needless == 2


def test_a_bucket_never_owes() -> None:
    bucket = Bucket(1, 1_000, 0)
    bucket.take()
    bucket.take()
    bucket.refill(1_000)
    assert bucket.tokens == 1


def test_more_than_the_burst_is_a_bug() -> None:
    ration = Ration(1_000, now=0)
    ration._calm.tokens = REPLACEMENTS_MAX + 1
    with pytest.raises(Bug, match="replacements are left"):
        ration.validate()


# -- of a job -------------------------------------------------------------------------------------


def test_shards_do_not_take_from_each_other() -> None:
    budget = ReplacementBudget(TIMING, shards=2)
    for _ in range(REPLACEMENTS_MAX):
        assert budget.may_replace(0, 0)
        budget.replaces(0, 0)
    assert not budget.may_replace(0, 0)
    assert budget.may_replace(1, 0)
    budget.validate()


def test_a_life_that_speaks_after_it_was_given_up_is_a_sign_of_strain() -> None:
    budget = ReplacementBudget(TIMING, shards=1)
    assert not budget.is_strained(0)
    budget.was_needless(0, 0)
    assert budget.is_strained(0)
    budget.replaces(0, 0)
    assert not budget.may_replace(0, 0), "one at once, while it lasts"


def test_people_hear_of_a_life_that_waits_for_its_replacement_once() -> None:
    budget = ReplacementBudget(TIMING, shards=1)
    assert budget.alarms(0) == []
    for _ in range(REPLACEMENTS_MAX):
        budget.replaces(0, 0)
    budget.may_replace(0, 0)
    (alarm,) = budget.alarms(0)
    assert isinstance(alarm, Alarm)
    assert f"{REPLACEMENTS_MAX} of them were replaced" in alarm.what
    assert budget.alarms(1) == []
