"""A stable is a promise, so it never goes back: of a journal over its lives, of a program over its
resumes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gapless.chaos.judge.history import Broken, Durable, Emitted, Recovered, Resumed, Verdict
from gapless.chaos.sim.checkers.programs import Programs
from gapless.chaos.sim.checkers.world import World
from gapless.protocol.elements import BEGIN, format_time


class StableNeverGoesBack:
    """See the module."""

    name = "stable"
    promise = (
        "The stable of an output never goes back, whichever life writes it and however often "
        "a subscriber resumes."
    )

    def __init__(self) -> None:
        self._journals: dict[str, int] = {}
        self._programs = Programs()
        self._handed: dict[str, int] = {}
        self._promised = 0

    def hears(self) -> Mapping[type, Callable[[int, Any], None]]:
        """Whatever carries a stable of the output."""
        return {
            Durable: self._on_durable,
            Recovered: self._on_recovered,
            Emitted: self._on_emitted,
            Resumed: self._on_resumed,
        }

    def verdict(self, world: World) -> Verdict:  # noqa: ARG002  # it has looked all along
        """Unknown where no stable followed another."""
        return Verdict.HOLDS if self._promised else Verdict.UNKNOWN

    def _follows(self, who: str, before: int, after: int) -> None:
        if after < before:
            raise Broken(
                self.name, f"{who} went from {format_time(before)} back to {format_time(after)}"
            )
        self._promised += before > BEGIN

    def _on_durable(self, _: int, fact: Durable) -> None:
        if fact.frame.stable is not None:
            self._promise(fact.merger.slot, fact.frame.stable)

    def _on_recovered(self, _: int, fact: Recovered) -> None:
        stable = fact.live.stable
        self._promise(fact.merger.slot, BEGIN if stable is None else stable)

    def _promise(self, slot: str, stable: int) -> None:
        self._follows(f"the journal of {slot}", self._journals.get(slot, BEGIN), stable)
        self._journals[slot] = stable

    def _on_emitted(self, _: int, fact: Emitted) -> None:
        name, stable = fact.subscriber, fact.frame.stable
        self._programs[name].log.append(fact)
        if stable is not None:
            self._follows(f"what {name} was promised", self._handed.get(name, BEGIN), stable)
            self._handed[name] = stable

    def _on_resumed(self, _: int, fact: Resumed) -> None:
        program = self._programs[fact.subscriber]
        if program.resume(fact):
            self._handed[fact.subscriber] = program.stable
