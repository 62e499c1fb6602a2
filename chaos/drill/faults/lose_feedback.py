"""What mergers tell replicas gets lost."""

from __future__ import annotations

from gapless.chaos.drill.faults.by_order import ByOrder
from gapless.chaos.drill.means.orders import Order


class LoseFeedback(ByOrder):
    """Replicas send again, and skip less."""

    name = "lose feedback"
    about = "A share of what mergers tell replicas is lost: acks, feedback."
    settings = {"share": 0.5}  # noqa: RUF012  # the class says that it does not change
    where = "r"

    def order(self, who: str) -> Order:
        """What the hooks are to do."""
        return Order("lose", who, "feedback", share=self.number("share"))
