"""Memory returns to its level: what was kept for the faults is let go of when they are over.

    tail of a replica      what some merger has not made durable: at the end of all streams nothing
                           but events without an end, and what was sent in one frame with them
    state of a merger      what is not settled: nothing
    appends under way      nothing
    windows of replicas    at most their credits: a resend may be far off, ever farther
    questions              that wait for more output: one a subscriber
    checkpoints            the newest two of each shard and plan, and one that is being replaced

What a machine keeps it says itself: a replica by its tail and its links, any other by `sizes()`,
numbers by the names below. It is judged once all output has ended; the tail of a replica, if it has
heard from each of its mergers that all is durable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gapless.chaos.judge.history import Broken, Durable, Recovered, Resumed, Verdict
from gapless.chaos.sim.checkers.world import World
from gapless.failover.messages import Life
from gapless.failover.replica.link import CREDITS
from gapless.failover.replica.tail import FOLD_FACTOR, FOLD_ROWS_MIN
from gapless.protocol.elements import INF

TAIL_SHARE = 0.25
"""Of the table's events, what tails may keep beside those without an end: they forget by frames,
and one that kept everything holds more than all of them."""
TAIL_ROWS_MIN = 16
"""Less than that is a frame or two."""
CHECKPOINTS_PER_PLAN = 3
"""Two are kept of each shard and plan; the third is written before one of them goes. A plan that
was replaced may have left some."""

NOTHING = frozenset({"live keys", "pending rows"})
"""Sizes that are 0 when all is over."""


class MemoryReturns:
    """See the module."""

    name = "memory"
    promise = (
        "In the end tails, mergers' state, windows, waiting questions, unwritten output and "
        "checkpoints are back at their level."
    )

    def __init__(self) -> None:
        self._ended: set[str] = set()
        self._subscribers: set[str] = set()

    def hears(self) -> Mapping[type, Callable[[int, Any], None]]:
        """Where the outputs stand, and who may ask for more."""
        return {
            Durable: lambda _, fact: self._on_stable(fact.merger, fact.frame.stable),
            Recovered: lambda _, fact: self._on_stable(fact.merger, fact.live.stable),
            Resumed: lambda _, fact: self._subscribers.add(fact.subscriber),
        }

    def _on_stable(self, merger: Life, stable: int | None) -> None:
        if stable == INF:
            self._ended.add(merger.slot)

    def verdict(self, world: World) -> Verdict:
        """Unknown where the output has not ended, or nobody could be asked."""
        if not self._ended.issuperset(world.outputs) or not world.machines:
            return Verdict.UNKNOWN
        problems = self.problems(world)
        if problems:
            raise Broken(self.name, f"at {world.now} ms: " + "; ".join(problems))
        return Verdict.HOLDS

    def problems(self, world: World) -> list[str]:
        """What is not back at its level yet. A simulation asks while it has patience: the last acks
        may still be on their way.
        """
        levels = self._levels(world)
        return [
            f"{life} has {size} {what}, the level is {levels[what]}"
            for life, machine in world.machines.items()
            for what, size in sizes_of(machine)
            if size > levels.get(what, size)
        ]

    def _levels(self, world: World) -> dict[str, int]:
        counts = world.expected.counts()
        events = sum(counts.values())
        without_end = sum(n for event, n in counts.items() if event.ve == INF)
        desired = world.desired
        tail = max(TAIL_ROWS_MIN, int(TAIL_SHARE * events))
        if without_end:  # it forgets by frames, so one such event keeps all of its frame until
            tail = max(tail, FOLD_ROWS_MIN, FOLD_FACTOR * events)  # frames are folded
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
