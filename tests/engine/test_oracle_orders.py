"""Oracle: arrival, cuts, implementations and plans never show, and LMerge makes one run of two.

Two runs of one case share nothing but the rows: another order, other batches, other watermarks,
sources read in another sequence, the other implementation of windows.
"""

from __future__ import annotations

from tests.engine.oracles.cases import seeds
from tests.engine.oracles.checks import check_merge, check_orders


def test_no_order_no_cut_and_no_implementation_shows() -> None:
    for seed in seeds(60, start=70_000):
        check_orders(seed)


def test_two_runs_merge_into_the_same_table_in_the_case_that_is_chosen() -> None:
    cases = {check_merge(seed) for seed in seeds(160, start=80_000)}
    assert cases >= {"r2", "r3", "r4"}
