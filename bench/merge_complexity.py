"""Table IV of the LMerge paper: what an element costs, by what its complexity depends on.

    case    insert           adjust           stable             here
    R0      1                                 1
    R1      n                                 1
    R2      n                                 1
    R3      lg w             lg w             c lg w + h         hashes stand for both trees, so the
    R4      lg w + lg d      lg w + lg d      c lg w + h d       logarithms ought to be gone

    n   inputs                                  w   live (vs, payload)
    g   events with one vs                      d   events of one of these
    h   half-frozen events                      c   events that a stable freezes

Nanoseconds an element; one of these varies, the others stay. "Flat" is less growth than that of the
logarithm in its place: lg w + lg d goes from 10 to 16 here. Frames are made before the clock
starts, and a figure is the best of several runs.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from gapless.bench.harness import Row, best_of
from gapless.bench.lmerge_workload import Table, Workload, interleave
from gapless.bench.merge_runs import rates
from gapless.bench.netflow import Ints
from gapless.bench.plots import Chart
from gapless.bench.skewed import growth
from gapless.bench.windows_scale import Scale
from gapless.merge.choose import CaseName
from gapless.merge.lmerge import LMerge
from gapless.protocol.elements import BEGIN
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

SCHEMA = StreamSchema({"number": "int64"})
FRAME_ROWS = 1_024
LIVE_LEAST = 1_024
"""Live events where something else than them varies, and the fewest where they do."""
FLAT_MAX = 16 / 10
"""Growth of lg w + lg d."""
ELEMENTS = 1 << 16
"""Of one measurement, at least."""
FROZEN, FROZEN_AT_ONCE = 32_768, 8_192
"""Events that are frozen by a run of stables, and by each: what a stable costs by itself, some 20
us, is little beside."""
STABLES = 20
"""Of a run in which none freezes anything."""
LIFE = 1 << 40
WARM = 1 << 21
"""Numbers of an array that is made and let go of first. A process that has run for a while has
memory for larger columns; a new one gets it page by page, at up to 60 ns an element of r4."""

Curve = dict[float, float]


def frames(vs: Ints, ve: Ints, was: int | Ints = BEGIN, number: Ints | None = None) -> list[Frame]:
    """Events, or adjusts of events."""
    old = np.broadcast_to(np.asarray(was, np.int64), vs.shape).copy()
    payload = pa.array(vs % 401 if number is None else number)
    return [
        Frame.from_columns(SCHEMA, vs[part], ve[part], [payload[part]], old[part])
        for part in (slice(at, at + FRAME_ROWS) for at in range(0, len(vs), FRAME_ROWS))
    ]


def _ns(merge: LMerge, pushes: Sequence[tuple[int, Frame]]) -> float:
    """Of all these pushes."""
    start = time.perf_counter()
    for number, frame in pushes:
        merge.push(number, frame)
    return (time.perf_counter() - start) * 1e9


def _often(run: Callable[[], float], elements: int) -> float:
    """The mean over so many runs that all have `ELEMENTS` elements together: a run of few would be
    over before it is measured.
    """
    gc.collect()
    runs = max(1, ELEMENTS // elements)
    return sum(run() for _ in range(runs)) / runs / elements


def element_ns(case: CaseName, w: int, d: int, *, adjusts: bool) -> float:
    """An insert that another input has told already, or an adjust, among w keys of d events, which
    have other ends each.
    """
    vs = np.tile(np.arange(w, dtype=np.int64) * 10, d)
    ve = vs + LIFE + np.repeat(np.arange(d, dtype=np.int64), w)
    told, changed = frames(vs, ve), frames(vs, ve + LIFE, ve)

    def run() -> float:
        merge = LMerge(SCHEMA, case=case)
        first, second = merge.attach(), merge.attach()
        _ns(merge, [(first, frame) for frame in told])
        inserts = _ns(merge, [(second, frame) for frame in told])
        return _ns(merge, [(second, frame) for frame in changed]) if adjusts else inserts

    return _often(run, len(vs))


def same_start_ns(g: int) -> float:
    """R2's insert, where g events at a time have one vs."""
    vs = np.arange(ELEMENTS, dtype=np.int64) // g
    told = frames(vs, vs + LIFE, number=np.arange(ELEMENTS, dtype=np.int64))

    def run() -> float:
        merge = LMerge(SCHEMA, case="r2")
        numbers = merge.attach(), merge.attach()
        return _ns(merge, [(number, frame) for frame in told for number in numbers])

    return _often(run, 2 * ELEMENTS)


def half_frozen_ns(h: int) -> float:
    """A stable that freezes nothing, for each of h half-frozen events."""
    vs = np.arange(h, dtype=np.int64)
    told = [*frames(vs, vs + LIFE), Frame.empty(SCHEMA, h)]
    stables = [Frame.empty(SCHEMA, h + 1 + i) for i in range(STABLES)]

    def run() -> float:
        merge = LMerge(SCHEMA, case="r3")
        number = merge.attach()
        _ns(merge, [(number, frame) for frame in told])
        return _ns(merge, [(number, frame) for frame in stables])

    return _often(run, STABLES * h)


