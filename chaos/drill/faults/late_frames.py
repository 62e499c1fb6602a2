"""Frames of replicas come late."""

from __future__ import annotations

from gapless.chaos.drill.faults.by_order import ByOrder
from gapless.chaos.drill.means.orders import Order


class LateFrames(ByOrder):
    """All replicas are laggards at once."""

    name = "delay frames"
    about = "The frames that replicas send are late."
    settings = {"ms": 80.0}  # noqa: RUF012  # the class says that it does not change

    def order(self, who: str) -> Order:
        """What the hooks are to do."""
        return Order("delay", who, "frames", ms=self.number("ms"))
