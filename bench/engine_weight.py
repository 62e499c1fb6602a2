"""Weight: large, sparse, skewed and dirty inputs, each at sizes that double; what has no cliff.

    weight_cases.py    the queries, and what their definitions make of each size
    weight_feeds.py    their rows
    weight_run.py      one run, in a process of its own, with caps on memory and time

A case holds if every size runs within the caps; if seconds grow as the work does, and bytes as what
has to be held does, within `LINEAR` between any two sizes; if memory is what the graph says of its
state, within `LINEAR` and an allowance; and if no push keeps a caller longer than `PUSH_MS_MAX`.

`gapless bench engine --only weight` runs the section, two minutes on two cores, a process on each.
`python -m gapless.bench.weight_run CASE SIZE` runs one case at one size.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import combinations
from typing import TypeAlias

from gapless.bench.harness import Context, Row
from gapless.bench.weight_case import Case
from gapless.bench.weight_cases import CASES
from gapless.bench.weight_run import CPU_S_MAX, DATA_BYTES_MAX, Measured

LINEAR = 2.0
"""How far from linear a case may grow: what caches and trees cost, and no more."""
PUSH_MS_MAX = 100.0
"""How long a caller waits for a frame at most: a heartbeat is due ten times as late."""
SECONDS_LEAST = 0.02
"""Shorter runs say nothing of how time grows: they count as so long."""
BYTES_LEAST = 32 << 20
"""What a process takes whatever it is asked for: frames, and memory that is kept for later use.
Growth below it counts as none."""
BYTES_ALLOWED = 64 << 20
"""The same, where memory is compared with the state."""
TIMEOUT_S = 4 * CPU_S_MAX
"""Of a process: where others work, too, its seconds of the processor take longer."""
PROCESSES = 2
"""At once: they share the memory's bandwidth, and `CPU_S_MAX` allows for it."""

Failed: TypeAlias = str
Outcome: TypeAlias = Measured | Failed
Launch: TypeAlias = Callable[[str, int], Outcome]
"""Runs a case, by its name, at a size."""


def weight(
    context: Context, cases: Mapping[str, Case] = CASES, launch: Launch | None = None
) -> Iterator[Row]:
    """Every case, as many at once as there are processes."""
    run = partial(_outcomes, context, launch or launched)
    with ThreadPoolExecutor(PROCESSES) as threads:
        found = threads.map(run, cases, cases.values())
        for (name, case), outcomes in zip(cases.items(), found, strict=True):
            yield from judged(f"weight: {name}", case, outcomes, context.say)


def _outcomes(context: Context, launch: Launch, name: str, case: Case) -> list[Outcome]:
    """Of each size, up to the first that fails: larger ones would, too."""
    found: list[Outcome] = []
    for size in case.quick if context.quick else case.sizes:
        found.append(launch(name, size))
        if isinstance(found[-1], Failed):
            break
    return found


def launched(name: str, size: int, data_bytes_max: int = DATA_BYTES_MAX) -> Outcome:
    """The outcome of a run in a process of its own."""
    given = (name, str(size), str(data_bytes_max))
    command = [sys.executable, "-m", "gapless.bench.weight_run", *given]
    try:
        done = subprocess.run(  # ourselves
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"not done after {TIMEOUT_S} s"
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"not done after {CPU_S_MAX} s of the processor"
    if done.returncode:
        return f"ended with {done.returncode}: {done.stderr[-500:]}"
    found = json.loads(done.stdout)
    return found["failed"] if "failed" in found else Measured(**found)


def judged(
    name: str, case: Case, outcomes: Sequence[Outcome], say: Callable[[str], None]
) -> Iterator[Row]:
    """The rows of one case. Of what has failed nothing is compared, and the failure misses its
    bar.
    """
    runs = [each for each in outcomes if not isinstance(each, Failed)]
    failed = [each for each in outcomes if isinstance(each, Failed)]
    for reason in failed:
        say(f"{name}, at the size after {runs[-1].size if runs else 0:,} ({case.about}): {reason}")
    yield Row(f"{name}: sizes that failed", len(failed), "", 0, "<=")
    if not runs:
        return
    last = runs[-1]
    push_ms = 1000 * max(run.push_s for run in runs)
    yield Row(f"{name}: longest push", push_ms, "ms", PUSH_MS_MAX, "<=")
    over = max(run.bytes / (run.state_bytes + BYTES_ALLOWED) for run in runs)
    yield Row(f"{name}: memory over the state", over, "x", LINEAR, "<=")
    yield Row(f"{name}: time at {last.size:,}", last.seconds, "s")
    yield Row(f"{name}: memory at {last.size:,}", last.bytes / 1e6, "MB")
    if len(runs) > 1:
        yield Row(f"{name}: time over linear", time_over_linear(case, runs), "x", LINEAR, "<=")
        yield Row(f"{name}: memory over linear", memory_over_linear(case, runs), "x", LINEAR, "<=")


def time_over_linear(case: Case, runs: Sequence[Measured]) -> float:
    """How much more a piece of work costs at a larger size than at a smaller one, at worst."""
    costs = [
        max(SECONDS_LEAST, run.seconds) / case.work(run.size, run.rows, run.answers) for run in runs
    ]
    return max(later / earlier for earlier, later in combinations(costs, 2))


def memory_over_linear(case: Case, runs: Sequence[Measured]) -> float:
    """The same of bytes and what has to be held."""
    costs = [max(BYTES_LEAST, run.bytes) / case.holds(run.size) for run in runs]
    return max(later / earlier for earlier, later in combinations(costs, 2))
