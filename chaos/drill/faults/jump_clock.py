"""The wall clock jumps."""

from __future__ import annotations

from gapless.chaos.drill.faults.by_order import ByOrder
from gapless.chaos.drill.means.orders import MS_MAX, Order


class JumpClock(ByOrder):
    """Nothing that is promised depends on it."""

    name = "jump clock"
    about = "The wall clock of the processes is off by a while, and jumps back."
    settings = {"ms": 3_600_000.0}  # noqa: RUF012  # the class says that it does not change
    limits = {"ms": (1.0, MS_MAX)}  # noqa: RUF012  # the same
    where = "*"

    def order(self, who: str) -> Order:
        """What the hooks are to do."""
        return Order("clock", who, ms=self.number("ms"))
