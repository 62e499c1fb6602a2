"""A scripted cluster whose processes share a CPU that is too small: starts make all slower.

load    how many times as long as on an idle machine everything takes; lives that start count
        for several, so a supervisor that replaces what is slow makes more of it slow
turn    a process, the supervisor's too, does something only when it has the CPU
"""

from __future__ import annotations

from gapless.actors.setup import RAY_TIMING
from gapless.failover.effects import Tick
from gapless.failover.job.desired import Desired
from gapless.failover.machines import Event
from gapless.failover.messages import Life
from gapless.failover.supervisor.effects import Spawn
from gapless.failover.supervisor.machine import Supervisor
from tests.failover.supervised import World
from tests.failover.supervised_lives import TICK_MS

STEP_MS = 50
START_MS = 300
"""Of a process, on an idle machine."""
START_WEIGHT = 4
"""A process that starts wants as much as so many that run."""
LIFE_CPU_MS = 150
"""What a life does between two turns, on an idle machine: rows wait to be read."""
SUPERVISOR_CPU_MS = 5
"""And the supervisor: who sleeps most of the time is woken soon, however busy a machine is."""
GAP_MS_MAX = 6_000
"""Between two turns of a process."""


class Starved(World):
    """Processes that wait for their turn."""

    def __init__(self, seed: int, make: type[Supervisor] = Supervisor) -> None:
        self.share = 1.0
        """Of the CPU that the desired lives need, how much there is."""
        self.turns: dict[Life | None, int] = {}
        super().__init__(seed, make, Desired(3, ("p",), mergers=2), timing=RAY_TIMING)

    @property
    def load(self) -> float:
        wanted = self.desired.replicas + self.desired.mergers
        wants = sum(
            START_WEIGHT if machine.up_at > self.now else 1 for machine in self.lives.values()
        )
        return max(1.0, wants / wanted / self.share)

    def gap_ms(self, who: Life | None, idle_ms: int) -> int:
        """Until a process has its next turn, where it wants one after `idle_ms`."""
        wants_ms = SUPERVISOR_CPU_MS if who is None else LIFE_CPU_MS
        mean_ms = wants_ms * self.load
        if self.load <= 1.0 or mean_ms <= idle_ms:
            return idle_ms
        return max(idle_ms, min(GAP_MS_MAX, int(self.rng.expovariate(1 / mean_ms))))

    def spawn(self, term: int, effect: Spawn) -> None:
        super().spawn(term, effect)
        self.lives[effect.life].up_at = self.now + int(START_MS * self.load)

    def run(self, ms: int) -> None:
        until = self.now + ms
        while self.now < until:
            self.now += STEP_MS
            for machine in list(self.lives.values()):
                if machine.frozen_until <= self.now and self.has_turn(machine.life, STEP_MS):
                    for event in self.ripe(machine.life):
                        if machine.life in self.lives:
                            self.obey(machine, event)
                    if machine.life in self.lives:
                        self.step(machine)
            if self.has_turn(None, TICK_MS):
                for event in self.ripe(None):
                    self.tell(event)
                self.tell(Tick())

    def has_turn(self, who: Life | None, idle_ms: int) -> bool:
        if self.turns.get(who, 0) > self.now:
            return False
        self.turns[who] = self.now + self.gap_ms(who, idle_ms)
        return True

    def ripe(self, to: Life | None) -> list[Event]:
        """What has come for a process."""
        ripe = sorted(d for d in self.due if d[2] == to and d[0] <= self.now)
        self.due = [d for d in self.due if d[2] != to or d[0] > self.now]
        return [event for _, _, _, event in ripe]
