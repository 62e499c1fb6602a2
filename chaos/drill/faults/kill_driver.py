"""The program that has launched the job is killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.chaos.drill.faults.fault import Fault, Hit
from gapless.chaos.drill.means.signals import kill

if TYPE_CHECKING:
    from gapless.chaos.drill.stage import Stage


class KillDriver(Fault):
    """A job is nobody's child: it goes on, and others attach to it."""

    name = "kill driver"
    about = "SIGKILL of the program that launched the job."
    parts = frozenset({"driver"})
    bears_random = False

    def inject(self, stage: Stage) -> Hit:
        """Kills it."""
        pid = stage.driver.pid
        kill([pid])
        stage.driver.wait()
        return Hit("driver", f"SIGKILL of process {pid}")
