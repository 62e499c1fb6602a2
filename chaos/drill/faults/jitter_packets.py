"""The way to a node is now short, now long."""

from __future__ import annotations

from gapless.chaos.drill.faults.on_the_way import OnTheWay
from gapless.chaos.drill.means.rules import Rule


class JitterPackets(OnTheWay):
    """Heartbeats come in bursts."""

    name = "jitter packets"
    about = "Packets from and to a node are late, each by another while, in their order."
    counted = "delayed"
    settings = {"ms": 60.0}  # noqa: RUF012  # the class says that it does not change

    def rule(self) -> Rule:
        """What happens to packets."""
        return Rule(delay_ms=self.number("ms") / 2, jitter_ms=self.number("ms"))
