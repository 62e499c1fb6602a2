"""Faults in a report's timeline: marks with names on top, and bands through all that is below.

1 kill replica r0.1 |==|/////      solid while it lasted, hatched until all was whole again

Where names have no room there are numbers, and where these have none but marks; the table of faults
has the names then.
"""

from __future__ import annotations

from collections.abc import Sequence

from gapless.chaos.drill.outcome import Strike
from gapless.chaos.report.drawing import BOLD, Drawing, letters_wide
from gapless.chaos.report.html import el

FAULT_ROWS_MAX, FAULT_HEIGHT = 5, 22
BAR_AT, BAR_HEIGHT = 15.5, 3.5
"""Of a fault's row: below the letters of its label."""
FAINT, APART = 24, 8
"""Lines of more faults than this are faint: they would hide what they run through. Where they are
closer to each other than so many points on the average, there are none at all."""
NEXT_MS = 1_000
"""Faults that strike within this are one trouble: the job is whole again after both."""


def over_ms(strike: Strike) -> int:
    """When all of a fault had been done: it was healed, or struck and has no end."""
    return strike.at_ms if strike.healed_ms is None else strike.healed_ms


def wholes_again_ms(strikes: Sequence[Strike], wholes_ms: Sequence[int]) -> list[int | None]:
    """When the job was seen whole first after each fault had struck and was healed; None where
    another struck before that, or where nobody has seen it other than whole.
    """
    found: list[int | None] = []
    for strike in strikes:
        over = over_ms(strike)
        whole = min((at for at in wholes_ms if at > over), default=None)
        others = (other.at_ms for other in strikes)
        known = whole is not None and not any(over + NEXT_MS < at < whole for at in others)
        found.append(whole if known else None)
    return found


def draw_faults(drawing: Drawing, strikes: Sequence[Strike], wholes_ms: Sequence[int]) -> None:
    """Marks and bars, and the bands behind all that follows."""
    if not strikes:
        drawing.heading("Faults", "none struck")
        return
    drawing.heading("Faults", "solid: while it lasted; hatched: until the job was whole again")
    wholes = wholes_again_ms(strikes, wholes_ms)
    rows = _placed(drawing, strikes, wholes)
    has_lines = APART * len(strikes) <= drawing.right - drawing.left
    each = zip(strikes, rows, wholes, strict=True)
    for number, (strike, (row, label), whole_ms) in enumerate(each, 1):
        y = drawing.y + FAULT_HEIGHT * row
        x, end = drawing.x(strike.at_ms), drawing.x(over_ms(strike))
        tip = f"{number}. {strike.fault}, {strike.target}: {strike.what}"
        lasts = strike.healed_ms is not None
        if whole_ms is not None:
            drawing.add(
                drawing.rect(end, y + BAR_AT, drawing.x(whole_ms) - end, BAR_HEIGHT, "healing", tip,
                             fill=f"url(#{drawing.size.name}-healing)")
            )  # fmt: skip
        if lasts:
            drawing.add(drawing.rect(x, y + BAR_AT, end - x, BAR_HEIGHT, "fault", tip))
            drawing.through("band", x, y + BAR_AT, end)
        if has_lines:
            faint = " faint" if len(strikes) > FAINT else ""
            drawing.through(f"strike{' lasting' if lasts else ''}{faint}", x, y + 12)
        mark = el("path", el("title", tip), d=f"M{x - 4:.1f} {y + 9:.1f}h8l-4 8z", class_="fault")
        drawing.add(mark)
        width = letters_wide(label, BOLD)
        if x + 7 + width <= drawing.size.width:
            drawing.text(x + 7, y + 11, label, "fault-name")
        else:
            drawing.text(x - 7, y + 11, label, "fault-name", anchor="end")
    drawing.y += FAULT_HEIGHT * (max(row for row, _ in rows) + 1)


def _placed(
    drawing: Drawing, strikes: Sequence[Strike], wholes_ms: Sequence[int | None]
) -> list[tuple[int, str]]:
    """Row and label of each: names where all have room, else numbers, else nothing but marks."""
    named = [f"{i} {each.fault} {each.target}" for i, each in enumerate(strikes, 1)]
    brief = [f"{i} {each.fault}" for i, each in enumerate(strikes, 1)]
    numbers = [str(i) for i in range(1, len(strikes) + 1)]
    for labels in (named, brief, numbers):
        rows = _rows_of(drawing, strikes, wholes_ms, labels)
        if rows is not None:
            return list(zip(rows, labels, strict=True))
    return [(0, "") for _ in strikes]


def _rows_of(
    drawing: Drawing,
    strikes: Sequence[Strike],
    wholes_ms: Sequence[int | None],
    labels: Sequence[str],
) -> list[int] | None:
    """The first row of each where label and bars cover no other; None where one has no room."""
    free = [float("-inf")] * FAULT_ROWS_MAX
    rows = []
    for strike, whole_ms, label in zip(strikes, wholes_ms, labels, strict=True):
        x, width = drawing.x(strike.at_ms), letters_wide(label, BOLD) + 7
        until_ms = over_ms(strike) if whole_ms is None else whole_ms
        begin, end = x - 5, x + width
        if end > drawing.size.width:
            begin, end = x - width, x + 5
        if begin < 0:
            return None
        row = next((i for i, until in enumerate(free) if until + 4 <= begin), None)
        if row is None:
            return None
        free[row] = max(end, drawing.x(until_ms))
        rows.append(row)
    return rows
