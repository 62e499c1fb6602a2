"""Assigning: which mergers the replicas of a shard send to, and which of them they wait for.

    assigned    m0.0 m0.1    awaited  m0.0 m0.1    a tail keeps what the slower one has not got
    m0.1 is away, or does not move while m0.0 does, for absent_ms: the tails have grown for as long
    assigned    m0.0         awaited  m0.0         they are trimmed; m0.1 reads its peer's output
    m0.1 reports
    assigned    m0.0 m0.1    awaited  m0.0         it is sent to at once
    m0.1 lets a replica act
    assigned    m0.0 m0.1    awaited  m0.0 m0.1    it has caught up: the tails wait for it again

One that cannot catch up, because what it lacks is in no journal any more, costs the frames that are
sent to it, and those for a bounded time: without progress it is unassigned, and tried again ever
less often. The last awaited merger is never taken away, however long it is gone: without it the
output would have a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from gapless.failover.supervisor.slots import Shard, Slot
from gapless.failover.timing import Timing
from gapless.protocol.elements import BEGIN, INF

VERSIONS_PER_TERM = 1 << 20
"""Assignments of one term, far more than mergers come and go. So each term's are later than all
before it, which the new supervisor need not have heard of.
"""
DOUBLINGS_MAX = 4
"""Of the wait until a merger that did not move is tried again, `absent_ms` at first: whatever mends
it, a disk or a person, is then noticed within minutes."""


def first_version(term: int) -> int:
    """The version of a term's first assignment."""
    return term * VERSIONS_PER_TERM


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the replicas of a shard are to be sent."""

    assigned: tuple[str, ...]
    awaited: tuple[str, ...]
    stuck: tuple[str, ...] = ()
    """Taken away because they live and do not move."""


def assignment(
    shard: Shard, now: int, timing: Timing, may_unassign: Callable[[Collection[str], str], bool]
) -> Assignment:
    """What should be assigned and awaited now; `may_unassign`: of those that are awaited, one."""
    assigned = set(shard.assigned) | {slot.name for slot in returned(shard, now)}
    awaited = set(shard.awaited) | {slot.name for slot in caught_up(shard)}
    stuck = {slot.name for slot in stuck_ones(shard, now, timing)}
    gone = [slot.name for slot in absent(shard, now, timing)]
    for name in (*sorted(stuck), *gone):
        if may_unassign(awaited, name):
            awaited.discard(name)
            assigned.discard(name)
        else:
            stuck.discard(name)
    return Assignment(
        tuple(name for name in shard.mergers if name in assigned),
        tuple(name for name in shard.mergers if name in awaited),
        tuple(name for name in shard.mergers if name in stuck),
    )


def may_unassign(awaited: Collection[str], name: str) -> bool:
    """Never the last that is awaited: without it the output is lost."""
    return set(awaited) != {name}


def absent(shard: Shard, now: int, timing: Timing) -> list[Slot]:
    """Assigned mergers that are away for too long, the one that is away the longest first."""
    slots = [shard.mergers[name] for name in shard.assigned]
    away = [
        slot for slot in slots if not _is_live(slot) and now - slot.heard_at >= timing.absent_ms
    ]
    return sorted(away, key=lambda slot: slot.heard_at) if away else away


def stuck_ones(shard: Shard, now: int, timing: Timing) -> list[Slot]:
    """Assigned mergers that live, and have made nothing durable for too long while one that is
    awaited went on.
    """
    if len(shard.assigned) == 1:
        return []
    patience_ms = timing.absent_ms
    return [
        slot
        for slot in (shard.mergers[name] for name in shard.assigned)
        if _is_live(slot)
        and now - slot.progress.moved_at >= patience_ms
        and any(_went_on(shard, peer, slot, patience_ms // 2) for peer in _live_awaited(shard))
    ]


def _went_on(shard: Shard, peer: Slot, slot: Slot, for_ms: int) -> bool:
    """Whether a peer is ahead and has moved on where a merger has not: at a pause of the sources
    one may be ahead for long.
    """
    ahead = shard.durables.get(peer.name, BEGIN)
    if ahead <= shard.durables.get(slot.name, BEGIN):
        return False
    return ahead == INF or peer.progress.advanced_at - slot.progress.moved_at >= for_ms


def returned(shard: Shard, now: int) -> list[Slot]:
    """Mergers that have reported, and are not assigned."""
    if len(shard.assigned) == len(shard.mergers):
        return []
    return [
        slot
        for slot in shard.mergers.values()
        if slot.name not in shard.assigned and _is_live(slot) and now >= slot.progress.again_at
    ]


def caught_up(shard: Shard) -> list[Slot]:
    """Assigned mergers that are not awaited, and let a replica act that runs: all that the output
    needs from now on reaches them.
    """
    if len(shard.awaited) == len(shard.assigned):
        return []
    running = {known.life for known in shard.running()}
    return [
        slot
        for slot in (shard.mergers[name] for name in shard.assigned)
        if slot.name not in shard.awaited
        and slot.current is not None
        and slot.current.is_live
        and not running.isdisjoint(slot.current.acting)
    ]


def takes(shard: Shard, chosen: Assignment, now: int, timing: Timing) -> None:
    """Makes it the shard's assignment."""
    for name in chosen.assigned:
        if name not in shard.assigned:
            shard.mergers[name].progress.moved_at = now
    for name in chosen.awaited:
        if name not in shard.awaited:
            shard.mergers[name].progress.failures = 0
    for name in chosen.stuck:
        progress = shard.mergers[name].progress
        progress.again_at = now + (timing.absent_ms << min(progress.failures, DOUBLINGS_MAX))
        progress.failures += 1
    shard.assigned, shard.awaited = chosen.assigned, chosen.awaited
    shard.version += 1


def begins(slot: Slot, now: int) -> None:
    """A life of a merger has reported for the first time: before there was nobody to move."""
    if not slot.progress.is_forgiven:
        slot.progress.moved_at = now
        slot.progress.is_forgiven = True


def moved(shard: Shard, slot: Slot, durable_stable: int, now: int) -> None:
    """A merger has reported how far its output is durable."""
    others = [shard.durables.get(name, BEGIN) for name in shard.awaited if name != slot.name]
    before = shard.durables.get(slot.name, BEGIN)
    if durable_stable > before:
        slot.progress.moved_at = slot.progress.advanced_at = now
        slot.progress.is_forgiven = False
    elif durable_stable >= max(others, default=BEGIN):
        slot.progress.moved_at = now
        slot.progress.is_forgiven = False
    shard.durables[slot.name] = durable_stable


def _live_awaited(shard: Shard) -> list[Slot]:
    return [slot for slot in (shard.mergers[name] for name in shard.awaited) if _is_live(slot)]


def _is_live(slot: Slot) -> bool:
    return slot.current is not None and slot.current.is_live
