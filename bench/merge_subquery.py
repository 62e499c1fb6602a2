"""Figures 4 and 6 of the LMerge paper with its sub-query run, where the merge bench has a model.

The sub-query is a count that sets a lifetime (section VI-B). Rows have a number; of each number it
counts the rows of a tumbling window, says how many there are when the window ends, and says so
again when one comes late:

    count of number 7 until 10        ins(7,10,34)                    4 rows so far: 24 more ticks
    a late row                        adj(7,10,34,40)                 5 rows

Each input of the merger runs it over the same rows in an order of its own: a share of them comes
late. The engine takes an early answer back and gives another one; as one event with two ends, which
is what the sub-query means, that is an adjust (`folded`).

What is compared, and the bars, are those of the merge bench (`merge_figures.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.bench.engine_runs import made
from gapless.bench.harness import Row
from gapless.bench.lmerge_workload import NUMBER_MAX, TEXT_BYTES, interleave
from gapless.bench.merge_figures import (
    CHATTER_MAX,
    GROWTH_FLAT,
    RATE,
    STATE,
    by_inputs_of,
)
from gapless.bench.merge_runs import adjusts_in, adjusts_out
from gapless.bench.plots import Chart
from gapless.bench.skewed import Curves, growth, ratios
from gapless.bench.windows_scale import Scale
from gapless.engine.functions import function
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.engine.source import source
from gapless.kernels import KeyTable
from gapless.operators.aggregates import count
from gapless.protocol.elements import BEGIN
from gapless.protocol.expr import col
from gapless.protocol.frame import Frame
from gapless.protocol.schema import VS

COUNTED = pa.schema([("ts", pa.int64()), ("number", pa.int64()), ("closes", pa.int64())])


WHICH_BYTES = 20
"""Of an event's string, those that say which window it is."""


