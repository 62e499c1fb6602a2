"""Faults of checkpoints: every one that there is cannot be read any more.

A checkpoint only ever saves time: who cannot read one begins otherwise. The fault has struck once a
life has begun without one that would have begun with one: by a replay.
"""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

from gapless.chaos.drill.faults.fault import CannotStrike, Fault, Hit
from gapless.failover.messages import Life
from gapless.failover.replica.checkpoint import FOLDER

if TYPE_CHECKING:
    from gapless.chaos.drill.stage import Stage


class SpoilsCheckpoints(Fault):
    """All of them, in one way or another."""

    _before: frozenset[Life]

    @abstractmethod
    def spoil(self, file: Path) -> str:
        """Spoils one; what was done to it."""

    def inject(self, stage: Stage) -> Hit:
        """Spoils them."""
        files = sorted((stage.job_dir / FOLDER).glob("*"))
        if not files:
            raise CannotStrike("there is no checkpoint yet")
        self._before = frozenset(stage.view().hosts)
        return Hit("checkpoints", "; ".join(f"{file.name} {self.spoil(file)}" for file in files))

    def struck(self, stage: Stage) -> str | None:
        """Whether somebody had to do without."""
        later = [s for s in stage.view().state.slots if s.life and s.life not in self._before]
        if any(slot.origin == "replay" for slot in later):
            return None
        told = ", ".join(f"{s.slot} with {s.origin}" for s in later if s.origin)
        return f"{self.name}: nobody had to do without one: {told or 'nobody has begun since'}"
