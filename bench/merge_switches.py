"""Figure 9 of the LMerge paper: two plans alone, merged, and merged with feedback.

The stream and the two functions are those of `two_plans.py`, at the paper's 200,000 elements. Each
plan has a processor of its own, and the merger has one: so says the clock here, which is that of
the streams. A push moves its plan's clock on by the CPU time that it really took; what it puts out
reaches the merger at that moment. So one core measures what three would do.

    with feedback    before each push a plan is told what is settled, and leaves out the frames that
                     its graph has no more use for

    UDF0 alone   ####################                cheap, dear, cheap, dear: half of it is dear
    UDF1 alone   ####################
    merged       ###################                 as fast as the faster one: both do all the work
    feedback     ####                                the slower one is carried along
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from pathlib import Path

import numpy as np
import pyarrow as pa

from gapless.bench.engine_runs import made
from gapless.bench.harness import Row
from gapless.bench.plots import Chart
from gapless.bench.two_plans import (
    CHEAP_ROUNDS,
    DEAR_ROUNDS,
    SELECTED,
    X_MAX,
    alternating,
    expected,
    selected,
)
from gapless.bench.windows_scale import Scale
from gapless.engine.functions import function
from gapless.engine.graph import Graph
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.engine.source import source
from gapless.merge.lmerge import LMerge
from gapless.protocol.elements import INF
from gapless.protocol.errors import Bug
from gapless.protocol.frame import Frame

FRAME_ROWS = 200
"""A phase of the stream has 100 frames: what a plan has begun when the phase ends, it finishes."""
LESS = 5
"""The functions compute for so many times less than a job's: frames are short."""
GAIN_MIN = 4.5
"""The paper: 163 s against 34 s."""


def udf(number: int, x: pa.Array) -> pa.Array:
    """UDF0 is dear for small x, UDF1 for large x."""
    small = x.to_numpy() < X_MAX // 2
    return selected(x, small == (number == 0), CHEAP_ROUNDS // LESS, DEAR_ROUNDS // LESS)


def selection(call: Callable[[pa.Array], pa.Array]) -> Query:
    """The rows that a function selects."""
    rows = source("rows", SELECTED, time="ts", lateness=0)
    return rows.where(function(call, "x", returns="bool"))


@dataclass
class Replica:
    """A plan at work, on a processor of its own."""

    number: int
    graph: Graph
    frames: Sequence[Frame]
    clock: float = 0.0
    """When it is done with what it has begun."""
    next: int = 0

    def push(self) -> Frame:
        """Takes the next frame."""
        frame = self.frames[self.next]
        self.next += 1
        start = time.thread_time()
        out = self.graph.push("rows", frame)
        self.clock += time.thread_time() - start
        return out

    def leave_out(self, settled: int) -> None:
        """Passes over the frames that are of no more use once events before `settled` are."""
        start = time.thread_time()
        wanted = self.graph.fast_forward(settled)["rows"]
        while len(frame := self.frames[self.next]) and int(frame.ve.max()) < wanted:
            self.next += 1
        self.clock += time.thread_time() - start

    @property
    def is_done(self) -> bool:
        """Whether it has taken all frames."""
        return self.next == len(self.frames)


@dataclass
class Merged:
    """What a merger of these plans put out, by its own clock."""

    merge: LMerge
    clock: float = 0.0
    rows: int = 0
    total: int = 0
    """Of x, over all rows."""
    curve: list[tuple[float, float]] = field(default_factory=lambda: [(0.0, 0.0)])
    """Seconds, and how many rows were out by then."""

    def take(self, number: int, came: float, frame: Frame) -> None:
        """Takes what a plan put out at `came`."""
        start = time.thread_time()
        out = self.merge.push(number, frame)
        self.clock = max(self.clock, came) + time.thread_time() - start
        if len(out):
            self.rows += len(out)
            self.total += int(np.sum(out.payload.column("x").to_numpy(), dtype=np.int64))
            self.curve.append((self.clock, float(self.rows)))


def run(numbers: Sequence[int], given: pa.RecordBatch, *, feedback: bool) -> Merged:
    """Merges the plans of these functions over the stream."""
    plans = [Plan(selection(partial(udf, number))) for number in numbers]
    frames = [frame for _, frame in made(plans[0], {"rows": given}, FRAME_ROWS, thinned=False)]
    merged = Merged(LMerge(plans[0].query.schema, case="r3"))
    replicas = [Replica(merged.merge.attach(), plan.compile(), frames) for plan in plans]
    sent: list[tuple[float, int, int, Frame]] = []
    while merged.merge.stable != INF:
        working = [replica for replica in replicas if not replica.is_done]
        now = min((replica.clock for replica in working), default=float("inf"))
        while sent and sent[0][0] <= now:
            came, number, _, frame = heappop(sent)
            merged.take(number, came, frame)
        if not working or merged.merge.stable == INF:
            continue
        replica = min(working, key=lambda each: each.clock)
        if feedback:
            replica.leave_out(merged.merge.feedback(replica.number))
        out = replica.push()
        heappush(sent, (replica.clock, replica.number, replica.next, out))
    if (merged.rows, merged.total) != expected(given):
        raise Bug(f"{merged.rows}, {merged.total} were selected, {expected(given)} are right")
    return merged


def switching(scale: Scale, plot_dir: Path | None) -> Iterator[Row]:
    """Figure 9."""
    given = alternating(scale.switched)
    runs = {
        "UDF0 alone": run((0,), given, feedback=False),
        "UDF1 alone": run((1,), given, feedback=False),
        "merged": run((0, 1), given, feedback=False),
        "merged, feedback": run((0, 1), given, feedback=True),
    }
    for name, found in runs.items():
        yield Row(f"LMerge fig 9: {name}", found.clock, "s")
    alone = min(runs[name].clock for name in ("UDF0 alone", "UDF1 alone"))
    gain = alone / runs["merged, feedback"].clock
    yield Row("LMerge fig 9: better one alone / merged, feedback", gain, "x", GAIN_MIN, ">=")
    if plot_dir is not None:
        series = {name: found.curve for name, found in runs.items()}
        chart = Chart("Plan switching with fast-forward", "seconds", "elements out", series)
        chart.save(plot_dir / "lmerge-fig9.svg")
