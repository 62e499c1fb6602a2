"""A checkpoint that is said to be there is there.

    r0.1   says that 0-a-1-7 is written --> the supervisor drops older ones, and gives it to others

A life that finds none goes on to its next origin, so the output would never tell: what is lost is
that it comes back soon.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gapless.chaos.judge.history import Broken, CheckpointStored, Verdict
from gapless.chaos.sim.checkers.world import World


class CheckpointsAreThere:
    """See the module."""

    name = "checkpoint"
    promise = "A checkpoint that is said to be written lies on the disk."

    def __init__(self) -> None:
        self._stored = False

    def hears(self) -> Mapping[type, Callable[[int, Any], None]]:
        """Who says so."""
        return {CheckpointStored: self._on_stored}

    def _on_stored(self, _: int, fact: CheckpointStored) -> None:
        self._stored = True
        if not fact.nbytes:
            raise Broken(
                self.name, f"{fact.replica} says that checkpoint {fact.name} is written: it is not"
            )

    def verdict(self, world: World) -> Verdict:  # noqa: ARG002  # it has looked all along
        """Unknown where none was written."""
        return Verdict.HOLDS if self._stored else Verdict.UNKNOWN
