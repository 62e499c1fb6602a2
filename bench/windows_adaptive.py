"""Figure 6-19 and table 6-2: groups of few rows and of many, lazy, eager, or each as it needs.

    DS1 .. DS5   of the rows of each 10 s 1, 3, 5, 7 or 9 % are alone in their group (small), a
                 fifth is in groups of about 15 (medium), the rest in groups of about 300 (large)
    Q6-7         sum(len) by source in each second of Main; and distinct lengths, by HyperLogLog,
                 whose sub-aggregates are large. The thesis does not say Main's rate: here it is so
                 high that what an empty operator holds, 10 KB, does not show
    Q6-8         count by source over the last 10 s, every second, of Main1, Main2 and Control,
                 which has few rows; at DS5 Control is also up to 10 s behind

    lazy         rows wait until a window is complete (`baselines_windows.py`)
    eager        the implementation `wid`
    paned        the default, eager by panes, which the thesis does not draw
    adaptive     groups of few rows lazy, others by panes

Sources are new every 10 s, so that as many are open late in a run as early. Memory is the most
state after any push; latency the mean time of a push that answers; time that of all pushes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.bench.baselines_windows import BufferingAggregate
from gapless.bench.engine_queries import instead
from gapless.bench.engine_runs import Make, Pushes, timed
from gapless.bench.harness import Row
from gapless.bench.netflow import FLOWS, START_MS, generator
from gapless.bench.plots import Chart
from gapless.bench.skewed import Curves, Timed, arriving, note_memory, ratios, stream_frames
from gapless.bench.windows_scale import Scale
from gapless.engine.graph import Graph
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.engine.source import source
from gapless.operators.aggregates import count, count_distinct, sum_
from gapless.operators.aggregates.function import AggregateFunction
from gapless.operators.hopping_aggregate import HoppingAggregate
from gapless.operators.operator import Operator
from gapless.operators.windows import Hopping

SMALL = MappingProxyType({"DS1": 0.01, "DS2": 0.03, "DS3": 0.05, "DS4": 0.07, "DS5": 0.09})
"""Table 6-2: of which share of the rows each is alone in its group."""
MEDIUM, MEDIUM_ROWS, LARGE_ROWS = 0.2, 15, 300
ANEW_S = 10
"""So long a source is seen: as long as the longest window."""
FRAMES_A_SECOND = 4
ONE = MappingProxyType({"Main": 10_000})
"""Rows a second, in Q6-7."""
LINKS = MappingProxyType({"Main1": 4_000, "Main2": 4_000, "Control": 40})
"""In Q6-8."""

MEMORY_MAX, HLL_MEMORY_MAX = 0.6, 0.3
"""Of eager's, at DS5."""
BETTER_MAX = 1.1
"""Of the memory of lazy or eager, whichever takes less."""
TIME_MAX = 1.2
"""Of eager's."""

Ids = npt.NDArray[np.int32]


# -- the data -------------------------------------------------------------------------------------


