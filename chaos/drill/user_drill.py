"""A user's query through faults of a real cluster: one call, in a test or in a program.

    drill(talkers, rows)                          four faults, one after the other
    drill(talkers, rows, faults=["kill node"], nodes=3)
    drill(talkers, rows, scenario="kill-gcs")     of `gapless chaos list`, or a file

    this process                      a process of its own (user_drill_process.py)
    checks, the answer, packing  -->  cluster, journals, job, faults, judges, report
    DrillFailed, or the outcome  <--

All that can be known to be wrong is found here, before anything starts. What a lost cluster does to
its process does nothing to this one. Functions of the query are found there again by their names,
so they have to be importable: their module's file, or the package that it is in, goes with them.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gapless.actors.plans import Plans, named_plans
from gapless.chaos.drill.drilled_code import code_of
from gapless.chaos.drill.faults.all import FAULTS
from gapless.chaos.drill.faults.fault import Planned
from gapless.chaos.drill.outcome import Outcome
from gapless.chaos.drill.scenario import Scenario, loaded, planned_fault
from gapless.chaos.drill.user_drill_process import PackedDrill, PackedSource, run_packed
from gapless.chaos.failed import DrillFailed, told_suspects
from gapless.chaos.report.directory import PAGE
from gapless.chaos.sim.user_memory import Memories
from gapless.chaos.sim.workloads.given_answer import agreed
from gapless.chaos.sim.workloads.given_rows import (
    Events,
    Expected,
    arrival_of,
    layout_of,
    rows_of,
    times_of,
)
from gapless.engine.documents import functions_of
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.failover.supervisor.equivalence import check_equivalent
from gapless.protocol.errors import JobError, Misuse

ROWS_MAX = 1_000_000
"""Of all sources: they are held in memory, and judged in the end."""
EVENTS_MAX = 5_000_000
"""Of the answer, for the same reason."""
USUAL_FAULTS = ("kill replica", "stop replica", "kill all replicas", "kill merger")
"""Where nothing else is said. What one replica says wrongly the others may outdo; with all of them
dead at once, nobody is left who remembers what was no state of the query.
"""
FIRST_S = 1.5
"""From the job being whole to the first fault that has no time of its own."""
APART_S = 4.0
"""From the end of such a fault to the next: by then the job is whole again, mostly."""
TAIL_S = 3.0
"""Rows come for so long behind the last fault, beside the calm at the end."""
LATE_SHARE = 0.3
"""Of rows."""

Faults = Sequence[str | Mapping[str, Any]]
"""Names, or tables as in a scenario: {"fault": "kill replica", "at": 2.0, "target": "r0.1"}."""


def drill(
    query: Query | Plan,
    events: Events,
    *,
    faults: Faults | None = None,
    scenario: str | Path | Scenario | None = None,
    plans: Plans = None,
    expected: Expected | None = None,
    replicas: int | None = None,
    mergers: int | None = None,
    nodes: int | None = None,
    rate: int | None = None,
    pause_ms: float | None = None,
    seed: int | None = None,
    code: str | Path | None = None,
    report: str | Path | None = None,
    name: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Runs a job of the query on a Ray cluster of its own on this machine, while faults strike;
    raises `DrillFailed` where its output is not the query's answer, or the job did not come back.

    `faults`: names (each strikes some seconds behind the one before), or tables with what a
    scenario says of them; or else a whole `scenario`. `events`, `plans`, `expected`: as for
    `simulate`, but up to a million rows. `rate`: rows a second; without it they last as long as
    the faults do. `replicas` (3), `mergers`, `nodes` (1), `seed`: instead of the scenario's.
    `pause_ms`: the output may pause for so long at most. `code`: the file, or folder, that
    defines the query's functions; found by itself where they are in one module or package.
    `report`: the folder that it leaves; without it there is one only where something did not
    hold. `say` is told how it goes.

    Raises `Misuse` and `WrongAnswer` before anything starts, `JobError` where no cluster or no job
    comes up.
    """
    named = named_plans(query, plans)
    first = next(iter(named.values()))
    for plan in named.values():
        check_equivalent(first, plan, assumed=True)  # `agreed` looks whether they do
    rows = rows_of(first, events, ROWS_MAX)
    numbers = {"replicas": replicas, "mergers": mergers, "nodes": nodes, "rate": rate, "seed": seed}
    packed = packed_drill(
        named,
        rows,
        faults=faults,
        scenario=scenario,
        code=code,
        name=name,
        pause_ms=pause_ms,
        numbers=numbers,
    )
    memories = Memories(_functions(named).values())
    agreed(named, rows, memories, expected, events, EVENTS_MAX)
    return _played(packed, named, report, say)


def _played(
    packed: PackedDrill,
    plans: Mapping[str, Plan],
    report: str | Path | None,
    say: Callable[[str], None],
) -> Outcome:
    """The outcome of a drill that went well; the folder that it leaves stays if it is wanted."""
    folder = Path(tempfile.mkdtemp(prefix="gapless-drill-") if report is None else report)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise Misuse(f"report {folder}: it cannot be written: {e}") from None
    is_wanted = report is not None
    try:
        outcome = run_packed(packed, folder, say)
        if not outcome.is_well:
            is_wanted = True
            raise told_failure(outcome, plans, folder.resolve() / PAGE)
    finally:
        if not is_wanted:
            shutil.rmtree(folder)
    return outcome


def _functions(plans: Mapping[str, Plan]) -> dict[str, Callable[..., Any]]:
    return {name: f for plan in plans.values() for name, f in functions_of(plan.query).items()}


# -- the scenario ---------------------------------------------------------------------------------


