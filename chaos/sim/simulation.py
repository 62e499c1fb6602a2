"""A user's query through the simulator: many seeds, and what to do where one of them fails.

    simulate(talkers, rows)       50 schedules of faults, each a whole job of three replicas and two
                                  mergers: Simulated(seeds=50, faults=358, frames=17003)
    simulate(flawed, rows)        SimulationFailed: seed 3 ... the fewest faults ... why ... replay

Everything runs in this process, so functions of users need not be found by others. What they keep
between calls is apart for each process of the job all the same (`user_memory.py`).
"""

from __future__ import annotations

import re
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from gapless.actors.plans import Plans, named_plans
from gapless.chaos.failed import SimulationFailed, told_suspects
from gapless.chaos.sim.limits import told as told_limits
from gapless.chaos.sim.shrinker import shortest
from gapless.chaos.sim.simulator import SimResult, run_seed
from gapless.chaos.sim.workloads.given import given_workload
from gapless.chaos.sim.workloads.given_rows import Events, Expected
from gapless.chaos.sim.workloads.workload import Workload
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.protocol.errors import Misuse

SEEDS = 50
"""Schedules without being asked for more: some seconds for a few hundred rows."""
SEEDS_MAX = 100_000
"""An hour's worth."""
EXITS_SHOWN_MAX = 3
"""Reasons for which processes have ended themselves: a function that raises does so many times."""
_EXITS = " exits: "
_FAILED = re.compile(r"[A-Z]\w+: ")
"""Of a reason: it is an error, with its type; others end themselves because they are told to."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """What was tried, and went well."""

    seeds: int
    faults: int
    """That struck: crashes, cuts, full disks, ..."""
    frames: int
    """Read from a source, taken in by a merger, or delivered to a subscriber."""
    verdicts: Mapping[str, Mapping[str, int]] = field(default_factory=dict, repr=False)
    """By promise (docs/guarantees.md), in how many runs it held, and in how many nothing showed."""


def simulate(
    query: Query | Plan,
    events: Events,
    *,
    plans: Plans = None,
    seeds: int = SEEDS,
    first_seed: int = 0,
    expected: Expected | None = None,
    faults: int | None = None,
) -> Simulated:
    """Runs a job of the query under seeded schedules of faults; raises `SimulationFailed` where its
    output is not the query's answer.

    `events`: a table, a batch or a data frame, of several sources by name; 2,000 rows at most. They
    come in another order and other batches in each schedule, as late as the source allows. `plans`:
    those that replicas run in turn, as for `launch`. `expected`: the answer, with the columns `_vs`
    and `_ve`, or a function that makes it of the events; by default what one run of the query over
    all events gives. `faults`: only so many of each schedule's faults strike, the first ones.
    """
    _check_count("seeds", seeds, 1, SEEDS_MAX)
    _check_count("first_seed", first_seed, 0, None)
    if faults is not None:
        _check_count("faults", faults, 0, None)
    work = given_workload(named_plans(query, plans), events, expected=expected)
    verdicts: dict[str, Counter[str]] = {}
    struck = frames = 0
    for seed in range(first_seed, first_seed + seeds):
        result = _run(work, seed, faults)
        if not result.ok:
            given = {"plans": plans, "expected": expected}
            raise _failed(
                work, result, faults, [name for name, it in given.items() if it is not None]
            )
        struck += result.faults
        frames += result.frames
        for name, verdict in result.verdicts.items():
            verdicts.setdefault(name, Counter())[verdict] += 1
    return Simulated(seeds, struck, frames, verdicts)


def _check_count(name: str, value: int, least: int, most: int | None) -> None:
    if type(value) is not int or value < least or (most is not None and value > most):
        bound = f"{least} or more" if most is None else f"{least:,} to {most:,}"
        raise Misuse(f"{name}={value!r}: a whole number, {bound}")


def _run(
    work: Workload, seed: int, faults: int | None, *, faults_max: int | None = None
) -> SimResult:
    """One schedule; whatever it raises is what it has found."""
    most = faults if faults_max is None else faults_max
    try:
        return run_seed(seed, workload=work, faults_max=most, traced=True)
    except Exception:  # noqa: BLE001  # no machine raises; a function of a user's may do anything
        problem = traceback.format_exc()
        return SimResult(seed, work.name, False, 0, 0, 0, [], problem)


# -- telling --------------------------------------------------------------------------------------


def _failed(
    work: Workload, whole: SimResult, faults: int | None, given: list[str]
) -> SimulationFailed:
    shrunk = shortest(partial(_run, work, whole.seed, faults))
    is_steady = not shrunk.ok
    if not is_steady:
        shrunk = whole
    others = "".join(f", {name}={name}" for name in given)
    replay = (
        f"simulate(query, events{others}, first_seed={shrunk.seed}, seeds=1, "
        f"faults={len(shrunk.told_faults)})"
    )
    told = [*_told(work, whole, shrunk, is_steady=is_steady), f"replay it: {replay}"]
    return SimulationFailed("\n".join(told), shrunk, replay)


def _told(work: Workload, whole: SimResult, shrunk: SimResult, *, is_steady: bool) -> Iterator[str]:
    yield f"seed {shrunk.seed}: the output of the job is not the answer of the query"
    yield shrunk.problem or ""
    yield from _reasons(shrunk)
    if shrunk.limits:
        yield f"with the limits {told_limits(shrunk.limits)}"
    count = len(shrunk.told_faults)
    if not is_steady:
        yield (
            "it does not fail each time: something that it depends on is no part of the seed, a "
            "random number say"
        )
    elif count:
        yield f"it fails with the first {count} of the seed's {len(whole.told_faults)} faults:"
        yield from (f"  {fault}" for fault in shrunk.told_faults)
    else:
        yield "it fails without any fault: other batches, another order, another process are enough"
    if shrunk.causes:
        yield "because:"
        yield from (f"  {line}" for line in shrunk.causes)
    yield from _suspects(work)


def _reasons(result: SimResult) -> Iterator[str]:
    """Why replicas have given up: what a function raises shows here."""
    said = (line.partition(_EXITS)[2] for line in result.trace if _EXITS in line)
    failed = (reason for reason in said if _FAILED.match(reason))
    for reason in list(dict.fromkeys(failed))[:EXITS_SHOWN_MAX]:
        yield f"a replica has ended itself: {reason}"


def _suspects(work: Workload) -> Iterator[str]:
    """What the query itself says that it may answer in two ways."""
    found = list(told_suspects(work.plans))
    yield from found
    if not found:
        yield (
            "nothing of the query is known to differ from replica to replica: unless what is "
            "expected is wrong, this is a fault of Gapless; please report it, with the events"
        )
