"""What came of a real run: which faults struck, what had to hold, and whether it did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault that struck."""

    fault: str
    """Its name, as a scenario says it."""
    target: str
    """Who was hit: slots, a node, a journal."""
    at_ms: int
    """Since the job was whole."""
    healed_ms: int | None
    """None of one that has no end: a process that was killed is replaced by the job itself."""
    what: str
    """What was done, in a few words: with which process, at which byte."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """Something that had to hold."""

    name: str
    """In a few words: "nothing lost", "pauses", "whole again"."""
    wanted: str
    found: str
    ok: bool

    def __str__(self) -> str:
        return f"{'ok' if self.ok else 'NOT'}  {self.name}: {self.found} (wanted: {self.wanted})"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run of a scenario."""

    name: str
    about: str
    seed: int
    began: str
    """In UTC, ISO 8601."""
    seconds: float
    """Of all of it, starting a cluster included."""
    config: Mapping[str, Any]
    """The scenario, all settings said."""
    versions: Mapping[str, str]
    """Of Gapless, Python, Ray, Arrow, the kernel of the operating system."""
    strikes: tuple[Strike, ...]
    held: tuple[Requirement, ...]
    figures: Mapping[str, float] = field(default_factory=dict)
    """Measured, and judged by nobody: the longest pause in ms, rows, and the like."""
    judgement: tuple[str, ...] = ()
    """What each of the judges said, a line each (chaos/judge/judgement.py)."""
    problem: str = ""
    """Why the run could not be made, or was cut short; then it is not well, whatever held."""

    @property
    def is_well(self) -> bool:
        """Whether all that had to hold did."""
        return not self.problem and bool(self.held) and all(each.ok for each in self.held)

    def document(self) -> dict[str, Any]:
        """For programs: what JSON can say."""
        return {**asdict(self), "is_well": self.is_well}
