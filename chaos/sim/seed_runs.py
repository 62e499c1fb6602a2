"""Many seeds, on several processes: results come as they are done, in no order.

Each process is a fresh one that imports the product and takes a chunk of seeds at a time. A seed
that raises something that no machine should is a failing seed, with its traceback.
"""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import TypeVar

from gapless.chaos.planted.builds import BROKEN_BUILDS
from gapless.chaos.sim.simulator import PRODUCTION, SimResult, run_seed
from gapless.chaos.sim.workloads.all import WORKLOADS
from gapless.protocol.errors import Misuse

_T = TypeVar("_T")

CHUNK = 5
"""Seeds that a process takes at once: a third of a second, so that all processes end together."""
JOBS_MAX = 64
"""Processes. Each takes a core, and 200 MB."""


def run_many(
    seeds: Sequence[int], broken: str | None = None, workload: str | None = None, jobs: int = 1
) -> Iterator[SimResult]:
    """One result for each seed, without traces: a failing seed replays to the same one."""
    if not 1 <= jobs <= JOBS_MAX:
        raise Misuse(f"jobs {jobs}: 1 to {JOBS_MAX}")
    if jobs == 1:
        for seed in seeds:
            yield run_one(seed, broken, workload)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context) as pool:
        chunks = [seeds[i : i + CHUNK] for i in range(0, len(seeds), CHUNK)]
        run = partial(_run_chunk, broken=broken, workload=workload)
        for results in pool.map(run, chunks):
            yield from results


def _run_chunk(seeds: Sequence[int], broken: str | None, workload: str | None) -> list[SimResult]:
    return [run_one(seed, broken, workload) for seed in seeds]


def _named(things: Mapping[str, _T], name: str) -> _T:
    if name not in things:
        raise Misuse(f"there is no {name!r}; there are: {', '.join(things)}")
    return things[name]


def run_one(
    seed: int,
    broken: str | None = None,
    workload: str | None = None,
    *,
    faults_max: int | None = None,
    traced: bool = False,
) -> SimResult:
    """One seed; whatever it raises is what it has found."""
    build = PRODUCTION if broken is None else _named(BROKEN_BUILDS, broken)
    chosen = None if workload is None else _named(WORKLOADS, workload)
    try:
        return run_seed(seed, build, chosen, faults_max=faults_max, traced=traced)
    except Exception:  # noqa: BLE001  # whatever a seed raises is what it has found
        problem = traceback.format_exc()
        return SimResult(seed, workload or "", False, 0, 0, 0, [], problem)
