"""Faults inside processes: an order to the hooks there, for a while."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Literal

from gapless.chaos.drill.faults.fault import Fault, Hit
from gapless.chaos.drill.means.orders import Messages, Order

if TYPE_CHECKING:
    from gapless.chaos.drill.scenario import Scenario
    from gapless.chaos.drill.stage import Stage


TARGETS = {
    "m": "merger, m*",
    "r": "replica, r*",
    "*": "replica, merger, r*, m*, root, *",
}


class ByOrder(Fault):
    """The hooks do something to messages, to the disk or to the clock."""

    lasts = 4.0
    parts = frozenset({"inside"})
    where: ClassVar[Literal["r", "m", "*"]] = "m"
    """Which processes it strikes, where the scenario does not say: one role's, or all."""
    _number: int

    @classmethod
    def targets(cls, scenario: Scenario) -> tuple[str, ...]:
        """Slots of those that it is for, or all of them with a star."""
        counts = {"r": scenario.replicas, "m": scenario.mergers}
        roles = [role for role in counts if cls.where in {role, "*"}]
        slots = [f"{role}0.{number}" for role in roles for number in range(counts[role])]
        every = [f"{role}*" for role in roles]
        return (*slots, *every, *(["root", "*"] if cls.where == "*" else []))

    @classmethod
    def targets_in_words(cls) -> str:
        """Slots of the roles that it is for, or all of a role with a star."""
        return TARGETS[cls.where]

    @abstractmethod
    def order(self, who: str) -> Order:
        """What the hooks are told to do."""

    def inject(self, stage: Stage) -> Hit:
        """Gives the order."""
        who = self.planned.target or ("*" if self.where == "*" else f"{self.where}*")
        order = self.order(who)
        self._number = stage.orders.give(order)
        settings = [f"{name} {self.setting(name)}" for name in self.settings]
        return Hit(who, ", ".join(settings) or order.what)

    def heal(self, stage: Stage) -> None:
        """Takes it back."""
        stage.orders.take_back(self._number)

    def struck(self, stage: Stage) -> str | None:
        """Why it had no effect: no hook ever did it."""
        count = stage.orders.struck(self._number)
        return None if count else f"{self.name}: it was never done"


class OfMessages(ByOrder):
    """The hooks do it to what arrives: at mergers the frames of replicas, at replicas what mergers
    tell them.
    """

    messages: ClassVar[Messages] = "frames"
    """Which; with "feedback", `where` is "r"."""
