"""A user's drill: what is refused before anything starts, what is packed, how a failure is told."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gapless as gl
from gapless.actors.plans import named_plans
from gapless.chaos.drill.drilled_code import code_of
from gapless.chaos.drill.faults.all import FAULTS
from gapless.chaos.drill.outcome import Outcome, Requirement, Strike
from gapless.chaos.drill.scenario import Random, Scenario
from gapless.chaos.drill.user_drill import ROWS_MAX, TAIL_S, drill, packed_drill, told_failure
from gapless.chaos.drill.user_drill_process import PackedDrill, run_packed
from gapless.chaos.failed import DrillFailed, WrongAnswer
from gapless.chaos.sim.workloads.given_rows import rows_of
from gapless.engine.query import Query
from gapless.protocol.errors import JobError, Misuse, RowError
from tests.chaos import users
from tests.chaos.users import flows, rows

counts = flows.window(range="4s", slide="1s").group_by("src").aggregate(packets=gl.count())
memory = users.LOOKING_BEYOND["memory, a set"]


def local_function() -> Query:
    def anywhere(lengths: pa.Array) -> pa.Array:
        return lengths

    return users.mapped(anywhere, "len")


NUMBERS = ("replicas", "mergers", "nodes", "rate", "seed")


def packed(query: Query = counts, events: Any = None, **how: Any) -> PackedDrill:
    """What another process would be handed."""
    plans = named_plans(query, None)
    given = rows_of(plans["plan0"], rows() if events is None else events, ROWS_MAX)
    numbers = {name: how.pop(name) for name in NUMBERS if name in how}
    return packed_drill(plans, given, numbers=numbers, **how)


# -- what is refused ------------------------------------------------------------------------------

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown fault": ({"faults": ["kil replica"]}, "no fault 'kil replica'; there are: kill"),
    "a negative time": ({"faults": [{"fault": "kill replica", "at": -1}]}, "at = -1: from 0"),
    "no time": ({"faults": [{"fault": "kill replica", "at": "soon"}]}, "at = 'soon'"),
    "an unknown setting": ({"faults": [{"fault": "kill replica", "of": 1}]}, "has no 'of'"),
    "no fault": ({"faults": []}, "a list with one at least; there are"),
    "no list": ({"faults": "kill replica"}, "a list with one at least"),
    "no name": ({"faults": [3]}, "fault 3: a name, or a table"),
    "an unknown scenario": ({"scenario": "kill-everybody"}, "there are: .*kill-replica"),
    "both": ({"scenario": "kill-replica", "faults": ["kill replica"]}, "one of the two"),
    "a driver": ({"scenario": "kill-driver"}, "that program cannot have your query"),
    "too few nodes": ({"faults": ["kill node"]}, "needs nodes = 2"),
    "replicas": ({"replicas": 0}, "replicas = 0: from 1"),
    "invalid replicas": ({"replicas": "3"}, "replicas='3': a whole number"),
    "a rate": ({"rate": 0}, "rate = 0: from 1"),
    "a pause": ({"pause_ms": -5}, "pause_ms = -5"),
    "no rows": ({"events": rows().slice(0, 0)}, "no rows"),
    "no code": ({"code": "nowhere.py"}, "code nowhere.py: there is no such file"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_played_is_refused_before_anything_starts(name: str) -> None:
    how, why = REFUSED[name]
    with pytest.raises(Misuse, match=why):
        packed(**how)


def test_plans_of_two_tables_are_refused_before_anything_starts() -> None:
    plans = [flows, flows.where(gl.col("len") > 700)]
    with pytest.raises(WrongAnswer, match="does not give the answer of plan0"):
        drill(flows, rows(), plans=plans)


def test_a_query_that_cannot_take_its_rows_is_refused_before_anything_starts() -> None:
    with pytest.raises(RowError, match="ZeroDivisionError"):
        drill(users.mapped(users.divides, "len"), rows(3))


def test_a_report_that_cannot_be_written_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Misuse, match="it cannot be written"):
        drill(counts, rows(), report=tmp_path / "file" / "report")


# -- the scenario ---------------------------------------------------------------------------------


def test_faults_without_a_time_strike_one_after_the_other() -> None:
    scenario = packed(faults=["kill replica", "stop replica", "kill merger"]).scenario
    ends = [each.at + (FAULTS[each.fault].lasts or 0) for each in scenario.faults]
    starts = [each.at for each in scenario.faults]
    assert starts[0] > 0
    assert all(end < start for end, start in zip(ends[:-1], starts[1:], strict=True))


def test_what_the_user_says_goes_before_what_the_scenario_says() -> None:
    shipped = packed(scenario="kill-replica")
    assert (shipped.scenario.name, shipped.scenario.replicas) == ("kill-replica", 3)
    said = packed(
        scenario="kill-replica", replicas=4, seed=9, rate=77, pause_ms=800, name="mine"
    ).scenario
    assert (said.name, said.replicas, said.seed, said.rate) == ("mine", 4, 9, 77)
    assert said.holds.pause_ms == 800
    assert said.holds.agree
    assert said.holds.whole_s == shipped.scenario.holds.whole_s


def test_a_fault_of_two_mergers_gets_two() -> None:
    needy = next(name for name, kind in FAULTS.items() if kind.mergers_min == 2)
    assert packed(faults=[needy]).scenario.mergers == 2
    assert packed(faults=["kill replica"]).scenario.mergers == 1


@pytest.mark.parametrize("count", [60, 6_000])
def test_rows_last_as_long_as_the_faults_do(count: int) -> None:
    scenario = packed(events=rows(count)).scenario
    last = max(each.at + (FAULTS[each.fault].lasts or 0) for each in scenario.faults)
    seconds = count / scenario.rate
    assert last < seconds < 3 * (last + scenario.calm_s + TAIL_S)


def test_rows_last_as_long_as_faults_at_random_do() -> None:
    drawn = Scenario("random", random=Random(count=10, faults=("kill replica",)))
    assert 6_000 / packed(events=rows(6_000), scenario=drawn).scenario.rate > 20


# -- packing --------------------------------------------------------------------------------------


def test_what_is_packed_is_the_query_and_all_its_rows_as_late_as_they_may_be() -> None:
    again: PackedDrill = pickle.loads(pickle.dumps(packed()))  # noqa: S301  # our own bytes
    source = again.sources["flows"]
    ticks = source.rows.column("ts").view(pa.int64()).to_numpy()
    late = np.maximum.accumulate(ticks) - ticks
    assert 0 < late.max() <= source.layout.lateness <= 2_000
    assert sorted(ticks.tolist()) == rows().column("ts").cast(pa.int64()).to_pylist()
    workload = again.workload({})
    assert workload.plans["plan0"].query.schema == counts.schema
    fed = workload.sources["flows"]
    assert [len(fed.rows(first, 40, 1)) for first in (0, 40, 80)] == [40, 20, 0]


def test_sources_of_different_sizes_end_at_the_same_time() -> None:
    other = gl.source("other", flows.schema.payload, time="ts", lateness="1s")
    both = flows.union(other)
    sources = packed(both, {"flows": rows(60), "other": rows(15)}).workload({}).sources
    assert sources["flows"].share == 1
    assert sources["other"].share == 0.25


# -- code -----------------------------------------------------------------------------------------


def named(*functions: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    return {f"{each.__module__}:{each.__qualname__}": each for each in functions}


def test_a_package_goes_as_its_folder_and_what_is_installed_stays() -> None:
    assert code_of(named(users.is_new), None) == Path(users.__file__).parents[1]
    assert code_of(named(np.mean), None) is None
    assert code_of({}, None) is None


def test_a_module_goes_as_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "made_for_this.py"
    file.write_text("def kept(x):\n    return x\n")
    monkeypatch.syspath_prepend(tmp_path)
    import made_for_this  # type: ignore[import-not-found]  # made above

    assert code_of(named(made_for_this.kept), None) == file
    with pytest.raises(Misuse, match="in several places"):
        code_of(named(made_for_this.kept, users.is_new), None)
    assert code_of(named(made_for_this.kept, users.is_new), tmp_path) == tmp_path
    del sys.modules["made_for_this"]


def test_a_function_that_no_process_could_import_is_refused_with_what_to_do() -> None:
    with pytest.raises(Misuse, match="at the top of a module"):
        drill(local_function(), rows())
    with pytest.raises(Misuse, match="something else than the query calls"):
        code_of({"tests.chaos.users:is_new": users.number}, None)
    with pytest.raises(Misuse, match="in the program that runs"):
        code_of({"__main__:is_new": users.is_new}, None)


def test_a_function_that_the_process_does_not_find_is_told_before_a_cluster_starts(
    tmp_path: Path,
) -> None:
    other = tmp_path / "other.py"
    other.write_text("")
    there = packed(memory, code=str(other))
    lost = replace(there, plans=_elsewhere(there.plans))
    said: list[str] = []
    with pytest.raises(
        JobError, match=r"cannot be played: .*no_such_module:is_new cannot be impor"
    ):
        run_packed(lost, tmp_path / "report", said.append)
    assert len(said) == 1
    assert not (tmp_path / "report").exists()


def _elsewhere(plans: Any) -> Any:
    """Documents that name a module which is nowhere."""
    if isinstance(plans, dict):
        return {key: _elsewhere(value) for key, value in plans.items()}
    if isinstance(plans, list | tuple):
        return [_elsewhere(value) for value in plans]
    return (
        plans.replace("tests.chaos.users:", "no_such_module:") if isinstance(plans, str) else plans
    )


# -- telling --------------------------------------------------------------------------------------


def outcome(*held: Requirement, problem: str = "", strikes: int = 1) -> Outcome:
    struck = Strike("kill replica", "r0.1", 1_500, None, "SIGKILL of r0.1/1.2")
    return Outcome(
        name="mine",
        about="",
        seed=7,
        began="",
        seconds=20,
        config={},
        versions={},
        strikes=(struck,) * strikes,
        held=held,
        judgement=("2 lost, 0 duplicated",),
        problem=problem,
    )


def test_what_did_not_hold_is_told_with_what_struck_and_where_the_report_is() -> None:
    good, bad = (
        Requirement("ends", "within 120 s", "it does", True),
        Requirement("nothing lost", "0", "2", False),
    )
    error = told_failure(outcome(good, bad), named_plans(memory, None), Path("drills/report.html"))
    assert isinstance(error, DrillFailed)
    assert error.report == Path("drills/report.html")
    assert str(error).splitlines() == [
        "mine (seed 7): 1 of 2 do not hold",
        "NOT  nothing lost: 2 (wanted: 0)",
        "what has struck:",
        "  1.5 s  kill replica: r0.1: SIGKILL of r0.1/1.2",
        "what the judges say:",
        "  2 lost, 0 duplicated",
        "what of the query may differ from replica to replica:",
        *(f"  {each}" for each in memory.properties.may_diverge),
        "the report, with the timeline: drills/report.html",
        "play it again with seed=7: the same faults, at the same times",
    ]


def test_a_drill_that_was_cut_short_says_why() -> None:
    good = Requirement("ends", "within 120 s", "it does", True)
    error = told_failure(
        outcome(good, problem="OSError: no space"), named_plans(counts, None), Path("r.html")
    )
    assert isinstance(error, DrillFailed)
    assert "it was cut short: OSError: no space" in str(error)


def test_a_cluster_that_does_not_come_up_is_no_failure_of_the_query() -> None:
    error = told_failure(
        outcome(problem="JobError: no raylet", strikes=0), named_plans(counts, None), Path("r.html")
    )
    assert isinstance(error, JobError)
    assert "could not be played: JobError: no raylet; `gapless doctor` says" in str(error)
