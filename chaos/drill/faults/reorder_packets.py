"""Some packets from and to a node arrive behind later ones."""

from __future__ import annotations

from gapless.chaos.drill.faults.on_the_way import OnTheWay
from gapless.chaos.drill.means.rules import Rule


class ReorderPackets(OnTheWay):
    """TCP puts them in order, and takes some for lost."""

    name = "reorder packets"
    about = "A share of the packets from and to a node arrive behind later ones."
    counted = "reordered"
    settings = {"share": 0.2}  # noqa: RUF012  # the class says that it does not change

    def rule(self) -> Rule:
        """What happens to packets."""
        return Rule(reorder=self.number("share"))
