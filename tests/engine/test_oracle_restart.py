"""Oracle: an instance that is snapshotted, fast-forwarded or begun in the middle says the same."""

from __future__ import annotations

from collections import Counter

from tests.engine.oracles.cases import seeds
from tests.engine.oracles.checks import check_restored, check_skipping, check_starting_late
from tests.engine.oracles.cuts import check_cuts, of_plans

STATELESS = frozenset(("Filter", "Select", "Bucket", "Progress", "BoundedColumns"))
"""Operators that remember nothing, as a rule, so there is nothing to take up."""

ELSEWHERE = frozenset(("FollowedBy",))
"""What no drawn query has: tests/engine/test_followed_by.py restores it above drawn steps."""
MORE_MAX = 200
"""Cases beyond those, for operators that are rarely drawn."""
BEGUN_LEAST = 0.5
"""Of the queries drawn, the share that can start in the middle at least."""


def test_a_restored_graph_puts_out_what_the_old_one_puts_out() -> None:
    for seed in seeds(150, start=10_000):
        check_restored(seed)


def test_fast_forward_changes_no_event_that_ends_at_its_time_or_later() -> None:
    for seed in seeds(200, start=20_000):
        check_skipping(seed)


def test_who_starts_at_a_time_less_reach_gives_every_event_that_ends_later() -> None:
    drawn = seeds(200, start=30_000)
    assert sum(map(check_starting_late, drawn)) > BEGUN_LEAST * len(drawn)


def test_no_cut_shows_and_each_operator_of_plans_is_taken_up_with_something_to_remember() -> None:
    restored: Counter[str] = Counter()
    drawn = seeds(150, start=90_000)
    for seed in drawn:
        restored += check_cuts(seed)
    wanted = of_plans() - STATELESS - ELSEWHERE
    for seed in range(drawn.stop, drawn.stop + MORE_MAX):  # until each operator has come
        if restored.keys() - STATELESS == wanted:
            break
        restored += check_cuts(seed)
    assert restored.keys() - STATELESS == wanted