@dataclass(frozen=True)
class SubQuery:
    """The rows that are counted, a row a tick, and how an input hears of them."""

    rows: int
    numbers: int
    """How many there are."""
    each: int
    """Rows of a number in a window, on average."""
    disorder: float
    """Share of the rows that come late."""
    late_windows: int
    """By how many windows they come late at most."""
    live_windows: int
    """How many windows a counted event lives, about."""
    frame_rows: int
    """Of the sub-query's input: late rows of one frame make one adjust."""
    told_elements: int
    """In a frame of the merger's input, at least; it has one stable."""
    wide: bool = False
    """Whether an event carries a string of 1,000 bytes."""

    @property
    def window(self) -> int:
        """In ticks."""
        return self.numbers * self.each

    @property
    def lateness(self) -> int:
        """In ticks."""
        return self.late_windows * self.window

    def query(self) -> Query:
        """A count, then a lifetime that it sets."""
        rows = source("rows", COUNTED, time="ts", lateness=self.lateness)
        windowed = rows.window(range=self.window, slide=self.window).group_by("number", "closes")
        counted = windowed.aggregate(n=count(), early=self.lateness)
        # A window with many rows lives longer: by a hundredth a row, as in `lmerge_workload.py`.
        life = self.live_windows * self.window
        lives = counted.lifetime(end=col("closes") + life + col("n") * max(1, life // 100))
        if not self.wide:
            return lives.select("number")
        return lives.select("number", text=function(texts, "number", "closes", returns="string"))

    def stream(self, number: int) -> list[Frame]:
        """The frames of one input of the merger."""
        ts = np.arange(self.rows, dtype=np.int64)
        numbers = np.random.default_rng(1).integers(0, self.numbers, self.rows)
        rng = np.random.default_rng([1, number])
        late = rng.random(self.rows) < self.disorder
        arrival = ts + np.where(late, rng.integers(1, self.lateness, self.rows), 0)
        order = np.argsort(arrival, kind="stable")
        closes = (ts // self.window + 1) * self.window
        given = pa.record_batch([ts[order], numbers[order], closes[order]], schema=COUNTED)
        plan = Plan(self.query())
        graph = plan.compile()
        pushes = made(plan, {"rows": given}, self.frame_rows, thinned=False)
        return _in_frames([folded(graph.push(*push)) for push in pushes], self.told_elements)

    def streams(self, inputs: int) -> list[list[Frame]]:
        """Of inputs 0, 1, ..."""
        return [self.stream(number) for number in range(inputs)]


def texts(number: pa.Array, closes: pa.Array) -> pa.Array:
    """A string of its own for each event."""
    which = pc.utf8_lpad(closes.cast(pa.string()), WHICH_BYTES, "0")
    return pc.binary_join_element_wise(which, _known().take(number), "")


@cache
def _known() -> pa.Array:
    """Of each number, the end of its events' strings."""
    rng = np.random.default_rng(1)
    drawn = rng.integers(48, 112, (NUMBER_MAX + 1, TEXT_BYTES - WHICH_BYTES), np.uint8)
    return pa.array([row.tobytes().decode() for row in drawn])


def folded(frame: Frame) -> Frame:
    """The same, where an event that goes and comes back with another end is adjusted."""
    gone = (frame.ve == frame.vs) & ~frame.is_insert
    if not gone.any():
        return frame
    schema, vs, columns = frame.schema, frame.vs, frame.batch.columns
    keys = pa.schema([schema.arrow.field(VS), *schema.payload])
    table = KeyTable(keys)
    ids, _ = table.intern(pa.RecordBatch.from_arrays([columns[0], *columns[3:]], schema=keys))
    ended, back = np.full(table.capacity, BEGIN), np.zeros(table.capacity, np.bool_)
    ended[ids[gone]] = frame.was[gone]
    back[ids[frame.is_insert]] = True
    left = np.flatnonzero(~(gone & back[ids]))
    was = np.where(frame.is_insert, ended[ids], frame.was)[left]
    payload = [column.take(pa.array(left)) for column in columns[3:]]
    return Frame.from_columns(schema, vs[left], frame.ve[left], payload, was, frame.stable)


def _in_frames(told: Sequence[Frame], elements: int) -> list[Frame]:
    """Fewer and longer frames, each with the last stable of those that it is made of."""
    frames: list[Frame] = []
    waiting: list[Frame] = []
    for frame in told:
        waiting.append(frame)
        if frame is told[-1] or sum(map(len, waiting)) >= elements:
            stables = [f.stable for f in waiting if f.stable is not None]
            rows = [f.with_stable(None) for f in waiting if len(f)] or [
                waiting[0].with_stable(None)
            ]
            frames.append(Frame.concat(rows).with_stable(max(stables, default=None)))
            waiting = []
    return frames


def chattiness(scale: Scale, plot_dir: Path | None) -> Iterator[Row]:
    """Figure 4."""
    curves: Curves = {"one input": {}, "r3": {}, "r3 at once": {}}
    for percent in (0, 20, 40, 60, 80):
        told = SubQuery(
            rows=scale.counted,
            numbers=1,
            each=10,
            disorder=percent / 100,
            late_windows=40,
            live_windows=400,
            frame_rows=5,
            told_elements=1,
        )
        pushes = interleave(told.streams(3))
        curves["one input"][percent] = adjusts_in(pushes)
        for name in ("r3", "r3 at once"):
            curves[name][percent] = adjusts_out(name, pushes)
        if percent:
            name = f"LMerge fig 4, run: output / input adjusts, {percent} % disorder"
            ratio = curves["r3"][percent] / curves["one input"][percent]
            last = percent == 80
            yield Row(name, ratio, "x", CHATTER_MAX if last else None, "<=" if last else None)
    axes = ("disorder, %", "adjusts")
    _draw(plot_dir, "lmerge-fig4-run", "Output size, sub-query run", axes, curves)


def ordering_first(scale: Scale, plot_dir: Path | None) -> Iterator[Row]:
    """Figure 6."""
    told = SubQuery(
        rows=scale.counted_wide,
        numbers=400,
        each=5,  # by which a third of the elements are adjusts
        disorder=0.5,
        late_windows=1,
        live_windows=12,
        frame_rows=2_000,
        told_elements=1_000,
        wide=True,
    )
    streams = told.streams(scale.inputs[-1])
    adjusts = adjusts_in(interleave(streams)) / sum(map(len, streams[0]))
    yield Row("LMerge fig 6, run: adjusts among an input's elements", 100 * adjusts, "%")
    found = by_inputs_of(streams, ("r3", "r3-", "c+r1"), scale.inputs, scale.repeat_curve)
    size, rate = found.state, found.rate
    few, many = scale.inputs[0], scale.inputs[-1]
    name = f"LMerge fig 6, run: r3 state, {few} to {many} inputs"
    yield Row(name, growth(size["r3"]), "x", GROWTH_FLAT, "<=")
    name = f"LMerge fig 6, run: c+r1 / r3 state, {many} inputs"
    yield Row(name, size["c+r1"][many] / size["r3"][many], "x", 4, ">=")
    for other in ("r3-", "c+r1"):
        ahead = min(ratios(rate["r3"], rate[other]))
        yield Row(f"LMerge fig 6, run: r3 / {other} throughput", ahead, "x", 1, ">=")
    _draw(plot_dir, "lmerge-fig6-memory-run", "Memory, sub-query run", ("inputs", STATE), size)
    _draw(plot_dir, "lmerge-fig6-throughput-run", "Throughput", ("inputs", RATE), rate)


def _draw(
    plot_dir: Path | None, name: str, title: str, axes: tuple[str, str], curves: Curves
) -> None:
    if plot_dir is not None:
        series = {label: list(curve.items()) for label, curve in curves.items()}
        Chart(title, *axes, series).save(plot_dir / f"{name}.svg")
