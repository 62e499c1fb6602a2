"""Frames of a life that was replaced come after it is gone."""

from __future__ import annotations

from gapless.chaos.drill.faults.by_order import ByOrder
from gapless.chaos.drill.means.orders import Order


class StaleFrames(ByOrder):
    """Kill a replica after it: its frames come again once another has its slot."""

    name = "stale frames"
    about = "Frames of earlier lives of a slot are given to mergers again."
    settings = {"share": 0.3}  # noqa: RUF012  # the class says that it does not change
    lasts = 6.0

    def order(self, who: str) -> Order:
        """What the hooks are to do."""
        return Order("stale", who, "frames", share=self.number("share"))
