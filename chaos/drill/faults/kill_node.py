"""A machine dies: its raylet and all processes on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.chaos.drill.faults.fault import Fault, Hit

if TYPE_CHECKING:
    from gapless.chaos.drill.stage import Stage


class KillNode(Fault):
    """Its lives are placed on the nodes that are left; later another machine comes."""

    name = "kill node"
    about = "All processes of a node are killed at once; another node is added later."
    hits = "node"
    lasts = 3.0
    nodes_min = 2

    def inject(self, stage: Stage) -> Hit:
        """Kills it."""
        node = stage.targets.pick_node(self)
        there = stage.targets.lives_on(node)
        stage.nodes.kill(node)
        return Hit(node, f"with {', '.join(there) or 'nobody'} on it", frozenset(there.values()))

    def heal(self, stage: Stage) -> None:
        """Adds another."""
        stage.nodes.add()
