"""Memory returns to its level: what was kept for the faults is let go of when they are over.

    tail of a replica      what some merger has not made durable: at the end of all streams nothing
                           but events without an end
    state of a merger      what is not settled: nothing
    appends under way      nothing
    windows of replicas    at most their credits: a resend may be far off, ever farther
    questions              that wait for more output: one a subscriber
    checkpoints            the newest two of each shard and plan, and one that is being replaced

What a machine keeps it says itself: a replica by its tail and its links, any other by `sizes()`,
numbers by the names below. It is judged once all output has ended and SETTLE_MS have passed; the
tail of a replica, if it has heard from each of its mergers that all is durable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gapless.chaos.checkers.world import World
from gapless.chaos.history import Broken, Durable, Recovered, Resumed, TookIn, Verdict
from gapless.failover.link import CREDITS
from gapless.failover.messages import Life
from gapless.protocol.elements import INF

SETTLE_MS = 500
"""A few resends: until then the last acks may still be on their way."""
TAIL_SHARE = 0.25
"""Of the table's events, what tails may keep beside those without an end: they forget by frames,
and one that kept everything holds more than all of them."""
TAIL_ROWS_MIN = 16
"""Less than that is a frame or two."""
ROWS_PER_OPEN_EVENT = 3
"""A tail holds frames as they were sent: an event in its first and its last form, and then some."""
CHECKPOINTS_PER_PLAN = 3
"""Two are kept of each shard and plan; the third is written before one of them goes. A plan that
was replaced may have left some."""

NOTHING = frozenset({"live keys", "pending rows"})
"""Sizes that are 0 when all is over."""


class MemoryReturns:
    """See the module."""

    name = "memory"
    promise = (
        "When all is over tails, mergers' state, windows, waiting questions, unwritten output and "
        "checkpoints are back at their level."
    )

    def __init__(self) -> None:
        self._ended: set[str] = set()
        self._moved_at = 0
        self._subscribers: set[str] = set()

    def hears(self) -> Mapping[type, Callable[[int, Any], None]]:
        """When the output moved last."""
        return {
            Durable: lambda now, fact: self._on_stable(now, fact.merger, fact.frame.stable),
            Recovered: lambda now, fact: self._on_stable(now, fact.merger, fact.live.stable),
            TookIn: self._on_took_in,
            Resumed: lambda _, fact: self._subscribers.add(fact.subscriber),
        }

    def _on_stable(self, now: int, merger: Life, stable: int | None) -> None:
        self._moved_at = now
        if stable == INF:
            self._ended.add(merger.slot)

    def _on_took_in(self, now: int, fact: TookIn) -> None:
        if len(fact.frame):  # others only ask whether somebody is there
            self._moved_at = now

    def verdict(self, world: World) -> Verdict:
        """Unknown where something was still moving, or no machine could be asked."""
        if world.now < self._moved_at + SETTLE_MS or not self._ended.issuperset(world.outputs):
            return Verdict.UNKNOWN
        levels = self._levels(world)
        judged = False
        for life, machine in world.machines.items():
            for what, size in sizes_of(machine):
                level = levels.get(what)
                judged |= level is not None
                if level is not None and size > level:
                    raise Broken(
                        self.name,
                        f"{life} has {size} {what}, {world.now - self._moved_at} ms after all "
                        f"output has ended; the level is {level}",
                    )
        return Verdict.HOLDS if judged else Verdict.UNKNOWN

    def _levels(self, world: World) -> dict[str, int]:
        counts = world.expected.counts()
        events = sum(counts.values())
        without_end = sum(n for event, n in counts.items() if event.ve == INF)
        desired = world.desired
        tail = ROWS_PER_OPEN_EVENT * without_end + max(TAIL_ROWS_MIN, int(TAIL_SHARE * events))
        return {
            **dict.fromkeys(NOTHING, 0),
            "tail rows": tail,
            "window frames": CREDITS * desired.mergers,
            "waiting questions": len(self._subscribers),
            "checkpoints": CHECKPOINTS_PER_PLAN * desired.shards * (1 + len(desired.plans)),
        }


def sizes_of(machine: Any) -> Iterator[tuple[str, int]]:
    """What a machine keeps."""
    if hasattr(machine, "tail"):
        if all(link.durable == INF for link in machine.links.values()):  # as far as it knows
            yield "tail rows", len(machine.tail)
        yield "window frames", sum(len(link.window) for link in machine.links.values())
    if hasattr(machine, "sizes"):
        yield from machine.sizes().items()
