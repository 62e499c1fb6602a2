"""Figure 6-10 whole: RANGE 4000 rows, SLIDE 1 to 4000, the largest `len`; no groups, no disorder.

    auto         what `implementation="auto"` chooses: panes, and wid where windows do not overlap
    wid          a row counts in each of its windows as it comes: up to 4000
    buffering    it is kept, and counted at the end of each of its windows (`baselines_windows.py`)

There is one row a millisecond, so windows of 4000 ms have 4000 rows, as the thesis's have: windows
of rows have one implementation only. Times are of whole runs, by row. In the engine bench the same
figure is drawn of wid by source.

Rows come in four frames, so many that what a frame costs whatever it holds, some 300 us, does not
hide what rows cost: to count one is a nanosecond or two. Where windows overlap little, short frames
are shown, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gapless.bench.engine_expected import check_same
from gapless.bench.engine_queries import largest
from gapless.bench.engine_runs import Make, best_seconds, made, watched
from gapless.bench.engine_windows import FRAME_ROWS, RANGE_ROWS, buffering, rows_in_order
from gapless.bench.harness import Row
from gapless.bench.plots import Chart
from gapless.bench.windows_scale import Scale
from gapless.engine.plan import Plan

AHEAD_MIN = 1.0
"""Buffering's time over auto's, at every SLIDE."""
AHEAD_GROWS = 2.0
"""How much further ahead auto is at SLIDE 1 than at RANGE, at least."""
FRAMES = 4
LONG_SLIDE = 900
"""From here on runs are short, and have more rows."""
LONG_FACTOR = 4

Curves = dict[str, dict[int, float]]


def overlap(scale: Scale, plot_dir: Path | None) -> Iterator[Row]:
    """The more windows a row is in, the further auto is ahead of a buffer."""
    time: Curves = {"auto": {}, "wid": {}, "buffering": {}}
    for slide in scale.slides:
        rows = scale.overlapping * (LONG_FACTOR if slide >= LONG_SLIDE else 1)
        for name, seconds in _seconds(scale, slide, rows, rows // FRAMES).items():
            time[name][slide] = seconds / rows
    name = "fig 6-10: buffering / auto time"
    ahead = {slide: time["buffering"][slide] / time["auto"][slide] for slide in scale.slides}
    for slide, ratio in ahead.items():
        yield Row(f"{name}, SLIDE {slide}", ratio, "x", AHEAD_MIN, ">=")
    first, last = scale.slides[0], scale.slides[-1]
    grown = ahead[first] / ahead[last]
    yield Row(f"{name}, SLIDE {first} over {last}", grown, "x", AHEAD_GROWS, ">=")
    for slide in scale.slides:
        ratio = time["wid"][slide] / time["auto"][slide]
        yield Row(f"fig 6-10: wid / auto time, SLIDE {slide}", ratio, "x")
    yield from _short_frames(scale)
    if plot_dir is not None:
        series = {label: list(curve.items()) for label, curve in time.items()}
        chart = Chart(
            "Time, RANGE 4000 rows", "SLIDE", "seconds a row", series, log_x=True, log_y=True
        )
        chart.save(plot_dir / "fig6-10.svg")


def _short_frames(scale: Scale) -> Iterator[Row]:
    for slide in (slide for slide in scale.slides if slide >= LONG_SLIDE):
        seconds = _seconds(scale, slide, LONG_FACTOR * scale.overlapping, FRAME_ROWS)
        ratio = seconds["buffering"] / seconds["auto"]
        name = f"fig 6-10: buffering / auto time, SLIDE {slide}, frames of {FRAME_ROWS:,} rows"
        yield Row(name, ratio, "x")


def _seconds(scale: Scale, slide: int, rows: int, frame_rows: int) -> dict[str, float]:
    query = largest(RANGE_ROWS, slide)
    plans = {name: Plan(query, implementation=name) for name in ("auto", "wid")}
    graphs: dict[str, Make] = {name: plan.compile for name, plan in plans.items()}
    graphs["buffering"] = lambda: buffering(plans["auto"], slide, ())
    pushes = made(plans["auto"], {"flows": rows_in_order(rows)}, frame_rows)
    check_same({name: watched(make(), pushes).outputs for name, make in graphs.items()})
    return best_seconds(graphs, pushes, scale.repeat_curve)
