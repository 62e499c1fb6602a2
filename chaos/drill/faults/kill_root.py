"""The root is killed: nobody starts or replaces processes until the standby leads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.chaos.drill.faults.fault import Fault, Hit
from gapless.chaos.drill.means.signals import kill

if TYPE_CHECKING:
    from gapless.chaos.drill.stage import Stage


class KillRoot(Fault):
    """Output goes past the root, so it goes on."""

    name = "kill root"
    about = "SIGKILL of the root's process; the one that stands by adopts the lives."

    def inject(self, stage: Stage) -> Hit:
        """Kills it."""
        pid = stage.pid_of("root")
        return Hit("root", f"SIGKILL of process {pid}", kill([pid]))
