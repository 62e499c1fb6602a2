"""When a simulated run is over: all is done, or patience is.

    every LOOK_MS   faults over? sources ended? output ended? all that is desired runs?
                      yes --> judged; in some runs the job is drained then, and has to be gone
                      no, and PATIENCE_MS after the last row and fault --> judged as it is

What has not converged by then never will: the checkers say what is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.chaos.judge.history import Broken, Verdict
from gapless.chaos.sim.checkers.converge import Converges
from gapless.chaos.sim.checkers.memory import MemoryReturns
from gapless.chaos.sim.subscriptions import SUBSCRIBERS
from gapless.failover.job.desired import Stop
from gapless.failover.merger import openings
from gapless.failover.messages import SUPERVISOR
from gapless.failover.supervisor.effects import Command
from gapless.failover.supervisor.machine import Supervisor
from gapless.protocol.elements import INF

if TYPE_CHECKING:
    from gapless.chaos.sim.simulator import Simulation

LOOK_MS = 100
"""How often it is asked whether all is done."""
PATIENCE_MS = 8_000
"""After the last fault and the last row; then what has not converged never will. Of the
seeds 0 to 299 the slowest takes a quarter of it."""
PART_MS = 200
"""More of it for each further part of the table that a subscriber begins with: a round trip takes
120 ms at most, and one that is lost is asked for again after as long."""
DRAIN_SHARE = 0.25
"""Of the runs, those that are drained when all is done."""


class RunEnd:
    """Looks whether the run is over, and stops it then."""

    def __init__(self, world: Simulation) -> None:
        self._world = world
        self._last_checkers = [
            c for c in world.history.checkers if isinstance(c, Converges | MemoryReturns)
        ]
        self._verdicts: dict[str, Verdict] | None = None

    def begin(self, at: int) -> None:
        """Looks from some time on."""
        self._world.at(at, self._look)

    def verdicts(self) -> dict[str, Verdict]:
        """What each checker says of the run: as it was when all was done, or else now."""
        return self._judge() if self._verdicts is None else self._verdicts

    def _look(self) -> None:
        """Asks whether all is done; after long patience that is for the checkers to say."""
        world = self._world
        ended_at = world.sources.ended_at
        if self._is_done:
            self._verdicts = self._judge()
            if world.rng.random() < DRAIN_SHARE:
                world.cluster.to_supervisor(Command(Stop(drain=True)))
                world.at(world.now + LOOK_MS, self._look_at_drain, world.now + PATIENCE_MS)
            else:
                world.agenda.stop()
        elif ended_at is not None and world.now > self._patient_until(ended_at):
            world.agenda.stop()
        else:
            world.at(world.now + LOOK_MS, self._look)

    def _patient_until(self, ended_at: int) -> int:
        """Parts of a table come one after the other, and the more of them the smaller they are."""
        parts = -(-len(self._world.expected) // int(openings.PART_ROWS_MAX))
        more_ms = PART_MS * max(0, parts - 1)
        return max(ended_at, self._world.strikes.ends_at) + PATIENCE_MS + more_ms

    def _look_at_drain(self, until: int) -> None:
        """Whether a job that was told to drain has gone, and left nobody behind."""
        world = self._world
        left = world.cluster.left
        state = world.desired.state
        if not left and state == "stopped":
            world.agenda.stop()
        elif world.now > until:
            raise Broken("converge", f"the job is {state}, and there are still {left}")
        else:
            world.at(world.now + LOOK_MS, self._look_at_drain, until)

    def _judge(self) -> dict[str, Verdict]:
        world = self._world
        for process in world.cluster.processes.values():
            process.machine.validate()
        return {checker.name: checker.verdict(world) for checker in world.history.checkers}

    @property
    def _is_done(self) -> bool:
        """Whether nothing is broken, missing or under way any more."""
        world = self._world
        supervisor = world.cluster.newest[SUPERVISOR]
        subscribers = [world.cluster.newest[name] for name in SUBSCRIBERS]
        return (
            world.strikes.is_over
            and not (world.toil and world.toil.open)
            and supervisor.is_alive
            and all(s.is_alive and s.machine.stable == INF for s in subscribers)
            and _is_whole(supervisor.machine)
            and not any(checker.problems(world) for checker in self._last_checkers)
        )


def _is_whole(supervisor: Supervisor) -> bool:
    """Whether all that is desired runs, and nothing is under way."""
    state = supervisor.state()
    return (
        not state.is_adopting
        and not state.cutover
        and all(s.state == "running" and s.successor is None for s in state.slots)
    )
