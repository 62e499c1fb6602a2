"""The root is killed: nobody starts or replaces processes until Ray has restarted it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.chaos.faults.fault import Fault, Hit
from gapless.chaos.means.signals import kill

if TYPE_CHECKING:
    from gapless.chaos.stage import Stage


class KillRoot(Fault):
    """Output goes past the root, so it goes on."""

    name = "kill root"
    about = "SIGKILL of the root's process, which Ray restarts and which adopts the lives."

    def inject(self, stage: Stage) -> Hit:
        """Kills it."""
        pid = stage.pid_of("root")
        return Hit("root", f"SIGKILL of process {pid}", kill([pid]))
