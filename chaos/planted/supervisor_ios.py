"""Interpreters of a supervisor's effects that break one rule each: of terms."""

from __future__ import annotations

from gapless.failover.io.supervisor_io import SupervisorIO
from gapless.failover.messages import Retire


class ActsBeyondItsTerm(SupervisorIO):
    """Starts and ends lives though another root has the job."""

    def look(self) -> Retire | None:
        """It does not look at that."""
        return None
