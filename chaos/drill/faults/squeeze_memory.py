"""A replica gets less memory than it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.chaos.drill.faults.fault import CannotStrike, Fault, Hit
from gapless.chaos.drill.means.cgroups import Group, why_not

if TYPE_CHECKING:
    from gapless.chaos.drill.stage import Stage


class SqueezeMemory(Fault):
    """The kernel kills it, or it is slow; the others go on."""

    name = "squeeze memory"
    about = "A replica's memory is limited by a control group to a share of what it has."
    hits = "replica"
    lasts = 4.0
    settings = {"share": 0.5}  # noqa: RUF012  # the class says that it does not change
    _group: Group

    @classmethod
    def why_not(cls) -> str | None:
        """It takes a control group."""
        return why_not("memory")

    def inject(self, stage: Stage) -> Hit:
        """Limits it."""
        slot = stage.targets.pick(self, "r")
        process = stage.targets.processes().get(slot)
        if process is None:
            raise CannotStrike(f"nobody is in slot {slot}")
        limit = round(process.memory_info().rss * self.number("share"))
        self._group = Group("memory", stage.janitor)
        self._group.add([process.pid])
        self._group.limit_memory(limit)
        return Hit(slot, f"{limit >> 20} MB for process {process.pid}")

    def heal(self, stage: Stage) -> None:  # noqa: ARG002  # the group knows the janitor
        """Lifts it."""
        self._group.release()
