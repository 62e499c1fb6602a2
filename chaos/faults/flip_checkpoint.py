"""A bit of every checkpoint flips."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.chaos.faults.fault import CannotStrike, Fault, Hit
from gapless.chaos.means.damage import Mend, flip_bit
from gapless.failover.checkpoint import FOLDER

if TYPE_CHECKING:
    from gapless.chaos.stage import Stage


class FlipCheckpoint(Fault):
    """A checkpoint only ever saves time: who cannot read one begins otherwise."""

    name = "flip checkpoint"
    about = "A bit flips in every checkpoint that there is; it flips back later."
    lasts = 4.0
    _mends: list[Mend]

    def inject(self, stage: Stage) -> Hit:
        """Flips them."""
        files = sorted((stage.job_dir / FOLDER).glob("*"))
        if not files:
            raise CannotStrike("there is no checkpoint yet")
        found = [flip_bit(file, self.rng) for file in files]
        self._mends = [mend for _, mend in found]
        told = (f"{file.name} at byte {at}" for file, (at, _) in zip(files, found, strict=True))
        return Hit("checkpoints", "; ".join(told))

    def heal(self, stage: Stage) -> None:  # noqa: ARG002  # it knows what it has flipped
        """Flips them back."""
        for mend in self._mends:
            mend()
