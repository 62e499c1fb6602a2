"""Whatever is told, by whomever, until whenever: the output is compatible, and ends as the table.

Each run is a trial of `gapless.chaos.trials`: many tellings of one table, inputs that crash at any
prefix, join late, obey feedback, all but one lost at once, all lost and others come. Every step is
checked against `compatible` and what the policy promises, the end against the table. The fast
merger and its twin both have to pass: the rules are tried with the one, the columns with the other.
"""

import pytest

from gapless.chaos.tellers import Teller
from gapless.chaos.trials import run_seed
from gapless.merge.choose import CaseName
from gapless.merge.policy import Policy, lag
from gapless.protocol.elements import INF
from tests.effort import cases
from tests.merge.helpers import EVERY_POLICY, LONG, MERGERS, POLICY_NAMES, TRIALS, frame, policies

SEEDS = 1_000 if LONG else cases(TRIALS)
"""Runs of each case under the default policy."""
SEEDS_PER_POLICY = 60 if LONG else 2


@pytest.mark.parametrize("merger", MERGERS)
@pytest.mark.parametrize("case", ["r0", "r1", "r2", "r3", "r4"])
def test_oracle_any_telling_merges_to_the_table(merger: str, case: CaseName) -> None:
    for seed in range(SEEDS):
        run_seed(seed, MERGERS[merger], case)


@pytest.mark.parametrize("policy", [Policy(), Policy(stable=lag(4)), Policy("half_frozen")])
def test_oracle_a_merger_that_observes_its_inputs_loses_nothing_when_it_steps(
    policy: Policy,
) -> None:
    for seed in range(SEEDS):
        run_seed(seed, MERGERS["fast"], "auto", policy)


@pytest.mark.parametrize("merger", MERGERS)
@pytest.mark.parametrize(("case", "policy"), EVERY_POLICY, ids=POLICY_NAMES)
def test_oracle_every_policy_is_a_correct_one(merger: str, case: CaseName, policy: Policy) -> None:
    first = EVERY_POLICY.index((case, policy)) * SEEDS_PER_POLICY
    for seed in range(first, first + SEEDS_PER_POLICY):
        run_seed(seed, MERGERS[merger], case, policy)


def test_there_are_policies_of_all_kinds() -> None:
    assert len(list(policies("r0"))) == 2
    assert len(list(policies("r4"))) == (7 * 3 + 1) * 2


@pytest.mark.parametrize("case", ["r0", "r1", "r2", "r3", "r4"])
def test_trials_crash_join_skip_and_end(case: CaseName) -> None:
    """The runs above are worth something: all that may happen does."""
    trials = [run_seed(seed, MERGERS["reference"], case) for seed in range(SEEDS)]
    words = {line.split()[0] for trial in trials for line in trial.trace}
    assert {"attach", "detach"} < words
    assert all(trial.output.stable == INF for trial in trials)
    tellers = [t for trial in trials for t in [*trial.present.values(), *trial.past]]
    assert any(t.complete_from > t.join_at for t in tellers), "feedback was obeyed"
    assert any(t.join_at > 0 for t in tellers), "somebody joined late"
    assert any(trial.lost_all for trial in trials), "everybody left, and others came"
    assert any(not t.done for t in tellers), "somebody crashed"


def test_a_teller_skips_what_is_settled_and_nothing_else() -> None:
    teller = Teller([frame("ins(A,1,5) ins(B,2,9)"), frame("ins(C,3,7) adj(A,1,5,6) stable(inf)")])
    teller.heed(6)
    assert teller.speak() == frame("ins(A,1,5) ins(B,2,9)"), "A's final end is 6"
    teller.heed(7)
    assert teller.speak() == frame("ins(C,3,7) stable(inf)"), "the rest of A is skipped"
    assert teller.complete_from == 7
    assert [str(e) for e in teller.claims().events] == ["<B, [2,9)>", "<C, [3,7)>"]


def test_without_a_key_a_teller_does_not_stop_in_the_middle() -> None:
    teller = Teller([frame("ins(A,1,5)"), frame("ins(A,1,4) adj(A,1,5,6) stable(inf)")], key=False)
    teller.speak()
    teller.heed(7)
    assert teller.speak() == frame("adj(A,1,5,6) stable(inf)")