def groups(n: int, small: float, rng: np.random.Generator) -> Ids:
    """The groups of n rows, by table 6-2, in any order."""
    alone, medium = round(n * small), round(n * MEDIUM)
    large = n - alone - medium
    mediums, larges = max(1, medium // MEDIUM_ROWS), max(1, large // LARGE_ROWS)
    of_medium = alone + rng.integers(0, mediums, medium)
    of_large = alone + mediums + rng.integers(0, larges, large)
    ids = np.concatenate((np.arange(alone), of_medium, of_large)).astype(np.int32)
    rng.shuffle(ids)
    return ids


def links(rates: Mapping[str, int], seconds: int, small: float) -> dict[str, pa.RecordBatch]:
    """Rows of each link, in order: together they have the groups of table 6-2."""
    rng = generator()
    parts: dict[str, list[pa.RecordBatch]] = {name: [] for name in rates}
    first = 0
    for start in range(0, seconds, ANEW_S):
        ids = first + groups(sum(rates.values()) * ANEW_S, small, rng)
        first = int(ids.max()) + 1
        for name, rate in rates.items():
            n = rate * ANEW_S
            ts = START_MS + start * 1_000 + np.arange(n) * 1_000 // rate
            mine, ids = ids[:n], ids[n:]
            length = rng.integers(40, 1501, n).astype(np.int32)
            parts[name].append(pa.record_batch([ts, mine, length], schema=FLOWS))
    return {name: pa.concat_batches(batches) for name, batches in parts.items()}


# -- queries and plans ----------------------------------------------------------------------------


def by_source(names: Sequence[str], window: Hopping, function: AggregateFunction) -> Query:
    """Q6-7, Q6-8."""
    first, *others = (source(name, FLOWS, time="ts", lateness=0) for name in names)
    united = first.union(*others) if others else first
    windowed = united.window(range=window.range, slide=window.slide)
    return windowed.group_by("src").aggregate(found=function)


def ways(names: Sequence[str], window: Hopping, function: AggregateFunction) -> dict[str, Make]:
    """The query's graphs."""
    query = by_source(names, window, function)
    eager = Plan(query, "wid")
    return {
        "lazy": partial(_lazy, eager, window, function),
        "eager": eager.compile,
        "paned": Plan(query, "paned").compile,
        "adaptive": Plan(query, "adaptive").compile,
    }


def _lazy(plan: Plan, window: Hopping, function: AggregateFunction) -> Graph:
    schema = next(iter(plan.query.sources.values())).schema

    def buffer(_: Operator) -> Operator:
        return BufferingAggregate(schema, window, ["src"], [("found", function)])

    return instead(plan, HoppingAggregate, buffer)


# -- the figure -----------------------------------------------------------------------------------


class Measured:
    """Memory, latency and time of each way, at each point of a figure."""

    def __init__(self, graphs: Mapping[str, Make], repeat: int) -> None:
        self._graphs = graphs
        self._repeat = repeat
        self.memory: Curves = {name: {} for name in graphs}
        self.latency: Curves = {name: {} for name in graphs}
        self.time: Curves = {name: {} for name in graphs}

    def note(self, pushes: Pushes, x: float) -> None:
        """Measures at x; the best run counts, each way in turn. Raises unless all answer alike."""
        note_memory(self.memory, self._graphs, pushes, x)
        for _ in range(self._repeat):
            for name, make in self._graphs.items():
                run = timed(make(), pushes)
                _least(self.time[name], x, float(run.seconds.sum()))
                _least(self.latency[name], x, float(run.seconds[run.answered].mean()))

    def rows(self, name: str, last: str, memory_max: float | None = None) -> Iterator[Row]:
        """Adaptive beside eager, and beside the better of both; `last`: what the last point is."""
        ours, eager, lazy = (self.memory[way] for way in ("adaptive", "eager", "lazy"))
        better = {x: min(value, lazy[x]) for x, value in eager.items()}
        op: Literal["<="] | None = None if memory_max is None else "<="
        yield Row(
            f"{name}: adaptive / eager memory, {last}", _end(ours, eager), "x", memory_max, op
        )
        for what, curves in (("memory", self.memory), ("time", self.time)):
            ratio = _end(curves["adaptive"], curves["paned"])
            yield Row(f"{name}: adaptive / paned {what}, {last}", ratio, "x")
        worst = max(ratios(ours, better))
        yield Row(f"{name}: adaptive / the better memory, worst", worst, "x", BETTER_MAX, "<=")
        worst = max(ratios(self.time["adaptive"], self.time["eager"]))
        yield Row(f"{name}: adaptive / eager time, worst", worst, "x", TIME_MAX, "<=")
        worst = max(ratios(self.latency["adaptive"], self.latency["eager"]))
        yield Row(f"{name}: adaptive / eager latency, worst", worst, "x")

    def draw(self, plot_dir: Path | None, name: str, title: str, x_label: str) -> None:
        """Three figures."""
        if plot_dir is None:
            return
        for what, unit, curves in (
            ("memory", "bytes of state, peak", self.memory),
            ("latency", "seconds, mean", self.latency),
            ("time", "seconds", self.time),
        ):
            series = {label: list(curve.items()) for label, curve in curves.items()}
            Chart(title, x_label, unit, series).save(plot_dir / f"{name}-{what}.svg")


def _least(curve: dict[float, float], x: float, value: float) -> None:
    curve[x] = min(value, curve.get(x, value))


def _end(over: Mapping[float, float], under: Mapping[float, float]) -> float:
    *_, last = ratios(over, under)
    return last


SHARE = "% of the rows alone in their group"


def tumbling(scale: Scale, plot_dir: Path | None) -> Iterator[Row]:
    """Figure 6-19, Q6-7."""
    window = Hopping(1_000, 1_000)
    sketch = count_distinct("len", method="hll")
    for what, function, bar in (("sum", sum_("len"), None), ("HLL", sketch, HLL_MEMORY_MAX)):
        graphs = ways(list(ONE), window, function)
        found = _by_share(by_source(list(ONE), window, function), graphs, ONE, scale)
        yield from found.rows(f"fig 6-19: Q6-7, {what}", "DS5", bar)
        found.draw(
            plot_dir, f"fig6-19-q6-7-{what.lower()}", f"Each second by source, {what}", SHARE
        )


def sliding(scale: Scale, plot_dir: Path | None) -> Iterator[Row]:
    """Figure 6-19, Q6-8."""
    window = Hopping(10_000, 1_000)
    query, graphs = by_source(list(LINKS), window, count()), ways(list(LINKS), window, count())
    found = _by_share(query, graphs, LINKS, scale)
    yield from found.rows("fig 6-19: Q6-8", "DS5", MEMORY_MAX)
    found.draw(plot_dir, "fig6-19-q6-8", "Last 10 s of three links by source", SHARE)
    behind = Measured(graphs, scale.repeat_curve)
    frames = _frames(query, LINKS, scale.skewed_s, SMALL["DS5"])
    for skew_s in scale.control_skews_s:
        behind.note(arriving(frames, ("Control",), skew_s), skew_s)
    last = f"{scale.control_skews_s[-1]} s"
    yield from behind.rows("fig 6-19: Q6-8, DS5, Control behind", last, MEMORY_MAX)
    title = "Last 10 s of three links by source, DS5"
    behind.draw(plot_dir, "fig6-19-q6-8-behind", title, "skew of Control, s")


def _by_share(
    query: Query, graphs: Mapping[str, Make], rates: Mapping[str, int], scale: Scale
) -> Measured:
    """The data sets of table 6-2, links in step."""
    found = Measured(graphs, scale.repeat_curve)
    for small in SMALL.values():
        found.note(arriving(_frames(query, rates, scale.skewed_s, small), (), 0), 100 * small)
    return found


def _frames(query: Query, rates: Mapping[str, int], seconds: int, small: float) -> Timed:
    streams = links(rates, seconds, small)
    return stream_frames(Plan(query), streams, rates, max(rates.values()) // FRAMES_A_SECOND)
