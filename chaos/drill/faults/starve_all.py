"""All processes of the job share a part of a core, as on a machine that is overloaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.chaos.drill.faults.fault import Fault, Hit
from gapless.chaos.drill.means.cgroups import Group, why_not

if TYPE_CHECKING:
    from gapless.chaos.drill.stage import Stage


class StarveAll(Fault):
    """Everybody is slow and nobody is dead: who replaces what is slow makes all slower."""

    name = "starve all"
    about = "The job's processes share what a control group leaves them of one core."
    lasts = 10.0
    settings = {"share": 0.2}  # noqa: RUF012  # the class says that it does not change
    _group: Group

    @classmethod
    def why_not(cls) -> str | None:
        """It takes a control group."""
        return why_not("cpu")

    def inject(self, stage: Stage) -> Hit:
        """Limits them; what is started later is not among them, which makes a start no slower."""
        processes = stage.processes()
        self._group = Group("cpu", stage.janitor)
        self._group.add([process.pid for process in processes.values()])
        self._group.limit_cpu(self.number("share"))
        return Hit("everything", f"{self.number('share'):.0%} of a core for {', '.join(processes)}")

    def heal(self, stage: Stage) -> None:  # noqa: ARG002  # the group knows the janitor
        """Lifts it."""
        self._group.release()
