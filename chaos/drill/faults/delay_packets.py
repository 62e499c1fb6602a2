"""The way to a node is long."""

from __future__ import annotations

from gapless.chaos.drill.faults.on_the_way import OnTheWay
from gapless.chaos.drill.means.rules import Rule


class DelayPackets(OnTheWay):
    """As to another continent."""

    name = "delay packets"
    about = "Packets from and to a node are late."
    counted = "delayed"
    settings = {"ms": 50.0}  # noqa: RUF012  # the class says that it does not change

    def rule(self) -> Rule:
        """What happens to packets."""
        return Rule(delay_ms=self.number("ms"))
