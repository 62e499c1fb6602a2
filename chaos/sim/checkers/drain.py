"""A drain leaves nothing out: what was there when it was ordered is read.

    sources     |-------- there --------|---- later ----
    a replica   read ........... says that it has drained        not before all that was there

How far the sources reached, and how many rows of that a replica has left unread, plain readers of
the simulator have said (chaos/sim/source_ends.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gapless.chaos.judge.history import Broken, Drained, Verdict
from gapless.chaos.sim.checkers.world import World


class DrainsWhole:
    """See the module."""

    name = "drain"
    promise = (
        "A replica says that it has drained once it has read every row that was there when it was "
        "told to."
    )

    def __init__(self) -> None:
        self._drained = False

    def hears(self) -> Mapping[type, Callable[[int, Any], None]]:
        """Who says so."""
        return {Drained: self._on_drained}

    def _on_drained(self, _: int, fact: Drained) -> None:
        self._drained = True
        for source, rows in fact.unread.items():
            if rows:
                raise Broken(
                    self.name,
                    f"{fact.replica} says that it has drained, and has not read {rows} rows of "
                    f"{source} that were there when it was told to",
                )

    def verdict(self, world: World) -> Verdict:  # noqa: ARG002  # it has looked all along
        """Unknown where nobody was told to drain."""
        return Verdict.HOLDS if self._drained else Verdict.UNKNOWN
