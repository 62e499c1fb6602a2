"""Several processes are killed at once: all replicas, all but one, or all that the job has."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from gapless.chaos.drill.faults.fault import CannotStrike, Fault, Hit
from gapless.chaos.drill.means.signals import kill

if TYPE_CHECKING:
    from gapless.chaos.drill.stage import Stage


class KillAll(Fault):
    """Those of several slots. The job replaces them by itself, so there is nothing to heal."""

    @abstractmethod
    def whom(self, stage: Stage) -> tuple[str, str, list[int]]:
        """The target, who that is in words, and the processes."""

    def inject(self, stage: Stage) -> Hit:
        """Kills them."""
        target, told, pids = self.whom(stage)
        return Hit(target, f"SIGKILL of {told}", kill(pids))


class KillAllReplicas(KillAll):
    """No peer is left to be asked: they come back from checkpoints and the sources."""

    name = "kill all replicas"
    about = "SIGKILL of all replicas at once."

    def whom(self, stage: Stage) -> tuple[str, str, list[int]]:
        """Every replica."""
        slots = stage.targets.slots("r")
        return " ".join(slots), "all of them", [stage.targets.pid_of(slot) for slot in slots]


class KillAllButOne(KillAll):
    """The one that is left is enough for the output to go on."""

    name = "kill all but one"
    about = "SIGKILL of all replicas but one, at once."
    hits = "replica"
    replicas_min = 2

    def whom(self, stage: Stage) -> tuple[str, str, list[int]]:
        """Every replica but one; `target` is the one that is spared."""
        slots = stage.targets.slots("r")
        spared = stage.targets.pick(self, "r")
        doomed = [slot for slot in slots if slot != spared]
        if not doomed:
            raise CannotStrike(f"there is only {spared}")
        pids = [stage.targets.pid_of(slot) for slot in doomed]
        return " ".join(doomed), f"all but {spared}", pids


class KillAllProcesses(KillAll):
    """What is left is the job's directory, and a root that Ray starts again."""

    name = "kill all processes"
    about = "SIGKILL of all replicas, mergers, the root and its standby at once."

    def whom(self, stage: Stage) -> tuple[str, str, list[int]]:
        """Everybody, the root and its standby too."""
        return stage.targets.everybody()
