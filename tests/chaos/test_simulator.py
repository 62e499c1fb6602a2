import re
from pathlib import Path

import pytest

from gapless.chaos import simulator, told, workload
from gapless.chaos.broken import BROKEN_BUILDS
from gapless.chaos.simulator import Simulation, run_seed
from gapless.journal.disk import LocalDisk
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import GaplessError
from gapless.protocol.tdb import Tdb

SEEDS = 60
"""Schedules a run of the tests; `gapless chaos sim --seeds N` runs as many as one likes."""
CAUGHT_WITHIN = 200


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_no_schedule_breaks_a_promise(first: int) -> None:
    for seed in range(first, first + 10):
        result = run_seed(seed)
        assert result.ok, f"seed {seed}: {result.problem}"


@pytest.mark.parametrize("name", BROKEN_BUILDS)
def test_a_planted_fault_is_caught(name: str) -> None:
    assert any(not run_seed(seed, BROKEN_BUILDS[name]).ok for seed in range(CAUGHT_WITHIN))


def test_the_same_seed_gives_the_same_trace() -> None:
    assert run_seed(7).trace == run_seed(7).trace
    assert run_seed(7).trace != run_seed(8).trace


def test_schedules_kill_and_rejoin_and_lose_what_was_not_synced() -> None:
    seen: set[str] = set()
    for seed in range(20):
        for line in run_seed(seed).trace:
            seen |= {word for word in ("kill r", "kill m1", "joins at", "Refused") if word in line}
    assert seen == {"kill r", "kill m1", "joins at", "Refused"}


def test_the_trace_tells_what_was_lost_repeated_and_forgotten() -> None:
    traces = [run_seed(seed).trace for seed in range(20)]
    assert {trace[0] for trace in traces} == {told.HEADER}
    lines = [line for trace in traces for line in trace]
    for shape in (
        r" lost on the way from r[12]\.\d to m1: Data r[12]/0\.\d/\d+ #\d+: .*stable\(\d+\)",
        r" repeated on the way from m1\.\d to r[12]: Ack r[12]/0\.\d/\d+ #\d+, epoch \d: ",
        r" lost, as m1 is down: ",
        r" forgot [1-9]\d* bytes of output\.log",
        r" m1\.2 starts",
        r" joins at (begin|\d+)$",
    ):
        assert any(re.search(shape, line) for line in lines), shape
    assert not any(str(time) in line for line in lines for time in (BEGIN, INF))


def test_the_same_machines_run_on_a_real_disk(tmp_path: Path) -> None:
    Simulation(3, disk=LocalDisk(tmp_path)).run()
    assert (tmp_path / simulator.OUTPUT_LOG).stat().st_size > 0


def test_an_output_that_stops_is_a_broken_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator, "STEPS_MAX", 50)
    problem = run_seed(1).problem
    assert problem is not None
    assert "the output stopped at stable 20\n  m1.1 waits for " in problem
    assert "\n  r1.1 tells r1/0.0/1\n" in problem
    assert re.search(r"\n  s1\.1 waits for what follows byte [1-9]", problem)


def test_a_wrong_answer_is_a_broken_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "expected", lambda frames: Tdb(workload.plan().schema))
    with pytest.raises(GaplessError, match="the output is not the table"):
        Simulation(1).run()
