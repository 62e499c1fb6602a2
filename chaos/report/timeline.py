"""The timeline of a run: all that was seen over one axis of time, faults running through.

faults      1 kill replica r0.1 |        2 freeze merger m0.0 |====|
states      r0.0 ==================================================       a lane a slot
progress    r0.0 ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~       and so on: lag,
0         5         10        15        20        25     output, memory

A lane each, below each other, not curves over each other: replicas that are well have the same
values, and a differing one is seen without a legend, and without telling colours apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from gapless.chaos.drill.outcome import Strike
from gapless.chaos.report.drawing import BOLD, SIZES, Drawing, Size, left_out, letters_wide
from gapless.chaos.report.faults import draw_faults
from gapless.chaos.report.html import Html, joined
from gapless.chaos.report.lanes import LANES_MAX, draw_lanes
from gapless.chaos.report.lines import Ints, Line, nice, top_of
from gapless.chaos.report.sights import Output, Sights, role_of

LANE_HEIGHT, LANE_HEIGHT_LEAST, PART_HEIGHT = 38, 18, 260
"""Of one lane; where there are many they share the height of the part."""
PROGRESS_CLIP, LAG_CLIP = 3.0, 20.0
"""Peaks that are more than so many times the usual are clipped: of progress, who catches up is many
times as fast as time; of lag, the peaks are what a reader looks for.
"""
BIN_MS = 200
BINS_MAX, FRAMES_MIN = 270, 2
"""Rows a second are counted over a round time: this or more, so that there are so many of them at
most, and usually so many frames in each."""
ONE_MS = 1_000


def timeline(sights: Sights, strikes: Sequence[Strike]) -> Html:
    """The drawings of all sizes; the page's style shows one."""
    return joined(_drawn(size, sights, strikes) for size in SIZES)


def _drawn(size: Size, sights: Sights, strikes: Sequence[Strike]) -> Html:
    drawing = Drawing(size, sights.begin_ms, sights.end_ms)
    draw_faults(drawing, strikes, sights.wholes_ms)
    drawing.axis(above=True)
    draw_lanes(drawing, sights.lanes)
    _shared(
        drawing,
        sights.progress,
        "Progress of each replica",
        "stream seconds a second, over the last second; dotted: as fast as time",
        unit="s/s",
        least=2.0,
        clip_times=PROGRESS_CLIP,
        mark=1.0,
    )
    lag = {who: Line(at.at_ms, at.value / ONE_MS, at.piece) for who, at in sights.lag.items()}
    _shared(
        drawing,
        lag,
        "Lag behind the sources",
        "seconds; of a merger: of its durable output",
        unit="s",
        least=0.1,
        clip_times=LAG_CLIP,
    )
    _outputs(drawing, sights.outputs)
    memory = {who: Line(at.at_ms, at.value / 1e6, at.piece) for who, at in sights.memory.items()}
    _own(drawing, memory, "Memory", "resident MB of each process, from 0 to its most", unit="MB")
    _own(
        drawing,
        sights.descriptors,
        "Open descriptors",
        "of each process, from 0 to its most",
        unit="fds",
    )
    drawing.axis(above=False)
    drawing.y += 16
    drawing.text(drawing.left, drawing.y, f"seconds since {sights.since}", "about")
    drawing.y += 8
    return drawing.svg("Timeline of the run", _said(sights, strikes))


def _said(sights: Sights, strikes: Sequence[Strike]) -> str:
    """The drawing in words, for screen readers; the tables below it have the numbers."""
    worst = next(iter(sights.pauses), None)
    longest = f"the longest pause is {worst.ms:,} ms of {worst.who}" if worst else "no pause"
    return (
        f"From {sights.begin_ms / 1000:.1f} to {sights.end_ms / 1000:.1f} s: "
        f"{len(strikes)} faults, {len(sights.lanes)} replicas and mergers, "
        f"{len(sights.outputs)} recordings of the output, {longest}. "
        "The tables below have the numbers."
    )


# -- lines ----------------------------------------------------------------------------------------


def _height(count: int) -> float:
    return max(LANE_HEIGHT_LEAST, min(LANE_HEIGHT, PART_HEIGHT / max(1, count)))


