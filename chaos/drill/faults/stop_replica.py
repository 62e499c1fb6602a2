"""A replica is stopped where it is, and may go on later as a zombie of a life that was replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil

from gapless.chaos.drill.faults.fault import Fault, Hit
from gapless.chaos.drill.means.signals import go_on, stop

if TYPE_CHECKING:
    from gapless.chaos.drill.stage import Stage


class StopReplica(Fault):
    """The cluster never notices; the job does, by the heartbeats that do not come."""

    name = "stop replica"
    about = "SIGSTOP of a replica's process, SIGCONT later."
    hits = "replica"
    lasts = 3.0
    _stopped: list[psutil.Process]

    def inject(self, stage: Stage) -> Hit:
        """Stops it."""
        slot = stage.pick(self, "r")
        life, about = stage.life_of(slot)
        self._stopped = stop([about.pid])
        return Hit(slot, f"SIGSTOP of {life}, process {about.pid}")

    def heal(self, stage: Stage) -> None:  # noqa: ARG002  # processes are known without it
        """Lets it go on, if the job has let it live."""
        go_on(self._stopped)
