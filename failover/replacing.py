"""Replacing: a replica is given up only when another one has taken its place.

    current      running ---- suspected, or of another plan -----------------| fence, retire
    successor                      starting -- joining -- running, qualifies |--- the current one
                                                    at every merger that lives

    the current one recovers first    the successor goes
    the current one dies              the successor is the current one; nothing is lost by it
    the successor dies                the next one, after a back-off of its own

One successor at a time in a shard: each costs as much as a replica, and its state is read from
somebody. Who is suspected comes before who only runs an old plan. So a rolling switch to another
plan, equal in its answer, is nothing but this, slot by slot.
"""

from __future__ import annotations

from collections.abc import Collection

from gapless.failover.desired import Desired
from gapless.failover.diverging import DIVERGES
from gapless.failover.messages import Life
from gapless.failover.slots import Known, Shard, Slot


def is_needed(slot: Slot, desired: Desired) -> bool:
    """Whether a slot's current life is to be replaced."""
    current = slot.current
    if current is None:
        return False
    return current.state == "suspected" or current.plan != desired.plan_of(slot.index)


def is_slow(slot: Slot) -> bool:
    """Whether its current life is suspected of what a busy machine makes of any life."""
    current = slot.current
    return current is not None and bool(current.suspicion) and current.suspicion != DIVERGES


def next_slot(shard: Shard, desired: Desired, now: int) -> Slot | None:
    """The slot whose life is replaced next; None where there is none, or all wait."""
    outdated: Slot | None = None
    for slot in shard.replicas.values():
        if slot.index >= desired.replicas or not is_needed(slot, desired):
            continue
        if slot.successor is not None or not slot.trials.allows(now):
            continue
        if slot.current is not None and not _may_be_next(slot, slot.current, now):
            continue
        if slot.current is not None and slot.current.state == "suspected":
            return slot
        outdated = outdated or slot
    return outdated


def _may_be_next(slot: Slot, current: Known, now: int) -> bool:
    """Whether the back-off of odd ones lets it be replaced: the next may be as odd."""
    return current.suspicion != DIVERGES or slot.oddities.allows(now)


def has_successor(shard: Shard) -> bool:
    """Whether one is under way."""
    return any(slot.successor is not None for slot in shard.replicas.values())


def qualifies(life: Life, mergers: Collection[Known]) -> bool:
    """Whether a replica may act at every merger that lives, and one does."""
    return bool(mergers) and all(life in merger.acting for merger in mergers)


def surplus(shard: Shard, desired: Desired) -> Slot | None:
    """The slot of the highest index beyond what is desired."""
    last = next(reversed(shard.replicas.values()), None)
    return last if last is not None and last.index >= desired.replicas else None
