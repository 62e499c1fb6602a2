"""Figures 6-11 and 6-12: latency against accuracy, with punctuation and with slack.

Time here is event time: rows arrive as fast as their clocks go, each as late as it was drawn to be.
So the figures are the same on every machine.

    fig 6-11   a mean over 64 s every 6.4 s. Every fifth row is late, most by little and none by
               more than 3.2 s (band disorder). Ours is told the low-watermark of Eq. 4.1 every ten
               rows, which in few places lies as far back as the latest of all rows
    fig 6-12   a count over 600 s every 60 s. Rows come in blocks of 490 s, shuffled in each, as a
               router sends what its cache held; ours is told that a block is over

    latency   from a window's end until its answer, on average over windows
    error     the share by which a mean is off, on average over windows; windows counted wrong

Slack is computed as `slack.py` says; our answers are those of the engine. Windows that begin before
the first row, or end where an answer might not come before the rows end, are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.bench.harness import Row
from gapless.bench.netflow import SEED, Ints
from gapless.bench.plots import Chart, Points
from gapless.bench.slack import Arrivals, Counted, Kind, with_slack, without_loss
from gapless.bench.windows_scale import Scale
from gapless.engine.graph import Graph
from gapless.engine.intake import Intake
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.engine.source import source
from gapless.operators.aggregates import count, mean
from gapless.operators.aside import Aside
from gapless.operators.windows import Hopping
from gapless.protocol.frame import Frame
from gapless.protocol.punctuation import Punctuation

Floats = npt.NDArray[np.float64]

ROWS = pa.schema([("ts", pa.int64()), ("len", pa.int64())])

BAND_WINDOW = Hopping(64_000, 6_400)
BAND_MS = 3_200
BAND_RATE = 1_000
LATE_SHARE = 0.2
LATE_MEAN_MS = BAND_MS / 10
"""Of late rows, from an exponential distribution that ends at the band: few come that late."""
BAND_SLACKS_MS = (0, 320, 640, 1_280, 2_560, 3_200)
TOLD_ROWS = 10
"""Rows between two punctuations of figure 6-11: a hundredth of a second."""
LATENCY_MAX = 0.6
"""Figure 6-11: ours over that of the slack that errs in nothing."""

BLOCK_WINDOW = Hopping(600_000, 60_000)
BLOCK_MS = 490_000
BLOCK_RATE = 100
BLOCK_SLACKS_MS = (0, 54_400, 109_100, 218_200, 327_300, 434_200, 491_000, 600_000)
BEST_SLACK_MS = 491_000
"""The least slack that errs in nothing."""


class Tradeoff(NamedTuple):
    """A point of such a figure."""

    latency_s: float
    error: float
    """In percent."""


# -- what arrives ---------------------------------------------------------------------------------


def banded(seconds: int) -> Arrivals:
    """Band disorder."""
    rng = np.random.default_rng(SEED)
    n = seconds * BAND_RATE
    ts = np.arange(n, dtype=np.int64) * 1_000 // BAND_RATE
    late = np.minimum(rng.exponential(LATE_MEAN_MS, n), BAND_MS).astype(np.int64)
    at = ts + late * (rng.random(n) < LATE_SHARE)
    order = np.argsort(at, kind="stable")
    return Arrivals(ts[order], at[order], rng.integers(40, 1501, n))


def in_blocks(blocks: int) -> Arrivals:
    """Block-sorted disorder."""
    rng = np.random.default_rng(SEED)
    rows = BLOCK_MS * BLOCK_RATE // 1_000
    at = np.arange(blocks * rows, dtype=np.int64) * 1_000 // BLOCK_RATE
    ts = rng.permuted(at.reshape(blocks, rows), axis=1).ravel()
    return Arrivals(ts, at, rng.integers(40, 1501, len(at)))


# -- what is answered -----------------------------------------------------------------------------


def averages(window: Hopping) -> Query:
    """The mean over each window of a source that says itself how far it is."""
    rows = source("rows", ROWS, time="ts", lateness=None)
    return rows.window(range=window.range, slide=window.slide).aggregate(answer=mean("len"))


def counts(window: Hopping) -> Query:
    """How many rows."""
    rows = source("rows", ROWS, time="ts", lateness=None)
    return rows.window(range=window.range, slide=window.slide).aggregate(answer=count())


class Answered(NamedTuple):
    """What the engine answered, by windows' ends."""

    answers: dict[int, float]
    at: dict[int, int]


def punctuated(query: Query, rows: Arrivals, told_rows: int) -> Answered:
    """Runs the query; it is told the low-watermark behind each `told_rows`."""
    plan = Plan(query)
    graph, node = plan.compile(), query.sources["rows"]
    intake = Intake(node, Aside(), plan.compile().grids["rows"], told_rows)
    found = Answered({}, {})
    marks = rows.low_watermarks
    for first in range(0, len(rows.ts), told_rows):
        last = min(first + told_rows, len(rows.ts)) - 1
        part = slice(first, last + 1)
        batch = pa.record_batch([rows.ts[part], rows.value[part]], schema=ROWS)
        _note(found, graph, intake.take(batch), int(rows.at[last]))
        if last < len(marks):
            said = Punctuation.of(ts=int(marks[last]))
            _note(found, graph, intake.take(said), int(rows.at[last]))
    _note(found, graph, iter([(intake.finish(), ())]), int(rows.at[-1]))
    return found


