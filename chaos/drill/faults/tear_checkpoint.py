"""Every checkpoint loses its end."""

from __future__ import annotations

from pathlib import Path

from gapless.chaos.drill.faults.spoils_checkpoints import SpoilsCheckpoints
from gapless.chaos.drill.means.damage import tear


class TearCheckpoint(SpoilsCheckpoints):
    """As a crash of the machine leaves it, where the disk had only a part."""

    name = "tear checkpoint"
    about = "Every checkpoint that there is loses its end, for good."

    def spoil(self, file: Path) -> str:
        """Tears it."""
        return f"after {tear(file, self.rng)} bytes"
