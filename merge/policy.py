"""What an LMerge puts out when, within what is correct (LMerge paper, section V-A).

    Policy()                                           the paper's Algorithm R3: first insert out,
                                                       ends put right at stables
    Policy(insert="half_frozen")                       nothing out that may be taken back whole
    Policy(insert=quorum(2), stable=lag(5_000))        two inputs agree first; promise 5 s late

Early output costs chatter: what goes out early may have to be revised. `docs/lmerge.md` has each
policy's exact rule. What means nothing is refused when it is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from gapless.protocol.elements import INF
from gapless.protocol.errors import Misuse

InsertRule = Literal[
    "first", "leading", "highest_insert", "most_unfrozen", "half_frozen", "fully_frozen"
]
AdjustRule = Literal["at_stable", "at_once", "leading"]


@dataclass(frozen=True, slots=True)
class Quorum:
    """Insert policy: an event goes out once `k` inputs have it, or all that are attached."""

    k: int

    def __post_init__(self) -> None:
        if self.k < 1:
            raise Misuse(f"quorum({self.k}): at least one input has to have the event")


@dataclass(frozen=True, slots=True)
class Lag:
    """Stable policy: the output promises `d` less than the acting input does."""

    d: int

    def __post_init__(self) -> None:
        if not 0 <= self.d < INF:
            raise Misuse(f"lag({self.d}): a time span is not negative")


def quorum(k: int) -> Quorum:
    """An event goes out once `k` inputs have it, or all that are attached."""
    return Quorum(k)


def lag(d: int) -> Lag:
    """The output promises `d` less than the acting input does."""
    return Lag(d)


@dataclass(frozen=True, slots=True)
class Policy:
    """When inserts, adjusts and stables go out."""

    insert: InsertRule | Quorum = "first"
    adjust: AdjustRule = "at_stable"
    stable: Literal["maximum"] | Lag = "maximum"

    def __post_init__(self) -> None:
        if not isinstance(self.insert, Quorum) and self.insert not in get_args(InsertRule):
            names = ", ".join(get_args(InsertRule))
            raise Misuse(f"insert policy {self.insert!r}: use {names} or quorum(k)")
        if self.adjust not in get_args(AdjustRule):
            raise Misuse(f"adjust policy {self.adjust!r}: use {', '.join(get_args(AdjustRule))}")
        if self.stable != "maximum" and not isinstance(self.stable, Lag):
            raise Misuse(f"stable policy {self.stable!r}: use maximum or lag(d)")
        if self.insert == "fully_frozen" and self.adjust != "at_stable":
            raise Misuse(
                f"fully_frozen with adjust={self.adjust!r}: what is fully frozen never changes"
            )

    @property
    def keeps_events(self) -> bool:
        """Whether it needs a case that keeps events to wait for, so r3 or r4."""
        return self.insert != "first" or self.adjust != "at_stable"

    def to_plain(self) -> dict[str, Any]:
        """As plain data: a quorum is its k, a lag its d."""
        insert = self.insert.k if isinstance(self.insert, Quorum) else self.insert
        stable = self.stable.d if isinstance(self.stable, Lag) else self.stable
        return {"insert": insert, "adjust": self.adjust, "stable": stable}

    @staticmethod
    def from_plain(plain: dict[str, Any]) -> Policy:
        """The inverse of `to_plain`."""
        insert, stable = plain["insert"], plain["stable"]
        return Policy(
            Quorum(insert) if isinstance(insert, int) else insert,
            plain["adjust"],
            Lag(stable) if isinstance(stable, int) else stable,
        )

    def target(self, stable: int) -> int:
        """What the output may promise when its acting input promises `stable`."""
        if isinstance(self.stable, Lag) and stable != INF:
            return stable - self.stable.d
        return stable
