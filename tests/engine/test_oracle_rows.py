"""Oracle: the table of a query is what docs/engine.md says, computed row by row from the whole."""

from __future__ import annotations

from tests.effort import cases
from tests.engine.oracles.cases import seeds
from tests.engine.oracles.checks import (
    check_claims,
    check_inexact_answers,
    check_late_rows,
    check_table,
)

LATE_LEAST = 500
"""Rows that come too late, of all cases: fewer would test little."""


def test_a_table_is_what_its_definition_says() -> None:
    for seed in seeds(450):
        check_table(seed)


def test_sketches_and_sums_of_floats_are_as_near_as_they_say() -> None:
    for seed in seeds(40):
        check_inexact_answers(seed)


def test_rows_beyond_the_bound_are_aside_and_counted_and_the_table_is_that_of_the_others() -> None:
    assert sum(check_late_rows(seed) for seed in seeds(100, start=40_000)) > cases(LATE_LEAST)


def test_what_is_claimed_of_a_stream_is_true_of_it() -> None:
    for seed in seeds(150, start=50_000):
        check_claims(seed)
