"""A process is killed, at once and by force: a replica's, a merger's, or the root's."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from gapless.chaos.drill.faults.fault import Fault, Hit
from gapless.chaos.drill.means.signals import kill

if TYPE_CHECKING:
    from gapless.chaos.drill.stage import Stage
    from gapless.chaos.drill.targets import Role


class Kill(Fault):
    """One process of a role. The job replaces it by itself, so there is nothing to heal."""

    role: ClassVar[Role]

    def inject(self, stage: Stage) -> Hit:
        """Kills it."""
        target, told, pid = stage.targets.one_of(self, self.role)
        return Hit(target, f"SIGKILL of {told}", kill([pid]))


class KillReplica(Kill):
    """The others go on, and the output with them."""

    name = "kill replica"
    about = "SIGKILL of a replica's process."
    role = "r"
    hits = "replica"


class KillMerger(Kill):
    """Its journal is there: another life goes on where it was durable."""

    name = "kill merger"
    about = "SIGKILL of a merger's process."
    role = "m"
    hits = "merger"


class KillRoot(Kill):
    """Nobody starts or replaces processes until the standby leads. Output does not go through the
    root, so it goes on.
    """

    name = "kill root"
    about = "SIGKILL of the root's process; the one that stands by adopts the lives."
    role = "root"
