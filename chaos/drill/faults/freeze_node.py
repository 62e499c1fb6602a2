"""All processes of a node are frozen by a control group, and thawed later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.chaos.drill.faults.fault import Fault, Hit
from gapless.chaos.drill.means.cgroups import Group, why_not

if TYPE_CHECKING:
    from gapless.chaos.drill.stage import Stage


class FreezeNode(Fault):
    """As if the machine was suspended: nothing in it runs, and nothing in it knows that later."""

    name = "freeze node"
    about = "A control group freezes all processes of a node beyond its declared death."
    hits = "node"
    lasts = 5.0
    nodes_min = 2
    _node: str
    _group: Group

    @classmethod
    def why_not(cls) -> str | None:
        """It takes a control group."""
        return why_not("freezer")

    def inject(self, stage: Stage) -> Hit:
        """Freezes it."""
        self._node = stage.targets.pick_node(self)
        there = stage.targets.lives_on(self._node)
        self._group = Group("freezer", stage.janitor)
        processes = stage.nodes.processes(self._node)
        self._group.add([process.pid for process in processes])
        self._group.freeze()
        return Hit(self._node, f"{len(processes)} processes, {', '.join(there) or 'nobody'} there")

    def heal(self, stage: Stage) -> None:
        """Thaws it: it hears that it is dead. Another node comes."""
        self._group.thaw()
        self._group.release()
        stage.renew(self._node)
