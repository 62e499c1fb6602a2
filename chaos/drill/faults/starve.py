"""Processes share a part of a core: one replica's, or all that the job has."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from gapless.chaos.drill.faults.fault import Fault, Hit
from gapless.chaos.drill.means.cgroups import Group, why_not

if TYPE_CHECKING:
    from gapless.chaos.drill.stage import Stage


class Starve(Fault):
    """A control group limits some processes. What is started later is not among them, so a start is
    no slower.
    """

    _group: Group

    @classmethod
    def why_not(cls) -> str | None:
        """It takes a control group."""
        return why_not("cpu")

    @abstractmethod
    def whom(self, stage: Stage) -> tuple[str, str, list[int]]:
        """The target, who that is in words, and the processes."""

    def inject(self, stage: Stage) -> Hit:
        """Limits them."""
        target, told, pids = self.whom(stage)
        self._group = Group("cpu", stage.janitor)
        self._group.add(pids)
        self._group.limit_cpu(self.number("share"))
        return Hit(target, f"{self.number('share'):.0%} of a core for {told}")

    def heal(self, stage: Stage) -> None:  # noqa: ARG002  # the group knows the janitor
        """Lifts it."""
        self._group.release()


class StarveCpu(Starve):
    """It lives, and lags: a laggard is helped by feedback, then replaced."""

    name = "starve cpu"
    about = "A replica's processor time is limited by a control group to a share of one core."
    hits = "replica"
    lasts = 4.0
    settings = {"share": 0.03}  # noqa: RUF012  # the class says that it does not change

    def whom(self, stage: Stage) -> tuple[str, str, list[int]]:
        """One replica."""
        slot = stage.targets.pick(self, "r")
        pid = stage.targets.pid_of(slot)
        return slot, f"process {pid}", [pid]


class StarveAll(Starve):
    """As on an overloaded machine: everybody is slow and nobody is dead, and replacing what is slow
    makes everything slower.
    """

    name = "starve all"
    about = "The job's processes share what a control group leaves them of one core."
    lasts = 10.0
    settings = {"share": 0.2}  # noqa: RUF012  # the class says that it does not change

    def whom(self, stage: Stage) -> tuple[str, str, list[int]]:
        """Everybody."""
        return stage.targets.everybody()
