"""Subscribers over a network that loses, repeats and reorders, with mergers that go and come back.

Whatever happens, in the end the program holds the table (`changes`), or was given each event of it
once (`final`), however often it began again and whichever mergers it then read.
"""

import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest

from gapless.failover.effects import Send
from gapless.failover.messages import Delivery, Opened, Token
from gapless.failover.subscriber.cursor import Cursor
from gapless.failover.subscriber.finals import Finals
from gapless.failover.subscriber.machine import Subscriber
from gapless.failover.subscriber.shard_stream import Merged
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import GaplessError
from gapless.protocol.frame import Frame, Mask, Times
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import DEFAULT_SCHEMA
from gapless.protocol.variants import Telling, random_tdb, random_telling, tell
from tests.effort import cases
from tests.failover.scripted import ScriptedMerger, World

SEEDS = cases(40)
BROKEN_SEEDS = 150
PLAIN = [Telling(order="any", disorder=5, stable_every=n, frame_rows=4) for n in (2, 5)]


def a_world(seed: int, subscriber: type[Subscriber] = Subscriber, **fixed: Any) -> World:
    """One job, its mergers, and a subscriber of one kind; all drawn from the seed. `readers`: how
    many mergers a shard each life of the subscriber reads; 0 where each life draws that anew.
    """
    rng = random.Random(f"subscriber {seed}")
    drawn: dict[str, Any] = {
        "deliver": rng.choice(("changes", "final")),
        "insert_only": rng.random() < 0.3,
        "case": rng.choice(("r3", "r4")),
        "start": rng.choice(("now", "earliest", 0, 20, BEGIN)),
    }
    how = drawn | {k: v for k, v in fixed.items() if k in drawn}
    shards = fixed.get("shards", rng.choice((1, 1, 2)))
    readers = fixed.get("readers", rng.choice((0, 1, 2)))
    mergers: dict[str, ScriptedMerger] = {}
    whole = Tdb(DEFAULT_SCHEMA)
    for shard in range(shards):
        payloads: list[tuple[object, ...]] = [(f"{shard}{p}",) for p in "AB"]
        repeats = how["case"] == "r4" and not how["insert_only"]
        table = random_tdb(rng, DEFAULT_SCHEMA, payloads, 40, duplicates=repeats)
        whole = Tdb(DEFAULT_SCHEMA, [*whole.events, *table.events])
        for i in range(2):
            telling = rng.choice(PLAIN) if how["insert_only"] else random_telling(rng)
            frames = tell(table, telling, rng.randrange(1000))
            mergers[f"m{shard}.{i}"] = ScriptedMerger(f"m{shard}.{i}", frames, rng)
    for merger in mergers.values():
        for _ in range(rng.choice((0, 0, 5))):
            merger.grow()  # it was there before the subscriber

    def choose() -> Mapping[str, tuple[str, ...]]:
        both = {str(s): (f"m{s}.0", f"m{s}.1") for s in range(shards)}
        if readers == 2 or (readers == 0 and rng.random() < 0.5):
            return both
        return {shard: (rng.choice(slots),) for shard, slots in both.items()}

    return World(rng, DEFAULT_SCHEMA, mergers, subscriber, how, whole, choose)


def with_faults(world: World, restarts: int = 4) -> World:
    """Plans restarts of the program, and absences of mergers."""
    rng = world.rng
    for _ in range(restarts):
        world.at(rng.randrange(1500), lambda: world.restart(rng.choice((0, 0, 1, 3))))

    def goes(merger: ScriptedMerger) -> None:
        merger.is_away = True
        world.at(world.now + rng.randint(50, 900), lambda: comes(merger))

    def comes(merger: ScriptedMerger) -> None:
        merger.is_away = False
        merger.restart()

    for merger in world.mergers.values():
        world.at(rng.randrange(1500), partial(goes, merger))
    return world


def problem(world: World) -> str:
    """What is wrong with a run; empty where nothing is."""
    try:
        world.run()
    except GaplessError as e:
        return f"{type(e).__name__}: {e}"
    if world.given is not None:
        return f"given up: {world.given}"
    if not world.machine.has_ended:
        return f"it stopped at {world.machine.stable}"
    if world.stables != sorted(world.stables):
        return f"the stable went back: {world.stables}"
    table = world.table
    if world.how["deliver"] == "changes":
        received = world.received
        return received.tdb().since(received.since).difference(table.since(received.since))
    return wrong_finals(world, table)


def wrong_finals(world: World, table: Tdb) -> str:
    given = world.received.tdb().counts()
    extra = given - table.counts()
    start = world.how["start"]
    if extra or start == "now":
        return f"given too often: {extra}" if extra else ""
    since = BEGIN if start == "earliest" else start
    owed = [e for e in table.events if e.ve >= since]  # a time is no token: nothing was given yet
    missing = Tdb(DEFAULT_SCHEMA, owed).counts() - given
    return f"missing: {missing}" if missing else ""


