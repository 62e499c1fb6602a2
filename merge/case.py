"""What the five cases have in common: rows are taken in, the output is frozen.

A case holds the state that its algorithm needs and nothing else. Membership, promises, the choice
of acting, statistics and everything a caller sees are `LMerge`'s.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

from gapless.merge.choose import CaseName
from gapless.merge.divergence import Divergences
from gapless.merge.policy import Policy
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Bug, StreamViolation
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.text import format_element


class CaseViolation(StreamViolation):
    """A row that this case cannot be fed, and a more general one might."""


class Taken(NamedTuple):
    """What came of a frame's rows."""

    out: list[Frame]
    dropped: int
    """Rows that said nothing new: settled, or put out already."""


class Favour(NamedTuple):
    """What the policy allows the rows of one frame; decided once a frame."""

    insert: bool
    """Its inserts may go out on arrival."""
    adjust: bool
    """Its new ends may go out on arrival."""


class Case(ABC):
    """The state of one case of LMerge."""

    name: ClassVar[CaseName]
    holds_back: ClassVar[bool] = False
    """Whether rows of an input that does not qualify yet have to wait; else they are taken in."""

    def __init__(self, schema: StreamSchema, policy: Policy, divergences: Divergences) -> None:
        self.schema = schema
        self.policy = policy
        self.divergences = divergences
        self.stable = BEGIN
        """The output's stable."""

    # -- inputs -------------------------------------------------------------------------------

    @abstractmethod
    def attach(self, number: int) -> None:
        """Opens the state of an input."""

    @abstractmethod
    def detach(self, number: int) -> None:
        """Frees the state of an input."""

    @abstractmethod
    def take(self, number: int, frame: Frame, favour: Favour) -> Taken:
        """Takes in the rows of a frame; the frame has some.

        Raises `StreamViolation` before anything of it counts.
        """

    def hold(self, number: int, frame: Frame) -> None:
        """Keeps back the rows of an input that does not qualify yet; only where `holds_back`."""
        raise Bug(f"{self.name} takes in rows at once: input {number}, {len(frame)} rows")

    def held(self, number: int) -> list[Frame]:  # noqa: ARG002  # see `hold`
        """What is kept back of an input, oldest first."""
        return []

    def held_rows(self, number: int) -> int:  # noqa: ARG002  # see `hold`
        """How many rows that is."""
        return 0

    def admit(self, number: int) -> list[Frame]:  # noqa: ARG002  # see `hold`
        """Takes in what was kept back of an input that now qualifies; what goes out."""
        return []

    # -- freezing -----------------------------------------------------------------------------

    def settles(self, number: int, before: int) -> None:
        """An input is told that what ends before a time is settled: it may stop speaking of it."""
        del number, before  # only a case that waits for last words cares

    def promised(self, number: int, stable: int) -> None:
        """An input has promised `stable`; whether it acts is another matter."""
        del number, stable  # only a case that looks for divergence cares

    def half_froze(self, number: int, stable: int) -> list[Frame]:  # noqa: ARG002  # no events kept
        """Policy half_frozen: rows for what an input has half frozen by promising `stable`."""
        return []

    def limit(self, number: int, stable: int) -> int:  # noqa: ARG002  # no events kept
        """Policy fully_frozen: how far an input that promises `stable` may freeze the output."""
        return stable

    @abstractmethod
    def freeze(self, number: int, t: int, promised: int) -> list[Frame]:
        """Makes the output agree with an input where stable `t` freezes it, and sets `stable`.

        `promised` is the input's own stable, at or above t.
        """

    # -- the state as tables ------------------------------------------------------------------

    @abstractmethod
    def live(self) -> Frame:
        """What it still knows of the output, as inserts."""

    @abstractmethod
    def told(self, number: int) -> Frame:
        """What it still knows of an input, as inserts."""

    @abstractmethod
    def adopt_output(self, live: Frame) -> None:
        """Takes over an output that was put out before; in a case that knows nothing yet.

        `stable` has been set. Raises `CaseViolation` where the case cannot hold it.
        """

    @abstractmethod
    def adopt_input(self, number: int, told: Frame) -> None:
        """Takes over what an attached input has said before; nothing goes out."""

    def facts(self) -> dict[str, Any]:
        """What it keeps beside those tables, as plain data."""
        return {}

    def adopt_facts(self, facts: dict[str, Any]) -> None:
        """Takes `facts()` back, after the tables."""
        if facts:
            raise Bug(f"{self.name} has no facts")

    # -- looking at it ------------------------------------------------------------------------

    @property
    @abstractmethod
    def inputs(self) -> set[int]:
        """The inputs it holds a state of."""

    def unfrozen(self, number: int) -> int:  # noqa: ARG002  # no events kept
        """How many events with `vs` at or above the output's stable an input holds."""
        return 0

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of state."""

    @abstractmethod
    def __len__(self) -> int:
        """Live keys."""

    @abstractmethod
    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken."""


def violation(frame: Frame, row: int, rule: str) -> StreamViolation:
    """The error for a bad row."""
    return StreamViolation(_element_text(frame, row), rule)


def case_violation(frame: Frame, row: int, rule: str) -> CaseViolation:
    """The error for a row that a more general case might take."""
    return CaseViolation(_element_text(frame, row), rule)


def _element_text(frame: Frame, row: int) -> str:
    return format_element(frame.slice(row, 1).elements()[0])
