"""The way to a node is narrow."""

from __future__ import annotations

from gapless.chaos.drill.faults.on_the_way import OnTheWay
from gapless.chaos.drill.means.rules import Rule


class Narrow(OnTheWay):
    """What does not fit waits, then is dropped."""

    name = "narrow the network"
    about = "So many bytes a second go from a node and to it, no more."
    counted = "delayed"
    settings = {"kb_per_s": 10.0}  # noqa: RUF012  # the class says that it does not change

    def rule(self) -> Rule:
        """What happens to packets."""
        return Rule(bytes_per_s=self.number("kb_per_s") * 1_000)
