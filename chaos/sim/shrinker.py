"""The shortest prefix of a failing run's faults with which it still fails.

    seed 17: crash replica, clog, zombie merger, lossy, ...      fails
             crash replica, clog, zombie merger                  fails, and with two of them not

A run with the first k faults only is, up to the next one, the run itself; behind that it is another
one, and may fail where fewer or more faults do not. So they are tried from none on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from gapless.chaos.sim.seed_runs import run_one
from gapless.chaos.sim.simulator import SimResult


def shortest_of(seed: int, broken: str | None = None, workload: str | None = None) -> SimResult:
    """The run with the fewest first faults that fails; the whole run, where none does."""
    return shortest(partial(run_one, seed, broken, workload))


def shortest(run: Callable[..., SimResult]) -> SimResult:
    """The same of a schedule that `run` runs, with the first `faults_max` faults or all."""
    whole = run()
    for count in range(len(whole.told_faults)):
        result = run(faults_max=count)
        if not result.ok:
            return result
    return whole
