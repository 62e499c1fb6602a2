"""What of a drill needs no cluster: its outcome, what it draws, what is refused, what is read."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gapless.chaos.drill import feeder as feeding
from gapless.chaos.drill import launcher as launching
from gapless.chaos.drill import launcher_process as launching_driver
from gapless.chaos.drill.drill import Drill, seeded, versions
from gapless.chaos.drill.drill_process import (
    BROKEN,
    Wanted,
    forget_outcome,
    read_outcome,
    run_apart,
    unplayed,
    watch,
)
from gapless.chaos.drill.faults.fault import Planned
from gapless.chaos.drill.outcome import Outcome, Requirement, Strike
from gapless.chaos.drill.scenario import Scenario, loaded
from gapless.chaos.drill.workloads import OF_A_USER, REAL_WORKLOADS, flows
from gapless.chaos.judge.record import Record
from gapless.chaos.report.directory import write_report
from gapless.protocol.errors import JobError, Misuse

WELL = Requirement("nothing lost", "0", "0 of 9 rows", ok=True)
NOT_WELL = Requirement("pauses", "500 ms at most", "900 ms", ok=False)
OUTCOME = Outcome(
    name="mine",
    about="Mine.",
    seed=3,
    began="2026-01-01T00:00:00+00:00",
    seconds=12.3,
    config={"rate": 2_000, "broken": None},
    versions={"gapless": "1"},
    strikes=(Strike("kill replica", "r0.1", 1_500, None, "SIGKILL"),),
    held=(WELL,),
    figures={"rows": 9},
    judgement=("0 lost",),
)


# -- what came of it ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "is_well"),
    [
        ({}, True),
        ({"held": (WELL, WELL)}, True),
        ({"held": (WELL, NOT_WELL)}, False),
        ({"held": ()}, False),
        ({"problem": "the cluster did not start"}, False),
    ],
)
def test_a_run_is_well_when_all_held_and_nothing_cut_it_short(
    change: dict[str, Any], is_well: bool
) -> None:
    assert replace(OUTCOME, **change).is_well is is_well


def test_what_held_is_told_with_what_was_wanted() -> None:
    assert str(WELL) == "ok  nothing lost: 0 of 9 rows (wanted: 0)"
    assert str(NOT_WELL) == "NOT  pauses: 900 ms (wanted: 500 ms at most)"


def test_an_outcome_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    outcome = replace(OUTCOME, held=(WELL, NOT_WELL))
    write_report(tmp_path / "report", outcome, Record())
    assert read_outcome(tmp_path / "report") == outcome
    assert json.loads((tmp_path / "report" / "verdicts.json").read_text())["is_well"] is False


@pytest.mark.parametrize("text", [None, "", '{"name": "mi'])
def test_a_drill_that_has_left_no_verdict_is_told(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "verdicts.json").write_text(text)
    with pytest.raises(JobError, match=r"no verdict in .* \(exit 9\)"):
        read_outcome(tmp_path, 9)


def test_the_verdict_of_an_earlier_drill_is_none_of_a_later_one(tmp_path: Path) -> None:
    write_report(tmp_path, OUTCOME, Record())
    forget_outcome(tmp_path)
    forget_outcome(tmp_path / "where nothing is yet")
    with pytest.raises(JobError, match="no verdict"):
        read_outcome(tmp_path)


def test_a_drill_that_does_not_end_is_killed_and_told() -> None:
    # This module is a program that reads until its pipe ends, which it does not.
    with pytest.raises(JobError, match="had not ended after 0 s, and was killed"):
        watch("gapless.chaos.drill.means.janitor_process", "", 0.0, lambda _: None)


def test_an_error_of_the_harness_is_no_verdict() -> None:
    code = "from gapless.chaos.drill.drill_process import end_with; end_with(lambda: 1 // 0)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == BROKEN
    assert "ZeroDivisionError" in done.stderr


def test_one_without_a_verdict_is_not_well_and_says_why() -> None:
    outcome = unplayed(Wanted("kill-replica", "there", seed=4), "its process was killed")
    assert not outcome.is_well
    assert (outcome.name, outcome.seed, outcome.problem) == (
        "kill-replica",
        4,
        "its process was killed",
    )
    assert outcome.config["replicas"] == loaded("kill-replica").replicas


def test_versions_of_all_that_takes_part_are_known() -> None:
    found = versions()
    assert found.keys() == {"gapless", "ray", "pyarrow", "numpy", "python", "system"}
    assert all(found.values())


# -- what is drawn --------------------------------------------------------------------------------

TWICE = Scenario("mine", faults=(Planned("kill replica", 1.0), Planned("kill replica", 2.0)))


def drawn(scenario: Scenario) -> list[float]:
    """What the first draws of its faults' generators are: their targets follow from them."""
    drill = Drill(scenario)
    return [fault.rng.random() for _, fault in drill._planned]


