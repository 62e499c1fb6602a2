"""Figures 7-6, 7-7, 8-8 and 8-11: what it costs to keep streams in order.

Joins (Q7-2): how many pairs of two streams there were in each 10 s, by the left rows' time, for
join windows of 1 to 9 s. Each side has 2,000 rows a second over 500 keys, 5 % of them late by up to
1 s; a left row has 8 partners for each second of the window. The three plans differ in one step
(`baselines_order.py`): OA-Join, with nothing; OPOB, with a buffer behind the join that sorts its
results; OPIB, with a buffer before it that keeps back the left rows.

    memory    the most state of the whole plan after any push
    latency   median of the pushes that gave answers: from the arrival of the rows and promise that
              complete a window to its answer
    time      of the whole run

"Ahead" is judged where it is worst for memory, and over the sum of the curve for what a clock says.

Unions (Q8-2): a count by source over the union of two streams, each minute; the second is behind
the first by 0 to 40 s. (Q8-5): a count over the last 5 minutes, every minute, of two streams and a
third with a row a second, which is behind by 0 to 10 s. OOP is our plan; IOP has a merge that keeps
order in place of the union. Streams are in order by themselves, 10,000 rows a second, so that IOP
needs no buffer but that one.

In all of these every frame of an input promises what it can: buffers are as large as promises are
rare.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from gapless.bench import netflow
from gapless.bench.baselines_order import InputBuffered, OrderedUnion, SortedOutput
from gapless.bench.engine_queries import answered_pairs, behind, instead, united
from gapless.bench.engine_runs import Make, made, timed
from gapless.bench.engine_scale import Scale
from gapless.bench.harness import Row
from gapless.bench.plots import Chart
from gapless.bench.skewed import Curves, by_skew, note_memory, stream_frames
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.operators.join import Join
from gapless.operators.meld import Meld
from gapless.operators.operator import Operator

# -- joins ----------------------------------------------------------------------------------------

JOIN_RATE, JOIN_KEYS = 2_000, 500
ANSWER_MS = 10_000
JOIN_FRAME_ROWS = 500
"""A quarter of a second."""


def joins(scale: Scale, plot_dir: Path | None) -> Iterator[Row]:
    """Figures 7-6 and 7-7: OA-Join is ahead in memory, latency and time, whatever the window."""
    rng = np.random.default_rng(netflow.SEED)
    sides = {name: _side(scale.joined_s * JOIN_RATE, rng) for name in "ab"}
    names = ("OA", "OPOB", "OPIB")
    memory, latency, time = (_no_curves(names) for _ in range(3))
    for window_s in scale.join_windows_s:
        plan = Plan(answered_pairs(window_s * 1_000, ANSWER_MS))
        graphs: dict[str, Make] = {
            "OA": plan.compile,
            "OPOB": partial(behind, plan, Join, lambda join: SortedOutput(join.schema, "ts")),
            "OPIB": partial(instead, plan, Join, partial(_opib, plan)),
        }
        pushes = made(plan, sides, JOIN_FRAME_ROWS, thinned=False)
        note_memory(memory, graphs, pushes, window_s)
        for _ in range(scale.repeat_curve):
            for name, make in graphs.items():
                run = timed(make(), pushes)
                took_ms = float(np.median(run.seconds[run.answered])) * 1e3
                _note_best(latency[name], window_s, took_ms)
                _note_best(time[name], window_s, float(run.seconds.sum()))
    for what, unit, curves in (
        ("memory", "bytes of state, peak", memory),
        ("latency", "ms, median", latency),
        ("time", "seconds", time),
    ):
        ours = curves["OA"]
        last = scale.join_windows_s[-1]
        for other in names[1:]:
            theirs = curves[other]
            name = f"figs 7-6, 7-7: {other} / OA {what}"
            if what == "memory":  # the same in every run
                worst = min(theirs[n] / ours[n] for n in ours)
                yield Row(f"{name}, worst", worst, "x", 1, ">=")
            else:
                summed = sum(theirs.values()) / sum(ours.values())
                yield Row(f"{name}, all windows", summed, "x", 1, ">=")
            yield Row(f"{name}, {last} s", theirs[last] / ours[last], "x")
        _draw(plot_dir, f"fig7-{what}", f"Join: {what}", ("join window, s", unit), curves)


def _no_curves(names: Sequence[str]) -> Curves:
    return {name: {} for name in names}


def _side(n: int, rng: np.random.Generator) -> pa.RecordBatch:
    """Like W3's sides, with other rates."""
    on_time = netflow.START_MS + np.arange(n, dtype=np.int64) * 1000 // JOIN_RATE
    late = (rng.random(n) < 0.05) * rng.integers(1, netflow.SIDE_LATENESS_MS, n)
    key = rng.integers(0, JOIN_KEYS, n).astype(np.int32)
    return pa.record_batch([np.arange(n), key, on_time - late], schema=netflow.SIDE)


