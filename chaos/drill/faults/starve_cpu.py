"""A replica gets next to no processor time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.chaos.drill.faults.fault import Fault, Hit
from gapless.chaos.drill.means.cgroups import Group, why_not

if TYPE_CHECKING:
    from gapless.chaos.drill.stage import Stage


class StarveCpu(Fault):
    """It lives, and lags: a laggard is helped by feedback, then replaced."""

    name = "starve cpu"
    about = "A replica's processor time is limited by a control group to a share of one core."
    hits = "replica"
    lasts = 4.0
    settings = {"share": 0.03}  # noqa: RUF012  # the class says that it does not change
    _group: Group

    @classmethod
    def why_not(cls) -> str | None:
        """It takes a control group."""
        return why_not("cpu")

    def inject(self, stage: Stage) -> Hit:
        """Limits it."""
        slot = stage.pick(self, "r")
        pid = stage.pid_of(slot)
        self._group = Group("cpu", stage.janitor)
        self._group.add([pid])
        self._group.limit_cpu(self.number("share"))
        return Hit(slot, f"{self.number('share'):.0%} of a core for process {pid}")

    def heal(self, stage: Stage) -> None:  # noqa: ARG002  # the group knows the janitor
        """Lifts it."""
        self._group.release()
