"""Some packets from and to a node get lost."""

from __future__ import annotations

from gapless.chaos.drill.faults.on_the_way import OnTheWay
from gapless.chaos.drill.means.rules import Rule


class LosePackets(OnTheWay):
    """TCP sends them again, after a while each time."""

    name = "lose packets"
    about = "A share of the packets from and to a node vanish."
    counted = "dropped"
    settings = {"share": 0.05}  # noqa: RUF012  # the class says that it does not change

    def rule(self) -> Rule:
        """What happens to packets."""
        return Rule(loss=self.number("share"))
