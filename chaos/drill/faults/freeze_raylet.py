"""A node's raylet is stopped until the node is taken for dead, and goes on then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.chaos.drill.faults.fault import Fault, Hit

if TYPE_CHECKING:
    from gapless.chaos.drill.stage import Stage


class FreezeRaylet(Fault):
    """The node's processes do not know, and go on as zombies of lives that are replaced."""

    name = "freeze raylet"
    about = "SIGSTOP of a node's raylet beyond its declared death, then SIGCONT."
    hits = "node"
    lasts = 5.0
    nodes_min = 2
    _node: str

    def inject(self, stage: Stage) -> Hit:
        """Stops it."""
        self._node = stage.targets.pick_node(self)
        there = stage.targets.lives_on(self._node)
        stage.nodes.freeze_raylet(self._node)
        return Hit(self._node, f"its raylet, with {', '.join(there) or 'nobody'} there")

    def heal(self, stage: Stage) -> None:
        """Lets it go on: it hears that it is dead. Another node comes."""
        stage.nodes.thaw_raylet(self._node)
        stage.renew(self._node)
