"""`gapless chaos sim`: what is run, what is reported, and how it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from gapless.chaos.planted.builds import BROKEN_BUILDS
from gapless.chaos.sim.simulator import SimResult
from gapless.chaos.sim.workloads.all import WORKLOADS
from gapless.commands.chaos import SEEDS
from gapless.commands.seed_report import FAILURES_SHOWN_MAX
from tests.gapless.command import Gapless

Named = str | None


def told(seed: int, problem: str | None, faults: int = 6) -> SimResult:
    """What a simulator might say of a seed."""
    return SimResult(
        seed,
        workload="w1",
        ok=problem is None,
        steps=10 if problem is None else 2,
        frames=300,
        faults=faults,
        told_faults=[f"fault {number}" for number in range(faults)],
        problem=problem,
        checker=None if problem is None else "table",
        verdicts={} if problem is not None else {"table": "holds", "stable": "unknown"},
        causes=[] if problem is None else ["it began", "it went wrong"],
        trace=[f"step 1 of {seed}", f"step 2 of {seed}"],
    )


@pytest.fixture
def simulator(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[tuple[Named, Named]]]:
    """Puts a simulator in place whose given seeds fail, from their second fault on; what it was
    asked for is noted: broken build and workload.
    """

    def install(*failing: int) -> list[tuple[Named, Named]]:
        asked: list[tuple[Named, Named]] = []

        def run_one(
            seed: int,
            broken: Named = None,
            workload: Named = None,
            *,
            faults_max: int | None = None,
            traced: bool = False,  # noqa: ARG001  # a trace costs nothing here
        ) -> SimResult:
            asked.append((broken, workload))
            faults = 6 if faults_max is None else faults_max
            is_lost = seed in failing and faults >= 2
            return told(seed, f"seed {seed} lost a row\nits table" if is_lost else None, faults)

        def run_many(
            seeds: Sequence[int],
            broken: Named,
            workload: Named,
            jobs: int,  # noqa: ARG001  # the form of the real one
        ) -> Iterator[SimResult]:
            return (run_one(seed, broken, workload) for seed in seeds)

        monkeypatch.setattr("gapless.chaos.sim.seed_runs.run_one", run_one)
        monkeypatch.setattr("gapless.chaos.sim.seed_runs.run_many", run_many)
        monkeypatch.setattr("gapless.chaos.sim.shrinker.run_one", run_one)
        return asked

    return install


def test_clean_seeds_are_summed_up(gapless: Gapless, simulator: Callable[..., object]) -> None:
    simulator()
    outcome = gapless("chaos", "sim", "--seeds", "7")
    assert outcome.code == 0
    assert [line.split() for line in outcome.out.splitlines()[:2]] == [
        ["table", "holds", "7"],
        ["stable", "unknown", "7"],
    ]
    last = outcome.out.splitlines()[-1]
    assert last.startswith("seeds 7, steps 70, frames 2100, faults 42, failures 0, seconds ")
    assert f"seeds {SEEDS}, " in gapless("chaos", "sim").out


def test_a_failing_seed_is_told_with_its_fewest_faults_its_causes_and_how_to_replay_it(
    gapless: Gapless, simulator: Callable[..., object]
) -> None:
    simulator(3)
    outcome = gapless("chaos", "sim", "--seeds", "5")
    assert outcome.code == 1
    assert outcome.out.splitlines()[:12] == [
        "seed 3 (w1) fails:",
        "seed 3 lost a row",
        "its table",
        "it fails with the first 2 of its 6 faults:",
        "  fault 0",
        "  fault 1",
        "seed 3 lost a row",
        "its table",
        "because:",
        "  it began",
        "  it went wrong",
        "replay it: gapless chaos sim --seed 3 --trace",
    ]
    assert "seeds 5, steps 42, frames 1500, faults 30, failures 1, " in outcome.out


def test_of_many_failures_all_can_be_replayed_and_the_first_are_told(
    gapless: Gapless, simulator: Callable[..., object]
) -> None:
    simulator(*range(20))
    out = gapless("chaos", "sim", "--seeds", "20").out
    assert out.count("replay it: ") == 20
    assert out.count(" fails:") == FAILURES_SHOWN_MAX


def test_seeds_go_on_from_the_one_that_is_given(
    gapless: Gapless, simulator: Callable[..., object]
) -> None:
    simulator(12)
    assert gapless("chaos", "sim", "--seeds", "10").code == 0
    found = gapless("chaos", "sim", "--seed", "10", "--seeds", "3", "--json").document
    assert [failed["seed"] for failed in found["failed"]] == [12]


def test_one_seed_prints_its_trace_when_asked(
    gapless: Gapless, simulator: Callable[..., object]
) -> None:
    simulator()
    assert "step 1 of 4" not in gapless("chaos", "sim", "--seed", "4").out
    assert "step 1 of 4\nstep 2 of 4\n" in gapless("chaos", "sim", "--seed", "4", "--trace").out


@pytest.mark.parametrize(("option", "names"), [("broken", BROKEN_BUILDS), ("workload", WORKLOADS)])
def test_builds_and_workloads_are_listed_and_named_without_quotes(
    option: str,
    names: Sequence[str],
    gapless: Gapless,
    simulator: Callable[..., list[tuple[Named, Named]]],
) -> None:
    asked = simulator(0)
    listed = gapless("chaos", "sim", f"--{option}", "list").out.split()
    assert len(listed) == len(names)
    chosen = next(name for name in names if " " in name)
    out = gapless("chaos", "sim", "--seed", "0", f"--{option}", chosen.replace(" ", "-")).out
    assert {pair[option == "workload"] for pair in asked} == {chosen}
    assert f"replay it: gapless chaos sim --seed 0 --{option} {chosen.replace(' ', '-')}" in out
    unknown = gapless("chaos", "sim", f"--{option}", "no")
    assert unknown.code == 2
    assert listed[-1] in unknown.err.replace("\n", "")


def test_the_simulation_as_json(gapless: Gapless, simulator: Callable[..., object]) -> None:
    simulator(1)
    document = gapless("chaos", "sim", "--seeds", "2", "--json").document
    assert (document["seeds"], document["steps"], document["failures"]) == (2, 12, 1)
    assert (document["frames_least"], document["faults_least"]) == (300, 6)
    assert document["verdicts"] == {"table": {"holds": 1}, "stable": {"unknown": 1}}
    (failed,) = document["failed"]
    assert failed["replay"] == "gapless chaos sim --seed 1"
    assert failed["checker"] == "table"
    assert failed["causes"] == ["it began", "it went wrong"]
    assert "trace" not in document
    alone = gapless("chaos", "sim", "--seed", "1", "--json", "--trace").document
    assert alone["trace"] == ["step 1 of 1", "step 2 of 1"]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_the_real_simulator_is_reached_by_one_process_or_several(
    jobs: str, gapless: Gapless
) -> None:
    outcome = gapless("chaos", "sim", "--seeds", "2", "--jobs", jobs, "--json")
    assert outcome.code == 0, outcome
    assert outcome.document["seeds"] == 2
    assert outcome.document["frames_least"] >= 300
    assert outcome.document["faults_least"] >= 1


def test_a_broken_build_fails_and_its_failure_replays(gapless: Gapless) -> None:
    found = gapless("chaos", "sim", "--seed", "0", "--broken", "trims-by-the-fastest")
    assert found.code == 1
    replay = found.out.partition("replay it: gapless ")[2].splitlines()[0].split()
    assert replay[-3:] == ["--broken", "trims-by-the-fastest", "--trace"]
    assert gapless(*replay).code == 1
    assert gapless("chaos", "sim", "--seed", "0").code == 0, "production passes the same seed"
