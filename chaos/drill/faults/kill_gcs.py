"""The cluster's directory (its GCS) dies, and comes back with what it knew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.actors.local_nodes import why_not_persistent
from gapless.chaos.drill.faults.fault import Fault, Hit

if TYPE_CHECKING:
    from gapless.chaos.drill.stage import Stage


class KillGcs(Fault):
    """No process is started, found or missed meanwhile; those that run go on."""

    name = "kill gcs"
    about = "SIGKILL of Ray's GCS, restarted later on what it had stored."
    lasts = 4.0
    parts = frozenset({"persistence"})
    bears_random = False

    @classmethod
    def why_not(cls) -> str | None:
        """It takes a store that outlives it."""
        return why_not_persistent()

    def inject(self, stage: Stage) -> Hit:
        """Kills it."""
        stage.nodes.kill_gcs()
        return Hit("gcs", "SIGKILL; it has its state on disk")

    def heal(self, stage: Stage) -> None:
        """Starts it again."""
        stage.nodes.restart_gcs()
