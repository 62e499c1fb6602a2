"""A stall is a failure: nothing advances, nobody says why, and something could.

    sources grow      w  w  w  w  w  w  w        what replicas may read
    outputs advance   d  d                       durable stables of a shard's mergers
    is said               .                      an alarm, or a life that begins or ends
                           |------------->|      longer than SILENT_MS: broken

A job may stand still while a fault lasts, while no replica or no merger lives, while something is
being mended; a longer wait is said by an alarm. A stretch in which the sources have grown,
no fault is active, nobody has come, gone or said anything, and no output of a shard has advanced is
a stall that nobody would hear of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from gapless.chaos.judge.history import (
    Broken,
    Durable,
    Ended,
    Healed,
    Obeyed,
    Recovered,
    Said,
    Started,
    Struck,
    Verdict,
    Written,
)
from gapless.chaos.sim.checkers.world import World, shard_of
from gapless.failover.messages import Life
from gapless.protocol.elements import BEGIN, INF

SILENT_MS = 2_000
"""Many times what anything takes in the simulator, and the bound of `progress` beside it."""
WRITTEN_MIN = 4
"""Batches that must have come meanwhile: nearly each makes every replica say something."""


class NoSilentStall:
    """See the module."""

    name = "silence"
    promise = (
        "No output stands still in silence: where one could go on and does not, the job says why."
    )

    def __init__(self, shards: int, silent_ms: int = SILENT_MS) -> None:
        self._silent_ms = silent_ms
        self._stables: dict[str, int] = {}
        self._far = [BEGIN] * shards
        self._moved_at = [0] * shards
        self._written = [0] * shards  # batches, since then
        self._alive: list[Counter[str]] = [Counter() for _ in range(shards)]  # by role
        self._active = 0
        self._is_draining = False
        self._judged = False

    def hears(self) -> Mapping[type, Callable[[int, Any], None]]:
        """What moves, what may keep it from moving, and what is said of it."""
        return {
            Written: self._on_written,
            Durable: lambda now, fact: self._on_stable(now, fact.merger.slot, fact.frame.stable),
            Recovered: lambda now, fact: self._on_stable(now, fact.merger.slot, fact.live.stable),
            Struck: self._on_struck,
            Healed: self._on_healed,
            Started: lambda now, fact: self._on_life(now, fact.life, 1),
            Ended: lambda now, fact: self._on_life(now, fact.life, -1),
            Said: self._on_told,
            Obeyed: self._on_obeyed,
        }

    def verdict(self, world: World) -> Verdict:
        """Unknown where the sources never went on while no fault was active."""
        for shard in range(len(self._moved_at)):
            self._look(world.now, shard)
        return Verdict.HOLDS if self._judged else Verdict.UNKNOWN

    def _on_written(self, now: int, fact: Written) -> None:
        for shard in range(len(self._moved_at)):
            self._written[shard] += 1 if fact.stable < INF else WRITTEN_MIN  # the end is for all
            self._look(now, shard)

    def _on_life(self, now: int, life: Life, more: int) -> None:
        if life.slot[0] in "rm" and life.slot[1:2].isdigit():
            self._alive[shard_of(life.slot)][life.slot[0]] += more
        self._on_told(now, life)

    def _on_stable(self, now: int, slot: str, stable: int | None) -> None:
        if stable is not None and stable > self._stables.get(slot, BEGIN):
            shard = shard_of(slot)
            self._look(now, shard)
            self._stables[slot] = stable
            self._far[shard] = max(self._far[shard], stable)
            self._moved_at[shard], self._written[shard] = now, 0

    def _on_struck(self, _: int, fact: Struck) -> None:  # noqa: ARG002  # which one is all the same
        self._active += 1

    def _on_healed(self, now: int, fact: Healed) -> None:
        self._active -= 1
        self._on_told(now, fact)

    def _on_obeyed(self, _: int, fact: Obeyed) -> None:
        """A job that is drained reads no more, however its sources grow."""
        self._is_draining |= fact.order == "Drain"

    def _on_told(self, now: int, _: Any) -> None:
        """Something happens, or is said: from here on it may take as long again."""
        self._moved_at = [now] * len(self._moved_at)

    def _look(self, now: int, shard: int) -> None:
        alive, far = self._alive[shard], self._far[shard]
        is_waiting = self._written[shard] >= WRITTEN_MIN and far < INF
        if self._is_draining or self._active or not is_waiting or not (alive["r"] and alive["m"]):
            return
        self._judged = True
        stands_ms = now - self._moved_at[shard]
        if stands_ms > self._silent_ms:
            raise Broken(
                self.name,
                f"at {now} ms no output of shard {shard} has advanced for {stands_ms} ms, though "
                f"the sources have grown {self._written[shard]} times; nobody has said anything",
            )
