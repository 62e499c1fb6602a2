"""What mergers tell replicas comes late."""

from __future__ import annotations

from gapless.chaos.drill.faults.by_order import ByOrder
from gapless.chaos.drill.means.orders import Order


class LateFeedback(ByOrder):
    """It was true when it was said, and is less than what is true now."""

    name = "delay feedback"
    about = "What mergers tell replicas is late."
    settings = {"ms": 300.0}  # noqa: RUF012  # the class says that it does not change
    where = "r"

    def order(self, who: str) -> Order:
        """What the hooks are to do."""
        return Order("delay", who, "feedback", ms=self.number("ms"))
