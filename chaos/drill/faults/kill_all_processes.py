"""Every process of the job is killed at once, the root and its standby too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.chaos.drill.faults.fault import Fault, Hit
from gapless.chaos.drill.means.signals import kill

if TYPE_CHECKING:
    from gapless.chaos.drill.stage import Stage


class KillAllProcesses(Fault):
    """What is left is the job's directory, and a root that Ray starts again."""

    name = "kill all processes"
    about = "SIGKILL of all replicas, mergers, the root and its standby at once."

    def inject(self, stage: Stage) -> Hit:
        """Kills them."""
        processes = stage.processes()
        ended = kill([process.pid for process in processes.values()])
        return Hit("everything", f"SIGKILL of {', '.join(processes)}", ended)
