"""The fleet: incarnations, who was asked to go, who is over, and who may be given up."""

from __future__ import annotations

import pytest

from gapless.failover.effects import Alarm, Send
from gapless.failover.job.desired import Desired
from gapless.failover.life_start import MergerStart
from gapless.failover.messages import Life, Retire
from gapless.failover.supervisor import fleet as fleets
from gapless.failover.supervisor.effects import Kill
from gapless.failover.supervisor.fleet import Fleet
from gapless.failover.supervisor.slots import Known, Slot
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import Bug
from tests.failover.supervised_lives import TIMING

KILL_MS = TIMING.kill_ms


def fleet(desired: Desired | None = None, nodes: tuple[str, ...] = ("n1",)) -> Fleet:
    return Fleet(3, desired or Desired(2, ("p",)), nodes, TIMING)


def filled(of: Fleet, name: str) -> tuple[Slot, Known]:
    """A slot with a life that was started in it."""
    slot = of.slots[name]
    spawned = of.spawn(slot, MergerStart(0, ()), 0)
    assert spawned is not None
    slot.fill(spawned.known)
    return slot, spawned.known


def test_no_incarnation_is_given_twice_and_all_are_of_its_term() -> None:
    of = fleet()
    lives = [filled(of, name)[1].life for name in of.slots]
    assert len({life.incarnation for life in lives}) == len(lives)
    assert {life.incarnation.term for life in lives} == {3}


def test_without_a_node_nobody_is_started() -> None:
    of = fleet(nodes=())
    assert of.spawn(of.slots["m0.0"], MergerStart(0, ()), 0) is None


def test_who_is_asked_to_go_and_stays_is_ended_by_force_once() -> None:
    of = fleet()
    slot, known = filled(of, "r0.0")
    (asked,) = of.dismiss(known, "enough", 10)
    assert asked == Send(str(known.life), Retire(3, known.life, "enough"))
    slot.empty("enough", 10)
    assert [of.kill_overdue(10 + KILL_MS - left) for left in (1, 0)] == [[], [Kill(known.life)]]
    assert not of.has_leaving
    assert of.kill_overdue(1 << 40) == []
    of.validate()


def test_who_is_over_is_told_again_no_sooner_than_after_a_while() -> None:
    of = fleet()
    slot, known = filled(of, "r0.0")
    of.dismiss(known, "enough", 0, by_force=True)
    slot.empty("enough", 0)
    assert of.is_over(known.life)
    assert not of.may_be_told(known.life, KILL_MS - 1)
    assert of.may_be_told(known.life, KILL_MS)


def test_a_life_in_its_slot_that_was_asked_to_go_is_a_bug() -> None:
    of = fleet()
    _, known = filled(of, "r0.0")
    of.retire(known.life, "enough", 0)
    with pytest.raises(Bug, match="asked to go"):
        of.validate()


def test_of_more_lives_that_are_over_than_are_kept_the_oldest_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fleets, "OVER_MAX", 2)
    of = fleet()
    lives = [Life("r0.0", Incarnation(1, counter)) for counter in range(3)]
    for life in lives:
        of.has_died(life, 0)
        of.silence(life)
    assert [of.is_over(life) for life in lives] == [False, True, True]
    assert [of.was_silenced(life) for life in lives] == [False, True, True]
    assert not of.was_silenced(lives[1]), "that is asked once"


def test_the_last_slot_of_a_shard_is_never_given_up() -> None:
    of = fleet()
    alarms = 0
    for now in range(0, 10**6, 50_000):
        for name in ("r0.0", "r0.1"):
            slot = of.slots[name]
            if slot.state == "empty":
                known = Known(Life(name, of.next_incarnation()), "p", now)
                slot.fill(known)
                said = of.lose(slot, known, "it cannot run", now)
                alarms += sum(isinstance(effect, Alarm) for effect in said)
    assert sorted(slot.state for slot in of.shards[0].replicas.values()) == ["empty", "failed"]
    assert alarms == 1


def test_a_slot_that_is_no_more_lets_in_no_life_that_was_in_it() -> None:
    of = fleet()
    slot, known = filled(of, "r0.1")
    of.remove_slot(of.shards[0], slot)
    again = of.add_slot("r", of.shards[0], 1, 0)
    assert again.fence is not None
    assert known.life < again.fence
