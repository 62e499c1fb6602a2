"""Messages arrive twice: frames of replicas, or what mergers tell them."""

from __future__ import annotations

from gapless.chaos.drill.faults.by_order import OfMessages
from gapless.chaos.drill.means.orders import Order


class DoubleMessages(OfMessages):
    """A share of them."""

    def order(self, who: str) -> Order:
        """What the hooks are to do."""
        return Order("double", who, self.messages, share=self.number("share"))


class DoubleFrames(DoubleMessages):
    """The second is known by its number."""

    name = "double frames"
    about = "A share of the frames that replicas send arrive twice."
    settings = {"share": 0.3}  # noqa: RUF012  # the class says that it does not change


class DoubleFeedback(DoubleMessages):
    """It says what is so, so saying it again changes nothing."""

    name = "double feedback"
    about = "A share of what mergers tell replicas arrives twice."
    settings = {"share": 0.5}  # noqa: RUF012  # the class says that it does not change
    messages = "feedback"
    where = "r"
