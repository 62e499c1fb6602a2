"""A replica is killed, and the one that comes in its place as well, while it joins."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gapless.chaos.drill.faults.fault import Fault, Hit
from gapless.chaos.drill.means.signals import kill

if TYPE_CHECKING:
    import random

    from gapless.chaos.drill.faults.fault import Planned
    from gapless.chaos.drill.stage import Stage


WAIT_S = 20.0
"""How long another life may take to begin."""
LOOK_S = 0.005


class KillRejoining(Fault):
    """A rejoin is cut short: nothing of it may be half done."""

    name = "kill rejoining"
    about = "SIGKILL of a replica, and of its successor while it rejoins."
    hits = "replica"
    settings = {"times": 2}  # noqa: RUF012  # the class says that it does not change

    def __init__(self, planned: Planned, rng: random.Random) -> None:
        super().__init__(planned, rng)
        self._killed = 0

    def inject(self, stage: Stage) -> Hit:
        """Kills the one, waits for the next, kills that."""
        slot = stage.targets.pick(self, "r")
        life, about = stage.targets.life_of(slot)
        ended = kill([about.pid])
        for _ in range(round(self.number("times"))):
            until_s = time.monotonic() + WAIT_S
            while time.monotonic() < until_s:
                found = [
                    (other, its)
                    for other, its in stage.view().hosts.items()
                    if other.slot == slot and other > life
                ]
                if found:
                    life, about = max(found, key=lambda each: each[0])
                    ended |= kill([about.pid])
                    self._killed += 1
                    break
                time.sleep(LOOK_S)
        return Hit(slot, f"SIGKILL of it and of {self._killed} lives that came after it", ended)

    def struck(self, stage: Stage) -> str | None:  # noqa: ARG002  # it has counted itself
        """Whether there was somebody to kill."""
        return None if self._killed else "kill rejoining: nobody came in time to be killed"