def first_look_ns(w: int) -> float:
    """The first stable, for each of w events told since the last: it looks at each once, and
    freezes none.
    """
    vs = np.arange(w, dtype=np.int64)
    told = frames(vs, vs + LIFE)

    def run() -> float:
        merge = LMerge(SCHEMA, case="r3")
        number = merge.attach()
        _ns(merge, [(number, frame) for frame in told])
        return _ns(merge, [(number, Frame.empty(SCHEMA, 0))])

    return _often(run, w)


def frozen_ns(w: int, c: int = FROZEN_AT_ONCE) -> float:
    """A stable, for each of c events that it freezes, beside w live ones that start later. Others
    came before, so what was told has been looked at: that belongs to telling it.
    """
    vs = np.arange(FROZEN, dtype=np.int64)
    later = LIFE + np.arange(w, dtype=np.int64)
    told = [*frames(vs, vs + 1), *frames(later, later + LIFE), Frame.empty(SCHEMA, 0)]
    ends = range(c, FROZEN + 1, c)
    stables = [Frame.empty(SCHEMA, end + 1) for end in ends]

    def run() -> float:
        merge = LMerge(SCHEMA, case="r3")
        number = merge.attach()
        _ns(merge, [(number, frame) for frame in told])
        return _ns(merge, [(number, frame) for frame in stables])

    return _often(run, FROZEN)


def complexity(scale: Scale, plot_dir: Path | None) -> Iterator[Row]:
    """Table IV."""
    np.ones(WARM)
    few, many = LIVE_LEAST, scale.live_most
    by_w: Mapping[str, Callable[[int], float]] = {
        "r3 insert": lambda w: element_ns("r3", w, 1, adjusts=False),
        "r3 adjust": lambda w: element_ns("r3", w, 1, adjusts=True),
        "r4 insert": lambda w: element_ns("r4", w, 1, adjusts=False),
        "r4 adjust": lambda w: element_ns("r4", w, 1, adjusts=True),
        "r3 first look": first_look_ns,
        "r3 frozen": frozen_ns,
    }
    sizes = [few << i for i in range(0, (many // few).bit_length(), 2)]
    yield from _varied("w", by_w, sizes, scale, plot_dir, flat=True)
    by_d: Mapping[str, Callable[[int], float]] = {
        "r4 insert": lambda d: element_ns("r4", few, d, adjusts=False),
        "r4 adjust": lambda d: element_ns("r4", few, d, adjusts=True),
    }
    yield from _varied("d", by_d, [size // few for size in sizes], scale, plot_dir, flat=True)
    by_h = {"r3 half-frozen": half_frozen_ns}
    by_c = {"r3 frozen": lambda c: frozen_ns(few, c)}
    yield from _varied("c", by_c, (128, 1_024, FROZEN_AT_ONCE), scale, plot_dir, flat=False)
    yield from _varied("h", by_h, sizes, scale, plot_dir, flat=False)
    yield from _varied(
        "g", {"r2 insert": same_start_ns}, (1, 32, 1_024), scale, plot_dir, flat=False
    )
    yield from _by_inputs(scale, plot_dir)


def _varied(
    what: str,
    measures: Mapping[str, Callable[[int], float]],
    sizes: Sequence[int],
    scale: Scale,
    plot_dir: Path | None,
    *,
    flat: bool,
) -> Iterator[Row]:
    curves: dict[str, Curve] = {name: {} for name in measures}
    for size in sizes:
        for name, measure in measures.items():
            curves[name][size] = best_of(partial(measure, size), scale.repeat, min)
    first, last = sizes[0], sizes[-1]
    for name, curve in curves.items():
        yield Row(f"LMerge table IV: {name}, {what} = {last:,}", curve[last], "ns")
        grown = f"LMerge table IV: {name}, {what} from {first:,} to {last:,}"
        yield Row(grown, growth(curve), "x", FLAT_MAX if flat else None, "<=" if flat else None)
    _draw(plot_dir, what, curves)


def _by_inputs(scale: Scale, plot_dir: Path | None) -> Iterator[Row]:
    """By n: a whole run, the stables of its workload included."""
    workload = Workload(events=scale.merged, live=scale.merged // 10, strict=True, disorder=0.0)
    streams = Table(workload).streams(scale.inputs[-1])
    names = ("r0", "r1", "r2", "r3", "r4")
    curves: dict[str, Curve] = {name: {} for name in names}
    for n in scale.inputs:
        found = rates(names, interleave(streams[:n]), scale.repeat_curve)
        for name in names:
            curves[name][n] = 1e9 / found[name]
    few, many = scale.inputs[0], scale.inputs[-1]
    for name, curve in curves.items():
        what = f"LMerge table IV: {name}, an element, n from {few} to {many}"
        yield Row(what, growth(curve), "x")
    _draw(plot_dir, "n", curves)


def _draw(plot_dir: Path | None, what: str, curves: Mapping[str, Curve]) -> None:
    if plot_dir is not None:
        series = {name: list(curve.items()) for name, curve in curves.items()}
        chart = Chart("LMerge, an element", what, "ns", series, log_x=what != "n")
        chart.save(plot_dir / f"lmerge-table4-{what}.svg")
