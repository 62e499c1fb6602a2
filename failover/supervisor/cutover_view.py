"""Views: how a cutover sees the job. It decides by them, and knows nothing else of the supervisor.

slot      current, not suspected --> old        successor --> new
          suspected, dead        --> no old     (it is fenced then)
merger    heard lately, how far, whom it fences
"""

from __future__ import annotations

from collections.abc import Callable

from gapless.failover.messages import Life
from gapless.failover.supervisor.cutover import MergerView, ReplicaView, ShardView, SlotView
from gapless.failover.supervisor.slots import Known, Shard, Slot
from gapless.protocol.elements import BEGIN, INF


def shard_view(shard: Shard, qualifies: Callable[[Life], bool], *, committed: bool) -> ShardView:
    """A shard. Once the cutover is committed, each slot's current life is the new one."""
    return ShardView(
        tuple(_slot(slot, qualifies, committed) for slot in shard.replicas.values()),
        tuple(_merger(slot) for slot in shard.mergers.values()),
        tuple(shard.floors.values()),
    )


def _slot(slot: Slot, qualifies: Callable[[Life], bool], committed: bool) -> SlotView:
    if committed:
        return SlotView(None, _replica(slot.current, qualifies))
    old = slot.current if slot.current is None or slot.current.state != "suspected" else None
    return SlotView(_replica(old, qualifies), _replica(slot.successor, qualifies))


def _replica(known: Known | None, qualifies: Callable[[Life], bool]) -> ReplicaView | None:
    if known is None:
        return None
    status = known.replica
    held_at, hold = (INF, (0, 0)) if status is None else (status.held_at, status.hold)
    may_act = known.is_live and qualifies(known.life)
    return ReplicaView(known.life, known.stable, held_at, hold, may_act)


def _merger(slot: Slot) -> MergerView:
    known = slot.current
    if known is None or known.merger is None:
        return MergerView(slot.name, False, BEGIN)
    status = known.merger
    return MergerView(slot.name, known.is_live, status.stable, status.fences)
