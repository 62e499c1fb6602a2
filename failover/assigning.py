"""Assigning: which mergers the replicas of a shard send to, and wait for.

    assigned    m0.0 m0.1            a replica's tail keeps what the slower one has not got
    m0.1 is away for absent_ms       the tails have grown for as long
    assigned    m0.0                 they are trimmed; m0.1 fills its gap from its peer's output
    m0.1 reports                     assigned again, at once

The last one is never taken away, however long it is gone: without it the output would have a gap.
"""

from __future__ import annotations

from gapless.failover.slots import Shard, Slot
from gapless.failover.timing import Timing

VERSIONS_PER_TERM = 1 << 20
"""Assignments of one term, far more than mergers come and go. So each term's are later than all
before it, which the new supervisor need not have heard of.
"""


def first_version(term: int) -> int:
    """The version of a term's first assignment."""
    return term * VERSIONS_PER_TERM


def absent(shard: Shard, now: int, timing: Timing) -> list[Slot]:
    """Assigned mergers that are away for too long, the one that is away the longest first."""
    slots = [shard.mergers[name] for name in shard.assigned]
    away = [
        slot
        for slot in slots
        if (slot.current is None or not slot.current.is_live)
        and now - slot.heard_at >= timing.absent_ms
    ]
    return sorted(away, key=lambda slot: slot.heard_at) if away else away


def returned(shard: Shard) -> list[Slot]:
    """Mergers that have reported, and are not assigned."""
    if len(shard.assigned) == len(shard.mergers):
        return []
    return [
        slot
        for slot in shard.mergers.values()
        if slot.name not in shard.assigned and slot.current is not None and slot.current.is_live
    ]
