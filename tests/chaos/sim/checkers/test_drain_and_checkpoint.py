"""What was there when a drain was ordered is read, and what is said to be stored is there."""

from __future__ import annotations

from gapless.chaos.judge.history import CheckpointStored, Drained, History, Verdict
from gapless.chaos.sim.checkers.checkpoint import CheckpointsAreThere
from gapless.chaos.sim.checkers.drain import DrainsWhole
from tests.chaos.sim.checkers.small import catches, life, world

R = life("r0.0")


def test_a_replica_that_has_read_all_that_was_there_has_drained() -> None:
    checker = DrainsWhole()
    assert checker.verdict(world("")) is Verdict.UNKNOWN
    History([checker]).say(10, Drained(R, {"flows": 0, "dhcp": 0}))
    assert checker.verdict(world("")) is Verdict.HOLDS


def test_one_that_has_left_a_row_of_any_source_has_not() -> None:
    with catches("has not read 1 rows of dhcp"):
        History([DrainsWhole()]).say(10, Drained(R, {"flows": 0, "dhcp": 1}))


def test_a_checkpoint_that_is_there_may_be_said_to_be_written_and_no_other() -> None:
    checker = CheckpointsAreThere()
    assert checker.verdict(world("")) is Verdict.UNKNOWN
    History([checker]).say(10, CheckpointStored(R, "0-a-1-1", 400))
    assert checker.verdict(world("")) is Verdict.HOLDS
    with catches("0-a-1-2 is written: it is not"):
        History([checker]).say(10, CheckpointStored(R, "0-a-1-2", 0))
