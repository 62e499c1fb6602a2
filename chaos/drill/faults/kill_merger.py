"""A merger is killed, at once and by force."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.chaos.drill.faults.fault import Fault, Hit
from gapless.chaos.drill.means.signals import kill

if TYPE_CHECKING:
    from gapless.chaos.drill.stage import Stage


class KillMerger(Fault):
    """The job replaces it by itself, so there is nothing to heal."""

    name = "kill merger"
    about = "SIGKILL of a merger's process."
    hits = "merger"

    def inject(self, stage: Stage) -> Hit:
        """Kills it."""
        slot = stage.pick(self, "m")
        life, about = stage.life_of(slot)
        ended = kill([about.pid])
        return Hit(slot, f"SIGKILL of {life}, process {about.pid}", ended)
