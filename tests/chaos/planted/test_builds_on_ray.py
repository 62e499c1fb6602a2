"""Deliberately broken builds are caught on a real cluster, too: a scenario each finds one out.

    takes frames twice   double-frames-without-a-key   --> 3270 of 8833 rows are there too often

A build is one of chaos/planted/builds.py; it runs in every process of the job, and in the observer.
The product itself passes the very same scenarios, which a test for each holds: so what is caught is
the planted fault.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from gapless.chaos.drill.drill_process import Wanted, run_apart
from gapless.chaos.drill.faults.all import FAULTS
from gapless.chaos.drill.outcome import Outcome
from gapless.chaos.drill.scenario import loaded
from gapless.chaos.planted.builds import BROKEN_BUILDS

pytestmark = [pytest.mark.ray, pytest.mark.cluster]

NOT_BY = "pauses"
"""Not what a build may be caught by: a slow machine has long pauses, too."""


@dataclass(frozen=True)
class Pair:
    """A build, a scenario that ships, and by what it finds the build out."""

    build: str
    scenario: str
    by: str
    """What does not hold then, by its name in the outcome."""


CHECKPOINTS = "kill-all-replicas-with-checkpoints"
PAIRS = (
    Pair("skips gaps", "lose-frames", by="nothing lost"),
    Pair("takes frames twice", "double-frames-without-a-key", by="nothing duplicated"),
    Pair("forgets its tail", "kill-merger", by="nothing lost"),
    Pair("takes over too far back", CHECKPOINTS, by="nothing contradicting"),
    Pair("snapshots ahead of its state", CHECKPOINTS, by="nothing contradicting"),
    Pair("gives again", "lose-gcs", by="nothing duplicated"),
    Pair("loses what the disk refuses", "fill-disk", by="nothing lost"),
)
"""Those that are played. Each is found out at whatever pace a machine has: rows are lost or wrong
for as long as the fault lasts, not in one moment.
"""
SCENARIOS = tuple(dict.fromkeys(pair.scenario for pair in PAIRS))


def play(scenario: str, folder: Path, broken: str | None) -> Outcome:
    for kind in loaded(scenario).kinds():
        if why := FAULTS[kind].why_not():
            pytest.skip(why)
    return run_apart(Wanted(scenario, str(folder), broken=broken), lambda _: None)


def not_held(outcome: Outcome) -> dict[str, str]:
    return {held.name: str(held) for held in outcome.held if not held.ok and held.name != NOT_BY}


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.build)
def test_a_broken_build_is_caught_on_a_real_cluster(pair: Pair, tmp_path: Path) -> None:
    assert pair.build in BROKEN_BUILDS
    outcome = play(pair.scenario, tmp_path / "report", pair.build)
    caught = not_held(outcome)
    assert pair.by in caught, f"{outcome.problem}\n{caught}"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_product_passes_what_catches_them(scenario: str, tmp_path: Path) -> None:
    outcome = play(scenario, tmp_path / "report", None)
    assert [outcome.problem, *not_held(outcome).values()] == [""]
