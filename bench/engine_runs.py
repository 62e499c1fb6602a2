"""Runs of a graph over frames that are made already: how fast, how late, with how much state.

    frames = made(plan, {"flows": batch}, frame_rows=16_000)
    rate(plan.compile, frames)             rows in a second, the best of five runs
    watched(plan.compile(), frames).peak_bytes

Frames come from the engine's own intake, so stables are where they are for a user: thinned to what
the plan's windows can use. Of several sources each gives a frame in turn. A new graph for each run;
what it puts out is looked at and let go of, as its sender would.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.engine.graph import Graph
from gapless.engine.intake import Intake
from gapless.engine.plan import Plan
from gapless.operators.aside import Aside
from gapless.protocol.elements import INF
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame

Pushes = Sequence[tuple[str, Frame]]
Make = Callable[[], Graph]
Seconds = npt.NDArray[np.float64]


def made(
    plan: Plan, inputs: Mapping[str, pa.RecordBatch], frame_rows: int, *, thinned: bool = True
) -> Pushes:
    """The frames of all inputs, a frame of each in turn, each input's end with it.

    `thinned=False`: every frame promises all that it can, for what buffers by promises.
    """
    grids = plan.compile().grids
    feeds = [
        frames_of(Intake(source, Aside(), grids[name] if thinned else 1, frame_rows), inputs[name])
        for name, source in plan.query.sources.items()
    ]
    turns = (zip(plan.query.sources, turn, strict=True) for turn in zip_longest(*feeds))
    return [(name, frame) for turn in turns for name, frame in turn if frame is not None]


def frames_of(intake: Intake, batch: pa.RecordBatch) -> Iterator[Frame]:
    """The frames that an intake makes of a batch, and the end."""
    for frame, _ in intake.take(batch):
        yield frame
    yield intake.finish()


def rows_in(pushes: Pushes) -> int:
    """Rows of all frames."""
    return sum(len(frame) for _, frame in pushes)


def seconds(graph: Graph, pushes: Pushes) -> float:
    """How long one run takes."""
    push = graph.push
    gc.collect()  # what earlier runs left is not this one's work
    start = time.perf_counter()
    for name, frame in pushes:
        push(name, frame)
    took = time.perf_counter() - start
    _ended(graph)
    return took


def best_seconds(graphs: Mapping[str, Make], pushes: Pushes, repeat: int) -> dict[str, float]:
    """The best run of each of several graphs, in turn, so that a slow moment strikes all alike."""
    best = dict.fromkeys(graphs, float("inf"))
    for _ in range(repeat):
        for name, make in graphs.items():
            best[name] = min(best[name], seconds(make(), pushes))
    return best


def rate(make: Make, pushes: Pushes, repeat: int) -> float:
    """Input rows in a second, the best of `repeat` runs."""
    return rows_in(pushes) / best_seconds({"": make}, pushes, repeat)[""]


class Watched(NamedTuple):
    """One run, looked at between pushes: not for measuring time."""

    outputs: list[Frame]
    """All that came out."""
    peak_bytes: int
    """The most state that the graph had after any push."""


def watched(graph: Graph, pushes: Pushes) -> Watched:
    """Runs the graph and keeps what comes out."""
    found, peak = [], 0
    for name, frame in pushes:
        out = graph.push(name, frame)
        if len(out):
            found.append(out)
        peak = max(peak, graph.nbytes)
    _ended(graph)
    graph.validate()
    return Watched(found, peak)


class Timed(NamedTuple):
    """One run by pushes."""

    seconds: Seconds
    """Of each push."""
    answered: npt.NDArray[np.bool_]
    """Which of them gave rows."""


def timed(graph: Graph, pushes: Pushes) -> Timed:
    """Runs the graph and times each push."""
    took = np.empty(len(pushes))
    answered = np.zeros(len(pushes), np.bool_)
    push, clock = graph.push, time.perf_counter
    gc.collect()
    for i, (name, frame) in enumerate(pushes):
        start = clock()
        out = push(name, frame)
        took[i] = clock() - start
        answered[i] = len(out) > 0
    _ended(graph)
    return Timed(took, answered)


def _ended(graph: Graph) -> None:
    if graph.stable != INF:
        raise Bug(f"a run ends at stable {graph.stable}: its inputs were not whole")
