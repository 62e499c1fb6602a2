"""A bit of the source's journal flips, in rows that no replica has read yet."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gapless.chaos.drill.faults.fault import CannotStrike, Fault, Hit
from gapless.chaos.drill.means.damage import Mend, flip_bit
from gapless.chaos.drill.means.signals import go_on, stop

if TYPE_CHECKING:
    from gapless.chaos.drill.stage import Stage


HELD_S = 0.3
"""How long replicas are held, so that there are rows that they have not read: shorter than what
they are missed after."""


class FlipSource(Fault):
    """There is one copy of a source: the job says so and waits, and goes on once it is mended."""

    name = "flip source"
    about = "A bit flips in source rows that nobody has read yet; it flips back later."
    lasts = 3.0
    bears_random = False
    _mend: Mend

    def inject(self, stage: Stage) -> Hit:
        """Flips it, while the replicas are held."""
        held = stop([stage.targets.pid_of(slot) for slot in stage.targets.slots("r")])
        try:
            files = sorted((next(iter(stage.feeder.paths.values())) / "segments").glob("*"))
            if not files:
                raise CannotStrike("the source has no rows")
            before = files[-1].stat().st_size
            time.sleep(HELD_S)
            at, self._mend = flip_bit(files[-1], self.rng, before)
        finally:
            go_on(held)
        return Hit("source", f"{files[-1].name} at byte {at}")

    def heal(self, stage: Stage) -> None:  # noqa: ARG002  # it knows what it has flipped
        """Flips it back."""
        self._mend()
