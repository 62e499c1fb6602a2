"""The programs that read the output of a simulated job: two, by what is delivered to them.

changes    every change; of both mergers, or of one, which each of its lives draws anew
final      each event once, of both mergers
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gapless.chaos.sim.cluster import MERGERS
from gapless.failover.job.desired import slot
from gapless.protocol.elements import BEGIN

if TYPE_CHECKING:
    from gapless.chaos.sim.simulator import Simulation

CHANGES, FINAL = SUBSCRIBERS = ("changes", "final")
ALONE_SHARE = 0.5
"""Of the lives that read changes, those that read one merger alone."""


class Subscriptions:
    """How each program subscribes."""

    def __init__(self, world: Simulation) -> None:
        self._world = world

    def begin(self) -> None:
        """Starts both programs."""
        self._world.cluster.subscribe(CHANGES, self._of_changes)
        self._world.cluster.subscribe(FINAL, self._of_final)

    def _of_changes(self) -> dict[str, Any]:
        world = self._world
        shards = range(world.workload.shards)
        one = {str(s): (slot("m", s, world.below(MERGERS)),) for s in shards}
        is_alone = world.rng.random() < ALONE_SHARE
        start = "earliest" if is_alone and world.rng.random() < ALONE_SHARE else BEGIN
        how = self._of_final()
        return how | {"deliver": CHANGES, "start": start} | ({"mergers": one} if is_alone else {})

    def _of_final(self) -> dict[str, Any]:
        work = self._world.workload
        both = {str(s): (slot("m", s, 0), slot("m", s, 1)) for s in range(work.shards)}
        what = {"insert_only": work.starts_are_final, "case": work.case}
        return {"mergers": both, "deliver": FINAL, "start": BEGIN, **what}
