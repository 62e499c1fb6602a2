"""Supervisors that break one rule each: of incarnations, of redundancy, of cutovers."""

from __future__ import annotations

from collections.abc import Collection

from gapless.failover.supervisor.fleet import Fleet
from gapless.failover.supervisor.machine import Supervisor
from gapless.failover.supervisor.reconciler import Reconciler
from gapless.failover.supervisor.slots import Known, Shard
from gapless.protocol.envelope import Incarnation


class CountsNobody(Supervisor):
    """Gives one incarnation again and again."""

    class FLEET(Fleet):
        """Does not count."""

        def next_incarnation(self) -> Incarnation:
            """Always the first."""
            return Incarnation(self.term, 1)


class PromotesAtOnce(Supervisor):
    """Lets a successor take over, and the life before it go, before it qualifies."""

    class RECONCILER(Reconciler):
        """Trusts anybody."""

        def _may_promote(self, shard: Shard, successor: Known) -> bool:  # noqa: ARG002  # it does not look at that
            return True


class UnassignsTheLast(Supervisor):
    """Takes the last merger from the replicas."""

    class RECONCILER(Reconciler):
        """Does not look who is left."""

        def _may_unassign(self, awaited: Collection[str], name: str) -> bool:  # noqa: ARG002  # it does not look at that
            return True
