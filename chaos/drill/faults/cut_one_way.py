"""What a node sends gets lost, and what is sent to it arrives."""

from __future__ import annotations

from gapless.chaos.drill.faults.on_the_way import OnTheWay
from gapless.chaos.drill.means.rules import Rule


class CutOneWay(OnTheWay):
    """A node that hears others and is not heard takes itself for well."""

    name = "cut one way"
    about = "Packets from a node vanish; those to it arrive."
    counted = "dropped"
    both_ways = False

    def rule(self) -> Rule:
        """What happens to packets."""
        return Rule(drop=True)
