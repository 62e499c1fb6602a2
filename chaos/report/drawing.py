"""A drawing over one axis of time: what its parts have in common, as SVG without a program.

    gutter |  plot: 0 ms ... end           | scale
    name   |  ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~ | 2        a lane
           |                               | 0

It is made for one width. A page has one for wide screens, one for middle ones, one for narrow ones,
and shows that which fits: text is never shrunk to fit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gapless.chaos.report.html import Html, el, joined
from gapless.chaos.report.lines import POINTS_MAX, Floats, Ints, Line, path, short, steps, ticks

LETTER = 6.3
"""Of one letter, at most about: there is no browser to ask."""
TWO_MARKS = 30
"""A lane that is as high has room for two values at its scale."""
BOLD, TITLE = 1.17, 1.42
"""So many times as wide are bold letters, and those of a title, which are larger, too."""
SECOND_MS = 1_000


@dataclass(frozen=True, slots=True)
class Size:
    """What a width has room for."""

    name: str
    width: int
    left: int
    """For names."""
    right: int
    """For the values of a scale."""
    tick_count: int
    """Marks on the axis of time, about."""


SIZES = (
    Size("wide", 1080, 84, 54, 12),
    Size("middle", 700, 76, 48, 8),
    Size("narrow", 360, 58, 38, 4),
)


def letters_wide(text: str, times: float = 1.0) -> float:
    """How wide a text is, about; of letters so many times as wide as usual."""
    return times * LETTER * len(text)


class Drawing:
    """One drawing; parts are put below each other, and `svg` gives it all."""

    def __init__(self, size: Size, begin_ms: int, end_ms: int) -> None:
        self.size = size
        self.begin_ms, self.end_ms = begin_ms, end_ms
        self.left, self.right = size.left, size.width - size.right
        self.y = 0.0
        """Where the next part goes."""
        self._bottom = 0.0
        self._through: list[tuple[str, float, float, float | None]] = []
        self._front: list[Html] = []

    # -- places -------------------------------------------------------------------------------

    @property
    def points(self) -> int:
        """Of a line."""
        return min(POINTS_MAX, self.right - self.left)

    def x(self, at_ms: float) -> float:
        """Where a moment stands."""
        share = (at_ms - self.begin_ms) / max(1, self.end_ms - self.begin_ms)
        return self.left + (self.right - self.left) * min(1.0, max(0.0, share))

    def xs(self, at_ms: Ints | Floats) -> Floats:
        """Where moments stand."""
        share = (at_ms - self.begin_ms) / max(1, self.end_ms - self.begin_ms)
        found: Floats = self.left + (self.right - self.left) * np.clip(share, 0.0, 1.0)
        return found

    # -- strokes ------------------------------------------------------------------------------

    def add(self, part: Html) -> None:
        """Before all that was there."""
        self._front.append(part)

    def through(self, class_: str, x: float, y: float, end: float | None = None) -> None:
        """A line behind all others from a place down to the last axis; or a band, to `end`."""
        self._through.append((class_, x, y, end))

    def text(
        self, x: float, y: float, text: str, class_: str, *, anchor: str | None = None
    ) -> None:
        """A line of text; y is where its letters stand."""
        self.add(el("text", text, x=f"{x:.1f}", y=f"{y:.1f}", class_=class_, text_anchor=anchor))

    def name(self, text: str, middle: float) -> None:
        """A name in the gutter, cut where it is too long for that."""
        most = int((self.left - 8) / LETTER)
        shown = text if len(text) <= most else f"{text[: most - 1]}…"
        tip = (el("title", text),) if shown != text else ()
        self.add(
            el("text", shown, *tip, x=f"{self.left - 8}", y=f"{middle + 4:.1f}", class_="name",
               text_anchor="end")
        )  # fmt: skip

    def rect(
        self, x: float, y: float, width: float, height: float, class_: str, tip: str = "",
        **said: object,
    ) -> Html:  # fmt: skip
        """A box, of at least a visible width; not added yet."""
        return el(
            "rect",
            *((el("title", tip),) if tip else ()),
            x=f"{x:.1f}",
            y=f"{y:.1f}",
            width=f"{max(width, 1.2):.1f}",
            height=f"{height:.1f}",
            class_=class_,
            **said,
        )

    def rule(self, x0: float, y0: float, x1: float, y1: float, class_: str) -> Html:
        """A straight line; not added yet."""
        return el(
            "line", x1=f"{x0:.1f}", y1=f"{y0:.1f}", x2=f"{x1:.1f}", y2=f"{y1:.1f}", class_=class_
        )

    # -- parts --------------------------------------------------------------------------------

    def heading(self, title: str, about: str) -> None:
        """Above a part; what it is about beside the title, or below where that has no room."""
        self.y += 34
        place = {"x": "0", "y": f"{self.y:.1f}"}
        if letters_wide(title, TITLE) + letters_wide(about) + 12 <= self.size.width:
            beside = el("tspan", about, class_="about", dx="10")
            self.add(el("text", el("tspan", title, class_="title"), beside, **place))
        else:
            self.add(el("text", title, class_="title", **place))
            for line in _wrapped(about, int(self.size.width / LETTER)):
                self.y += 15
                self.text(0, self.y, line, "about")
        self.y += 10

    def axis(self, above: bool) -> None:
        """The marks of time; the lines go through all of the drawing once `svg` is made."""
        self._bottom = self.y
        begin, end = self.begin_ms / SECOND_MS, self.end_ms / SECOND_MS
        self.y += 14
        for tick in ticks(begin, end, self.size.tick_count):
            x = self.x(tick * SECOND_MS)
            word = f"{tick:g} s" if tick == 0 else f"{tick:g}"
            self.text(x, self.y, word, "tick", anchor="middle")
            if above:
                self.through("grid", x, self.y + 5)
        self.y += 6

    def lane(
        self,
        who: str,
        line: Line,
        top: float,
        height: float,
        *,
        role: str,
        unit: str,
    ) -> None:
        """A line from 0 to `top`. What is above is drawn at the top, and its highest marked."""
        base, high = self.y + height, self.y
        self._scale(who, top, height)
        shown = line.between(self.begin_ms, self.end_ms).thinned(self.points)
        if len(shown):
            y = base - height * np.clip(shown.value / top, 0.0, 1.0)
            clipped = bool((shown.value > top).any())
            self.add(
                el(
                    "path",
                    d=path(self.xs(shown.at_ms), y, shown.piece),
                    class_=f"line {role}",
                    **self._readable(who, unit, high, base, top),
                    data_clipped="" if clipped else None,
                )
            )
            if clipped:
                peak = int(np.argmax(shown.value))
                x, value = self.x(int(shown.at_ms[peak])), f"▲ {short(float(shown.value[peak]))}"
                self._label(x, high + 8, value, "peak")
        self.y = base + 7

    def area(
        self, who: str, rates: Floats, edges_ms: Ints, top: float, height: float, unit: str
    ) -> None:
        """Steps from 0 to `top`, each from one edge to the next."""
        base, high = self.y + height, self.y
        self._scale(who, top, height)
        y = base - height * np.clip(rates / top, 0.0, 1.0)
        self.add(
            el(
                "path",
                d=steps(self.xs(edges_ms), y, base),
                class_="area",
                **self._readable(who, unit, high, base, top),
                data_clipped="" if bool((rates > top).any()) else None,
            )
        )
        self.y = base + 7

    def _readable(
        self, who: str, unit: str, high: float, base: float, top: float
    ) -> dict[str, object]:
        """For the cross-hair: what a place on the line means."""
        return {
            "data_who": who,
            "data_unit": unit,
            "data_high": f"{high:.2f}",
            "data_base": f"{base:.2f}",
            "data_top": f"{top:g}",
        }

    def _scale(self, who: str, top: float, height: float) -> None:
        base = self.y + height
        self.add(self.rule(self.left, base, self.right, base, "base"))
        self.add(self.rule(self.left, self.y, self.right, self.y, "mark"))
        self.text(self.right + 6, self.y + 8, short(top), "tick")
        if height >= TWO_MARKS:
            self.text(self.right + 6, base, "0", "tick")
        self.name(who, self.y + height / 2)

    def _label(self, x: float, y: float, text: str, class_: str) -> None:
        """In bold, beside a place, on the side with room."""
        if x + 4 + letters_wide(text, BOLD) <= self.right:
            self.text(x + 4, y, text, class_)
        else:
            self.text(x - 4, y, text, class_, anchor="end")

    def _bands(self) -> list[Html]:
        """Bands are behind the grid, and that is behind single lines."""
        bands: list[Html] = []
        grid: list[Html] = []
        lines: list[Html] = []
        for class_, x, y, end in self._through:
            if end is not None:
                bands.append(self.rect(x, y, end - x, self._bottom - y, class_))
            else:
                into = grid if class_ == "grid" else lines
                into.append(self.rule(x, y, x, self._bottom, class_))
        return [*bands, *grid, *lines]

    def svg(self, title: str, about: str) -> Html:
        """All of it."""
        ids = f"title-{self.size.name}", f"about-{self.size.name}"
        return el(
            "svg",
            el("title", title, id=ids[0]),
            el("desc", about, id=ids[1]),
            _patterns(self.size.name),
            joined(self._bands()),
            joined(self._front),
            el("line", class_="cross", x1="0", x2="0", y1="0", y2="100%", visibility="hidden"),
            class_=f"timeline {self.size.name}",
            viewBox=f"0 0 {self.size.width} {self.y:.0f}",
            width=self.size.width,
            height=f"{self.y:.0f}",
            role="img",
            aria_labelledby=" ".join(ids),
            data_left=self.left,
            data_right=self.right,
            data_begin=self.begin_ms,
            data_end=self.end_ms,
        )


def left_out(drawing: Drawing, count: int) -> None:
    """Says how many lanes were not drawn, where some were not."""
    if count > 0:
        drawing.y += 10
        drawing.text(drawing.left, drawing.y, f"and {count} more in history.arrow", "about")


def _wrapped(text: str, most: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) >= most:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _patterns(prefix: str) -> Html:
    """States are told by pattern as well as by colour."""

    def pattern(name: str, size: int, turn: int, *drawn: Html) -> Html:
        box = el("rect", width=size, height=size, class_=f"tint-{name}")
        return el("pattern", box, *drawn, id=f"{prefix}-{name}", width=size, height=size,
                  patternUnits="userSpaceOnUse",
                  patternTransform=f"rotate({turn})" if turn else None)  # fmt: skip

    def stroke(name: str, d: str) -> Html:
        return el("path", d=d, class_=f"ink-{name}")

    return el(
        "defs",
        pattern("starting", 6, 0, el("circle", cx="3", cy="3", r="1.3", class_="fill-starting")),
        pattern("joining", 7, 45, stroke("joining", "M0 0V7")),
        pattern("suspected", 7, 45, stroke("suspected", "M0 0V7M0 0H7")),
        pattern("pause", 5, 45, stroke("pause", "M0 0V5")),
        pattern("healing", 5, 45, stroke("fault", "M0 0V5")),
    )
