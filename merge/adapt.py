"""How `case="auto"` follows what its inputs declare.

Each input may say, when it attaches, what its stream is known to be. The case is the strictest that
all of them fit. One that says nothing is *observed*: it is taken to have a key until it inserts an
event that it already holds. More cannot be observed in time. That a stream revises nothing, say, is
known only when it is over: the case that relies on it would promise an end that is about to be
revised (docs/decisions/0005).
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any

from gapless.merge.choose import CaseName, StreamProperties, choose
from gapless.merge.policy import Policy

LADDER: tuple[CaseName, ...] = ("r0", "r1", "r2", "r3", "r4")
"""From the strictest to the most general."""
OBSERVED = StreamProperties(key=True)
"""What an input is taken for that declares nothing."""


@dataclass(frozen=True, slots=True)
class Step:
    """A change to a more general case."""

    before: CaseName
    after: CaseName
    why: str


def needed(policy: Policy, *properties: StreamProperties) -> CaseName:
    """The strictest case for such inputs under a policy."""
    case, _ = choose(properties)
    if policy.keeps_events and case < "r3":
        return "r3" if all(p.key for p in properties) else "r4"
    return case


class Declarations:
    """What each attached input is taken for."""

    def __init__(self) -> None:
        self._properties: dict[int, StreamProperties] = {}
        self._observed: set[int] = set()

    def with_one_more(self, declared: StreamProperties | None) -> list[StreamProperties]:
        """What all inputs are taken for once another has attached."""
        return [*self._properties.values(), declared or OBSERVED]

    def attach(self, number: int, declared: StreamProperties | None) -> None:
        """An input attaches, and declares this, or nothing."""
        self._properties[number] = declared or OBSERVED
        if declared is None:
            self._observed.add(number)

    def detach(self, number: int) -> None:
        """An input has left."""
        self._properties.pop(number, None)
        self._observed.discard(number)

    def observes(self, number: int) -> bool:
        """Whether an input has declared nothing, so that what it does decides."""
        return number in self._observed

    def to_plain(self) -> list[Any]:
        """All of it as plain data."""
        return [[n, n in self._observed, list(astuple(p))] for n, p in self._properties.items()]

    @staticmethod
    def from_plain(plain: list[Any]) -> Declarations:
        """The inverse of `to_plain`."""
        declarations = Declarations()
        for number, observed, flags in plain:
            declarations.attach(number, None if observed else StreamProperties(*flags))
        return declarations
