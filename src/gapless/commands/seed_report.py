"""What `gapless chaos sim` reports: counts, verdicts, limits, and each failure in full.

seed 17 (filter) fails: ...                  the problem, the fewest faults, the chain of causes
replay it: gapless chaos sim --seed 17 --trace
order        holds 299, nothing showed 1     a line for each checker
seeds 300, steps 221,317, ..., failures 1    a line for all
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from gapless.chaos.sim.simulator import SimResult

FAILURES_SHOWN_MAX = 3
"""Failures told in full; of the others the command that replays them. Most have one cause."""
FAILURES_KEPT_MAX = 1_000
"""Failures that the report lists: more are one failure, many times."""


class SeedReport:
    """What came of all seeds: counts, and the failures."""

    def __init__(self, broken: str | None, workload: str | None) -> None:
        self.seconds = 0.0
        self.failures = 0
        self._options = "".join(
            f" --{option} {name.replace(' ', '-')}"
            for option, name in (("broken", broken), ("workload", workload))
            if name is not None
        )
        self._named = (broken, workload)
        self._counts: Counter[str] = Counter()
        self._verdicts: dict[str, Counter[str]] = {}
        self._drawn: Counter[str] = Counter()
        self._reached: Counter[str] = Counter()
        self._frames_least: int | None = None
        self._faults_least: int | None = None
        self._failed: list[SimResult] = []
        self._last: SimResult | None = None

    def add(self, result: SimResult) -> None:
        """One more seed."""
        self._last = result
        self._counts.update(seeds=1, steps=result.steps, frames=result.frames, faults=result.faults)
        self._drawn.update(result.limits.keys())
        self._reached.update(result.reached)
        if result.ok:
            self._frames_least = _least(self._frames_least, result.frames)
            self._faults_least = _least(self._faults_least, result.faults)
        else:
            self.failures += 1
            if len(self._failed) < FAILURES_KEPT_MAX:
                self._failed.append(result)
        for name, verdict in result.verdicts.items():
            self._verdicts.setdefault(name, Counter())[verdict] += 1

    def replay(self, seed: int) -> str:
        """The command that runs one seed again."""
        return f"gapless chaos sim --seed {seed}{self._options}"

    def print(self) -> None:
        """For people."""
        for count, failure in enumerate(self._failed):
            if count < FAILURES_SHOWN_MAX:
                typer.echo("\n".join(self._told(failure)))
            typer.echo(f"replay it: {self.replay(failure.seed)} --trace")
        for name, verdicts in self._verdicts.items():
            held = ", ".join(f"{verdict} {n}" for verdict, n in sorted(verdicts.items()))
            typer.echo(f"{name:<12} {held}")
        if self._counts["seeds"] > 1:
            never = [bound for bound in _seen_limits() if not self._reached[bound]]
            typer.echo(f"limits       {len(self._drawn)} drawn, {_not_reached(never)}")
        c = self._counts
        typer.echo(
            f"seeds {c['seeds']}, steps {c['steps']}, frames {c['frames']}, faults {c['faults']}, "
            f"failures {self.failures}, seconds {self.seconds:.1f}"
        )

    def _told(self, failure: SimResult) -> Iterable[str]:
        from gapless.chaos.sim.limits import told as told_limits
        from gapless.chaos.sim.shrinker import shortest_of

        shrunk = shortest_of(failure.seed, *self._named)
        yield f"seed {failure.seed} ({failure.workload}) fails:\n{failure.problem}"
        if failure.limits:
            yield f"with the limits {told_limits(failure.limits)}"
        told = shrunk.told_faults
        yield f"it fails with the first {len(told)} of its {len(failure.told_faults)} faults:"
        yield from (f"  {fault}" for fault in told)
        yield shrunk.problem or ""
        yield from ("because:", *(f"  {line}" for line in shrunk.causes))

    def document(self, *, with_trace: bool) -> dict[str, Any]:
        """For programs."""
        document: dict[str, Any] = {
            **self._counts,
            "failures": self.failures,
            "seconds": round(self.seconds, 3),
            "schedules_per_minute": round(60 * self._counts["seeds"] / max(self.seconds, 1e-9)),
            "frames_least": self._frames_least,
            "faults_least": self._faults_least,
            "verdicts": self._verdicts,
            "limits": {
                bound: {"drawn": count, "reached": self._reached[bound]}
                for bound, count in sorted(self._drawn.items())
            },
            "failed": [
                {
                    "seed": result.seed,
                    "workload": result.workload,
                    "checker": result.checker,
                    "problem": result.problem,
                    "faults": result.told_faults,
                    "limits": result.limits,
                    "causes": result.causes,
                    "replay": self.replay(result.seed),
                }
                for result in self._failed
            ],
        }
        if with_trace and self._last is not None:
            document["trace"] = self._last.trace
        return document


def _seen_limits() -> list[str]:
    """The bounds of which a run can tell whether it reached them."""
    from gapless.chaos.sim.limits import LIMITS

    return [limit.bound for limit in LIMITS if limit.is_seen]


def _not_reached(never: list[str]) -> str:
    return f"not reached: {', '.join(never)}" if never else "each was reached"


def _least(so_far: int | None, value: int) -> int:
    return value if so_far is None else min(so_far, value)
