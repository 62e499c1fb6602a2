"""Users' drills on a real cluster: a bug is found, and the fixture plays the example clean.

Run by `make test-cluster`. Each drill is a process of its own, with a cluster of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from gapless.chaos.drill.user_drill import USUAL_FAULTS, drill
from gapless.chaos.failed import DrillFailed
from tests.chaos import users

pytestmark = [pytest.mark.ray, pytest.mark.cluster]

EXAMPLES = Path(__file__).parents[3] / "examples" / "testing"
SECONDS = 240
"""Within which pytest with one drill has to end, on the busiest machine."""


def test_a_function_that_counts_is_found_when_all_replicas_die(tmp_path: Path) -> None:
    query = users.mapped(users.number, "len")
    report = tmp_path / "report"
    with pytest.raises(DrillFailed) as failed:
        drill(query, users.rows(600), faults=["kill all replicas"], report=report, name="counting")
    error = failed.value
    assert error.report == report / "report.html"
    assert error.report.is_file()
    assert json.loads((report / "verdicts.json").read_text())["is_well"] is False
    assert [strike.fault for strike in error.outcome.strikes] == ["kill all replicas"]
    broken = {held.name for held in error.outcome.held if not held.ok}
    assert broken & {"replicas agree", "nothing lost", "nothing contradicting"}
    assert {held.name for held in error.outcome.held if held.ok} >= {"faults strike", "ends"}
    assert str(error).startswith("counting (seed 0): ")
    assert "tests.chaos.users:number(len) is a function of yours" in str(error)


def test_the_example_passes_by_the_fixture_and_leaves_its_report(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-rP", "-p", "no:cacheprovider"),
            *("-m", "gapless_ray", f"--gapless-reports={tmp_path}", str(EXAMPLES)),
        ],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert "1 passed" in done.stdout, done.stdout
    assert "the job is whole" in done.stdout  # how it goes is told, and shown where one wants it
    (report,) = tmp_path.iterdir()
    assert (report / "report.html").is_file()
    outcome = json.loads((report / "verdicts.json").read_text())
    assert outcome["is_well"]
    assert len(outcome["strikes"]) == len(USUAL_FAULTS)


def test_a_good_function_goes_with_its_query() -> None:
    outcome = drill(
        users.mapped(users.kilobytes, "len", returns="float64"),
        {"flows": users.rows(400)},
        faults=[{"fault": "kill merger", "at": 1.0}],
        plans={"one": users.mapped(users.kilobytes, "len", returns="float64")},
        expected=kilobytes_of,
    )
    assert outcome.is_well
    assert outcome.figures["rows"] > 0


def kilobytes_of(events: dict[str, pa.Table]) -> pa.Table:
    """What the query should say: each row at its time, for one tick."""
    rows = events["flows"]
    vs = rows["ts"].cast(pa.int64())
    value = [length / 1_000 for length in rows["len"].to_pylist()]
    ends = pa.array([t + 1 for t in vs.to_pylist()])
    return (
        rows.append_column("value", pa.array(value))
        .append_column("_vs", vs)
        .append_column("_ve", ends)
    )
