"""A node is cut off, silently: what is sent is never heard of again."""

from __future__ import annotations

from gapless.chaos.drill.faults.on_the_way import OnTheWay
from gapless.chaos.drill.means.rules import Rule


class Partition(OnTheWay):
    """Nobody is told: connections look alive, and time out."""

    name = "partition"
    about = "Packets from and to a node vanish, until after its declared death."
    counted = "dropped"

    def rule(self) -> Rule:
        """What happens to packets."""
        return Rule(drop=True)