def _opib(plan: Plan, join: Operator) -> Operator:
    return InputBuffered(plan.query.sources["a"].schema, join, "ts")


# -- unions ---------------------------------------------------------------------------------------

UNION_RATE = netflow.FLOW_RATE
UNION_FRAME_ROWS = 1_000
"""A tenth of a second."""
TUMBLING_MS = 60_000
SLIDING_MS, SLIDING_STEP_MS = 300_000, 60_000
RARE_RATE = 1
"""Rows a second of the third stream in figure 8-11."""
RARE_SKEW_SHARE = 4
"""Figure 8-11 goes to 10 s where figure 8-8 goes to 40."""
FLAT_MAX = 1.25
"""Growth of OOP's peak from no skew to the largest. What may be more is one window's counts, where
a minute that is over for one stream is open for the other; rows never wait."""
GROWS_MIN = 4.0
"""Growth of IOP's peak: it holds the rows of the whole skew."""


def unions(scale: Scale, plot_dir: Path | None) -> Iterator[Row]:
    """Figures 8-8 and 8-11: OOP keeps counts, IOP keeps whatever comes too early."""
    streams = {"M1": UNION_RATE, "M2": UNION_RATE}
    query = united(streams, TUMBLING_MS, TUMBLING_MS, "src")
    memory = _by_skew(query, streams, scale.skews_s, scale.union_s)
    yield from _skewed("fig 8-8", memory)
    title, state = "Count by source over a union of two", "bytes of state, peak"
    _draw(plot_dir, "fig8-8", title, ("skew of the second, s", state), memory)
    streams["C"] = RARE_RATE
    query = united(streams, SLIDING_MS, SLIDING_STEP_MS)
    skews_s = [skew / RARE_SKEW_SHARE for skew in scale.skews_s]
    memory = _by_skew(query, streams, skews_s, scale.union_s)
    yield from _skewed("fig 8-11", memory)
    title = "Count over a union with a rare third stream"
    _draw(plot_dir, "fig8-11", title, ("delay of the third, s", state), memory)


def _by_skew(
    query: Query, rates: Mapping[str, int], skews_s: Sequence[float], seconds: int
) -> Curves:
    """Peak state of OOP and IOP, for each time that the last stream is behind."""
    plan = Plan(query)
    iop = partial(instead, plan, Meld, lambda meld: OrderedUnion(meld.schema, meld.inputs))
    graphs: dict[str, Make] = {"OOP": plan.compile, "IOP": iop}
    rng = np.random.default_rng(netflow.SEED)
    streams = {name: _stream(rate, seconds, rng) for name, rate in rates.items()}
    frames = stream_frames(plan, streams, rates, UNION_FRAME_ROWS)
    return by_skew(graphs, frames, list(rates)[-1:], skews_s)


def _stream(rate: int, seconds: int, rng: np.random.Generator) -> pa.RecordBatch:
    n = rate * seconds
    ts = netflow.START_MS + np.arange(n, dtype=np.int64) * 1000 // rate
    src = rng.integers(0, netflow.FLOW_KEYS, n).astype(np.int32)
    return pa.record_batch([ts, src, np.full(n, 40, np.int32)], schema=netflow.FLOWS)


def _skewed(figure: str, memory: Curves) -> Iterator[Row]:
    first, *_, last = memory["OOP"]
    grown = {name: curve[last] / curve[first] for name, curve in memory.items()}
    name = f"memory, {last:g} s of skew over none"
    yield Row(f"{figure}: OOP {name}", grown["OOP"], "x", FLAT_MAX, "<=")
    yield Row(f"{figure}: IOP {name}", grown["IOP"], "x", GROWS_MIN, ">=")
    ratio = memory["IOP"][last] / memory["OOP"][last]
    yield Row(f"{figure}: IOP / OOP memory, {last:g} s of skew", ratio, "x", 1, ">=")


# -- what both have -------------------------------------------------------------------------------


def _note_best(curve: dict[float, float], x: float, value: float) -> None:
    curve[x] = min(curve.get(x, value), value)


def _draw(
    plot_dir: Path | None, name: str, title: str, axes: tuple[str, str], curves: Curves
) -> None:
    if plot_dir is not None:
        series = {label: list(curve.items()) for label, curve in curves.items()}
        Chart(title, *axes, series).save(plot_dir / f"{name}.svg")
