"""The root is stopped where it is for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil

from gapless.chaos.drill.faults.fault import Fault, Hit
from gapless.chaos.drill.means.signals import go_on, stop

if TYPE_CHECKING:
    from gapless.chaos.drill.stage import Stage


class StopRoot(Fault):
    """Nobody replaces it, as Ray sees a process that lives; output goes past it."""

    name = "stop root"
    about = "SIGSTOP of the root's process, SIGCONT later."
    lasts = 3.0
    _stopped: list[psutil.Process]

    def inject(self, stage: Stage) -> Hit:
        """Stops it."""
        pid = stage.pid_of("root")
        self._stopped = stop([pid])
        return Hit("root", f"SIGSTOP of process {pid}")

    def heal(self, stage: Stage) -> None:  # noqa: ARG002  # the process is known without it
        """Lets it go on."""
        go_on(self._stopped)
