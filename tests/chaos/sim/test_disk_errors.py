"""Each error that a disk can raise is raised at each of its calls, and the job goes on."""

from __future__ import annotations

import pytest

from gapless.chaos.sim.disk import SimulatedDisk, View
from gapless.chaos.sim.disk_errors import (
    CALLS,
    CAN_BE,
    CANNOT_BE,
    ERRORS_MAX,
    KINDS,
    SHARE,
    Call,
    DiskError,
    Errors,
    FailingDisk,
    Kind,
    drawn,
)
from gapless.chaos.sim.simulator import run_seed
from gapless.journal.disk import Disk
from gapless.protocol.errors import JournalError

RAISED_WITHIN = 25
"""Seeds within which a run makes a call; most are made by the first."""
FROM_MS = (80, 250, 600)
"""Several in one run, so that rare calls, and those of a takeover, are among them."""


@pytest.mark.parametrize(("call", "kind"), CAN_BE)
def test_every_error_at_every_call_is_raised_in_some_run_and_the_job_goes_on(
    call: Call, kind: Kind
) -> None:
    errors = [DiskError(at, call, kind) for at in FROM_MS]
    for seed in range(RAISED_WITHIN):
        result = run_seed(seed, disk_errors=errors)
        assert result.ok, f"seed {seed}: {result.problem}"
        if result.disk_errors:
            return
    pytest.fail(f"in {RAISED_WITHIN} runs nothing raised {kind} at {call}: say why it cannot be")


def test_what_is_raised_and_what_cannot_be_are_all_calls_and_all_errors() -> None:
    assert set(CALLS) == {name for name in vars(Disk) if not name.startswith("_")}
    assert set(CAN_BE).isdisjoint(CANNOT_BE)
    assert {*CAN_BE, *CANNOT_BE} == {(call, kind) for call in CALLS for kind in KINDS}
    assert all(CANNOT_BE.values())


def test_a_small_share_of_the_runs_has_some_and_each_is_in_one_of_them() -> None:
    runs = [drawn(seed, 1_000) for seed in range(3_000)]
    assert 0.7 * SHARE < sum(map(bool, runs)) / len(runs) < 1.3 * SHARE
    assert max(map(len, runs)) == ERRORS_MAX
    assert {(error.call, error.kind) for errors in runs for error in errors} == set(CAN_BE)
    assert drawn(7, 1_000) == drawn(7, 1_000)


def failing(*errors: DiskError) -> tuple[SimulatedDisk, View, list[str]]:
    """A disk at 100 ms, how processes see a folder of it, and what the world is told."""
    disk, told = SimulatedDisk(), list[str]()
    before = FailingDisk(disk, Errors(errors, lambda: 100, lambda _, name: told.append(name)))
    return disk, View(before, "job"), told


def test_one_call_fails_from_its_time_on_and_the_next_one_does_not() -> None:
    disk, view, told = failing(DiskError(100, "append", "ENOSPC"), DiskError(101, "sync", "EIO"))
    with pytest.raises(OSError, match="no room for append"):
        view.append("a", b"12")
    assert view.append("a", b"34") == 2
    view.sync("a")
    assert disk.read("job/a", 0, 9) == b"34"
    assert told == ["job/a"]


def test_of_an_append_that_cannot_be_taken_back_a_part_is_left() -> None:
    disk, view, _ = failing(DiskError(0, "append", "JournalError"))
    with pytest.raises(JournalError, match="cannot be cut off"):
        view.append("a", b"1234")
    assert disk.read("job/a", 0, 9) == b"12"
