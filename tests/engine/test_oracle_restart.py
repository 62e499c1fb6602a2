"""Oracle: an instance that is snapshotted, fast-forwarded or begun in the middle says the same."""

from __future__ import annotations

from tests.engine.oracles.cases import seeds
from tests.engine.oracles.checks import check_restored, check_skipping, check_starting_late

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
