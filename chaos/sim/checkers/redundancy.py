"""Nobody is put out of its slot before another life can take its place.

    r0.2/1.4   attached, and maybe all there is
    r0.2/1.9            starts    attaches to a merger
    Fence 1.9           too soon  from here on

A fence ends all earlier lives of a slot. So a merger may obey one only once the life that it lets
in, or a later one of that slot, has been taken in by some merger of the shard; or where no earlier
one is alive. Slots that people do not want any more are fenced with nobody behind. A cutover to
another answer fences every life that is not held, at any price: from the first hold on nothing is
judged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gapless.chaos.judge.history import Broken, Ended, Obeyed, Started, TookIn, Verdict
from gapless.chaos.sim.checkers.world import World
from gapless.failover.messages import Life
from gapless.failover.supervisor.adoption import named


class NobodyGoesTooSoon:
    """See the module."""

    name = "redundancy"
    promise = "No life is fenced before a later one of its slot has begun to feed a merger."

    def __init__(self, world: World) -> None:
        self._world = world
        self._latest: dict[str, Life] = {}
        """By slot, the latest life that some merger has taken in."""
        self._alive: set[Life] = set()
        self._fenced = False
        self._is_cut = False

    def hears(self) -> Mapping[type, Callable[[int, Any], None]]:
        """Who feeds mergers, and who is kept from it."""
        return {
            Started: lambda _, fact: self._alive.add(fact.life),
            Ended: lambda _, fact: self._alive.discard(fact.life),
            TookIn: self._on_took_in,
            Obeyed: self._on_obeyed,
        }

    def verdict(self, world: World) -> Verdict:  # noqa: ARG002  # it has looked all along
        """Unknown where no fence was obeyed."""
        return Verdict.HOLDS if self._fenced else Verdict.UNKNOWN

    def _on_took_in(self, _: int, fact: TookIn) -> None:
        life = fact.session.life
        latest = self._latest.get(life.slot)
        if latest is None or latest < life:
            self._latest[life.slot] = life

    def _on_obeyed(self, _: int, fact: Obeyed) -> None:
        life = fact.about
        self._is_cut |= fact.order == "Hold"
        if fact.order != "Fence" or life is None or self._is_cut:
            return
        self._fenced = True
        place = named(life.slot)
        if place is None or place.number >= self._world.desired.replicas:
            return
        latest = self._latest.get(life.slot)
        too_soon = latest is None or latest < life
        if too_soon and any(x.slot == life.slot and x < life for x in self._alive):
            raise Broken(
                self.name,
                f"{fact.life} obeys a fence by {life}, which no merger has taken anything in of; "
                f"the latest of its slot is {latest}",
            )
