"""Which lives are suspected, of what, and when that is over."""

from __future__ import annotations

import pytest

from gapless.failover.messages import Life
from gapless.failover.statuses import MergerStatus, ReplicaStatus
from gapless.failover.supervisor import failure_detector as detector
from gapless.failover.supervisor.divergence import DIVERGES
from gapless.failover.supervisor.failure_detector import (
    BEHIND,
    LAG_FACTOR,
    SILENT,
    UNATTACHED,
    has_recovered,
    is_silent,
    suspicion,
)
from gapless.failover.supervisor.slots import Known, LifeState, Shard, Slot
from gapless.failover.timing import Timing
from gapless.protocol.elements import INF
from gapless.protocol.envelope import Incarnation

TIMING = Timing(
    heartbeat_ms=100,
    hang_ms=400,
    hang_max_ms=3_000,
    join_ms=1_000,
    busy_ms=8_000,
    lag_ms=1_000,
    start_ms=5_000,
)


def known(state: LifeState = "running", began_at: int = 0) -> Known:
    life = Life("r0.0", Incarnation(1, 1))
    return Known(life, "p", began_at, state=state)


def shard(best: int = 0, best_at: int = 0) -> Shard:
    return Shard(0, 1, best=best, best_at=best_at)


def status(stable: int, parts_left: int = 0, held_at: int = INF) -> ReplicaStatus:
    life = known().life
    return ReplicaStatus(life, "p", 0, stable, 1, 0, False, False, held_at, parts_left=parts_left)


# -- silence --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "after_ms"), [("starting", 5_000), ("joining", 1_000), ("running", 400)]
)
def test_a_life_may_be_silent_for_as_long_as_its_state_takes(
    state: LifeState, after_ms: int
) -> None:
    life = known(state)
    assert not is_silent(life, after_ms - 1, TIMING)
    assert is_silent(life, after_ms, TIMING)


def test_a_life_that_starts_is_timed_from_its_start_whatever_was_heard() -> None:
    life = known("starting")
    life.heard_at = 4_999
    assert is_silent(life, 5_000, TIMING)


def test_a_busy_life_is_timed_from_when_it_became_busy() -> None:
    life = known()
    detector.heard(life, "reads a checkpoint", 1_000)
    for now in range(1_000, 9_000, 500):  # its heart beats beside its work
        assert not is_silent(life, now, TIMING)
        detector.heard(life, "reads a checkpoint", now)
    assert is_silent(life, 9_000, TIMING)


def test_a_busy_life_whose_heart_stops_is_not_waited_for_until_its_work_should_be_done() -> None:
    life = known()
    detector.heard(life, "reads a checkpoint", 1_000)
    assert not is_silent(life, 1_000 + TIMING.hang_max_ms - 1, TIMING)
    assert is_silent(life, 1_000 + TIMING.hang_max_ms, TIMING)


def test_a_life_whose_heartbeats_come_irregularly_may_be_silent_for_longer() -> None:
    life, now = known(), 0
    for gap in (100, 500, 100, 500, 100, 500):
        now += gap
        detector.heard(life, "", now)
    assert not is_silent(life, now + TIMING.hang_ms, TIMING)
    assert is_silent(life, now + TIMING.hang_max_ms, TIMING)


def test_a_gap_of_a_busy_life_teaches_nothing_about_its_heartbeats() -> None:
    life = known()
    for now in (100, 200, 300):
        detector.heard(life, "", now)
    detector.heard(life, "works", 400)
    detector.heard(life, "", 3_000)
    assert life.busy == ""
    assert is_silent(life, 3_000 + TIMING.hang_ms, TIMING)


def test_on_strained_machines_only_the_longest_silence_counts() -> None:
    life, far = known(), shard(best=INF)
    life.mark = 9
    assert suspicion(life, far, TIMING.hang_max_ms - 1, TIMING, strained=True) == ""
    assert suspicion(life, far, TIMING.hang_max_ms, TIMING, strained=True) == SILENT


# -- being behind ---------------------------------------------------------------------------------


def test_a_life_that_does_not_advance_where_others_do_is_behind_after_lag_ms() -> None:
    life, own = known(), shard()
    detector.progress(life, status(10), own, 0)
    other = known()
    detector.progress(other, status(20), own, 0)
    detector.progress(life, status(11), own, 10)  # its mark is now where the best was: 20
    detector.progress(other, status(30), own, 900)
    life.heard_at = 1_011
    assert suspicion(life, own, 1_010, TIMING) == ""
    assert suspicion(life, own, 1_011, TIMING) == BEHIND


def test_nobody_is_behind_while_the_sources_pause() -> None:
    """One may be a few rows ahead for long: nobody moves on."""
    life, own = known(), shard(best=20, best_at=10)
    life.stable, life.mark, life.mark_at = 11, 20, 10
    life.heard_at = 60_000
    assert suspicion(life, own, 60_000, TIMING) == ""
    own.best = INF
    assert suspicion(life, own, 60_000, TIMING) == BEHIND, "all others are at the end"


def test_a_life_that_has_reached_its_mark_is_not_behind_however_far_others_are() -> None:
    life, own = known(), shard(best=INF)
    life.stable = life.mark = 20
    life.heard_at = 60_000
    assert suspicion(life, own, 60_000, TIMING) == ""


