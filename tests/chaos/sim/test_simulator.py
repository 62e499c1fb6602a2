"""The simulator itself: it replays, it breaks enough, and it can tell."""

from __future__ import annotations

import os
import subprocess
import sys
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from gapless.chaos.judge.history import Broken, Started, Struck, Verdict
from gapless.chaos.planted.builds import BROKEN_BUILDS
from gapless.chaos.sim import simulator
from gapless.chaos.sim.agenda import BY_TIME, CAUSES_MAX
from gapless.chaos.sim.checkers.world import shard_of
from gapless.chaos.sim.drawn_faults import KINDS, OPERATIONS
from gapless.chaos.sim.memo import decoding_once
from gapless.chaos.sim.seed_runs import run_many, run_one
from gapless.chaos.sim.shrinker import shortest_of
from gapless.chaos.sim.simulator import PRODUCTION, Simulation, run_seed
from gapless.chaos.sim.story import HEADER, told_step
from gapless.chaos.sim.workloads.all import WORKLOADS
from gapless.chaos.sim.workloads.w1 import W1
from gapless.chaos.sim.workloads.workload import Batches
from gapless.failover.merger.durable_output import DurableOutput
from gapless.failover.merger.effects import MergerEffect
from gapless.failover.merger.machine import Merger
from gapless.protocol.frame import Frame
from gapless.protocol.tdb import Tdb
from tests.effort import cases

SEEDS = cases(200)
"""In so many runs everything that can happen does."""
SHRUNK = range(cases(12))
"""A run that fails is played again and again, until its faults are few."""


# -- what happens in many runs --------------------------------------------------------------------


@dataclass
class Run:
    """What one seed came to."""

    shards: int
    slots: set[str]
    """Those that had a life."""
    struck: list[str]
    frames: int
    planned: list[str]
    verdicts: dict[str, Verdict]
    is_whole: bool
    """Whether it goes on to the end of its sources: it is not drained before."""


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return [_run(seed) for seed in range(SEEDS)]


def _run(seed: int) -> Run:
    simulation = Simulation(seed)
    with decoding_once():
        verdicts = simulation.run()
    facts = [fact for _, fact in simulation.history.facts]
    return Run(
        simulation.workload.shards,
        {fact.life.slot for fact in facts if isinstance(fact, Started)},
        [fact.fault for fact in facts if isinstance(fact, Struck)],
        simulation.frames,
        [fault.kind for fault in simulation.faults],
        verdicts,
        simulation.drain is None,
    )


def test_every_run_has_five_faults_and_three_hundred_frames_at_least(runs: list[Run]) -> None:
    whole = [run for run in runs if run.is_whole]
    assert len(whole) > 0.85 * SEEDS
    assert min(sum(kind != "disk error" for kind in run.struck) for run in whole) >= 5
    assert min(run.frames for run in whole) >= 300


def test_every_shard_has_three_replicas_and_two_mergers(runs: list[Run]) -> None:
    for run in runs:
        counts = Counter((slot[0], shard_of(slot)) for slot in run.slots if slot[1].isdigit())
        assert all(counts["r", shard] >= 3 for shard in range(run.shards))
        assert all(counts["m", shard] == 2 for shard in range(run.shards))


def test_every_kind_of_fault_strikes_somewhere_and_people_do_all_they_can(runs: list[Run]) -> None:
    assert {kind for run in runs for kind in run.struck} == {*KINDS, "disk error"}
    assert {kind for run in runs for kind in run.planned} == {*KINDS, *OPERATIONS}


def test_in_no_run_are_all_promises_unknown_and_no_promise_always_is(runs: list[Run]) -> None:
    held = Counter(
        name for run in runs for name, verdict in run.verdicts.items() if verdict is Verdict.HOLDS
    )
    assert set(held) == set(runs[0].verdicts)
    assert all(Verdict.HOLDS in run.verdicts.values() for run in runs)
    whole = [run.verdicts for run in runs if run.is_whole]
    assert all(of["table"] is of["converge"] is Verdict.HOLDS for of in whole)


# -- replaying ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(len(WORKLOADS)))
def test_the_same_seed_gives_the_same_trace(seed: int) -> None:
    first = run_seed(seed, traced=True).trace
    assert first[0] == HEADER
    assert first == run_seed(seed, traced=True).trace
    assert first != run_seed(seed + len(WORKLOADS), traced=True).trace


def test_a_trace_is_the_same_in_another_process() -> None:
    """Where strings have other hashes, and nothing has run before."""
    program = (
        "from gapless.chaos.sim.simulator import run_seed\n"
        "print(*run_seed(5, traced=True).trace, sep='\\n')"
    )
    here = run_seed(5, traced=True).trace
    for hashes in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.splitlines() == here


