"""A node's raylet is killed, and its workers with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.chaos.drill.faults.fault import Fault, Hit

if TYPE_CHECKING:
    from gapless.chaos.drill.stage import Stage


class KillRaylet(Fault):
    """The node is gone for the cluster; who worked on it ends by itself."""

    name = "kill raylet"
    about = "SIGKILL of a node's raylet; another node is added later."
    hits = "node"
    lasts = 3.0
    nodes_min = 2
    _node: str

    def inject(self, stage: Stage) -> Hit:
        """Kills it."""
        self._node = stage.targets.pick_node(self)
        there = stage.targets.lives_on(self._node)
        stage.nodes.kill_raylet(self._node)
        told = f"its raylet, with {', '.join(there) or 'nobody'} there"
        return Hit(self._node, told, frozenset(there.values()))

    def heal(self, stage: Stage) -> None:
        """Ends what is left of the node, and adds another."""
        stage.nodes.kill(self._node)
        stage.nodes.add()
