"""What a demonstration has shown: the numbers, whether all is well, and how both are printed.

events              2,640,000 (1,000,000 prepared by Spark, 1,640,000 live, 50,000 a second)
results             79,000
kills               3
  replica r0.1      on n2: back to full redundancy after 2.1 s, longest pause 0.24 s
  ...
gaps                0
duplicates          0
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

LABEL_CHARS = 20


@dataclass(frozen=True)
class Kill:
    """Something that was killed while the stream went on."""

    what: str
    where: str
    """What it ran on, or what ran on it."""
    at_s: float
    """Since the stream is live."""
    back_s: float | None
    """Until all replicas and mergers ran again, and each could carry the output; None where
    that has not come within the time that the demonstration waits."""
    pause_s: float
    """The longest pause of the output that it may have brought."""


@dataclass(frozen=True)
class Outcome:
    """All of it."""

    events: int
    prepared: int
    """Of the events, those that Spark has prepared."""
    rate: int
    """Of the others, each second."""
    results: int
    """Rows of the answer."""
    delivered: int
    """Rows that the subscriber was handed."""
    kills: tuple[Kill, ...]
    gaps: int
    """Rows of the answer that a journal or the subscriber does not have."""
    duplicates: int
    contradictions: int
    longest_pause_s: float
    """Of the output, while the stream was live."""
    undisturbed_pause_s: float
    """The same, before the first kill."""
    seconds: float
    """From the first step to the last."""
    problems: tuple[str, ...]

    @property
    def is_well(self) -> bool:
        """Whether nothing is off."""
        return not (self.problems or self.gaps or self.duplicates or self.contradictions)

    @property
    def longest_back_s(self) -> float | None:
        """Back to full redundancy, after the kill that took longest; None where it never was."""
        times = [kill.back_s for kill in self.kills if kill.back_s is not None]
        return max(times, default=None) if len(times) == len(self.kills) else None

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {**asdict(self), "longest_back_s": self.longest_back_s, "is_well": self.is_well}

    def lines(self) -> Iterator[str]:
        """For people."""
        live = self.events - self.prepared
        yield _line(
            "events",
            f"{self.events:,} ({self.prepared:,} prepared by Spark, {live:,} live, "
            f"{self.rate:,} a second)",
        )
        yield _line("results", f"{self.results:,}")
        yield _line("kills", f"{len(self.kills)}")
        for kill in self.kills:
            back = "not back" if kill.back_s is None else f"all back after {kill.back_s:.1f} s"
            pause = f"longest pause {kill.pause_s:.2f} s"
            yield _line(f"  {kill.what}", f"{back}, {pause}; {kill.where}")
        yield _line("gaps", f"{self.gaps:,}")
        yield _line("duplicates", f"{self.duplicates:,}")
        yield _line("contradictions", f"{self.contradictions:,}")
        yield _line(
            "longest pause",
            f"{self.longest_pause_s:.2f} s (undisturbed {self.undisturbed_pause_s:.2f} s)",
        )
        longest = self.longest_back_s
        yield _line("full redundancy", "not reached" if longest is None else f"{longest:.1f} s")
        yield _line("time", f"{self.seconds:.0f} s")
        for problem in self.problems:
            yield _line("PROBLEM", problem)
        yield (
            "the output is what a batch run over all events computes: nothing lost, nothing twice"
            if self.is_well
            else "something is off: see above"
        )


def _line(label: str, text: str) -> str:
    return f"{label:<{LABEL_CHARS}}{text}"