def _note(
    found: Answered, graph: Graph, frames: Iterator[tuple[Frame, tuple[Punctuation, ...]]], at: int
) -> None:
    for frame, marks in frames:
        out = graph.push("rows", frame, marks)
        if len(out):
            answers = out.payload.column("answer").to_pylist()
            found.answers.update(zip(out.vs.tolist(), answers, strict=True))
            found.at.update(dict.fromkeys(out.vs.tolist(), at))


# -- how late and how wrong -----------------------------------------------------------------------


class Judge:
    """Compares answers with the right ones, over the windows that count."""

    def __init__(self, rows: Arrivals, window: Hopping, most_slack: int, *, of_means: bool) -> None:
        self._rows, self._window, self._of_means = rows, window, of_means
        self._right = without_loss(rows, window)
        first, last = int(rows.ts.min()) + window.range, int(rows.at[-1]) - most_slack
        self._counts = (self._right.ends >= first) & (self._right.ends < last)

    def slack(self, slack: int, kind: Kind) -> Tradeoff:
        """A buffer with slack."""
        found = with_slack(self._rows, self._window, slack, kind)
        return self._judged(self._answer(found), found.at)

    def engine(self, found: Answered) -> Tradeoff:
        """Ours. A window that has not been answered has nan, and is wrong."""
        ends = self._right.ends.tolist()
        answers = np.array([found.answers.get(end, np.nan) for end in ends])
        at = np.array([found.at.get(end, self._rows.at[-1]) for end in ends])
        return self._judged(answers, at)

    def _answer(self, found: Counted) -> Floats:
        if not self._of_means:
            return found.n.astype(np.float64)
        with np.errstate(invalid="ignore"):
            answer: Floats = found.total / found.n
        return answer

    def _judged(self, answers: Floats, at: Ints) -> Tradeoff:
        right = self._answer(self._right)
        off = np.nan_to_num(np.abs(answers - right) / right, nan=1.0)
        error = off if self._of_means else off > 0
        latency = at - self._right.ends
        return Tradeoff(
            float(latency[self._counts].mean()) / 1e3, float(error[self._counts].mean()) * 100
        )


# -- the figures ----------------------------------------------------------------------------------


def band_disorder(scale: Scale, plot_dir: Path | None) -> Iterator[Row]:
    """Figure 6-11."""
    rows = banded(scale.banded_s)
    judge = Judge(rows, BAND_WINDOW, BAND_MS, of_means=True)
    ours = judge.engine(punctuated(averages(BAND_WINDOW), rows, TOLD_ROWS))
    kinds: tuple[Kind, ...] = ("consistent", "generous")
    curves = {kind: [judge.slack(slack, kind) for slack in BAND_SLACKS_MS] for kind in kinds}
    yield Row("fig 6-11: error with punctuation", ours.error, "%", 0, "<=")
    whole = curves["consistent"][-1]
    yield Row("fig 6-11: error with slack 3.2 s", whole.error, "%")
    yield Row("fig 6-11: error with slack 0, consistent", curves["consistent"][0].error, "%")
    yield Row("fig 6-11: error with slack 0, generous", curves["generous"][0].error, "%")
    more = max(
        mild.error - strict.error
        for mild, strict in zip(curves["generous"], curves["consistent"], strict=True)
    )
    yield Row("fig 6-11: error of generous beyond consistent slack, worst", more, "%", 0, "<=")
    yield Row("fig 6-11: latency with punctuation", ours.latency_s, "s")
    name = "fig 6-11: latency, punctuation / slack 3.2 s"
    yield Row(name, ours.latency_s / whole.latency_s, "x", LATENCY_MAX, "<=")
    _draw(plot_dir, "fig6-11", "Mean over 64 s, band disorder", "error, %", curves, ours)


def block_disorder(scale: Scale, plot_dir: Path | None) -> Iterator[Row]:
    """Figure 6-12."""
    rows = in_blocks(scale.blocks)
    judge = Judge(rows, BLOCK_WINDOW, BLOCK_SLACKS_MS[-1], of_means=False)
    block_rows = BLOCK_MS * BLOCK_RATE // 1_000
    ours = judge.engine(punctuated(counts(BLOCK_WINDOW), rows, block_rows))
    found = {slack: judge.slack(slack, "consistent") for slack in BLOCK_SLACKS_MS}
    yield Row("fig 6-12: wrong answers with punctuation", ours.error, "%", 0, "<=")
    smaller = min(found[slack].error for slack in BLOCK_SLACKS_MS if slack < BEST_SLACK_MS)
    best = found[BEST_SLACK_MS]
    yield Row("fig 6-12: wrong answers with a slack below 491 s, fewest", smaller, "%", 1, ">=")
    yield Row("fig 6-12: wrong answers with slack 491 s", best.error, "%")
    yield Row("fig 6-12: latency with punctuation", ours.latency_s, "s")
    name = "fig 6-12: latency, punctuation / slack 491 s"
    yield Row(name, ours.latency_s / best.latency_s, "x", 1, "<=")
    curves: dict[Kind, list[Tradeoff]] = {"consistent": list(found.values())}
    _draw(plot_dir, "fig6-12", "Count over 600 s, blocks", "wrong answers, %", curves, ours)


def _draw(
    plot_dir: Path | None,
    name: str,
    title: str,
    what: str,
    curves: dict[Kind, list[Tradeoff]],
    ours: Tradeoff,
) -> None:
    if plot_dir is not None:
        series: dict[str, Points] = {f"{kind} slack": points for kind, points in curves.items()}
        chart = Chart(title, "latency, s", what, {**series, "punctuation": [ours]})
        chart.save(plot_dir / f"{name}.svg")
