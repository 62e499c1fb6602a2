"""Replacing: a replica is given up only when another one has taken its place.

    current      running ---- suspected, or of another plan -----------------| fence, retire
    successor                      starting -- joining -- running, qualifies |--- the current one
                                                    at every merger that lives

    the current one recovers first    the successor goes
    the current one dies              the successor is the current one; nothing is lost by it
    the successor dies                the next one, after a back-off of its own

One successor at a time in a shard: each costs as much as a replica, and its state is read from
somebody. Suspected lives come before those with an old plan. So a rolling switch to another
plan, equal in its answer, is nothing but this, slot by slot.
"""

from __future__ import annotations

from collections.abc import Collection

from gapless.failover.job.desired import Desired
from gapless.failover.messages import Life
from gapless.failover.supervisor.divergence import DIVERGES
from gapless.failover.supervisor.slots import Known, Shard, Slot


def is_needed(slot: Slot, desired: Desired) -> bool:
    """Whether a slot's current life is to be replaced."""
    current = slot.current
    if current is None:
        return False
    return current.state == "suspected" or current.plan != desired.plan_of(slot.index)


def is_doubted(slot: Slot, desired: Desired) -> bool:
    """Whether its current life is replaced only for what a busy machine makes of any life:
    a ration holds that. A plan that people do not want any more is replaced beyond all rations.
    """
    current = slot.current
    if current is None or current.plan != desired.plan_of(slot.index):
        return False
    return bool(current.suspicion) and current.suspicion != DIVERGES


def waiting(shard: Shard, desired: Desired, now: int) -> list[Slot]:
    """The slots whose lives may be replaced next, those of suspected ones first."""
    slots = [
        slot
        for slot in shard.replicas.values()
        if slot.index < desired.replicas and is_needed(slot, desired) and _may_be_next(slot, now)
    ]
    return sorted(slots, key=lambda slot: slot.shown != "suspected")


def _may_be_next(slot: Slot, now: int) -> bool:
    """Whether nobody is beside its life, and the back-offs of successors, and of odd ones where it
    is odd, let another try: the next may fail, or be as odd.
    """
    if slot.successor is not None or not slot.trials.allows(now):
        return False
    is_odd = slot.current is not None and slot.current.suspicion == DIVERGES
    return not is_odd or slot.oddities.allows(now)


def has_successor(shard: Shard) -> bool:
    """Whether one is under way."""
    return any(slot.successor is not None for slot in shard.replicas.values())


def qualifies(life: Life, mergers: Collection[Known]) -> bool:
    """Whether a replica may act at every live merger, of which there is at least one."""
    return bool(mergers) and all(life in merger.acting for merger in mergers)


def surplus(shard: Shard, desired: Desired) -> Slot | None:
    """The slot of the highest index beyond what is desired."""
    last = next(reversed(shard.replicas.values()), None)
    return last if last is not None and last.index >= desired.replicas else None
