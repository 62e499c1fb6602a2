"""Frames of replicas overtake each other."""

from __future__ import annotations

from gapless.chaos.drill.faults.by_order import ByOrder
from gapless.chaos.drill.means.orders import Order


class ReorderFrames(ByOrder):
    """Each waits for those before it."""

    name = "reorder frames"
    about = "A share of the frames that replicas send arrive behind later ones."
    settings = {"share": 0.3}  # noqa: RUF012  # the class says that it does not change

    def order(self, who: str) -> Order:
        """What the hooks are to do."""
        return Order("reorder", who, "frames", share=self.number("share"))