def _chosen(
    faults: Faults | None, scenario: str | Path | Scenario | None, name: str | None
) -> Scenario:
    if scenario is None:
        planned = _timeline(USUAL_FAULTS if faults is None else faults)
        mergers = max((FAULTS[each.fault].mergers_min for each in planned), default=1)
        chosen = Scenario("drill", mergers=mergers, faults=planned)
    elif faults is not None:
        raise Misuse("faults and scenario: one of the two; a scenario has its own faults")
    else:
        chosen = scenario if isinstance(scenario, Scenario) else loaded(str(scenario))
    if "driver" in chosen.parts():
        raise Misuse(
            f"scenario {chosen.name}: it kills the program that has launched the job, and that "
            "program cannot have your query; `gapless chaos run` has such scenarios"
        )
    return replace(chosen, name=chosen.name if name is None else name, plans=())


def _timeline(faults: Faults) -> tuple[Planned, ...]:
    """Faults with their times. Raises `Misuse` for an unknown one."""
    there = f"there are: {', '.join(FAULTS)}"
    if isinstance(faults, str) or not faults:
        raise Misuse(f"faults={faults!r}: a list with one at least; {there}")
    found: list[Planned] = []
    free_s = FIRST_S
    for each in faults:
        document = {"fault": each} if isinstance(each, str) else each
        if not isinstance(document, Mapping):
            raise Misuse(f"fault {each!r}: a name, or a table with one; {there}")
        fault = planned_fault("drill", {"at": free_s, **document})
        if fault.fault not in FAULTS:
            raise Misuse(f"there is no fault {fault.fault!r}; {there}")
        found.append(fault)
        free_s = max(free_s, _end_s(fault) + APART_S)
    return tuple(found)


def _end_s(planned: Planned) -> float:
    lasts = FAULTS[planned.fault].lasts if planned.lasts is None else planned.lasts
    return planned.at + (lasts or 0.0)


def _settled(
    scenario: Scenario, pause_ms: float | None, numbers: Mapping[str, int | None]
) -> Scenario:
    """The scenario, with what the user has said himself."""
    said: dict[str, Any] = {name: value for name, value in numbers.items() if value is not None}
    for name, value in said.items():
        if type(value) is not int:
            raise Misuse(f"{name}={value!r}: a whole number")
    pause = scenario.holds.pause_ms if pause_ms is None else pause_ms
    holds = replace(scenario.holds, pause_ms=pause, agree=True)
    return replace(scenario, holds=holds, **said)


def _rate(scenario: Scenario, rows: int) -> int:
    """Rows a second, so that they last as long as the faults, and some seconds more."""
    drawn = scenario.random
    seconds = max((_end_s(each) for each in scenario.faults), default=0.0)
    if drawn is not None:
        seconds += drawn.minutes * 60 + drawn.count * (drawn.every[1] + TAIL_S)
    return max(1, round(rows / (seconds + scenario.calm_s + TAIL_S)))


# -- packing --------------------------------------------------------------------------------------


def packed_drill(
    plans: Mapping[str, Plan],
    rows: Mapping[str, pa.RecordBatch],
    *,
    faults: Faults | None = None,
    scenario: str | Path | Scenario | None = None,
    code: str | Path | None = None,
    name: str | None = None,
    pause_ms: float | None = None,
    numbers: Mapping[str, int | None] | None = None,
) -> PackedDrill:
    """What another process plays; `rows` by source, by time. Raises `Misuse` where it cannot be."""
    functions = _functions(plans)
    path = code_of(functions, code)
    chosen = _settled(_chosen(faults, scenario, name), pause_ms, numbers or {})
    longest = max(batch.num_rows for batch in rows.values())
    if numbers is None or numbers.get("rate") is None:
        chosen = replace(chosen, rate=_rate(chosen, longest))
    draw = np.random.default_rng(abs(chosen.seed))
    sources = {}
    for source in next(iter(plans.values())).query.sources.values():
        batch = rows[source.name]
        layout = layout_of(source, batch)
        arrival = arrival_of(draw, times_of(batch, layout.time), layout.lateness, LATE_SHARE)
        batch = batch.take(pa.array(np.argsort(arrival, kind="stable")))
        sources[source.name] = PackedSource(layout, batch, batch.num_rows / longest)
    documents = {name: plan.to_document() for name, plan in plans.items()}
    packed = PackedDrill(chosen, documents, sources, path)
    chosen.check(packed.workload(functions))
    return packed


# -- telling --------------------------------------------------------------------------------------


def told_failure(
    outcome: Outcome, plans: Mapping[str, Plan], report: Path
) -> DrillFailed | JobError:
    """What is raised of an outcome that is not well."""
    if outcome.problem and not outcome.held and not outcome.strikes:
        return JobError(
            f"the drill could not be played: {outcome.problem}; `gapless doctor` says what this "
            f"machine lacks. The report: {report}"
        )
    return DrillFailed("\n".join(_told(outcome, plans, report)), outcome, report)


def _told(outcome: Outcome, plans: Mapping[str, Plan], report: Path) -> Iterator[str]:
    broken = [held for held in outcome.held if not held.ok]
    yield f"{outcome.name} (seed {outcome.seed}): {len(broken)} of {len(outcome.held)} do not hold"
    yield from map(str, broken)
    if outcome.problem:
        yield f"it was cut short: {outcome.problem}"
    yield "what has struck:"
    for strike in outcome.strikes:
        yield f"  {strike.at_ms / 1_000:.1f} s  {strike.fault}: {strike.target}: {strike.what}"
    if outcome.judgement:
        yield "what the judges say:"
        yield from (f"  {line}" for line in outcome.judgement)
    yield from told_suspects(plans)
    yield f"the report, with the timeline: {report}"
    yield f"play it again with seed={outcome.seed}: the same faults, at the same times"
