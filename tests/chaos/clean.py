"""Every seed is clean: 300 of each workload, in chunks that a run of the tests can spread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from gapless.chaos.sim.seed_runs import run_one
from gapless.chaos.sim.workloads.all import WORKLOADS

SEEDS = 300
"""Of each workload: all that its promises rest on goes wrong dozens of times."""
CHUNK = 25
"""Seeds of one test: what a person waits for to see that it goes on."""
OF_EVERY_TEST = 25
"""Seeds of each workload that `make test` plays; `make check` plays all."""
CHUNKS = [
    pytest.param(first, marks=pytest.mark.slow if first >= OF_EVERY_TEST else ())
    for first in range(0, SEEDS, CHUNK)
]


def names(half: int) -> Sequence[str]:
    """The workloads of one of two files: as many for each core."""
    return list(WORKLOADS)[half::2]


def assert_clean(workload: str, first: int) -> None:
    """A chunk of seeds keeps all promises."""
    for problem in _problems(workload, first):
        pytest.fail(problem)


def _problems(workload: str, first: int) -> Iterator[str]:
    name = workload.replace(" ", "-")
    for seed in range(first, first + CHUNK):
        result = run_one(seed, workload=workload)
        if not result.ok:
            yield f"gapless chaos sim --seed {seed} --workload {name}: {result.problem}"
