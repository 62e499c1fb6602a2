"""Supervisors that break one rule each: of incarnations, of redundancy, of cutovers."""

from __future__ import annotations

from collections.abc import Sequence

from gapless.failover.cutover import Cutover, ShardView
from gapless.failover.slots import Known, Shard
from gapless.failover.supervisor import Supervisor
from gapless.protocol.envelope import Incarnation


class CountsNobody(Supervisor):
    """Gives one incarnation again and again."""

    def _next_incarnation(self) -> Incarnation:
        return Incarnation(self.term, 1)


class PromotesAtOnce(Supervisor):
    """Lets a successor take over, and the life before it go, before it qualifies."""

    def _may_promote(self, shard: Shard, successor: Known) -> bool:  # noqa: ARG002
        return True


class UnassignsTheLast(Supervisor):
    """Takes the last merger from the replicas."""

    def _may_unassign(self, assigned: tuple[str, ...]) -> bool:  # noqa: ARG002
        return True


class CutsWithoutHolding(Supervisor):
    """Commits a cutover before the old lives have said that they are held."""

    class CUTOVER(Cutover):
        """Waits for new lives only."""

        def _is_safe(self, shards: Sequence[ShardView]) -> bool:  # noqa: ARG002
            """They qualify: it has looked."""
            return True
