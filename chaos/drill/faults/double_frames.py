"""Frames of replicas reach mergers twice."""

from __future__ import annotations

from gapless.chaos.drill.faults.by_order import ByOrder
from gapless.chaos.drill.means.orders import Order


class DoubleFrames(ByOrder):
    """The second is known by its number."""

    name = "double frames"
    about = "A share of the frames that replicas send arrive twice."
    settings = {"share": 0.3}  # noqa: RUF012  # the class says that it does not change

    def order(self, who: str) -> Order:
        """What the hooks are to do."""
        return Order("double", who, "frames", share=self.number("share"))
