"""Three real scenarios, as `gapless chaos run` plays them; `make chaos` plays all.

Other tests run beside them, which is not a fault of the job: how long the output pauses is for
`make chaos` to judge, which has the machine to itself. Everything else must hold here, too.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gapless.chaos.drill.drill_process import Wanted, run_apart
from gapless.chaos.drill.scenario import loaded

pytestmark = pytest.mark.ray

IN_COMPANY = "pauses"
"""What is not judged here, by its name in the outcome."""


@pytest.mark.parametrize(
    "name",
    [
        "kill-replica",
        pytest.param("kill-merger", marks=pytest.mark.slow),
        pytest.param("stop-replica", marks=pytest.mark.slow),
    ],
)
def test_a_real_fault_costs_no_row_and_the_job_is_whole_again(name: str, tmp_path: Path) -> None:
    said: list[str] = []
    outcome = run_apart(Wanted(name, str(tmp_path / name)), said.append)
    wrong = [str(held) for held in outcome.held if not held.ok and held.name != IN_COMPANY]
    assert [outcome.problem, *wrong] == [""], "\n".join(said)
    held = {held.name for held in outcome.held}
    assert held >= {
        "faults strike",
        "whole again",
        "goes on",
        "no silent stall",
        "invariants",
        "ends",
        "nothing lost",
        "nothing duplicated",
        "nothing contradicting",
        "promises",
    }
    assert [strike.fault for strike in outcome.strikes] == [
        planned.fault for planned in loaded(name).faults
    ]
    verdicts = json.loads((tmp_path / name / "verdicts.json").read_text())
    assert verdicts["is_well"] is outcome.is_well
    assert {path.name for path in (tmp_path / name).iterdir()} >= {"report.html", "history.arrow"}
