"""Cutover to another answer: it commits only when nobody can say more of the old one beyond T."""

import random
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from gapless.failover.effects import Alarm, Send
from gapless.failover.job.desired import Desired
from gapless.failover.messages import Fence, Hold, Life, Message, Retire
from gapless.failover.supervisor import cutover
from gapless.failover.supervisor.cutover import (
    CUTOVER,
    Cutover,
    MergerView,
    ReplicaView,
    ShardView,
    SlotView,
)
from gapless.failover.supervisor.effects import Desire, SupervisorEffect
from gapless.failover.timing import Timing
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import Misuse

T = 100
TERM = 4
TIMING = Timing(cutover_ms=10_000)
DESIRED = Desired(2, ("new",), mergers=2)
MERGERS = ("m0.0", "m0.1")


def life(index: int, counter: int) -> Life:
    return Life(f"r0.{index}", Incarnation(TERM, counter))


OLD = [life(i, 1) for i in range(2)]
NEW = [life(i, 2) for i in range(2)]


def shard(
    old: dict[str, Any] | None = None,
    new: dict[str, Any] | None = None,
    merger: dict[str, Any] | None = None,
    floors: tuple[Life, ...] = (),
) -> list[ShardView]:
    """One shard of two replicas and two mergers, in which all is as these say."""
    before = {"stable": 50, "held_at": INF, "hold": (TERM, 1), **(old or {})}
    after = {"stable": 50, "held_at": T, "qualifies": True, **(new or {})}
    slots = [
        SlotView(ReplicaView(OLD[i], **before), ReplicaView(NEW[i], **after)) for i in range(2)
    ]
    merging = {"is_heard": True, "stable": 50, **(merger or {})}
    mergers = [MergerView(name, **merging) for name in MERGERS]
    return [ShardView(tuple(slots), tuple(mergers), floors)]


def started(shards: list[ShardView] | None = None) -> Cutover:
    return Cutover(TERM, DESIRED, T, shards or shard(), 0, TIMING)


def state(cut: Cutover) -> str:
    """Its state now: mypy would keep what an earlier assert has said of it."""
    return cut.state


def sent(effects: list[SupervisorEffect], kind: type[Message]) -> dict[str, Message]:
    """To whom messages of a kind go."""
    return {e.to: e.message for e in effects if isinstance(e, Send) and isinstance(e.message, kind)}


def test_nothing_is_ordered_before_all_new_lives_qualify() -> None:
    cut = started()
    for shards in (
        shard(new={"qualifies": False}),
        [replace(shard()[0], replicas=(SlotView(None, None), *shard()[0].replicas[1:]))],
    ):
        assert cut.look(shards, 1) == []
        assert (cut.state, cut.held_at, cut.old_held_at) == ("joining", T, INF)


def test_then_the_old_lives_are_held_and_mergers_fence_the_others() -> None:
    cut = started()
    effects = cut.look(shard(), 1)
    assert (cut.state, cut.old_held_at) == ("holding", T)
    assert sent(effects, Hold) == {str(old): Hold(TERM, T, 1) for old in OLD}
    fenced = [(e.to, e.message) for e in effects if isinstance(e, Send) and e.to in MERGERS]
    assert fenced == [(m, Fence(TERM, old)) for m in MERGERS for old in OLD]


def test_orders_are_repeated_but_not_at_every_look() -> None:
    cut = started()
    assert cut.look(shard(), 1)
    assert cut.look(shard(), 2) == []
    again = cut.look(shard(), 1 + TIMING.resend_ms)
    assert sent(again, Hold).keys() == {str(old) for old in OLD}


def held(**merger: Any) -> list[ShardView]:
    """All old lives have said that they are held, all mergers that they fence."""
    return shard(old={"held_at": T}, merger={"fences": tuple(OLD), **merger})


def test_it_commits_once_all_are_held_and_the_desire_comes_first() -> None:
    cut = started()
    cut.look(shard(), 1)
    effects = cut.look(held(), 2)
    assert (cut.state, cut.is_committed, cut.held_at) == ("lifting", True, INF)
    assert effects[0] == Desire(DESIRED)
    assert sent(effects, Retire).keys() == {str(old) for old in OLD}
    assert sent(effects, Hold) == {str(new): Hold(TERM, INF, 2) for new in NEW}
    fences = {(e.to, e.message) for e in effects if isinstance(e, Send) and e.to in MERGERS}
    assert fences == {(m, Fence(TERM, new)) for m in MERGERS for new in NEW}
    lifted = [
        ShardView(tuple(SlotView(None, ReplicaView(n, 50, INF, (TERM, 2), True)) for n in NEW), ())
    ]
    assert cut.look(lifted, 3) == []
    assert (cut.state, cut.is_over) == ("done", True)


