"""A replica and a merger are killed within fifty milliseconds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gapless.chaos.drill.faults.fault import Fault, Hit
from gapless.chaos.drill.means.signals import kill

if TYPE_CHECKING:
    from gapless.chaos.drill.stage import Stage


class KillReplicaAndMerger(Fault):
    """What the replica had sent, and the merger had not yet made durable, is in no process."""

    name = "kill replica and merger"
    about = "SIGKILL of a replica, and of a merger some milliseconds later."
    settings = {"apart_ms": 20.0}  # noqa: RUF012  # the class says that it does not change

    def inject(self, stage: Stage) -> Hit:
        """Kills both."""
        targets = stage.targets
        replica = self.rng.choice(targets.slots("r"))
        merger = self.rng.choice(targets.slots("m"))
        first, second = targets.pid_of(replica), targets.pid_of(merger)
        ended = kill([first])
        time.sleep(self.number("apart_ms") / 1000)
        ended |= kill([second])
        return Hit(f"{replica} {merger}", f"SIGKILL of processes {first} and {second}", ended)