@pytest.mark.parametrize("seed", range(2 * len(WORKLOADS)))
def test_to_decode_each_record_once_changes_nothing(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    remembered = run_seed(seed, traced=True).trace

    @contextmanager
    def decoding_always() -> Iterator[None]:
        yield

    monkeypatch.setattr(simulator, "decoding_once", decoding_always)
    assert run_seed(seed, traced=True).trace == remembered


def test_several_processes_find_what_one_finds() -> None:
    broken = "forgets its tail"
    seeds = range(cases(12))
    alone = list(run_many(seeds, broken))
    assert list(run_many(seeds, broken, jobs=2)) == alone
    assert any(not result.ok for result in alone)


def test_nothing_of_a_run_is_left_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand runs in one process need the memory of one."""
    made: list[weakref.ref[Simulation]] = []

    class Watched(Simulation):
        def __init__(self, *args: Any, **how: Any) -> None:
            super().__init__(*args, **how)
            made.append(weakref.ref(self))

    monkeypatch.setattr(simulator, "Simulation", Watched)
    for seed in range(4):
        run_seed(seed)
    assert len(made) == 4
    assert [ref() for ref in made] == [None] * 4


# -- telling --------------------------------------------------------------------------------------


class PutsNothingOut(Merger):
    class OUTPUT(DurableOutput):
        def put_out(self, frame: Frame) -> list[MergerEffect]:  # noqa: ARG002  # it does not look at that
            return []


def test_an_output_that_stops_is_a_broken_promise() -> None:
    for seed in range(len(WORKLOADS)):
        result = run_seed(seed, replace(PRODUCTION, merger=PutsNothingOut))
        assert result.checker in ("progress", "converge", "silence"), result.problem


def test_a_wrong_answer_is_a_broken_promise() -> None:
    def all_but_one(batches: Batches) -> Tdb:
        right = W1.expected(batches)
        return Tdb(right.schema, list(right.events)[1:])

    with pytest.raises(Broken, match=r"is held too often|are there for good"):
        Simulation(1, workload=replace(W1, expected=all_but_one)).run()


def test_a_run_that_raises_has_failed_with_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr("gapless.chaos.sim.seed_runs.run_seed", fails)
    result = run_one(7)
    assert not result.ok
    assert "ZeroDivisionError: of all things" in str(result.problem)


@pytest.mark.parametrize("name", ["forgets its tail", "skips gaps"])
def test_causes_lead_from_what_failed_back_to_its_beginning(name: str) -> None:
    runs = (run_seed(seed, BROKEN_BUILDS[name]) for seed in range(100))
    failing = (run.seed for run in runs if len(run.causes) > 1)  # what shows in the end has one
    result = run_seed(next(failing), BROKEN_BUILDS[name], traced=True)
    assert 1 < len(result.causes) <= CAUSES_MAX
    lines = iter(result.trace)
    assert all(cause in lines for cause in result.causes), "in the order in which they happened"
    times = [int(line.split()[0]) for line in result.causes]
    assert times == sorted(times)


def test_a_chain_of_causes_begins_with_what_follows_from_nothing() -> None:
    simulation = Simulation(0, BROKEN_BUILDS["trims by the fastest"])
    with pytest.raises(Broken):
        simulation.run()
    chain = simulation.causes()
    told = [told_step(*step[:3]) for step in simulation.steps]
    first = simulation.steps[told.index(chain[0])]
    assert len(chain) == CAUSES_MAX or first[3] == BY_TIME
    causes = {told_step(*s[:3]): told[s[3]] for s in simulation.steps if s[3] != BY_TIME}
    assert [causes[line] for line in chain[1:]] == chain[:-1]


# -- shrinking ------------------------------------------------------------------------------------


def test_a_failure_is_shrunk_to_the_fewest_faults_that_it_needs() -> None:
    broken = "forgets its live table"  # which shows where a merger has died
    shrunk = [shortest_of(seed, broken) for seed in SHRUNK if not run_one(seed, broken).ok]
    assert any(0 < len(result.told_faults) < 5 for result in shrunk)
    for result in shrunk:
        assert not result.ok
        for fewer in range(len(result.told_faults)):
            assert run_one(result.seed, broken, faults_max=fewer).ok


def test_a_seed_that_is_clean_stays_whole() -> None:
    assert shortest_of(0) == run_one(0)


def test_a_run_with_the_first_faults_only_is_the_run_up_to_the_next_one() -> None:
    whole = run_seed(8, traced=True).trace
    first = run_seed(8, faults_max=2, traced=True).trace
    alike = sum(a == b for a, b in zip(whole, first, strict=False))
    third = sorted(fault.at for fault in Simulation(8).faults)[2]
    until = sum(int(line.split()[0]) < third for line in whole[1:])
    assert alike > until
