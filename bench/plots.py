"""Line charts as SVG, written by hand: a picture of a few curves needs no plotting library.

    chart = Chart("Memory, in-order inputs", "inputs", "MB",
                  {"r3": [(2, 14.1), (10, 14.6)], "r3-": [(2, 40.0), (10, 160.2)]}, log_y=True)
    chart.save(directory / "fig2-memory.svg")

Every point is drawn, so a reader sees what was measured and what is only a line between.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from gapless.protocol.errors import Misuse

Points = Sequence[tuple[float, float]]

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 80, 150, 40, 50
"""Margins around the plot's area; the legend stands in the right one."""
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's: eyes that see red and green alike can tell them apart."""
FLAT = 1e-6
"""Values that differ by a smaller share are one to the eye, and to the digits of a label."""
TICKS = 6
"""About so many marks on an axis."""


@dataclass(frozen=True)
class Chart:
    """Curves over one pair of axes."""

    title: str
    x_label: str
    y_label: str
    series: Mapping[str, Points]
    log_x: bool = False
    log_y: bool = False

    def __post_init__(self) -> None:
        points = self._points()
        if not points:
            raise Misuse(f"chart {self.title!r} has no points")
        if len(self.series) > len(COLOURS):
            raise Misuse(f"chart {self.title!r}: {len(COLOURS)} curves at most can be told apart")
        if not all(map(math.isfinite, (v for point in points for v in point))):
            raise Misuse(f"chart {self.title!r}: a point is not finite")
        for axis, log in enumerate((self.log_x, self.log_y)):
            if log and min(point[axis] for point in points) <= 0:
                raise Misuse(f"chart {self.title!r}: a logarithmic axis starts above 0")

    def _points(self) -> list[tuple[float, float]]:
        return [point for points in self.series.values() for point in points]

    def save(self, path: Path) -> None:
        """Writes the picture."""
        path.write_text(self.svg(), encoding="utf-8")

    def svg(self) -> str:
        """The picture as one SVG document."""
        return "\n".join(self._parts()) + "\n"

    def _parts(self) -> Iterator[str]:
        points = self._points()
        x = _x_axis([p[0] for p in points], self.log_x)
        y = _y_axis([p[1] for p in points], self.log_y)
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">'
        )
        yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
        yield _text((LEFT + WIDTH - RIGHT) / 2, TOP / 2, self.title, size=14)
        yield _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, self.x_label)
        middle = (TOP + HEIGHT - BOTTOM) / 2
        yield _text(16, middle, self.y_label, turn=f"rotate(-90 16 {middle:.1f})")
        for value in x.ticks:
            yield _line(x.at(value), TOP, x.at(value), HEIGHT - BOTTOM)
            yield _text(x.at(value), HEIGHT - BOTTOM + 16, _label(value))
        for value in y.ticks:
            yield _line(LEFT, y.at(value), WIDTH - RIGHT, y.at(value))
            yield _text(LEFT - 6, y.at(value) + 4, _label(value), anchor="end")
        for i, (name, curve) in enumerate(self.series.items()):
            yield from _curve(name, [(x.at(a), y.at(b)) for a, b in curve], i)
        yield "</svg>"


@dataclass(frozen=True)
class _Axis:
    at: Callable[[float], float]
    """Where on the picture a value stands."""
    ticks: list[float]


def _x_axis(values: list[float], log: bool) -> _Axis:
    """From the first value on: room before it would show nothing."""
    low, high = min(values), max(values)
    ticks = _powers(low, high) if log else _round_steps(low, high)
    return _axis(low, high, [t for t in ticks if t >= low], (LEFT, WIDTH - RIGHT), log)


def _y_axis(values: list[float], log: bool) -> _Axis:
    """From 0 on, or the power of ten below: heights are compared."""
    low, high = min(values), max(values)
    ticks = _powers(low, high) if log else _round_steps(min(low, 0), high)
    return _axis(min(ticks[0], low), high, ticks, (HEIGHT - BOTTOM, TOP), log)


def _axis(
    low: float, high: float, ticks: list[float], ends: tuple[float, float], log: bool
) -> _Axis:
    scale = math.log10 if log else float
    first, last = scale(low), scale(max(ticks[-1], high))
    stretch = (ends[1] - ends[0]) / (last - first)
    return _Axis(lambda value: ends[0] + (scale(value) - first) * stretch, ticks)


def _powers(low: float, high: float) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [10.0**power for power in range(first, max(last, first + 1) + 1)]


def _round_steps(low: float, high: float) -> list[float]:
    span = high - low
    if span <= abs(high) * FLAT:
        span = abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / TICKS))
    step = next(m * power for m in (1, 2, 5, 10) if m * power * TICKS >= span)
    first, last = math.floor(low / step), math.ceil((low + span) / step)
    return [n * step for n in range(first, last + 1)]


def _curve(name: str, places: list[tuple[float, float]], number: int) -> Iterator[str]:
    colour = COLOURS[number]
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
    for a, b in places:
        yield f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>'
    left, height = WIDTH - RIGHT + 14, TOP + 12 + 20 * number
    yield _line(left, height, left + 20, height, colour, 2)
    yield _text(left + 26, height + 4, name, anchor="start")


def _line(
    x0: float, y0: float, x1: float, y1: float, colour: str = "#dddddd", width: int = 1
) -> str:
    return (
        f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" '
        f'stroke="{colour}" stroke-width="{width}"/>'
    )


def _text(
    x: float, y: float, text: str, anchor: str = "middle", size: int = 12, turn: str = ""
) -> str:
    turned = f' transform="{turn}"' if turn else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{turned}>'
        f"{escape(text)}</text>"
    )


def _label(value: float) -> str:
    """A tick's value, short: 40M, 0.001."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"
