"""Frames of replicas do not reach mergers."""

from __future__ import annotations

from gapless.chaos.drill.faults.by_order import ByOrder
from gapless.chaos.drill.means.orders import Order


class LoseFrames(ByOrder):
    """They are sent again, in order."""

    name = "lose frames"
    about = "A share of the frames that replicas send are lost."
    settings = {"share": 0.2}  # noqa: RUF012  # the class says that it does not change

    def order(self, who: str) -> Order:
        """What the hooks are to do."""
        return Order("lose", who, "frames", share=self.number("share"))
