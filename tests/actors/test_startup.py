"""A launch waits as long as something goes on, and no longer; then every slot has a process."""

from __future__ import annotations

import pytest

from gapless.actors.startup import FAILURES_MAX, FILL_S, STALL_S, Startup
from gapless.failover.job.desired import Desired
from gapless.failover.job.state import JobState, SlotState
from gapless.failover.messages import Life
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import JobError

DESIRED = Desired(2, ("p",), mergers=1)
SLOTS = ("m0.0", "r0.0", "r0.1")
UP = dict.fromkeys(SLOTS, "running")


def life(slot: str) -> Life:
    return Life(slot, Incarnation(1, 1))


def state(states: dict[str, str], failures: dict[str, int] | None = None) -> JobState:
    slots = tuple(
        SlotState(
            slot,
            states.get(slot, "empty"),
            None,
            "",
            "p",
            "",
            None,
            failures=(failures or {}).get(slot, 0),
            last_failure="it raised" if failures and slot in failures else "",
        )
        for slot in SLOTS
    )
    return JobState(1, False, "running", "", (("m0.0",),), slots)


class Launch:
    """Looks at one job."""

    def __init__(self) -> None:
        self.coming = Startup("talkers", 0.0)

    def is_up(
        self,
        at_s: float,
        states: dict[str, str],
        hosts: tuple[str, ...] = (),
        failures: dict[str, int] | None = None,
    ) -> bool:
        lives = [life(slot) for slot in hosts]
        return self.coming.is_up(state(states, failures), DESIRED, lives, at_s)


def test_it_is_up_once_it_answers_and_every_slot_has_a_process() -> None:
    launch = Launch()
    assert not launch.is_up(1, {})
    assert not launch.is_up(2, {"m0.0": "running", "r0.0": "joining"}, ("m0.0", "r0.0"))
    answers = {"m0.0": "running", "r0.0": "running", "r0.1": "starting"}
    assert not launch.is_up(3, answers, ("m0.0", "r0.0"))
    assert launch.is_up(4, answers, SLOTS)


def test_a_slow_machine_is_waited_for_as_long_as_any_slot_gets_farther() -> None:
    launch = Launch()
    at = 0.0
    for states in (
        {"m0.0": "starting"},
        {"m0.0": "starting", "r0.0": "starting"},
        {"m0.0": "joining", "r0.0": "starting"},
        {"m0.0": "running", "r0.0": "starting"},
        {"m0.0": "running", "r0.0": "joining"},
    ):
        at += STALL_S - 1
        assert not launch.is_up(at, states)
    assert launch.is_up(at + STALL_S - 1, UP, SLOTS)


def test_lives_that_come_and_go_are_no_progress() -> None:
    launch = Launch()
    assert not launch.is_up(1, {"m0.0": "running", "r0.0": "starting"})
    for at in range(2, int(STALL_S)):
        assert not launch.is_up(at, {"m0.0": "running", "r0.0": "starting" if at % 2 else "empty"})
    with pytest.raises(JobError, match=r"talkers does not come up: r0\.0 empty"):
        launch.is_up(STALL_S + 1, {"m0.0": "running"})


def test_it_is_given_up_at_once_where_all_that_could_answer_fail() -> None:
    launch = Launch()
    one = {"r0.0": FAILURES_MAX, "r0.1": FAILURES_MAX - 1}
    assert not launch.is_up(1, {"m0.0": "running"}, (), one)
    with pytest.raises(JobError, match=r"r0\.0 empty: it raised; r0\.1 empty: it raised"):
        launch.is_up(2, {"m0.0": "running"}, (), dict.fromkeys(("r0.0", "r0.1"), FAILURES_MAX))
    with pytest.raises(JobError, match="it raised"):
        launch.is_up(3, {"m0.0": "running", "r0.0": "failed"}, (), {"r0.0": 1, "r0.1": 3})


def test_a_slot_that_fails_or_takes_for_ever_keeps_nobody_who_is_answered() -> None:
    answers = {"m0.0": "running", "r0.0": "running"}
    assert Launch().is_up(1, answers, ("m0.0", "r0.0"), {"r0.1": 1})
    launch = Launch()
    assert not launch.is_up(1, answers, ("m0.0", "r0.0"))
    assert launch.is_up(1 + FILL_S, answers, ("m0.0", "r0.0"))
