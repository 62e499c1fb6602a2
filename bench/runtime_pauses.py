"""Pauses of an output around a strike, what they may be, and the account of all that was compared.

     results  |  |  |  |        |  |  |     those count that end after the strike and begin before
                       X                    the window ends; the longest is what the strike cost
                      └────────┘ pause
                       └─── window ───┘

A subscriber that sees nothing until the window ends has paused at least that long, so silence is
never taken for health. How long an output pauses undisturbed is measured in the same run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gapless.bench.harness import Row
from gapless.chaos.judge.history import Verdict
from gapless.chaos.judge.judgement import Judgement
from gapless.protocol.errors import BadData

Floats = npt.NDArray[np.float64]

PAUSE_FACTOR, PAUSE_MORE_S = 1.2, 0.010
"""A kill may make the longest pause longer by so much, whichever is more: below that is noise."""


def pause_bar_s(undisturbed_s: float) -> float:
    """How long the output may pause at a kill, by the longest pause of the undisturbed run."""
    return max(PAUSE_FACTOR * undisturbed_s, undisturbed_s + PAUSE_MORE_S)


def longest_pause_s(results_s: Floats, begin_s: float, end_s: float) -> float:
    """The longest time without results, of those that end after `begin_s` and begin before `end_s`.

    `results_s` are the moments of results, in order, as far as they are known at `end_s`. Raises
    `BadData` where none lies before the window: nobody knows how long it was silent then.
    """
    first, last = np.searchsorted(results_s, [begin_s, end_s], side="right")
    if first == 0:
        raise BadData("no result has come before the window: wait for the first, then measure")
    seen = results_s[first - 1 : last + 1]
    if last == len(results_s):
        seen = np.append(seen, end_s)
    return float(np.diff(seen).max())


@dataclass(frozen=True)
class Outcome:
    """What one strike cost."""

    pause_s: float
    """The longest time without results, until all was back and spares were there."""
    back_s: float
    """From the strike until it was made up for, as the job's status says."""


@dataclass(frozen=True)
class Bars:
    """What strikes of one kind may cost, in seconds; None: it is measured, and not judged."""

    pause_s: float | None
    back_s: float | None
    back: str
    """What `back_s` is until: "full redundancy", "adopted again"."""


def rows_of(what: str, outcomes: Sequence[Outcome], bars: Bars) -> Iterator[Row]:
    """The worst of all strikes of a kind against its bars, and what is usual beside it."""
    if not outcomes:
        raise BadData(f"{what}: there was no strike: nothing was measured")
    name = f"{what}, {len(outcomes)} times"
    pauses = 1000 * np.array([outcome.pause_s for outcome in outcomes])
    yield _judged(f"{name}: longest output pause", pauses.max(), "ms", bars.pause_s, 1000)
    yield Row(f"{name}: median of the pauses", float(np.median(pauses)), "ms")
    backs = np.array([outcome.back_s for outcome in outcomes])
    yield _judged(f"{name}: longest until {bars.back}", backs.max(), "s", bars.back_s, 1)
    yield Row(f"{name}: median until {bars.back}", float(np.median(backs)), "s")


def _judged(name: str, value: float, unit: str, bar_s: float | None, per_s: float) -> Row:
    if bar_s is None:
        return Row(name, value, unit)
    return Row(name, value, unit, bar_s * per_s, "<=")


class Account:
    """Sums up what the judges found in each run."""

    def __init__(self) -> None:
        self._judgements: dict[str, Judgement] = {}

    def add(self, run: str, judgement: Judgement) -> None:
        """What was found in a run. One that compared nothing raises `BadData`."""
        if not judgement.settled_rows:
            raise BadData(
                f"{run}: no result was compared, so nothing was judged; let it run longer"
            )
        self._judgements[run] = judgement

    @property
    def wrong(self) -> list[str]:
        """What is wrong, in words."""
        return [
            f"{run}: {wrong}"
            for run, judgement in self._judgements.items()
            for wrong in (
                *(each for each in judgement.compared if not each.is_right),
                *(each for each in judgement.findings if each.verdict is Verdict.BROKEN),
            )
        ]

    def rows(self) -> Iterator[Row]:
        """Over all runs; nothing where there were none."""
        found = list(self._judgements.values())
        if not found:
            return
        over = "over all faults"
        yield Row(f"{over}: results compared", sum(j.settled_rows for j in found), "rows")
        yield Row(f"{over}: lost", sum(j.lost for j in found), "rows", 0, "<=")
        yield Row(f"{over}: duplicated", sum(j.duplicated for j in found), "rows", 0, "<=")
        yield Row(f"{over}: contradicting", sum(j.contradicting for j in found), "rows", 0, "<=")
        broken = sum(f.verdict is Verdict.BROKEN for j in found for f in j.findings)
        yield Row(f"{over}: objections of the simulator's checkers", broken, "checks", 0, "<=")