@pytest.mark.parametrize(
    "shards",
    [
        shard(old={"held_at": T}),
        shard(merger={"fences": tuple(OLD)}),
        shard(old={"held_at": T, "hold": (TERM, 0)}, merger={"fences": tuple(OLD)}),
        shard(old={"held_at": T - 1}, merger={"fences": tuple(OLD)}),
        shard(old={"held_at": T}, merger={"fences": (OLD[0],)}),
        held(is_heard=False),
        shard(old={"held_at": T}, merger={"fences": tuple(OLD)}, floors=(life(7, 9),)),
        shard(old={"held_at": T}, merger={"fences": tuple(OLD)}, new={"qualifies": False}),
    ],
    ids=[
        "no fence",
        "not held",
        "held by another",
        "held elsewhere",
        "one slot",
        "silent",
        "a slot gone",
        "not ready",
    ],
)
def test_it_waits_for_everybody(shards: list[ShardView]) -> None:
    cut = started()
    cut.look(shard(), 1)
    cut.look(shards, 2)
    assert cut.state == "holding"


def test_a_dead_life_is_fenced_instead_of_held() -> None:
    alone = SlotView(None, ReplicaView(NEW[0], 50, T, (0, 0), True))
    cut = started()
    cut.look(shard(), 1)
    dead = [replace(held()[0], replicas=(alone, held()[0].replicas[1]))]
    cut.look(dead, 2)
    assert cut.state == "holding"  # mergers still let the old life of that slot in
    fences = {"fences": (NEW[0], OLD[1])}
    now = [replace(dead[0], mergers=shard(merger=fences)[0].mergers)]
    cut.look(now, 3)
    assert state(cut) == "lifting"


@pytest.mark.parametrize(
    ("beyond", "why"),
    [
        (shard(old={"stable": T + 1}), "replica r0.0/4.1 has promised 101"),
        (shard(new={"stable": T + 1}), "replica r0.0/4.2 has promised 101"),
        (shard(merger={"stable": INF}), "the output of m0.0 is stable up to inf"),
    ],
)
def test_somebody_beyond_the_time_ends_it_and_nothing_has_changed(
    beyond: list[ShardView], why: str
) -> None:
    with pytest.raises(Misuse, match=f"{why}; choose a later time"):
        started(beyond)
    cut = started()
    cut.look(shard(), 1)
    effects = cut.look(beyond, 2)
    assert cut.state == "failed"  # nobody was held: there is nothing to lift
    assert isinstance(effects[0], Alarm)
    assert why in effects[0].what
    assert sent(effects, Retire).keys() == {str(new) for new in NEW}


def test_a_cutover_that_takes_too_long_is_undone() -> None:
    cut = started()
    cut.look(shard(), 1)
    effects = cut.look(shard(old={"held_at": T}), TIMING.cutover_ms)
    assert cut.state == "undoing"
    assert isinstance(effects[0], Alarm)
    assert "not every merger" in effects[0].what
    for now in (TIMING.cutover_ms, 2 * TIMING.cutover_ms):
        assert sent(effects, Hold) == {str(old): Hold(TERM, INF, now) for old in OLD}
        effects = cut.look(shard(old={"held_at": T}), 2 * TIMING.cutover_ms)
    cut.look(shard(), 3 * TIMING.cutover_ms)
    assert state(cut) == "failed"


def test_it_can_be_given_up_before_the_commit_and_not_after() -> None:
    cut = started()
    assert cut.give_up(shard(), "the job ends", 1)
    assert cut.state == "failed"
    cut = started()
    cut.look(shard(), 1)
    cut.look(held(), 2)
    assert cut.give_up(held(), "the job ends", 3) == []
    assert cut.state == "lifting"


def test_a_time_without_an_end_is_no_time_to_cut_at() -> None:
    for at in (BEGIN, INF):
        with pytest.raises(Misuse, match="finite time"):
            Cutover(TERM, DESIRED, at, shard(), 0, TIMING)


# -- against a network that loses, delays and hides -----------------------------------------------


@dataclass
class Running:
    """A replica as it is; what the supervisor knows of it lags behind."""

    life: Life
    is_new: bool
    stable: int = 0
    held_at: int = INF
    hold: tuple[int, int] = (0, 0)
    is_over: bool = False


@dataclass
class Merging:
    slot: str
    stable: int = 0
    fences: dict[str, Life] = field(default_factory=dict)


