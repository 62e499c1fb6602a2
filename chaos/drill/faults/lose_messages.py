"""Messages do not arrive: frames of replicas, or what mergers tell them."""

from __future__ import annotations

from gapless.chaos.drill.faults.by_order import OfMessages
from gapless.chaos.drill.means.orders import Order


class LoseMessages(OfMessages):
    """A share of them."""

    def order(self, who: str) -> Order:
        """What the hooks are to do."""
        return Order("lose", who, self.messages, share=self.number("share"))


class LoseFrames(LoseMessages):
    """They are sent again, in order."""

    name = "lose frames"
    about = "A share of the frames that replicas send are lost."
    settings = {"share": 0.2}  # noqa: RUF012  # the class says that it does not change


class LoseFeedback(LoseMessages):
    """Replicas send again, and skip less."""

    name = "lose feedback"
    about = "A share of what mergers tell replicas is lost: acks, feedback."
    settings = {"share": 0.5}  # noqa: RUF012  # the class says that it does not change
    messages = "feedback"
    where = "r"