def test_a_large_tail_that_goes_out_in_parts_excuses_a_life_that_does_not_advance() -> None:
    life, own = known(), shard()
    detector.progress(life, status(1, parts_left=9), own, 0)
    own.best = INF
    life.mark = 5
    detector.progress(life, status(1, parts_left=8), own, 2_000)
    assert life.mark_at == 2_000
    detector.progress(life, status(1, parts_left=8), own, 3_000)
    assert life.mark_at == 2_000, "nothing was sent"


def test_a_life_with_long_steps_has_as_long_for_the_next_but_not_for_ever() -> None:
    life, own = known(), shard()
    for number, now in enumerate((1_000, 4_000, 13_000, 16_000, 25_000), 1):
        detector.progress(life, status(number), own, now)
    own.best = INF
    life.mark = 99
    last = 25_000 + LAG_FACTOR * TIMING.lag_ms
    life.heard_at = life.attached_at = last
    assert suspicion(life, own, last, TIMING) == ""
    assert suspicion(life, own, last + 1, TIMING) == BEHIND


def test_a_replica_that_is_held_is_measured_by_what_it_may_promise() -> None:
    life, own = known(), shard(best=90)
    life.mark, life.stable = 50, 30
    detector.progress(life, status(30, held_at=30), own, 7_000)
    assert (life.mark, life.mark_at) == (90, 7_000)


def test_slow_steps_alone_are_no_recovery_from_being_behind() -> None:
    life, own = known(), shard(best=90)
    life.suspicion, life.mark, life.stable = BEHIND, 50, 30
    detector.progress(life, status(40), own, 100)
    assert life.mark == 50
    life.heard_at = 100
    assert not has_recovered(life, 100, TIMING)
    detector.progress(life, status(50), own, 200)
    assert has_recovered(life, 200, TIMING)


# -- attached nowhere -----------------------------------------------------------------------------


def with_merger(acting: bool, began_at: int = 0) -> Shard:
    own = shard()
    slot = Slot("m", 0, 0, 0, TIMING)
    merger = Known(Life("m0.0", Incarnation(1, 1)), "", began_at, state="running")
    merger.acting = frozenset({Life("r0.1", Incarnation(1, 1))} if acting else ())
    slot.fill(merger)
    own.mergers["m0.0"] = slot
    own.assigned = ("m0.0",)
    return own


def test_a_replica_that_no_merger_has_while_they_have_others_is_unattached_after_lag_ms() -> None:
    life = known()
    life.heard_at = 2_000
    assert suspicion(life, with_merger(acting=True), 2_000, TIMING) == UNATTACHED
    assert suspicion(life, with_merger(acting=False), 2_000, TIMING) == ""
    young = with_merger(acting=True, began_at=1_500)
    assert suspicion(life, young, 2_000, TIMING) == "", "the merger is young itself"
    life.attached_at = 1_000
    assert suspicion(life, with_merger(acting=True), 2_000, TIMING) == ""


def test_an_unattached_replica_recovers_once_a_merger_has_it() -> None:
    life = known("suspected")
    life.suspicion, life.heard_at = UNATTACHED, 5_000
    assert not has_recovered(life, 5_000, TIMING)
    life.attached_at = 4_900
    assert has_recovered(life, 5_000, TIMING)


# -- recovery -------------------------------------------------------------------------------------


def test_a_silent_life_recovers_when_it_speaks_and_one_that_diverges_never() -> None:
    life = known("suspected")
    life.suspicion = SILENT
    assert not has_recovered(life, 5_000, TIMING)
    life.heard_at = 5_000
    assert has_recovered(life, 5_000, TIMING)
    life.suspicion = DIVERGES
    assert not has_recovered(life, 5_000, TIMING)


def test_what_the_supervisor_slept_through_was_nobodys_silence() -> None:
    own, slot, life = shard(best_at=100), Slot("r", 0, 0, 0, TIMING), known()
    slot.fill(life)
    own.replicas["r0.0"] = slot
    detector.forgive(own, 10_000, 10_100)
    assert not is_silent(life, 10_100, TIMING)
    assert (own.best_at, slot.heard_at, life.mark_at, life.attached_at) == (
        10_100,
        10_000,
        10_000,
        10_000,
    )
    detector.forgive(own, 10_000, 10_200)
    assert life.heard_at == 10_200, "nothing lies in the future"


# -- mergers --------------------------------------------------------------------------------------


def test_a_merger_has_longer_until_it_lets_a_replica_act_first() -> None:
    merger = Known(Life("m0.0", Incarnation(1, 1)), "", 0, state="running")
    told = MergerStatus(merger.life, 1, 9, 9, (), None, 0, False)
    merger.merger = told
    assert not is_silent(merger, TIMING.hang_ms, TIMING)
    detector.output_progress(merger, None, told, 50)
    assert (merger.advanced_at, merger.qualified_ms) == (50, -1)
    merger.acting = frozenset({Life("r0.0", Incarnation(1, 1))})
    detector.output_progress(merger, told, told, 80)
    assert (merger.advanced_at, merger.qualified_ms) == (50, 80), "the output has not moved"
    assert is_silent(merger, TIMING.hang_ms, TIMING)