@pytest.mark.parametrize("deliver", ["changes", "final"])
@pytest.mark.parametrize("readers", [0, 1, 2])
def test_whatever_happens_the_program_ends_up_with_the_table(deliver: str, readers: int) -> None:
    for seed in range(SEEDS):
        world = with_faults(a_world(seed, deliver=deliver, readers=readers))
        assert problem(world) == "", f"seed {seed}"


def test_a_merger_that_has_forgotten_is_gone_on_without_until_it_can_join() -> None:
    forgotten = 0
    for seed in range(SEEDS):
        world = with_faults(a_world(seed, readers=2))
        for slot, merger in world.mergers.items():
            if slot.endswith(".1"):
                for _ in range(3):
                    world.at(world.rng.randrange(1500), merger.trim)
        assert problem(world) == "", f"seed {seed}"
        forgotten += any(m.kept_from > 0 for m in world.mergers.values())
    assert forgotten > SEEDS // 2


def test_it_goes_on_from_every_token_that_it_ever_handed_out() -> None:
    for seed in range(12):
        first = a_world(seed, shards=1)
        assert problem(first) == ""
        for i in range(0, len(first.kept), 1 + len(first.kept) // 8):
            world = a_world(seed, shards=1)
            for merger in world.mergers.values():
                while merger.stable < INF:
                    merger.grow()
            world.kept = first.kept[: i + 1]
            world.restart()
            assert problem(world) == "", f"seed {seed}, emit {i}"


# -- broken on purpose ------------------------------------------------------------------------


class TakesAnyDelivery(Cursor):
    def accepts(self, event: Delivery) -> bool:
        return self.state == "reading" and event.token.merger == self.merger


class TakesAnyReset(Cursor):
    def opens(self, event: Opened) -> bool:  # noqa: ARG002  # it does not look at that
        return self.state == "opening"


class NeverAsksAgain(Cursor):
    def tick(self, now: int) -> Send | None:  # noqa: ARG002  # it does not look at that
        return None


class HasTheOffsetOfOneMerger(Merged):
    @property
    def token(self) -> Token:
        return self.cursors[0].token._replace(stable=self.stable)


class FinalTooEarly(Finals):
    def is_final(self, vs: Times, ve: Times, stable: int) -> Mask:  # noqa: ARG002  # it does not look at that
        return vs < stable if stable < INF else np.ones(len(vs), np.bool_)

    def validate(self) -> None:
        """Breaks on purpose."""


class GivesAgain(Finals):
    def was_given(self, table: Frame, since: int) -> Mask:  # noqa: ARG002  # it does not look at that
        return np.zeros(len(table), np.bool_)

    def validate(self) -> None:
        """Breaks on purpose."""


class TakesATimeForAToken(Finals):
    def begin(self, since: int, table: Frame, *, resumes: bool) -> Frame:  # noqa: ARG002  # it does not look at that
        return super().begin(since, table, resumes=True)


class ReusesTokensElsewhere(Subscriber):
    def _exact(self, token: Token, mergers: tuple[str, ...]) -> Token | None:
        return token._replace(merger=mergers[0]) if len(mergers) == 1 else None


class PromisesTheMost(Subscriber):
    def _least(self) -> int:
        return max(self._stables.values())

    def validate(self) -> None:
        """Breaks on purpose."""


def build(**parts: type) -> Callable[[], type[Subscriber]]:
    return lambda: type("Broken", (Subscriber,), parts)


BROKEN: dict[str, tuple[Callable[[], type[Subscriber]], dict[str, Any]]] = {
    "takes any delivery": (build(CURSOR=TakesAnyDelivery), {"readers": 1}),
    "takes any reset": (build(CURSOR=TakesAnyReset), {}),
    "never asks again": (build(CURSOR=NeverAsksAgain), {}),
    "has the offset of one merger": (
        build(MERGING=HasTheOffsetOfOneMerger),
        {"readers": 0, "deliver": "changes"},
    ),
    "final too early": (build(FINALS=FinalTooEarly), {"deliver": "final", "insert_only": False}),
    "gives again": (build(FINALS=GivesAgain), {"deliver": "final", "start": BEGIN}),
    "takes a time for a token": (
        build(FINALS=TakesATimeForAToken),
        {"deliver": "final", "insert_only": True, "start": 20},
    ),
    "reuses tokens elsewhere": (
        lambda: ReusesTokensElsewhere,
        {"readers": 1, "deliver": "changes"},
    ),
    "promises the most": (lambda: PromisesTheMost, {"shards": 2, "readers": 1}),
}


@pytest.mark.parametrize("name", list(BROKEN))
def test_a_broken_subscriber_is_caught(name: str) -> None:
    make, fixed = BROKEN[name]

    def caught(seed: int) -> bool:
        try:
            return problem(with_faults(a_world(seed, make(), **fixed))) != ""
        except (KeyError, AttributeError):
            return True

    assert any(caught(seed) for seed in range(BROKEN_SEEDS))
