"""Figures 6-10 and 6-15: windows by window-ids, against a buffer and with panes.

One row a millisecond, in order; the largest `len` of each window (Q6-2). Times
are of whole runs. Which implementation is which: `wid` counts a row in each of its windows as it
comes; the buffer (`baselines_windows.py`) keeps it and counts it at the end of each of its windows;
`paned` counts it once, in its pane, and puts windows together from panes.

Figure 6-10 is drawn twice, and judged where it groups by source, of which there are 100. Without
groups, as in the thesis, there is nothing to do for a row of an extent but to compare it: as a pass
over an array that takes a nanosecond, where the thesis's engine went from tuple to tuple. So that
curve is there to know.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from gapless.bench.baselines_windows import BufferingAggregate
from gapless.bench.engine_expected import check_same
from gapless.bench.engine_queries import instead, largest
from gapless.bench.engine_runs import Make, best_seconds, made, watched
from gapless.bench.engine_scale import Scale
from gapless.bench.harness import Row
from gapless.bench.netflow import FLOWS, SEED, START_MS
from gapless.bench.plots import Chart
from gapless.engine.graph import Graph
from gapless.engine.plan import Plan
from gapless.operators.aggregates import max_
from gapless.operators.hopping_aggregate import HoppingAggregate
from gapless.operators.windows import Hopping

FRAME_ROWS = 16_000
RANGE_ROWS = 4_000
"""Rows in a window of figure 6-10; SLIDE varies."""
AHEAD_GROWS = 1.2
"""Figure 6-10: how much further ahead wid is at the largest RANGE / SLIDE than where windows do
not overlap, at least."""
PANED_MAX = 0.3
"""Figure 6-15: the thesis's paned time over wid's at 20 rows a pane, 5 panes a window."""
PANED_AT = (5, 20)
PANED_FRAME_ROWS = 256_000
"""Rows in a frame of figure 6-15: so many that what a frame costs whatever it holds, a third of a
millisecond, does not hide what its rows cost. The judged cell is shown for short frames, too."""

SOURCES = 100
"""Groups in figure 6-10."""

Curves = dict[str, dict[float, float]]


def rows_in_order(n: int) -> pa.RecordBatch:
    """One row a millisecond."""
    rng = np.random.default_rng(SEED)
    src = rng.integers(0, SOURCES, n).astype(np.int32)
    length = rng.integers(40, 1501, n).astype(np.int32)
    return pa.record_batch([START_MS + np.arange(n), src, length], schema=FLOWS)


def against_a_buffer(scale: Scale, plot_dir: Path | None) -> Iterator[Row]:
    """Figure 6-10: the more windows a row is in, the further wid is ahead of a buffer."""
    for group_by in (("src",), ()):
        time, state = _by_overlap(scale, group_by)
        first, last = scale.overlaps[0], scale.overlaps[-1]
        ahead = {x: time["buffering"][x] / time["wid"][x] for x in scale.overlaps}
        grown = ahead[last] / ahead[first]
        what = "by source" if group_by else "no groups"
        name = f"fig 6-10: buffering / wid time, {what}"
        if group_by:
            yield Row(f"{name}, worst", min(ahead.values()), "x", 1, ">=")
            yield Row(f"{name}, RANGE/SLIDE {last} over {first}", grown, "x", AHEAD_GROWS, ">=")
        yield Row(f"{name}, RANGE/SLIDE {last}", ahead[last], "x")
        place = "fig6-10" if group_by else "fig6-10-no-groups"
        _draw(plot_dir, f"{place}-time", f"Time, {what}", "seconds", time)
        _draw(plot_dir, f"{place}-memory", f"State, {what}", "bytes, peak", state)


def _by_overlap(scale: Scale, group_by: tuple[str, ...]) -> tuple[Curves, Curves]:
    """Seconds and peak bytes of wid and the buffer, for each RANGE / SLIDE."""
    given = rows_in_order(scale.windowed)
    time: Curves = {"wid": {}, "buffering": {}}
    state: Curves = {"wid": {}, "buffering": {}}
    for overlap in scale.overlaps:
        slide = RANGE_ROWS // overlap
        plan = Plan(largest(RANGE_ROWS, slide, *group_by), implementation="wid")
        graphs: dict[str, Make] = {
            "wid": plan.compile,
            "buffering": partial(buffering, plan, slide, group_by),
        }
        pushes = made(plan, {"flows": given}, FRAME_ROWS)
        seen = {name: watched(make(), pushes) for name, make in graphs.items()}
        check_same({name: each.outputs for name, each in seen.items()})
        best = best_seconds(graphs, pushes, scale.repeat_curve)
        for name in graphs:
            time[name][overlap] = best[name]
            state[name][overlap] = seen[name].peak_bytes
    return time, state


def buffering(plan: Plan, slide: int, group_by: tuple[str, ...]) -> Graph:
    """The plan's graph with a buffer in place of its aggregate."""
    (node,) = plan.query.sources.values()
    window, aggregates = Hopping(RANGE_ROWS, slide), [("most", max_("len"))]
    make = partial(BufferingAggregate, node.schema, window, group_by, aggregates)
    return instead(plan, HoppingAggregate, lambda own: make())


def with_panes(scale: Scale, plot_dir: Path | None) -> Iterator[Row]:
    """Figure 6-15: the more rows a pane has, the less each costs, however many windows it is in."""
    given = rows_in_order(scale.paned)
    ratio: Curves = {f"{panes} panes a window": {} for panes in scale.window_panes}
    for panes in scale.window_panes:
        for rows in scale.pane_rows:
            found = _paned_over_wid(scale, given, rows, panes, PANED_FRAME_ROWS)
            ratio[f"{panes} panes a window"][rows] = found
            name = f"fig 6-15: paned / wid time, {rows} rows a pane, {panes} panes a window"
            judged = (panes, rows) == PANED_AT
            yield Row(name, found, "x", PANED_MAX if judged else None, "<=" if judged else None)
            if judged:
                short = _paned_over_wid(scale, given, rows, panes, FRAME_ROWS)
                yield Row(f"{name}, {FRAME_ROWS:,}-row frames", short, "x")
    if plot_dir is not None:
        series = {name: list(curve.items()) for name, curve in ratio.items()}
        chart = Chart("Paned time over wid's", "rows a pane", "ratio", series, log_x=True)
        chart.save(plot_dir / "fig6-15.svg")


def _paned_over_wid(
    scale: Scale, given: pa.RecordBatch, rows: int, panes: int, frame_rows: int
) -> float:
    query = largest(rows * panes, rows)
    plans = {name: Plan(query, implementation=name) for name in ("paned", "wid")}
    pushes = made(plans["wid"], {"flows": given}, frame_rows)
    graphs: dict[str, Make] = {name: plan.compile for name, plan in plans.items()}
    check_same({name: watched(make(), pushes).outputs for name, make in graphs.items()})
    best = best_seconds(graphs, pushes, scale.repeat_curve)
    return best["paned"] / best["wid"]


def _draw(plot_dir: Path | None, name: str, title: str, what: str, curves: Curves) -> None:
    if plot_dir is not None:
        series = {label: list(curve.items()) for label, curve in curves.items()}
        chart = Chart(title, "RANGE / SLIDE", what, series, log_x=True, log_y=True)
        chart.save(plot_dir / f"{name}.svg")
