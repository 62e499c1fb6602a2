"""A node is cut off, and everybody is told at once: connections are reset."""

from __future__ import annotations

from gapless.chaos.drill.faults.on_the_way import OnTheWay
from gapless.chaos.drill.means.rules import Rule


class Refuse(OnTheWay):
    """As a firewall does that rejects."""

    name = "refuse"
    about = "Packets from and to a node are answered with a reset, until after its declared death."
    counted = "reset"

    def rule(self) -> Rule:
        """What happens to packets."""
        return Rule(refuse=True)
