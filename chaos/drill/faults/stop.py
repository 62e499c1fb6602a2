"""A process is stopped where it is, and goes on later: a replica's, a merger's, or the root's.

One that was replaced meanwhile is a zombie then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import psutil

from gapless.chaos.drill.faults.fault import Fault, Hit
from gapless.chaos.drill.means.signals import go_on, stop

if TYPE_CHECKING:
    from gapless.chaos.drill.stage import Stage
    from gapless.chaos.drill.targets import Role


class Stop(Fault):
    """One process of a role. The cluster never notices: for it the process lives."""

    lasts = 3.0
    role: ClassVar[Role]
    _stopped: list[psutil.Process]

    def inject(self, stage: Stage) -> Hit:
        """Stops it."""
        target, told, pid = stage.targets.one_of(self, self.role)
        self._stopped = stop([pid])
        return Hit(target, f"SIGSTOP of {told}")

    def heal(self, stage: Stage) -> None:  # noqa: ARG002  # processes are known without it
        """Lets it go on, if the job has let it live."""
        go_on(self._stopped)


class StopReplica(Stop):
    """The job notices, by the heartbeats that do not come, and replaces it."""

    name = "stop replica"
    about = "SIGSTOP of a replica's process, SIGCONT later."
    role = "r"
    hits = "replica"


class StopMerger(Stop):
    """The job notices, by the heartbeats that do not come, and replaces it."""

    name = "stop merger"
    about = "SIGSTOP of a merger's process, SIGCONT later."
    role = "m"
    hits = "merger"


class StopRoot(Stop):
    """It is back before the standby would lead. Output does not go through the root, so it
    goes on.
    """

    name = "stop root"
    about = "SIGSTOP of the root's process, SIGCONT later."
    role = "root"