class World:
    """Replicas that advance, mergers that believe them, and a supervisor that hears late."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.at = rng.choice((32, 45, 300))
        self.beyond: set[bool] = set()  # whether old or new lives have led an output beyond T
        self.replicas = [Running(each, False, rng.randint(0, 30)) for each in OLD]
        self.replicas += [
            Running(life(i, 0), False, rng.randint(0, 30)) for i in range(2)
        ]  # zombies
        self.replicas += [Running(each, True, rng.randint(0, 30), self.at) for each in NEW]
        self.mergers = [Merging(name) for name in MERGERS]
        self.dead = {OLD[0]} if rng.random() < 0.4 else set[Life]()  # as far as anybody knows
        self.views = {m.slot: self.view(m) for m in self.mergers}
        self.known = {r.life: self.status(r) for r in self.replicas}
        self.flying: list[tuple[str, Message]] = []
        self.cut = Cutover(TERM, DESIRED, self.at, self.shards(), 0, TIMING)

    def change_minds(self, now: int) -> None:
        """Gives the cutover up and begins another one, while orders of the first are under way."""
        if self.cut.is_committed:
            return
        for effect in self.cut.give_up(self.shards(), "it was a mistake", now):
            if isinstance(effect, Send) and isinstance(effect.message, Hold):
                self.flying.append((effect.to, effect.message))
        if not self.beyond:
            self.cut = Cutover(TERM, DESIRED, self.at, [], now, TIMING)

    def status(self, r: Running) -> ReplicaView:
        return ReplicaView(r.life, r.stable, r.held_at, r.hold, self.rng.random() < 0.9)

    def view(self, m: Merging) -> MergerView:
        return MergerView(m.slot, True, m.stable, tuple(m.fences.values()))

    def shards(self) -> list[ShardView]:
        slots = []
        for old, new in zip(OLD, NEW, strict=True):
            gone = old in self.dead or self.cut_is_done()
            slots.append(SlotView(None if gone else self.known[old], self.known[new]))
        return [ShardView(tuple(slots), tuple(self.views.values()))]

    def cut_is_done(self) -> bool:
        return hasattr(self, "cut") and self.cut.is_committed

    def step(self, now: int) -> None:
        rng = self.rng
        for r in self.replicas:
            if r.is_over or rng.random() < 0.5:
                continue
            r.stable = max(r.stable, min(r.held_at, r.stable + rng.randint(0, 4)))
            self.merge(r)
            if rng.random() < 0.7:
                self.known[r.life] = self.status(r)
        for m in self.mergers:
            if rng.random() < 0.7:
                self.views[m.slot] = self.view(m)
        for effect in self.cut.look(self.shards(), now):
            if isinstance(effect, Send) and rng.random() < 0.7:
                self.flying.append((effect.to, effect.message))
        late, self.flying = self.flying, []
        for to, message in late:
            if rng.random() < 0.5:
                self.flying.append((to, message))
            else:
                self.deliver(to, message)
        self.cut.validate()

    def merge(self, r: Running) -> None:
        """A merger's output goes as far as anybody who may attach promises."""
        for m in self.mergers:
            fence = m.fences.get(r.life.slot)
            if fence is not None and r.life < fence:
                continue
            if r.stable > m.stable:
                m.stable = r.stable
                self.beyond |= {r.is_new} if r.stable > self.at else set()
                assert len(self.beyond) < 2, f"both answers beyond {self.at}"

    def obeys(self, r: Running, term: int, version: int) -> bool:
        return (term, version) >= r.hold

    def deliver(self, to: str, message: Message) -> None:
        for r in self.replicas:
            if str(r.life) == to:
                match message:
                    case Hold(term, at, version) if self.obeys(r, term, version):
                        r.held_at, r.hold = at, (term, version)
                    case Retire():
                        r.is_over = True
        for m in self.mergers:
            if m.slot == to and isinstance(message, Fence):
                known = m.fences.get(message.life.slot)
                m.fences[message.life.slot] = max(message.life, known or message.life)


def check_worlds(seeds: range) -> dict[str, int]:
    ends: dict[str, int] = {}
    for seed in seeds:
        world = World(seed)
        now, doubt = 0, 50 * world.rng.randint(1, 30)
        while not world.cut.is_over:
            now += 50
            if now == doubt:
                world.change_minds(now)
            world.step(now)
            assert now < 3 * TIMING.cutover_ms, f"seed {seed}: {world.cut.state} for ever"
        for _ in range(100):
            world.flying.clear()  # from here on nothing old arrives
            world.step(now)
        ends[world.cut.state] = ends.get(world.cut.state, 0) + 1
    return ends


def test_whatever_is_lost_delayed_or_alive_though_dead_the_output_never_mixes_answers() -> None:
    ends = check_worlds(range(300))
    assert min(ends["done"], ends["failed"]) > 20


@pytest.mark.parametrize("rule", ["_fences", "_old_are_held"])
def test_a_cutover_without_one_of_its_rules_is_caught(
    monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    monkeypatch.setattr(Cutover, rule, lambda *_: True)
    with pytest.raises(AssertionError, match="both answers"):
        check_worlds(range(300))


def test_a_replica_that_obeys_the_last_hold_that_comes_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(World, "obeys", lambda *_: True)
    with pytest.raises(AssertionError, match="both answers"):
        check_worlds(range(600))


def test_a_cutover_that_takes_the_hold_of_another_for_its_own_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Cutover, "_is_held", lambda self, old: old.held_at == self.at)
    with pytest.raises(AssertionError, match="both answers"):
        check_worlds(range(300))


def test_a_cutover_that_looks_away_from_who_is_beyond_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cutover, "_beyond", lambda *_: None)
    with pytest.raises(AssertionError, match="both answers"):
        check_worlds(range(300))


def test_every_state_can_be_reached_and_ends() -> None:
    assert [state for state, row in CUTOVER.table.items() if not row] == ["done", "failed"]
