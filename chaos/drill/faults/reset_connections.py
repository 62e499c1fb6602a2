"""All connections from and to a node are reset, once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.chaos.drill.faults.fault import CannotStrike, Fault, Hit
from gapless.chaos.drill.means.switch import why_not

if TYPE_CHECKING:
    from gapless.chaos.drill.stage import Stage


class ResetConnections(Fault):
    """As a middlebox does that has forgotten them; everybody connects anew."""

    name = "reset connections"
    about = "Every TCP connection between a node and the others is reset at once."
    hits = "node"
    nodes_min = 2
    parts = frozenset({"network"})

    @classmethod
    def why_not(cls) -> str | None:
        """It takes network namespaces."""
        return why_not()

    def inject(self, stage: Stage) -> Hit:
        """Resets them."""
        node = stage.targets.pick_node(self)
        me = int(node[1:])
        others = [int(name[1:]) for name in stage.nodes.names if name != node]
        count = sum(stage.switch.reset(me, other) for other in others)
        if count == 0:
            raise CannotStrike(f"{node} has no connections")
        return Hit(node, f"{count} connections")
