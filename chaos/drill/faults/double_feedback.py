"""What mergers tell replicas comes twice."""

from __future__ import annotations

from gapless.chaos.drill.faults.by_order import ByOrder
from gapless.chaos.drill.means.orders import Order


class DoubleFeedback(ByOrder):
    """It says what is so, so saying it again changes nothing."""

    name = "double feedback"
    about = "A share of what mergers tell replicas arrives twice."
    settings = {"share": 0.5}  # noqa: RUF012  # the class says that it does not change
    where = "r"

    def order(self, who: str) -> Order:
        """What the hooks are to do."""
        return Order("double", who, "feedback", share=self.number("share"))
