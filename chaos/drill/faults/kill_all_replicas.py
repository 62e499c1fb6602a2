"""All replicas are killed at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.chaos.drill.faults.fault import Fault, Hit
from gapless.chaos.drill.means.signals import kill

if TYPE_CHECKING:
    from gapless.chaos.drill.stage import Stage


class KillAllReplicas(Fault):
    """No peer is left to be asked: they come back from checkpoints and the sources."""

    name = "kill all replicas"
    about = "SIGKILL of all replicas at once."

    def inject(self, stage: Stage) -> Hit:
        """Kills them."""
        slots = stage.slots("r")
        ended = kill([stage.pid_of(slot) for slot in slots])
        return Hit(" ".join(slots), "SIGKILL of all of them", ended)
