"""Faults of the network between one node and all others: a rule of the switch, for a while.

A node that is out of reach for longer than the cluster waits is taken for dead; when it is back it
hears so, and another node takes its place.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Literal

from gapless.chaos.drill.faults.fault import Fault, Hit
from gapless.chaos.drill.means.rules import Rule
from gapless.chaos.drill.means.switch import why_not

if TYPE_CHECKING:
    from gapless.chaos.drill.stage import Stage

Counted = Literal["dropped", "delayed", "reordered", "reset"]


class OnTheWay(Fault):
    """A rule for what a node and the others send each other."""

    lasts = 4.0
    hits = "node"
    nodes_min = 2
    parts = frozenset({"network"})
    both_ways: ClassVar[bool] = True
    """Or only what comes from the node."""
    counted: ClassVar[Counted]
    """What the switch must have done to some packets by then."""
    _node: str
    _before: int

    @classmethod
    def why_not(cls) -> str | None:
        """It takes network namespaces."""
        return why_not()

    @abstractmethod
    def rule(self) -> Rule:
        """What happens to packets."""

    def inject(self, stage: Stage) -> Hit:
        """Lays it down."""
        self._node = stage.targets.pick_node(self)
        self._before = self._count(stage)
        there = stage.targets.lives_on(self._node)
        self._lay(stage, self.rule())
        return Hit(self._node, f"{self._told()}, with {', '.join(there) or 'nobody'} there")

    def heal(self, stage: Stage) -> None:
        """Lifts it."""
        self._lay(stage, Rule())
        stage.renew(self._node)

    def struck(self, stage: Stage) -> str | None:
        """Whether there were packets."""
        return None if self._count(stage) > self._before else f"{self.name}: no packet was hit"

    def _told(self) -> str:
        settings = [f"{name} {self.setting(name)}" for name in self.settings]
        return ", ".join(settings) or "to and from all others"

    def _lay(self, stage: Stage, rule: Rule) -> None:
        me = int(self._node[1:])
        for name in stage.nodes.names:
            other = int(name[1:])
            if other == me:
                continue
            stage.switch.rule(me, other, rule)
            if self.both_ways:
                stage.switch.rule(other, me, rule)

    def _count(self, stage: Stage) -> int:
        return sum(getattr(each, self.counted) for each in stage.switch.counts().values())
