import pytest

from gapless.chaos.planted.builds import BROKEN_BUILDS
from gapless.chaos.sim.seed_runs import run_one

CAUGHT_WITHIN = 500
"""Seeds until a planted fault is found; most are found within ten."""

BY_A_MACHINE = None
"""A machine's own check has raised, and no checker."""
OUTPUT: set[str | None] = {"prefix", "table", "final", "cut", "stable", "inputs"}
"""What goes wrong with what is put out shows in one of these first."""
STANDSTILL: set[str | None] = {"progress", "converge", "silence"}
FITTING: dict[str, set[str | None]] = {
    "holds merged for durable": {"feedback"},
    "settles more than is durable": {"feedback"},
    "trims what has arrived": {"feedback"},
    "trims by the fastest": {"feedback"},
    "heeds the fastest": {"feedback"},
    "fences nobody": {"incarnation"},
    "lets the fenced in": {"incarnation"},
    "obeys anybody": {"incarnation"},
    "writes past the cut": {"incarnation"},
    "looks before it writes": {"incarnation"},
    "tries again when fenced": {BY_A_MACHINE, "incarnation"},
    "counts nobody": {"incarnation"},
    "promotes at once": {"redundancy"},
    "unassigns the last": {BY_A_MACHINE},
    "shows what is not durable": {"cut"},
    "syncs nothing": {"cut"},
    "cuts a drain one row off": {"drain"},
    "gives what is skipped": {BY_A_MACHINE},
    "takes a failed checkpoint for written": {"checkpoint"},
    "acts beyond its term": STANDSTILL,
    "gives again": {"final"},
    "gives too early": {"final"},
    "snapshots ahead of its state": OUTPUT | STANDSTILL,  # it may be ahead of its sources, too
    "stops in silence": {"silence"},
    "does not backfill": STANDSTILL,
    "says only the last again": STANDSTILL,
    "does not attach again": STANDSTILL,
    "asks once": STANDSTILL,
}
"""Which checker has to find it; where nothing is said, some checker of the output."""


SEEN_IN: dict[str, tuple[str | None, int]] = {
    "reuses offsets": ("early", 1001),
    "takes a failed checkpoint for written": (None, 197),
    "cuts a drain one row off": (None, 119),
    "snapshots ahead of its state": (None, 74),
    "writes past the cut": (None, 65),
    "looks before it writes": (None, 52),
    "does not hold": (None, 49),
    "lets the fenced in": (None, 39),
    "unassigns the last": (None, 33),
    "disowns its links": (None, 32),
    "obeys anybody": (None, 24),
    "takes over too far back": (None, 14),
    "acts beyond its term": (None, 14),
    "makes empty bases": (None, 14),
    "no join gate": (None, 13),
    "does not backfill": (None, 13),
    "claims to know all": (None, 13),
    "says only the last again": (None, 13),
}
"""In which workload a fault shows, None where in any, and from which seed on it is looked for: one
that shows it today, so that nobody waits for the seeds before. A seed that has gone stale costs
time and nothing else: the search goes on from it. Two
mergers have as many rows at one stable unless they have revised them in other ways: then an offset
of the one is another place in the other. A writer behind its cut is often stopped by its journal
at the next write: what it says in between is what is wrong, and is said only where time passes
between the two."""


SLOW = {"reuses offsets"}
"""Seen after some hundred schedules."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in BROKEN_BUILDS],
)
def test_a_planted_fault_is_caught_by_who_should_see_it(name: str) -> None:
    """On a seed that production passes."""
    workload, first = SEEN_IN.get(name, (None, 0))
    for seed in range(first, first + CAUGHT_WITHIN):
        result = run_one(seed, name, workload)
        if result.ok:
            continue
        assert result.checker in FITTING.get(name, OUTPUT), f"seed {seed}: {result.problem}"
        assert run_one(seed, None, workload).ok
        return
    pytest.fail(f"{CAUGHT_WITHIN} seeds have passed")


def test_every_build_has_one_machine_of_its_own_with_its_fault_described() -> None:
    assert len(BROKEN_BUILDS) >= 18
    assert set(FITTING) <= set(BROKEN_BUILDS)
    for name, build in BROKEN_BUILDS.items():
        planted = {
            machine
            for machine in (getattr(build, part) for part in build.__slots__)
            if machine.__module__.startswith("gapless.chaos.planted")
        }
        assert len(planted) == 1, name
        assert all(machine.__doc__ for machine in planted), name
