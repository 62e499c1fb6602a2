"""A job that is drained while its sources go on: in a small share of the runs people end it so.

    sources   w  w  w  w  w  w  w  w  w ...          they never pause
    people          drain
    job             | all that is there is answered | it has gone

A life that the supervisor did not reach any more reads in the job's record that it is stopped, as
its shell does elsewhere. Such a run ends when nobody is left. Its output has no end, so what it
promised is judged up to there; that nothing which was there was left out the checker `drain` says.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from gapless.chaos.judge.history import Broken
from gapless.failover.job.desired import Stop
from gapless.failover.messages import SUPERVISOR
from gapless.failover.supervisor.effects import Command

if TYPE_CHECKING:
    from gapless.chaos.sim.simulator import Simulation

SHARE = 0.06
"""Of all runs of a workload that may be cut short."""
LOOK_MS = 50
"""How often it is asked whether the job has gone."""
PATIENCE_MS = 8_000
"""After the last fault, and the order; then what has not gone never will."""


class MidwayDrain:
    """The drain of one run."""

    def __init__(self, world: Simulation, at: int) -> None:
        self._world = world
        self._at = at
        self.is_ordered = False
        """Whether people have ordered it: then they change nothing else any more."""

    @staticmethod
    def drawn(world: Simulation) -> MidwayDrain | None:
        """That of a seed's run; None in most."""
        if world.workload.whole or not MidwayDrain.is_drawn(world.seed):
            return None
        rng = random.Random(f"time of the drain {world.seed}")
        return MidwayDrain(world, rng.randint(world.sources.span_ms // 4, world.sources.span_ms))

    @staticmethod
    def is_drawn(seed: int) -> bool:
        """Whether there is one in a seed's run."""
        return random.Random(f"drain {seed}").random() < SHARE

    def plan(self) -> None:
        """Puts it into the agenda."""
        self._world.at(self._at, self._look)

    def _look(self) -> None:
        """Orders it, again where a supervisor has died with the order; ends the run behind it."""
        world = self._world
        world.by_time()
        self.is_ordered = True
        supervisor = world.cluster.newest[SUPERVISOR]
        hears = supervisor.is_alive and not supervisor.frozen
        if hears and world.desired.state == "running":
            world.begin_step("", "operation: drain")
            world.cluster.to_supervisor(Command(Stop(drain=True)))
        if world.desired.state == "stopped" and not supervisor.is_alive:
            self._read_record()
        left = world.cluster.left
        if not left and world.desired.state == "stopped":
            world.agenda.stop()
            return
        if world.now > max(self._at, world.strikes.ends_at) + PATIENCE_MS and (
            world.strikes.is_over
        ):
            raise Broken("drain", f"the job is {world.desired.state}, and there are still {left}")
        world.at(world.now + LOOK_MS, self._look)

    def _read_record(self) -> None:
        cluster = self._world.cluster
        for process in [cluster.processes[name] for name in cluster.left]:
            if not process.frozen:
                cluster.end(process, "reads that the job is stopped")
