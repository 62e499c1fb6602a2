"""The disk takes long to sync."""

from __future__ import annotations

from gapless.chaos.drill.faults.by_order import ByOrder
from gapless.chaos.drill.means.orders import Order


class SlowDisk(ByOrder):
    """Output gathers meanwhile, and comes in larger pieces."""

    name = "slow disk"
    about = "Every sync of a file takes longer."
    settings = {"ms": 200.0}  # noqa: RUF012  # the class says that it does not change
    where = "*"

    def order(self, who: str) -> Order:
        """What the hooks are to do."""
        return Order("slow disk", who, ms=self.number("ms"))
