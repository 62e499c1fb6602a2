"""The producers of a stream: who may join under which name, and when one is let go."""

from __future__ import annotations

import math

import pytest

from gapless.failover.life_start import MergerStart
from gapless.failover.merger.machine import Merger
from gapless.failover.messages import Attach, Fence, Life, Message, Session
from gapless.merge.lmerge import LMerge
from gapless.protocol.envelope import Incarnation
from gapless.protocol.frame import Frame
from gapless.protocol.text import DEFAULT_SCHEMA
from gapless.sidecar.lives import life_of
from gapless.sidecar.server.copies import Copies
from gapless.sidecar.server.limits import Limits
from gapless.sidecar.server.refusals import Refusal

EMPTY = Frame.empty(DEFAULT_SCHEMA)
SLOT = "sidecar-1"


class Call:
    """An attachment that notes how it ends."""

    def __init__(self) -> None:
        self.refusal: Refusal | None = None

    def hear(self, message: Message) -> None:
        raise AssertionError(f"nobody sends it {message}")

    def lost(self, refusal: Refusal) -> None:
        self.refusal = refusal


class World:
    """A stream's merger and its copies."""

    def __init__(
        self, producers: int = 8, token_producers: int = 8, names_max: int = 100, absent_s: int = 60
    ) -> None:
        merge = LMerge(DEFAULT_SCHEMA, "r3")
        life = Life(SLOT, Incarnation(1, 1))
        self.machine = Merger(life, MergerStart(0, ()), 1, merge, EMPTY, 0)
        limits = Limits(
            producers_max=producers, token_producers_max=token_producers, absent_s=absent_s
        )
        self.fenced: list[Fence] = []
        self.copies = Copies(
            "s", self.machine, limits, self._fences, self.machine.forget, names_max
        )

    def _fences(self, fence: Fence) -> None:
        self.fenced.append(fence)
        self.machine.on(fence, 0)

    def join(self, producer: str, incarnation: int = 1, holder: str = "token") -> Call:
        call = Call()
        life = life_of(producer, incarnation)
        self.copies.join(life, call, holder)
        self.machine.on(Attach(Session(life, SLOT, 1), 0, EMPTY), 0)
        return call


def refused(world: World, producer: str, holder: str = "token") -> str:
    with pytest.raises(Refusal) as error:
        world.join(producer, holder=holder)
    assert error.value.code == "RESOURCE_EXHAUSTED"
    return str(error.value)


# -- names ----------------------------------------------------------------------------------------


def test_a_name_belongs_to_the_token_that_came_with_it_first() -> None:
    world = World()
    world.join("a", holder="alice")
    world.copies.check_name("a", "alice", may_take_over=False)
    world.copies.check_name("b", "bob", may_take_over=False)
    with pytest.raises(Refusal, match="another token pushes to s as a") as error:
        world.copies.check_name("a", "bob", may_take_over=False)
    assert error.value.code == "PERMISSION_DENIED"


def test_a_token_that_lists_a_name_may_take_it_over_and_holds_it_from_then_on() -> None:
    world = World()
    world.join("a", 1, holder="alice")
    world.copies.check_name("a", "bob", may_take_over=True)
    world.join("a", 2, holder="bob")
    with pytest.raises(Refusal):
        world.copies.check_name("a", "alice", may_take_over=False)


def test_of_more_names_than_are_remembered_the_least_recent_one_that_nobody_uses_goes() -> None:
    world = World(names_max=2)
    used = world.join("used", holder="alice")
    left = world.join("left", holder="alice")
    world.copies.leave(life_of("left", 1), left)
    world.copies.let_go(life_of("left", 1))
    world.join("new", holder="alice")
    world.copies.check_name("left", "bob", may_take_over=False)
    for kept in ("used", "new"):
        with pytest.raises(Refusal):
            world.copies.check_name(kept, "bob", may_take_over=False)
    assert used.refusal is None


def test_a_name_that_was_used_again_is_remembered_for_longer() -> None:
    world = World(names_max=2)
    for producer, incarnation in (("a", 1), ("b", 1), ("a", 2)):
        call = world.join(producer, incarnation, holder="alice")
        world.copies.leave(life_of(producer, incarnation), call)
        world.copies.let_go(life_of(producer, incarnation))
    world.join("c", holder="alice")
    world.copies.check_name("b", "bob", may_take_over=False)
    with pytest.raises(Refusal):
        world.copies.check_name("a", "bob", may_take_over=False)


# -- places ---------------------------------------------------------------------------------------


def test_beyond_the_producers_of_a_stream_nobody_joins_but_one_may_attach_anew() -> None:
    world = World(producers=2)
    first = world.join("a")
    world.join("b")
    assert "producers_max" in refused(world, "c")
    world.join("a")
    assert first.refusal is not None, "its earlier call ends"
    assert first.refusal.code == "FAILED_PRECONDITION"
    assert len(world.copies) == 2


def test_one_token_leaves_places_to_others_also_while_its_producers_are_away() -> None:
    world = World(token_producers=1)
    call = world.join("a", holder="alice")
    world.copies.leave(life_of("a", 1), call)
    assert "token_producers_max" in refused(world, "b", holder="alice")
    world.join("b", holder="bob")
    world.join("a", 2, holder="alice")


def test_callers_without_a_token_share_the_places_of_the_stream_alone() -> None:
    world = World(token_producers=1)
    world.join("a", holder="")
    world.join("b", holder="")
    assert len(world.copies) == 2


# -- leaving --------------------------------------------------------------------------------------


def test_one_that_is_away_counts_until_absent_s_and_is_fenced_then() -> None:
    world = World()
    life = life_of("a", 1)
    call = world.join("a")
    world.copies.leave(life, call)
    assert world.copies.let_absent_go(-math.inf) == []
    assert life in world.machine.attached
    assert not world.copies.was_absent(life)
    assert world.copies.let_absent_go(math.inf) == [life]
    assert life not in world.machine.attached
    assert world.machine.is_fenced(life)
    assert not world.machine.is_fenced(life_of("a", 2))
    assert world.copies.was_absent(life)
    assert world.copies.let_absent_go(math.inf) == [], "once"


def test_one_that_comes_back_in_time_is_not_let_go() -> None:
    world = World()
    call = world.join("a")
    world.copies.leave(life_of("a", 1), call)
    world.join("a")
    assert world.copies.let_absent_go(math.inf) == []


def test_an_earlier_call_that_ends_late_does_not_remove_the_later_one() -> None:
    world = World()
    before = world.join("a")
    world.join("a")
    world.copies.leave(life_of("a", 1), before)
    assert world.copies.is_connected(life_of("a", 1))


def test_one_whose_successor_was_let_in_is_not_absent_any_more() -> None:
    world = World()
    call = world.join("a")
    world.copies.leave(life_of("a", 1), call)
    world.copies.fence(life_of("a", 2))
    assert world.copies.let_absent_go(math.inf) == []


def test_a_removed_producer_ends_and_its_name_is_free_for_any_incarnation_and_token() -> None:
    world = World()
    call = world.join("a", 7, holder="alice")
    world.copies.remove("a")
    assert call.refusal is not None
    assert call.refusal.code == "NOT_FOUND"
    assert life_of("a", 7) not in world.machine.attached
    world.copies.check_name("a", "bob", may_take_over=False)
    assert not world.machine.is_fenced(life_of("a", 1))


def test_a_producer_that_nobody_knows_cannot_be_removed() -> None:
    with pytest.raises(Refusal, match="knows no producer 'a'") as error:
        World().copies.remove("a")
    assert error.value.code == "NOT_FOUND"
