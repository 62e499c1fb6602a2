"""Frames of replicas are damaged on their way."""

from __future__ import annotations

from gapless.chaos.drill.faults.by_order import ByOrder
from gapless.chaos.drill.means.orders import Order


class CorruptFrames(ByOrder):
    """A checksum tells, and they count as lost."""

    name = "corrupt frames"
    about = "A share of the messages to mergers have a bit flipped."
    settings = {"share": 0.1}  # noqa: RUF012  # the class says that it does not change

    def order(self, who: str) -> Order:
        """What the hooks are to do."""
        return Order("corrupt", who, "all", share=self.number("share"))
