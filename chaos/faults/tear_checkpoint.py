"""Every checkpoint is torn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.chaos.faults.fault import CannotStrike, Fault, Hit
from gapless.chaos.means.damage import tear
from gapless.failover.checkpoint import FOLDER

if TYPE_CHECKING:
    from gapless.chaos.stage import Stage


class TearCheckpoint(Fault):
    """A checkpoint only ever saves time: who cannot read one begins otherwise."""

    name = "tear checkpoint"
    about = "Every checkpoint that there is loses its end, for good."

    def inject(self, stage: Stage) -> Hit:
        """Tears them."""
        files = sorted((stage.job_dir / FOLDER).glob("*"))
        if not files:
            raise CannotStrike("there is no checkpoint yet")
        told = [f"{file.name} after {tear(file, self.rng)} bytes" for file in files]
        return Hit("checkpoints", "; ".join(told))
