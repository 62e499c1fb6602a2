"""A bit of a merger's journal flips, and the merger is killed: it has to read that back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.chaos.drill.faults.fault import CannotStrike, Fault, Hit
from gapless.chaos.drill.means.damage import Mend, flip_bit
from gapless.chaos.drill.means.signals import kill

if TYPE_CHECKING:
    from gapless.chaos.drill.stage import Stage


class FlipOutput(Fault):
    """A checksum tells; the merger says so and does not begin, and its peer goes on alone."""

    name = "flip output"
    about = "A bit of a merger's journal flips, and the merger is killed; it flips back later."
    hits = "merger"
    lasts = 4.0
    mergers_min = 2
    _mend: Mend

    def inject(self, stage: Stage) -> Hit:
        """Flips it."""
        slot = stage.targets.pick(self, "m")
        pid = stage.targets.pid_of(slot)
        shard = slot[1:].partition(".")[0]
        files = sorted((stage.job_dir / "out" / shard / slot / "segments").glob("*"))
        files = [file for file in files if file.stat().st_size]
        if not files:
            raise CannotStrike(f"the journal of {slot} is empty")
        ended = kill([pid])
        at, self._mend = flip_bit(files[-1], self.rng)
        return Hit(slot, f"{files[-1].name} at byte {at}", ended)

    def heal(self, stage: Stage) -> None:  # noqa: ARG002  # it knows what it has flipped
        """Flips it back."""
        self._mend()
