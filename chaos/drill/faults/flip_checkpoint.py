"""A bit flips in every checkpoint."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

from gapless.chaos.drill.faults.fault import Planned
from gapless.chaos.drill.faults.spoils_checkpoints import SpoilsCheckpoints
from gapless.chaos.drill.means.damage import Mend, flip_bit

if TYPE_CHECKING:
    from gapless.chaos.drill.stage import Stage


class FlipCheckpoint(SpoilsCheckpoints):
    """A checksum tells."""

    name = "flip checkpoint"
    about = "A bit flips in every checkpoint that there is; it flips back later."
    lasts = 4.0

    def __init__(self, planned: Planned, rng: random.Random) -> None:
        super().__init__(planned, rng)
        self._mends: list[Mend] = []

    def spoil(self, file: Path) -> str:
        """Flips a bit of it."""
        at, mend = flip_bit(file, self.rng)
        self._mends.append(mend)
        return f"at byte {at}"

    def heal(self, stage: Stage) -> None:  # noqa: ARG002  # it knows what it has flipped
        """Flips them back."""
        for mend in self._mends:
            mend()
