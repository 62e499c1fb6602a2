"""How fast, how late and how large: W1 to W3 and a chain of filter and map, on one core.

Frames are made before the clock starts, so a rate is that of the plan alone; each is the best of
five runs with a new graph. Before a rate is measured, one run at the same frame size is compared
with the answers that numpy computes over the whole input (`engine_expected.py`): a wrong answer
ends the bench.

Latency is that of one push of 100 rows into W1's plan: from the call to its return, with all
answers that it caused. Of 100 frames, which is a second, one closes a window.

State is what `Graph.nbytes` says between two pushes, at its peak. It is held against
keys x open panes x 16 bytes, a count and a sum each. Open panes are the seconds that a window not
answered yet covers and of which a row has come: at stable t, from floor(t / 1 s) - 9 to the latest
row's. Keys are the different sources of the rows in them. Both are taken from the input, at
the moment of the peak, and not from the engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from gapless.bench.engine_expected import ExpectedPairs, ExpectedWindows
from gapless.bench.engine_queries import chain, w1, w2, w3
from gapless.bench.engine_runs import Pushes, made, rate, rows_in, timed, watched
from gapless.bench.engine_scale import Scale
from gapless.bench.harness import Row
from gapless.bench.netflow import RANGE_MS, SLIDE_MS, flows, generator, join_side
from gapless.engine.plan import Plan
from gapless.protocol.errors import Bug

SIXTEEN = 16
"""Bytes of a count and a sum."""
STATE_MAX = 1.5
LATENCY_MAX_MS = 1.0
CHAIN_KEEPS = 0.5
"""Share of rows that the chain's filter lets through: about where Arrow's filter is slowest."""


def throughput(scale: Scale) -> Iterator[Row]:
    """All rows of this file."""
    rng = generator()
    given = flows(scale.flows, rng)
    sides = {"a": join_side(scale.side, rng), "b": join_side(scale.side, rng)}
    yield from _windows(given, scale)
    yield from _pairs(sides, scale)
    yield from _chain(given, scale)
    yield from _latency(given.slice(0, scale.latency_flows))
    yield _state(given.slice(0, scale.latency_flows))


def _windows(given: pa.RecordBatch, scale: Scale) -> Iterator[Row]:
    cases: Sequence[tuple[str, Plan, int, Sequence[tuple[int, float]]]] = (
        ("W1", Plan(w1()), RANGE_MS, ((16_000, 20e6), (1_000, 8e6), (100, 3e6))),
        ("W2", Plan(w2()), SLIDE_MS, ((16_000, 25e6),)),
    )
    for name, plan, range_ms, sizes in cases:
        expected = ExpectedWindows(given, range_ms, SLIDE_MS)
        for frame_rows, bar in sizes:
            pushes = made(plan, {"flows": given}, frame_rows)
            expected.check(watched(plan.compile(), pushes).outputs)
            found = rate(plan.compile, pushes, scale.repeat)
            yield Row(f"{name}, {frame_rows:,}-row frames", found, "events/s", bar, ">=")


def _pairs(sides: dict[str, pa.RecordBatch], scale: Scale) -> Iterator[Row]:
    plan = Plan(w3())
    expected = ExpectedPairs(sides["a"], sides["b"])
    for frame_rows, bar in ((16_000, 12e6), (1_000, 5e6)):
        pushes = made(plan, sides, frame_rows)
        expected.check(watched(plan.compile(), pushes).outputs)
        found = rate(plan.compile, pushes, scale.repeat)
        yield Row(f"W3, {frame_rows:,}-row frames", found, "events/s", bar, ">=")


def _chain(given: pa.RecordBatch, scale: Scale) -> Iterator[Row]:
    """`where(len > 770).select(src, bits=len * 8)`: half of the rows pass."""
    plan = Plan(chain())
    pushes = made(plan, {"flows": given}, 16_000)
    found = rows_in([("", frame) for frame in watched(plan.compile(), pushes).outputs])
    wanted = int(np.count_nonzero(given.column("len").to_numpy() > 770))
    if found != wanted:
        raise Bug(f"filter and map: {found:,} rows, {wanted:,} are right")
    name = "filter and map, half of the rows pass, 16,000-row frames"
    yield Row(name, rate(plan.compile, pushes, scale.repeat), "events/s", 150e6, ">=")


def _latency(given: pa.RecordBatch) -> Iterator[Row]:
    plan = Plan(w1())
    found = timed(plan.compile(), made(plan, {"flows": given}, 100))
    took, answered = found.seconds * 1e3, found.answered
    name = "W1 latency of a 100-row frame"
    yield Row(f"{name}, p50", float(np.median(took)), "ms")
    yield Row(f"{name}, p99", float(np.percentile(took, 99)), "ms", LATENCY_MAX_MS, "<=")
    yield Row(f"{name} that closes a window, p50", float(np.median(took[answered])), "ms")
    yield Row(f"{name} that closes a window, p99", float(np.percentile(took[answered], 99)), "ms")


def _state(given: pa.RecordBatch) -> Row:
    plan = Plan(w1())
    pushes = made(plan, {"flows": given}, 1_000)
    graph, peak, at = plan.compile(), 0, 0
    for i, (name, frame) in enumerate(pushes):
        graph.push(name, frame)
        if graph.nbytes > peak:
            peak, at = graph.nbytes, i
    bare = _open_cells(pushes[: at + 1]) * SIXTEEN
    return Row("W1 state / (keys x open panes x 16 bytes)", peak / bare, "x", STATE_MAX, "<=")


def _open_cells(pushes: Pushes) -> int:
    """Keys times open panes, after these pushes."""
    stables = [frame.stable for _, frame in pushes if frame.stable is not None]
    ts = np.concatenate([frame.vs for _, frame in pushes])
    src = np.concatenate([frame.payload.column("src").to_numpy() for _, frame in pushes])
    first = stables[-1] // SLIDE_MS - (RANGE_MS // SLIDE_MS - 1)
    is_open = ts // SLIDE_MS >= first
    return len(np.unique(src[is_open])) * len(np.unique(ts[is_open] // SLIDE_MS))
