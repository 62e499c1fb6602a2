"""Trials catch mistakes: each planted fault within a few seeds, and the sound mergers never."""

import pytest

from gapless.chaos.trials import TrialFailed, run_seed
from gapless.merge.choose import CaseName
from gapless.merge.policy import Policy
from tests.merge.faults import FAULTS, Fault
from tests.merge.helpers import MERGERS, TRIALS, name

CAUGHT_WITHIN = TRIALS
"""Seeds; most faults show within five. `test_properties.py` runs the same, sound and by default."""


def caught(fault: Fault, seed: int) -> bool:
    try:
        run_seed(seed, fault.make, fault.case, fault.policy, fault.teller)
    except TrialFailed:
        return True
    return False


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_caught(fault: str) -> None:
    assert any(caught(FAULTS[fault], seed) for seed in range(CAUGHT_WITHIN))


@pytest.mark.parametrize("merger", MERGERS)
@pytest.mark.parametrize(
    ("case", "policy"),
    {(f.case, f.policy): f for f in FAULTS.values() if f.policy != Policy()},
    ids=lambda value: value if isinstance(value, str) else name(value),
)
def test_the_unbroken_merger_is_clean_on_the_same_seeds(
    merger: str, case: CaseName, policy: Policy
) -> None:
    for seed in range(CAUGHT_WITHIN):
        run_seed(seed, MERGERS[merger], case, policy)
