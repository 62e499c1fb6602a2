"""Messages are late: frames of replicas, or what mergers tell them."""

from __future__ import annotations

from gapless.chaos.drill.faults.by_order import OfMessages
from gapless.chaos.drill.means.orders import Order


class DelayMessages(OfMessages):
    """Each of them, by as much."""

    def order(self, who: str) -> Order:
        """What the hooks are to do."""
        return Order("delay", who, self.messages, ms=self.number("ms"))


class DelayFrames(DelayMessages):
    """All replicas are laggards at once."""

    name = "delay frames"
    about = "The frames that replicas send are late."
    settings = {"ms": 80.0}  # noqa: RUF012  # the class says that it does not change


class DelayFeedback(DelayMessages):
    """It was true when it was said, and is less than what is true now."""

    name = "delay feedback"
    about = "What mergers tell replicas is late."
    settings = {"ms": 300.0}  # noqa: RUF012  # the class says that it does not change
    messages = "feedback"
    where = "r"
