"""At most one incarnation acts: of a slot, of a journal's writers, of the supervisors.

lives        no two lives of a slot have one incarnation
fenced       once a merger obeys a fence, no earlier life of that slot is taken in by it
terms        once a machine has obeyed an order, it obeys none of a lower term
epochs       once a later life has a journal, an earlier one makes nothing durable in it; one that
             was stopped after it had looked may still be told that rows before the cut are
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gapless.chaos.judge.history import (
    Broken,
    Durable,
    Obeyed,
    Recovered,
    Started,
    ToldLate,
    TookIn,
    Verdict,
)
from gapless.chaos.sim.checkers.world import World
from gapless.failover.messages import Life


class OneIncarnationActs:
    """See the module."""

    name = "incarnation"
    promise = "Of a slot, of a journal's writers and of the supervisors at most one acts at a time."

    def __init__(self) -> None:
        self._lives: set[Life] = set()
        self._slots: set[str] = set()
        self._fences: dict[tuple[Life, str], Life] = {}
        self._terms: dict[Life, int] = {}
        self._epochs: dict[str, int] = {}
        self._cuts: dict[str, dict[int, Recovered]] = {}
        self._rivals = False

    def hears(self) -> Mapping[type, Callable[[int, Any], None]]:
        """Whatever only one may do."""
        return {
            Started: self._on_started,
            Obeyed: self._on_obeyed,
            TookIn: self._on_took_in,
            Durable: self._on_durable,
            Recovered: self._on_recovered,
            ToldLate: self._on_told_late,
        }

    def verdict(self, world: World) -> Verdict:  # noqa: ARG002  # it has looked all along
        """Unknown where no slot had a second life."""
        return Verdict.HOLDS if self._rivals else Verdict.UNKNOWN

    def _on_started(self, _: int, fact: Started) -> None:
        if fact.life in self._lives:
            raise Broken(self.name, f"{fact.life} is started again: there is such a life already")
        self._lives.add(fact.life)
        self._rivals |= fact.life.slot in self._slots
        self._slots.add(fact.life.slot)

    def _on_obeyed(self, _: int, fact: Obeyed) -> None:
        term = self._terms.get(fact.life, fact.term)
        if fact.term < term:
            raise Broken(
                self.name,
                f"{fact.life} obeys a {fact.order} of term {fact.term}, after one of term {term}",
            )
        self._terms[fact.life] = fact.term
        if fact.order == "Fence" and fact.about is not None:
            place = fact.life, fact.about.slot
            self._fences[place] = max(self._fences.get(place, fact.about), fact.about)

    def _on_took_in(self, _: int, fact: TookIn) -> None:
        life = fact.session.life
        fence = self._fences.get((fact.merger, life.slot))
        if fence is not None and life < fence:
            raise Broken(self.name, f"{fact.merger} takes in {life}, and obeys a fence by {fence}")

    def _on_durable(self, _: int, fact: Durable) -> None:
        self._writes(fact.merger, fact.epoch)

    def _on_told_late(self, _: int, fact: ToldLate) -> None:
        cuts = self._cuts[fact.merger.slot]
        if not _is_before(cuts[min(epoch for epoch in cuts if epoch > fact.epoch)], fact):
            self._writes(fact.merger, fact.epoch)

    def _on_recovered(self, _: int, fact: Recovered) -> None:
        self._writes(fact.merger, fact.epoch)
        self._cuts.setdefault(fact.merger.slot, {})[fact.epoch] = fact

    def _writes(self, merger: Life, epoch: int) -> None:
        latest = self._epochs.get(merger.slot, epoch)
        if epoch < latest:
            raise Broken(
                self.name,
                f"{merger} makes output durable in epoch {epoch}, and epoch {latest} has begun",
            )
        self._epochs[merger.slot] = epoch


def _is_before(cut: Recovered, fact: ToldLate) -> bool:
    """Whether what is said to be durable is what the next life has found."""
    said, found = fact.frame.stable, cut.live.stable
    is_promised = said is None or (found is not None and said <= found)
    return fact.after + len(fact.frame) <= cut.offset and is_promised
