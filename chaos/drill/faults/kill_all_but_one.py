"""All replicas but one are killed at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.chaos.drill.faults.fault import CannotStrike, Fault, Hit
from gapless.chaos.drill.means.signals import kill

if TYPE_CHECKING:
    from gapless.chaos.drill.stage import Stage


class KillAllButOne(Fault):
    """The one that is left is enough for the output to go on."""

    name = "kill all but one"
    about = "SIGKILL of all replicas but one, at once."
    hits = "replica"
    replicas_min = 2

    def inject(self, stage: Stage) -> Hit:
        """Kills them; `target` is the one that is spared."""
        slots = stage.slots("r")
        spared = stage.pick(self, "r")
        doomed = [slot for slot in slots if slot != spared]
        if not doomed:
            raise CannotStrike(f"there is only {spared}")
        ended = kill([stage.pid_of(slot) for slot in doomed])
        return Hit(" ".join(doomed), f"SIGKILL of all but {spared}", ended)
