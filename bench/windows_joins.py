"""Figures 8-4, 8-5 and 8-8 to 8-10: what joins and unions hold with order (IOP) and without (OOP).

    fig 8-4    a join of windows of 2 min. A few rows of S0 come up to 5 min late; S1 is in order.
               OOP joins rows as they come; IOP sorts S0 first. Rows held, in minutes of their input
    fig 8-5    windows of 3 min on S0, 2 min on S1, in order and in step; the pairs are counted by
               S0's time. IOP sorts the pairs behind the join; OOP passes them on. Pairs held there
    fig 8-8    Q8-2: a count by source and destination each minute, M1 union M2; M2 is behind
    fig 8-9    Q8-3: A union B joined with C union D in each 10 s; B and D are behind
    fig 8-10   Q8-4: M1 joined with M2 union C in each minute; C, of a row a second, is behind

The last three show the most state after any push. IOP has a merge that keeps order in place of each
union. In figure 8-9 both hold the same rows: IOP in its merges, OOP in the join. In figure 8-10 the
join of IOP takes its inputs in one order of time, so rows of M2 are purged later than by OOP, which
is where the thesis sees the difference. (With IOP's merge and our join, which purges a side as soon
as the other one has passed it, both plans hold the rows of one window.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.bench.baselines_order import InStep, OrderedUnion, SortedOutput
from gapless.bench.engine_expected import check_same
from gapless.bench.engine_queries import before, behind, instead
from gapless.bench.engine_runs import Make, Pushes, made
from gapless.bench.harness import Row
from gapless.bench.netflow import SEED, SIDE, START_MS, Ints
from gapless.bench.plots import Chart
from gapless.bench.skewed import Curves, by_skew, growth, ratios, stream_frames
from gapless.bench.windows_scale import Scale
from gapless.engine.graph import Graph
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.engine.source import source
from gapless.engine.steps import Step
from gapless.operators.aggregates import count
from gapless.operators.join import Join
from gapless.operators.lifetimes import SetLifetimes
from gapless.operators.meld import Meld
from gapless.operators.operator import Operator
from gapless.operators.select import Select
from gapless.protocol.frame import Frame

MINUTE_MS = 60_000
Ints32 = npt.NDArray[np.int32]

# -- figures 8-4 and 8-5: what waits where --------------------------------------------------------

HELD_RATE = 50
"""Rows a second of S0, and of S1."""
HELD_KEYS = 2_000
LATE_MS = 5 * MINUTE_MS
LATE_SHARE = 0.01
LOOK_S = 10
"""Between two looks at what is held."""
NEAR_MIN = 0.1
"""Minutes by which what is held may differ from what the thesis draws."""


def joined(ranges_min: tuple[int, int], lateness_ms: int) -> Query:
    """S0 and S1, windowed by so many minutes."""
    left, right = (
        source(name, SIDE, time="ts", lateness=late).window(range=minutes * MINUTE_MS)
        for name, minutes, late in zip(("S0", "S1"), ranges_min, (lateness_ms, 0), strict=True)
    )
    return left.join(right, on="key")


def sides(minutes: int, late_share: float) -> dict[str, pa.RecordBatch]:
    """Rows of S0, of which some come late, and of S1."""
    rng = np.random.default_rng(SEED)
    n = minutes * 60 * HELD_RATE
    ts = START_MS + np.arange(n, dtype=np.int64) * 1_000 // HELD_RATE
    late = (rng.random(n) < late_share) * rng.integers(1, LATE_MS, n)
    times = {"S0": ts - late, "S1": ts}
    keys = {name: rng.integers(0, HELD_KEYS, n).astype(np.int32) for name in times}
    return {
        name: pa.record_batch([np.arange(n), keys[name], times[name]], schema=SIDE)
        for name in times
    }


def delayed(scale: Scale, plot_dir: Path | None) -> Iterator[Row]:
    """Figure 8-4."""
    del plot_dir  # two bars of each make no curve
    plan = Plan(joined((2, 2), LATE_MS))
    pushes = made(plan, sides(scale.held_min, LATE_SHARE), HELD_RATE, thinned=False)
    iop = before(plan, "S0", lambda schema: OrderedUnion(schema, 1))
    found = {"OOP": _Held(plan.compile(), pushes), "IOP": _Held(iop, pushes)}
    check_same({name: each.outputs for name, each in found.items()})
    for name, s0, s1 in (("OOP", 2, 7), ("IOP", 5, 7)):
        most = found[name].minutes
        for which, wanted in (("S0", s0), ("S1", s1)):
            what = f"fig 8-4: {name} holds of {which}"
            is_ours = name == "OOP"
            bar = wanted + NEAR_MIN if is_ours else wanted - NEAR_MIN
            yield Row(what, most[which], "min", bar, "<=" if is_ours else ">=")


class _Held:
    """Runs a graph of the join; of each input, the most minutes of rows that were held at once."""

    def __init__(self, graph: Graph, pushes: Pushes) -> None:
        self.outputs: list[Frame] = []
        self.minutes = dict.fromkeys(("S0", "S1"), 0.0)
        every = 2 * LOOK_S  # a push is a second of one input
        for i, (name, frame) in enumerate(pushes):
            out = graph.push(name, frame)
            if len(out):
                self.outputs.append(out)
            if i % every == every - 1:
                self._look(graph)

    def _look(self, graph: Graph) -> None:
        state, waiting = graph.snapshot(), _waiting(graph, OrderedUnion)
        for name, side, before_it in (("S0", "left", waiting), ("S1", "right", 0)):
            (rows,) = (len(b) for key, b in state.items() if key.endswith(f".Join.{side}"))
            held = (rows + before_it) / HELD_RATE / 60
            self.minutes[name] = max(self.minutes[name], held)


def _waiting(graph: Graph, kind: type[Operator]) -> int:
    """Rows that a step of this kind holds; none where there is no such step."""
    counted = (c for c in graph.counters if c.name == kind.__name__)
    return sum(c.rows_in - c.rows_out for c in counted)


def ordered_output(scale: Scale, plot_dir: Path | None) -> Iterator[Row]:
    """Figure 8-5."""
    del plot_dir  # one figure of each makes no curve
    pairs = joined((3, 2), 0).select("ts")
    query = pairs.window(range=MINUTE_MS, slide=MINUTE_MS, on="ts").aggregate(n=count())
    plan = Plan(query)
    pushes = made(plan, sides(scale.held_min, 0), HELD_RATE, thinned=False)
    iop = behind(plan, Join, lambda join: SortedOutput(join.schema, "ts"))
    most, outputs = {}, {}
    for name, graph in (("OOP", plan.compile()), ("IOP", iop)):
        outputs[name], most[name] = _behind_join(graph, pushes)
    check_same(outputs)
    yield Row("fig 8-5: pairs that wait behind OOP's join", most["OOP"], "rows", 0, "<=")
    yield Row("fig 8-5: pairs that wait behind IOP's join", most["IOP"], "rows")


def _behind_join(graph: Graph, pushes: Pushes) -> tuple[list[Frame], int]:
    """What comes out, and the most pairs that had left the join and were not read on."""
    outputs, most = [], 0
    join = next(i for i, step in enumerate(graph.steps) if isinstance(step.operator, Join))
    reader = len(graph.steps) - 1
    for name, frame in pushes:
        out = graph.push(name, frame)
        if len(out):
            outputs.append(out)
        counters = graph.counters
        most = max(most, counters[join].rows_out - counters[reader].rows_in)
    return outputs, most


# -- figures 8-8 to 8-10: streams that are behind -------------------------------------------------

PACKETS = pa.schema(
    [
        ("ts", pa.int64()),
        ("src", pa.int32()),
        ("src_port", pa.int32()),
        ("dst", pa.int32()),
        ("dst_port", pa.int32()),
    ]
)
HOSTS = 256
"""65,536 pairs of a source and a destination."""
PAIR_RATE, JOIN_RATE, FLOW_RATE, RARE_RATE = 10_000, 1_000, 1_000, 1
"""Rows a second of M1 and M2 in figure 8-8, of each stream in 8-9, of M1 and M2 in 8-10, of C."""
MEMORY_MAX = 1.2
BACK = (("src", "dst"), ("dst", "src"), ("src_port", "dst_port"), ("dst_port", "src_port"))
"""Packets of one NetFlow in opposite directions."""
FRAMES_A_SECOND = 4


def by_pairs(names: Sequence[str]) -> Query:
    """Q8-2."""
    first, second = (source(name, PACKETS, time="ts", lateness=0) for name in names)
    windowed = first.union(second).window(range=MINUTE_MS, slide=MINUTE_MS)
    return windowed.group_by("src", "dst").aggregate(n=count())


def corresponding(left: Sequence[str], right: Sequence[str], window_ms: int) -> Query:
    """Q8-3, Q8-4: packets of one NetFlow in opposite directions, in each window."""
    back, there = (
        _union(names).window(range=window_ms, slide=window_ms) for names in (right, left)
    )
    return there.join(back, on=list(BACK)).select("src", "dst", "ts")


def _union(names: Sequence[str]) -> Query:
    first, *others = (source(name, PACKETS, time="ts", lateness=0) for name in names)
    return first.union(*others) if others else first


def packets(
    rates: Mapping[str, int], seconds: int, flows: int, backwards: Sequence[str] = ()
) -> dict[str, pa.RecordBatch]:
    """Packets of so many NetFlows in each stream; of some streams in the other direction."""
    rng = np.random.default_rng(SEED)
    found = {}
    for name, rate in rates.items():
        n = rate * seconds
        ts = START_MS + np.arange(n, dtype=np.int64) * 1_000 // rate
        flow = rng.integers(0, flows, n)
        ends = _ends(flow), _ends(flow // HOSTS)
        there, back = ends[::-1] if name in backwards else ends
        found[name] = pa.record_batch([ts, *there, *back], schema=PACKETS)
    return found


def _ends(flow: Ints) -> tuple[Ints32, Ints32]:
    """The host and the port of one end of a NetFlow."""
    host = (flow % HOSTS).astype(np.int32)
    return host, host + 1_024


def skewed_pairs(scale: Scale, plot_dir: Path | None) -> Iterator[Row]:
    """Figure 8-8."""
    rates = dict.fromkeys(("M1", "M2"), PAIR_RATE)
    plan = Plan(by_pairs(list(rates)))
    streams = packets(rates, scale.union_s, HOSTS * HOSTS)
    frames = stream_frames(plan, streams, rates, PAIR_RATE // FRAMES_A_SECOND)
    memory = by_skew(_both(plan), frames, ("M2",), scale.union_skews_s)
    yield from _judged("fig 8-8, by pairs", memory)
    axes = ("skew of M2, s", "bytes of state, peak")
    _draw(plot_dir, "fig8-8-pairs", "Count by pairs over a union of two", axes, memory)


def skewed_join(scale: Scale, plot_dir: Path | None) -> Iterator[Row]:
    """Figure 8-9."""
    rates = dict.fromkeys("ABCD", JOIN_RATE)
    plan = Plan(corresponding("AB", "CD", 10_000))
    streams = packets(rates, scale.join_s, 2 * 10 * JOIN_RATE, backwards="CD")
    frames = stream_frames(plan, streams, rates, JOIN_RATE // FRAMES_A_SECOND)
    memory = by_skew(_both(plan), frames, "BD", scale.join_skews_s)
    yield from _judged("fig 8-9", memory)
    axes = ("skew of B and D, s", "bytes of state, peak")
    _draw(plot_dir, "fig8-9", "Join of unions in each 10 s", axes, memory)


def rare_late(scale: Scale, plot_dir: Path | None) -> Iterator[Row]:
    """Figure 8-10."""
    rates = {"M1": FLOW_RATE, "M2": FLOW_RATE, "C": RARE_RATE}
    plan = Plan(corresponding(("M1",), ("M2", "C"), MINUTE_MS))
    streams = packets(rates, scale.rare_s, 60 * FLOW_RATE, backwards=("M2", "C"))
    frames = stream_frames(plan, streams, rates, FLOW_RATE // FRAMES_A_SECOND)
    graphs: dict[str, Make] = {"OOP": plan.compile, "IOP": partial(in_step, plan)}
    memory = by_skew(graphs, frames, ("C",), scale.rare_skews_s)
    yield from _judged("fig 8-10", memory)
    axes = ("delay of C, s", "bytes of state, peak")
    _draw(plot_dir, "fig8-10", "Join with a union of which one is rare", axes, memory)


def _both(plan: Plan) -> dict[str, Make]:
    return {"OOP": plan.compile, "IOP": partial(instead, plan, Meld, _merge)}


def _merge(meld: Operator) -> Operator:
    return OrderedUnion(meld.schema, meld.inputs)


def in_step(plan: Plan) -> Graph:
    """Q8-4 in order: M1 and the merge of M2 and C go into the join in one order of time."""
    compiled = plan.compile()
    operators = [step.operator for step in compiled.steps]
    windows = [operator for operator in operators if isinstance(operator, SetLifetimes)]
    one = {type(operator): operator for operator in operators}
    steps = [
        Step(_merge(one[Meld]), ("M2", "C")),
        Step(InStep(windows, one[Join]), ("M1", 0)),
        Step(one[Select], (1,)),
    ]
    return Graph(compiled.sources, steps, grids=compiled.grids)


def _judged(figure: str, memory: Curves) -> Iterator[Row]:
    last = max(memory["OOP"])
    worst = max(ratios(memory["OOP"], memory["IOP"]))
    yield Row(f"{figure}: OOP / IOP memory, worst", worst, "x", MEMORY_MAX, "<=")
    yield Row(
        f"{figure}: OOP / IOP memory, {last:g} s", memory["OOP"][last] / memory["IOP"][last], "x"
    )
    grown = {name: growth(curve) for name, curve in memory.items()}
    name = f"{figure}: growth of memory to {last:g} s"
    yield Row(f"{name}, IOP", grown["IOP"], "x")
    yield Row(f"{name}, OOP", grown["OOP"], "x")
    yield Row(f"{name}, OOP / IOP", grown["OOP"] / grown["IOP"], "x", 1, "<=")


def _draw(
    plot_dir: Path | None, name: str, title: str, axes: tuple[str, str], curves: Curves
) -> None:
    if plot_dir is not None:
        series = {label: list(curve.items()) for label, curve in curves.items()}
        Chart(title, *axes, series).save(plot_dir / f"{name}.svg")
