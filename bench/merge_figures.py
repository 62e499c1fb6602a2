"""The paper's figures 2 to 6 as curves, and what must hold of their shapes as rows.

    figs. 2, 3   memory and throughput, in-order inputs, every case, 2 to 10 inputs
    (state)      memory with the default disorder: only r3 shares payloads between inputs
    fig. 4       adjusts of the output against those of an input, by disorder
    (lag)        throughput as some inputs fall behind (section VI-C.3)
    fig. 5       memory and throughput by StableFreq
    fig. 6       memory and throughput with revisions; what it costs to order every input first
    (latency)    from an event's arrival to its insert in the output (section VI-D.3)

A row gives a ratio, taken where it is worst along the curve where it names no point; its bar is the
shape. Absolute heights are this machine's and are only drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gapless.bench.harness import Row
from gapless.bench.lmerge_workload import REVISIONS_MAX, Table, Workload, interleave
from gapless.bench.merge_runs import adjusts_in, adjusts_out, latency_s, rates, state
from gapless.bench.merge_scale import Scale
from gapless.bench.plots import Chart
from gapless.protocol.frame import Frame

GROWTH_FLAT = 1.3
"""State that does not depend on the number of inputs grows at most so much from 2 to 10 of them:
payloads are shared, an end for each input is not."""

Curve = dict[float, float]
Curves = dict[str, Curve]


@dataclass(frozen=True)
class ByInputs:
    """Mean state in bytes and input elements per second, by number of inputs."""

    state: Curves
    rate: Curves


def by_inputs(workload: Workload, names: Sequence[str], scale: Scale, repeat: int) -> ByInputs:
    """The same over what inputs tell about a workload."""
    streams = Table(workload).streams(scale.inputs[-1])
    return by_inputs_of(streams, names, scale.inputs, repeat)


def by_inputs_of(
    streams: Sequence[Sequence[Frame]], names: Sequence[str], inputs: Sequence[int], repeat: int
) -> ByInputs:
    """Measures each merger at each number of inputs; no throughput where `repeat` is 0."""
    found = ByInputs({name: {} for name in names}, {name: {} for name in names})
    for n in inputs:
        pushes = interleave(streams[:n])
        best = rates(names, pushes, repeat)
        for name in names:
            found.state[name][n] = state(name, pushes).mean_bytes
            found.rate[name][n] = best[name]
    return found


def _ratio(over: Mapping[float, float], under: Mapping[float, float]) -> list[float]:
    """Point by point."""
    return [value / under[x] for x, value in over.items()]


def _growth(curve: Mapping[float, float]) -> float:
    """The last point over the first."""
    values = list(curve.values())
    return values[-1] / values[0]


def _draw(
    plot_dir: Path | None,
    name: str,
    title: str,
    axes: tuple[str, str],
    curves: Curves,
    log: str = "",
) -> None:
    if plot_dir is not None:
        series = {label: list(curve.items()) for label, curve in curves.items()}
        chart = Chart(title, *axes, series, log_x="x" in log, log_y="y" in log)
        chart.save(plot_dir / f"{name}.svg")


STATE, RATE = "bytes of state, mean", "input elements/s"

LIKE = 0.8
"""At least so much of the other's throughput counts as the same: r0 and r1 read a frame's starts
and little else, 10 us a frame, so a tenth more or less is one numpy call."""
SLIGHTLY = 0.6
"""At least so much of the throughput is left with a thousand times as many stables."""


def in_order(scale: Scale, plot_dir: Path | None) -> Iterator[Row]:
    """Figures 2 and 3: r0 to r2 keep next to nothing, r3 shares payloads, r3- copies them."""
    workload = Workload(
        events=scale.events_wide, live=scale.live, payload="wide", strict=True, disorder=0.0
    )
    names = ("r0", "r1", "r2", "r3", "r3-", "r4")
    found = by_inputs(workload, names, scale, scale.repeat_curve)
    size, rate = found.state, found.rate
    yield Row("fig 2: r0 / r1 state", max(_ratio(size["r0"], size["r1"])), "x", 1, "<=")
    yield Row("fig 2: r1 / r2 state", max(_ratio(size["r1"], size["r2"])), "x", 1, "<=")
    yield Row("fig 2: r2 / r3 state", max(_ratio(size["r2"], size["r3"])), "x", 0.01, "<=")
    yield Row("fig 2: r3 / r3- state", max(_ratio(size["r3"], size["r3-"])), "x", 0.9, "<=")
    for fast, slow, bar in (("r0", "r1", LIKE), ("r1", "r2", 1), ("r2", "r3", 1), ("r3", "r3-", 1)):
        worst = min(_ratio(rate[fast], rate[slow]))
        yield Row(f"fig 3: {fast} / {slow} throughput", worst, "x", bar, ">=")
    _draw(plot_dir, "fig2", "Memory, in-order inputs", ("inputs", STATE), size, "y")
    _draw(plot_dir, "fig3", "Throughput, in-order inputs", ("inputs", RATE), rate, "y")


def shared_state(scale: Scale, plot_dir: Path | None) -> Iterator[Row]:
    """Memory with 20 % disorder and 1,000-byte payloads: what grows with the inputs."""
    workload = Workload(events=scale.events_wide, live=scale.live, payload="wide")
    size = by_inputs(workload, ("r3", "r3-", "c+r1"), scale, repeat=0).state
    few, many = scale.inputs[0], scale.inputs[-1]
    grown = f"state, {few} to {many} inputs"
    yield Row(f"r3 {grown}", _growth(size["r3"]), "x", GROWTH_FLAT, "<=")
    yield Row(f"r3- {grown}", _growth(size["r3-"]), "x", 2, ">=")
    yield Row(f"c+r1 {grown}", _growth(size["c+r1"]), "x", 2, ">=")
    yield Row(
        f"c+r1 / r3 state, {many} inputs", size["c+r1"][many] / size["r3"][many], "x", 4, ">="
    )
    _draw(plot_dir, "state", "Memory, 20 % disorder", ("inputs", STATE), size)


CHATTER_MAX = 0.15
"""Adjusts of the output over those of an input at 80 % disorder. An input makes 8 an event there;
the output puts an event right once at most, when a stable freezes its end: 1/8, and some slack."""


def chattiness(scale: Scale, plot_dir: Path | None) -> Iterator[Row]:
    """Figure 4: late rows make an input revise; the output says only what a stable freezes.

    The sub-query counts windows of 10 rows: at disorder d an answer is revised 10 d times.
    """
    curves: Curves = {"one input": {}, "r3": {}, "r3 at once": {}}
    for percent in range(0, 81, 20):
        share = percent / 100
        workload = Workload(
            events=scale.events // 10,
            live=scale.live // 5,
            disorder=share,
            revisions=REVISIONS_MAX * share,
        )
        pushes = interleave(Table(workload).streams(3))
        curves["one input"][percent] = adjusts_in(pushes)
        for name in ("r3", "r3 at once"):
            curves[name][percent] = adjusts_out(name, pushes)
        if percent:
            name = f"fig 4: output / input adjusts, {percent} % disorder"
            ratio = curves["r3"][percent] / curves["one input"][percent]
            last = percent == 80
            yield Row(name, ratio, "x", CHATTER_MAX if last else None, "<=" if last else None)
    axes = ("disorder, %", "adjusts")
    _draw(plot_dir, "fig4", "Output size, increasing disorder", axes, curves)


def lag(scale: Scale, plot_dir: Path | None) -> Iterator[Row]:
    """Section VI-C.3: what inputs say that are far behind is settled, and dropped unread."""
    workload = Workload(events=scale.events, live=scale.live)
    streams = Table(workload).streams(3)
    lifetime_frames = scale.live / workload.frame_rows
    curve: Curve = {}
    for lifetimes in (0, 0.5, 1, 2, 4):
        frames = round(lifetimes * lifetime_frames)
        pushes = interleave(streams, (0, frames, frames))
        curve[lifetimes] = rates(("r3",), pushes, scale.repeat)["r3"]
    name = "lag: r3 throughput, two of three inputs 4 lifetimes behind / none"
    yield Row(name, _growth(curve), "x", 1, ">=")
    axes = ("lag of two of three inputs, lifetimes", RATE)
    _draw(plot_dir, "lag", "Throughput, increasing lag", axes, {"r3": curve})


def stable_freq(scale: Scale, plot_dir: Path | None) -> Iterator[Row]:
    """Figure 5: often stable means little state, and a little more work where there is state."""
    size: Curves = {name: {} for name in ("r0", "r1", "r2", "r3", "r4")}
    rate: Curves = {name: {} for name in size}
    for percent in (0.001, 0.01, 0.1, 1):
        disordered = Workload(events=scale.events, live=scale.live, stable_freq=percent / 100)
        ordered = replace(disordered, disorder=0.0, strict=True)
        for workload, names in ((ordered, ("r0", "r1", "r2")), (disordered, ("r3", "r4"))):
            pushes = interleave(Table(workload).streams(3))
            best = rates(names, pushes, scale.repeat)
            for name in names:
                size[name][percent] = state(name, pushes).mean_bytes
                rate[name][percent] = best[name]
    for name in ("r3", "r4"):
        yield Row(f"fig 5: {name} state, 1 % / 0.001 %", _growth(size[name]), "x", 0.5, "<=")
    for name in rate:
        bar = SLIGHTLY if name in ("r3", "r4") else LIKE
        what = f"fig 5: {name} throughput, 1 % / 0.001 %"
        yield Row(what, _growth(rate[name]), "x", bar, ">=")
    axes = "StableFreq, %"
    title = "increasing StableFreq"
    _draw(plot_dir, "fig5-memory", f"Memory, {title}", (axes, STATE), size, "xy")
    _draw(plot_dir, "fig5-throughput", f"Throughput, {title}", (axes, RATE), rate, "xy")


def ordering_first(scale: Scale, plot_dir: Path | None) -> Iterator[Row]:
    """Figure 6: merging disordered, revised streams against ordering each of them first."""
    workload = Workload(
        events=scale.events_wide,
        live=scale.live,
        payload="wide",
        disorder=0.5,
        revisions=0.5625,  # 36 % of the elements are adjusts
        stable_freq=0.001,
    )
    found = by_inputs(workload, ("r3", "r3-", "c+r1"), scale, scale.repeat_curve)
    size, rate = found.state, found.rate
    few, many = scale.inputs[0], scale.inputs[-1]
    yield Row(
        f"fig 6: r3 state, {few} to {many} inputs", _growth(size["r3"]), "x", GROWTH_FLAT, "<="
    )
    yield Row(
        f"fig 6: c+r1 / r3 state, {many} inputs",
        size["c+r1"][many] / size["r3"][many],
        "x",
        4,
        ">=",
    )
    for other in ("r3-", "c+r1"):
        ahead = min(_ratio(rate["r3"], rate[other]))
        yield Row(f"fig 6: r3 / {other} throughput", ahead, "x", 1, ">=")
    _draw(plot_dir, "fig6-memory", "Memory, disorder and revisions", ("inputs", STATE), size)
    axes = ("inputs", RATE)
    _draw(plot_dir, "fig6-throughput", "Throughput, disorder and revisions", axes, rate)
    narrow = Workload(events=scale.events // 2, live=scale.live, disorder=0.5)
    pushes = interleave(Table(narrow).streams(many))
    best = rates(("r3", "c+r1"), pushes, scale.repeat)
    name = f"r3 / c+r1 throughput, {many} inputs, 50 % disorder"
    yield Row(name, best["r3"] / best["c+r1"], "x", 1, ">=")


ELEMENTS_PER_S = 5_000
"""What an input delivers (the paper's section VI-E). With MaxGap 400 us and 10,000 events live, a
lifetime is 2 s; the largest lateness is 0.2 s."""


def latency(scale: Scale, plot_dir: Path | None) -> Iterator[Row]:
    """Section VI-D.3: r3 puts an event out when it comes, c+r1 once it is fully frozen."""
    del plot_dir  # three figures make no curve
    workload = Workload(
        events=scale.events // 2,
        live=scale.live,
        strict=True,
        gap_max=2 * 1_000_000 // ELEMENTS_PER_S,
        time_unit="us",
        frame_rows=100,
    )
    table = Table(workload)
    pushes = interleave(table.streams(3))
    found = {name: latency_s(name, pushes, table, ELEMENTS_PER_S) for name in ("r3", "c+r1")}
    lifetime_s = scale.live / ELEMENTS_PER_S
    for name, seconds in found.items():
        yield Row(f"{name} latency, lifetimes of {lifetime_s:g} s", seconds * 1e3, "ms")
    yield Row("c+r1 / r3 latency", found["c+r1"] / found["r3"], "x", 100, ">=")


FIGURES: tuple[Callable[[Scale, Path | None], Iterator[Row]], ...] = (
    in_order,
    shared_state,
    chattiness,
    lag,
    stable_freq,
    ordering_first,
    latency,
)
"""Each measures, yields its rows, and draws where there is a directory to draw into."""