def _shared(
    drawing: Drawing,
    lines: Mapping[str, Line],
    title: str,
    about: str,
    *,
    unit: str,
    least: float,
    clip_times: float,
    mark: float | None = None,
) -> None:
    """One lane each, all with one scale."""
    if not lines:
        return
    drawing.heading(title, about)
    span = drawing.begin_ms, drawing.end_ms
    top = top_of([line.between(*span).value for line in lines.values()], least, clip_times)
    height = _height(len(lines))
    for who, line in list(lines.items())[:LANES_MAX]:
        if mark is not None:
            y = drawing.y + height * (1 - mark / top)
            drawing.add(drawing.rule(drawing.left, y, drawing.right, y, "reference"))
        drawing.lane(who, line, top, height, role=role_of(who), unit=unit)
    left_out(drawing, len(lines) - LANES_MAX)


def _own(drawing: Drawing, lines: Mapping[str, Line], title: str, about: str, *, unit: str) -> None:
    """One lane each, each with a scale of its own: processes are of very different sizes."""
    if not lines:
        return
    drawing.heading(title, about)
    height = min(26.0, _height(len(lines)))
    for who, line in list(lines.items())[:LANES_MAX]:
        shown = line.between(drawing.begin_ms, drawing.end_ms)
        top = max(1.0, float(shown.value.max()) if len(shown) else 1.0)
        drawing.lane(who, line, top, height, role=role_of(who), unit=unit)
    left_out(drawing, len(lines) - LANES_MAX)


# -- output ---------------------------------------------------------------------------------------


def bin_ms(begin_ms: int, end_ms: int, usual_ms: float) -> int:
    """Over which time rows are counted, where so much is usual between two frames with rows."""
    return round(nice(max(BIN_MS, FRAMES_MIN * usual_ms, (end_ms - begin_ms) / BINS_MAX)))


def edges_ms(begin_ms: int, end_ms: int, width_ms: int) -> Ints:
    """Of times of equal length; the last has what is left as well: less than twice as much. A part
    of one would look as if the output had fallen.
    """
    count = max(1, (end_ms - begin_ms) // width_ms)
    return np.append(begin_ms + width_ms * np.arange(count, dtype=np.int64), end_ms)


def _outputs(drawing: Drawing, outputs: Sequence[Output]) -> None:
    if not outputs:
        return
    usual_ms = max(output.usual_ms for output in outputs)
    width = bin_ms(drawing.begin_ms, drawing.end_ms, usual_ms)
    edges = edges_ms(drawing.begin_ms, drawing.end_ms, width)
    drawing.heading(
        "Merged output",
        f"rows a second, counted over {width / 1000:g} s, of each recording; hatched: pauses",
    )
    shown = outputs[:LANES_MAX]
    rates = [output.rates(edges) for output in shown]
    height = _height(len(shown))
    for output, each in zip(shown, rates, strict=True):
        drawing.y += 12
        y = drawing.y
        drawing.area(output.who, each, edges, top_of([each], 1.0), height, "rows/s")
        _pauses(drawing, output, y, height)
    left_out(drawing, len(outputs) - LANES_MAX)


def _pauses(drawing: Drawing, output: Output, y: float, height: float) -> None:
    """Hatched, the longest with its length; and silence until nobody looked any more."""
    seen = [pause for pause in output.pauses if pause.end_ms >= drawing.begin_ms]
    for pause in _apart(drawing, [(pause.begin_ms, pause.end_ms) for pause in seen]):
        x, end = drawing.x(pause[0]), drawing.x(pause[1])
        tip = f"{output.who}: no rows from {pause[0] / 1000:.2f} to {pause[1] / 1000:.2f} s"
        drawing.add(
            drawing.rect(x, y, end - x, height, "pause", tip,
                         fill=f"url(#{drawing.size.name}-pause)")
        )  # fmt: skip
    if seen:
        longest = max(seen, key=lambda pause: pause.ms)
        middle = (drawing.x(longest.begin_ms) + drawing.x(longest.end_ms)) / 2
        text = f"longest pause {longest.ms:,} ms{'' if longest.is_over else ', and on'}"
        half = letters_wide(text, BOLD) / 2
        middle = min(max(middle, drawing.left + half), drawing.right - half)
        drawing.text(middle, y - 3, text, "peak", anchor="middle")
    if not len(output.at_ms):
        drawing.text(drawing.left + 8, y + height / 2 + 4, "no rows", "peak")


def _apart(drawing: Drawing, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Without those that lie within the same point of the drawing as the one before."""
    if not spans:
        return []
    x = np.round(drawing.xs(np.array([begin for begin, _ in spans], dtype=np.int64)))
    fresh = [True, *(bool(a != b) for a, b in pairwise(x.tolist()))]
    least = (drawing.end_ms - drawing.begin_ms) / max(1, drawing.right - drawing.left)
    return [
        span for span, new in zip(spans, fresh, strict=True) if new or span[1] - span[0] > least
    ]
