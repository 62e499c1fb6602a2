"""The cluster's directory (its GCS) dies for good, and the cluster with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.chaos.drill.faults.fault import Fault, Hit

if TYPE_CHECKING:
    from gapless.chaos.drill.stage import Stage


class LoseGcs(Fault):
    """The output goes on for a while even so. Then the job is resumed from its directory."""

    name = "lose gcs"
    about = "SIGKILL of Ray's GCS, which had no store; later the job is resumed on another cluster."
    lasts = 5.0
    bears_random = False

    def inject(self, stage: Stage) -> Hit:
        """Kills it."""
        stage.nodes.kill_gcs()
        return Hit("gcs", "SIGKILL; nobody else knows what it knew")

    def heal(self, stage: Stage) -> None:
        """Gives the cluster up."""
        stage.resume()
