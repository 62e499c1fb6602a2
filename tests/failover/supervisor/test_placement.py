"""Where lives go, how often they are tried, and which checkpoints are kept."""

from __future__ import annotations

import random

import pytest

from gapless.failover.backoff import FAILURES_MAX, Backoff
from gapless.failover.job.desired import slot
from gapless.failover.messages import Life
from gapless.failover.statuses import CheckpointTaken
from gapless.failover.supervisor.adoption import named
from gapless.failover.supervisor.checkpoint_policy import CheckpointInfo, Checkpoints, taker
from gapless.failover.supervisor.placement import Placed, place
from gapless.failover.timing import Timing
from gapless.protocol.elements import BEGIN
from gapless.protocol.envelope import Incarnation

TIMING = Timing()
KIND = (0, "p")
LIFE = Life("r0.1", Incarnation(1, 2))


# -- placing ----------------------------------------------------------------------------------


def test_lives_that_replace_each_other_go_to_different_nodes() -> None:
    lives = [Placed("r", 0, "n1"), Placed("m", 0, "n2"), Placed("m", 0, "n2")]
    assert place("r", 0, ["n1", "n2"], lives) == "n2"
    assert place("m", 0, ["n1", "n2"], lives) == "n1"


def test_nodes_that_are_alike_share_the_load_and_names_decide_at_last() -> None:
    assert place("r", 0, ["n2", "n1"], [Placed("r", 1, "n1")]) == "n2"
    assert place("r", 0, ["n2", "n1"], []) == "n1"


def test_no_node_is_no_place_and_an_unknown_node_is_in_nobodys_way() -> None:
    assert place("r", 0, [], []) is None
    assert place("r", 0, ["n1"], [Placed("r", 0, ""), Placed("r", 0, "gone")]) == "n1"


@pytest.mark.parametrize("seed", range(20))
def test_no_node_has_two_more_of_a_kind_than_another_whatever_is_started(seed: int) -> None:
    rng = random.Random(seed)
    nodes = [f"n{i}" for i in range(rng.randint(1, 5))]
    lives: list[Placed] = []
    for _ in range(40):
        role, shard = rng.choice("rm"), rng.randrange(3)
        node = place(role, shard, nodes, lives)
        assert node is not None
        lives.append(Placed(role, shard, node))
        counts = [sum(x == Placed(role, shard, n) for x in lives) for n in nodes]
        assert max(counts) - min(counts) <= 1


# -- back-off ---------------------------------------------------------------------------------


def test_waits_double_up_to_the_bound_and_begin_anew_after_a_steady_life() -> None:
    backoff, now, waits = Backoff(TIMING), 0, []
    assert backoff.allows(0)
    for _ in range(FAILURES_MAX):
        backoff.failed(now, 5)
        began = now
        while not backoff.allows(now):
            now += 100
        waits.append(now - began)
    assert waits == [200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000]
    assert backoff.is_spent
    backoff.failed(now, TIMING.steady_ms)
    assert backoff.allows(now + TIMING.backoff_ms)
    assert not backoff.is_spent


def test_a_life_that_got_farther_than_those_before_it_was_no_failure() -> None:
    backoff = Backoff(TIMING)
    for reached in range(10, 10 + 2 * FAILURES_MAX):  # killed again and again, and each does more
        backoff.failed(0, 5, reached)
        assert backoff.failures == 1
    for failures in range(2, FAILURES_MAX + 1):  # all of them die at one row
        backoff.failed(0, 5, 9 + 2 * FAILURES_MAX)
        assert backoff.failures == failures
    assert backoff.is_spent


# -- checkpoints ------------------------------------------------------------------------------


def taken(name: str, join_at: int, reason: str = "") -> CheckpointTaken:
    return CheckpointTaken(LIFE, name, "p", join_at, reason)


def test_the_newest_two_are_kept_and_one_that_joins_in_time() -> None:
    known = [CheckpointInfo(f"0-p-1-{i}", 0, "p", 10 * i) for i in range(1, 7)]
    checkpoints = Checkpoints(2, known, 100)
    assert checkpoints.drop([KIND], {0: 25}, []) == ["0-p-1-1", "0-p-1-3", "0-p-1-4"]
    assert checkpoints.newest(KIND, 25) == known[1]
    assert checkpoints.newest(KIND, BEGIN) is None


def test_one_that_a_life_may_be_reading_is_not_dropped_nor_is_any_of_a_plan_that_runs() -> None:
    known = [CheckpointInfo(f"0-p-1-{i}", 0, "p", i) for i in range(4)]
    checkpoints = Checkpoints(2, known, 100)
    assert checkpoints.drop([KIND], {0: 99}, ["0-p-1-0"]) == ["0-p-1-1"]
    assert checkpoints.drop([(0, "q")], {0: 99}, []) == ["0-p-1-0", "0-p-1-2", "0-p-1-3"]


def test_one_whose_answer_was_lost_is_dropped_with_the_next_and_when_it_comes_late() -> None:
    checkpoints = Checkpoints(3, [], 100)
    first, second = checkpoints.ask(KIND, 0), checkpoints.ask(KIND, 100)
    assert checkpoints.taken(0, taken(second, 7)) == [first]
    assert checkpoints.taken(0, taken(second, 7)) == []
    assert checkpoints.taken(0, taken(first, 5)) == [first]
    assert checkpoints.names() == [second]


def test_one_that_could_not_be_written_is_not_kept() -> None:
    checkpoints = Checkpoints(3, [], 100)
    assert checkpoints.taken(0, taken(checkpoints.ask(KIND, 0), 7, "the disk is full")) == []
    assert checkpoints.names() == []


def test_who_leads_is_asked_only_where_there_is_no_other() -> None:
    other = Life("r0.2", Incarnation(1, 3))
    assert taker({LIFE: 9, other: 5}, LIFE) == other
    assert taker({LIFE: 9}, LIFE) == LIFE
    assert taker({}, None) is None


# -- names of slots ---------------------------------------------------------------------------


def test_the_name_of_a_slot_is_read_as_it_was_made() -> None:
    for role, shard, number in (("r", 0, 2), ("m", 1023, 1), ("r", 7, 63)):
        assert named(slot(role, shard, number)) == (role, shard, number)  # type: ignore[arg-type]  # parametrised by text
    for text in ("", "r", "r0", "x0.0", "r00.1", "r0.01", "r0.1 ", "r-1.0"):
        assert named(text) is None
