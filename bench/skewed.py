"""Streams of which some come behind the others, and what plans hold meanwhile.

    frames = stream_frames(plan, {"M1": batch, "M2": other}, rates)
    arriving(frames, ("M2",), skew_s=20)      every frame of M2 comes 20 s later
    peaks = by_skew(graphs, frames, ("M2",), (0, 10, 20))

Each stream is in order by itself, and every frame promises all that it can. So an engine that needs
order needs no buffer except for the streams that are behind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import pyarrow as pa

from gapless.bench.engine_expected import check_same
from gapless.bench.engine_runs import Make, Pushes, frames_of, watched
from gapless.engine.intake import Intake
from gapless.engine.plan import Plan
from gapless.operators.aside import Aside
from gapless.protocol.frame import Frame

Curves = dict[str, dict[float, float]]
Timed = Sequence[tuple[float, str, Frame]]
"""When a frame's last row is, in seconds from the start; whose it is; the frame."""


def stream_frames(
    plan: Plan, streams: Mapping[str, pa.RecordBatch], rates: Mapping[str, int], frame_rows: int
) -> Timed:
    """The frames of all streams, of a second at most; the end of each follows behind.

    `rates`: rows a second of each.
    """
    found: list[tuple[float, str, Frame]] = []
    for name, batch in streams.items():
        rows = max(1, min(frame_rows, rates[name]))
        intake = Intake(plan.query.sources[name], Aside(), frame_rows=rows)
        made_of = frames_of(intake, batch)
        found += [((i + 1) * rows / rates[name], name, frame) for i, frame in enumerate(made_of)]
    return found


def arriving(frames: Timed, late: Collection[str], skew_s: float) -> Pushes:
    """The frames in the order of their arrival, with some streams behind the others."""
    at = [(t + skew_s * (name in late), i) for i, (t, name, _) in enumerate(frames)]
    return [frames[i][1:] for _, i in sorted(at)]


def by_skew(
    graphs: Mapping[str, Make], frames: Timed, late: Collection[str], skews_s: Sequence[float]
) -> Curves:
    """Peak state of each graph, for each time that those streams are behind."""
    memory: Curves = {name: {} for name in graphs}
    for skew_s in skews_s:
        note_memory(memory, graphs, arriving(frames, late, skew_s), skew_s)
    return memory


def note_memory(memory: Curves, graphs: Mapping[str, Make], pushes: Pushes, x: float) -> None:
    """The peak of each, at x; raises unless all give the same answers."""
    seen = {name: watched(make(), pushes) for name, make in graphs.items()}
    check_same({name: each.outputs for name, each in seen.items()})
    for name, each in seen.items():
        memory[name][x] = each.peak_bytes


def growth(curve: Mapping[float, float]) -> float:
    """The last point over the first."""
    first, *_, last = curve.values()
    return last / first


def ratios(over: Mapping[float, float], under: Mapping[float, float]) -> Iterator[float]:
    """Point by point."""
    return (value / under[x] for x, value in over.items())
