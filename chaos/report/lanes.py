"""Lanes of states in a report's timeline: who was how, told by colour, pattern and word.

r0.0  running r0.0/1.3 ================================================
r0.1  running r0.1/1.4 ======|/ suspected /|: joining r0.1/1.7 :|running

What is not written has no room; the page's table of slots has shares and counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from gapless.chaos.report.drawing import Drawing, left_out, letters_wide
from gapless.chaos.report.html import Html, el
from gapless.chaos.report.sights import Lane, Stretch

LANES_MAX = 16
"""Of one part: beyond, a page is too long to be read, and the record has the rest."""
LANE_HEIGHT = 18
STATES = ("running", "starting", "joining", "suspected", "failed", "empty", "unknown")
"""In the order of the legend; what is none of them is drawn as the last."""
WEIGHT = {state: i for i, state in enumerate(("running", "empty", "unknown", "starting"))}
"""Where several states share a point of the drawing, the heavier is seen; others weigh more."""
GONE = frozenset({"over", "gone", "retired"})
"""A life that has left its slot: nothing is drawn."""
LIVES_APART = 5
"""Marks of lives that are closer are one to the eye."""


def draw_lanes(drawing: Drawing, lanes: Sequence[Lane]) -> None:
    """A lane a slot, and what the patterns mean."""
    if not lanes:
        return
    drawing.heading("Replicas and mergers", "as the root knows them; ◆ another life in the slot")
    _legend(drawing, {_known(each.state) for lane in lanes for each in lane.stretches})
    for lane in lanes[:LANES_MAX]:
        _lane(drawing, lane)
    left_out(drawing, len(lanes) - LANES_MAX)


def _known(state: str) -> str:
    return state if state in STATES else STATES[-1]


def _legend(drawing: Drawing, states: set[str]) -> None:
    x, width = float(drawing.left), 0.0
    for state in STATES:
        if state not in states:
            continue
        width = 20 + letters_wide(state) + 12
        if x + width > drawing.size.width:
            x = drawing.left
            drawing.y += 18
        drawing.add(_box(drawing, state, x, drawing.y, 14.0, 11.0, ""))
        drawing.text(x + 19, drawing.y + 9.5, state, "about")
        x += width
    drawing.y += 20


def _box(
    drawing: Drawing, state: str, x: float, y: float, width: float, height: float, tip: str
) -> Html:
    known = _known(state)
    hatched = known in ("starting", "joining", "suspected")
    fill = f"url(#{drawing.size.name}-{known})" if hatched else None
    return drawing.rect(x, y, width, height, f"state {known}", tip, fill=fill)


def _lane(drawing: Drawing, lane: Lane) -> None:
    y = drawing.y
    seen = [
        each
        for each in lane.stretches
        if each.end_ms >= drawing.begin_ms and each.state not in GONE
    ]
    for each in _visible(drawing, seen):
        x, end = drawing.x(each.begin_ms), drawing.x(each.end_ms)
        said = f"{each.state} {each.said}".strip()
        tip = f"{lane.who} {said}, {each.begin_ms / 1000:.2f} to {each.end_ms / 1000:.2f} s"
        drawing.add(_box(drawing, each.state, x, y, end - x, LANE_HEIGHT, tip))
        text = next((t for t in (said, each.state) if letters_wide(t) + 12 <= end - x), "")
        if text:
            drawing.text(x + 6, y + 13, text, f"inside on-{_known(each.state)}")
    _lives(drawing, lane, y)
    drawing.name(lane.who, y + LANE_HEIGHT / 2)
    drawing.y = y + LANE_HEIGHT + 6


def _visible(drawing: Drawing, stretches: Sequence[Stretch]) -> list[Stretch]:
    """Of those that are no wider than a point, the heaviest of each; heavier ones later, so that
    they are seen.
    """
    found = []
    heaviest: dict[int, Stretch] = {}
    for each in stretches:
        x = drawing.x(each.begin_ms)
        if drawing.x(each.end_ms) - x > 1:
            found.append(each)
        elif round(x) not in heaviest or _weight(heaviest[round(x)]) <= _weight(each):
            heaviest[round(x)] = each
    return sorted([*found, *heaviest.values()], key=lambda each: (_weight(each), each.begin_ms))


def _weight(stretch: Stretch) -> int:
    return WEIGHT.get(stretch.state, len(WEIGHT))


def _lives(drawing: Drawing, lane: Lane, y: float) -> None:
    """A mark where a life begins that is not the first."""
    first, last_x = True, float("-inf")
    for life, at_ms in sorted(lane.lives.items(), key=lambda item: item[1]):
        x = drawing.x(at_ms)
        if not first and at_ms >= drawing.begin_ms and x - last_x >= LIVES_APART:
            drawing.add(
                el("path", el("title", f"{life} from {at_ms / 1000:.2f} s"),
                   d=f"M{x:.1f} {y - 4:.1f}l4 4-4 4-4-4z", class_="life")
            )  # fmt: skip
            last_x = x
        first = False