def test_faults_draw_the_same_with_the_same_seed_and_each_its_own() -> None:
    first, second = drawn(TWICE)
    assert [first, second] == drawn(TWICE)
    assert first != second
    assert drawn(seeded(TWICE, 1)) != [first, second]


def test_a_fault_draws_the_same_when_those_after_it_are_left_out() -> None:
    assert drawn(replace(TWICE, faults=TWICE.faults[:1])) == drawn(TWICE)[:1]


def test_without_a_seed_a_scenario_keeps_its_own() -> None:
    assert seeded(replace(TWICE, seed=5), None).seed == 5
    assert seeded(TWICE, 7).seed == 7


# -- what is refused, before anything starts ------------------------------------------------------


@pytest.fixture
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object, **__: object) -> None:
        pytest.fail("a process was started")

    monkeypatch.setattr(subprocess, "Popen", started)


@pytest.mark.usefixtures("nothing_starts")
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"scenario": "kill-everyone"}, "no scenario 'kill-everyone'"),
        ({"broken": "nothing"}, "no broken build 'nothing'; there are: no join gate"),
        ({"minutes": 2.0}, "does not last"),
        ({"seed": -1}, "seed = -1"),
    ],
)
def test_what_cannot_be_is_refused_without_a_process(
    change: dict[str, Any], why: str, tmp_path: Path
) -> None:
    wanted = replace(Wanted("kill-replica", str(tmp_path / "report")), **change)
    with pytest.raises(Misuse, match=why):
        run_apart(wanted, lambda _: None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "change",
    [
        {"workload": "nobody"},
        {"plans": ("fast",)},
        {"faults": ()},
        {"faults": (Planned("kill node", 1.0),)},
    ],
    ids=["workload", "plan", "no fault", "fault"],
)
def test_a_drill_of_what_cannot_be_is_not_made(change: dict[str, Any]) -> None:
    with pytest.raises(Misuse, match="scenario mine: "):
        Drill(replace(TWICE, **change))


@pytest.mark.parametrize(("lasts", "heals_after"), [(None, 3.0), (9.0, 9.0)])
def test_a_fault_lasts_as_its_kind_does_where_nobody_says_otherwise(
    lasts: float | None, heals_after: float
) -> None:
    drill = Drill(Scenario("mine", faults=(Planned("stop replica", 1.0, lasts),)))
    ((_, fault),) = drill._planned
    assert fault.heals_after == heals_after


def test_what_a_user_gives_is_what_the_record_of_a_drill_names() -> None:
    given = replace(REAL_WORKLOADS["filter"], name=OF_A_USER)
    assert Drill(TWICE, workload=given).scenario == replace(TWICE, workload=OF_A_USER)


# -- the program that launches a job ---------------------------------------------------------------


def test_a_program_that_does_not_launch_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(launching, "DRIVER_S", 0.0)
    silent = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        with pytest.raises(JobError, match="has not, after 0 s"):
            launching.wait_launched(silent)
    finally:
        launching.end_driver(silent)
    assert silent.returncode == -signal.SIGKILL
    launching.end_driver(silent)  # one that a fault has killed is gone already


def test_a_program_launches_the_job_that_the_scenario_says(tmp_path: Path) -> None:
    scenario = replace(TWICE, replicas=2, mergers=2, checkpoint_s=0.5, on_divergence="majority")
    what = launching.what_to_launch(scenario, "talkers", ["wid"], {}, tmp_path, "there", {})
    told, plans = launching_driver.job_of(json.loads(json.dumps(what)))
    assert told == replace(scenario, faults=())
    assert plans == {"wid": REAL_WORKLOADS["talkers"].plans["wid"]}


# -- the rows --------------------------------------------------------------------------------------


def test_a_journal_that_is_still_written_to_is_not_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeding, "END_S", 0.0)
    comes, goes_on = threading.Event(), threading.Event()

    def rows(first: int, count: int, rate: int) -> pa.RecordBatch:
        if first:
            comes.set()
            goes_on.wait(60)
        return flows(first, count, rate)

    talkers = REAL_WORKLOADS["talkers"]
    (name, source), *_ = talkers.sources.items()
    slow = replace(talkers, sources={name: replace(source, rows=rows)})
    with feeding.Feeder(slow, tmp_path, 1_000) as fed:
        fed.begin()
        assert comes.wait(60)
        try:
            with pytest.raises(JobError, match="still being written after 0 s"):
                fed.end()
        finally:
            goes_on.set()
            monkeypatch.setattr(feeding, "END_S", 60.0)
    assert not [t for t in threading.enumerate() if t.name == "feeding"]
