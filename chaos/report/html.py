"""HTML that is safe by its type: what is no `Html` is text from outside, and is escaped.

    el("td", "<b>", class_="name")          <td class="name">&lt;b&gt;</td>
    el("tr", el("td", 1), el("td", "x"))    elements are Html, and stay as they are

Names of attributes: `class_` is class, `data_t0` is data-t0; None leaves one out.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

VOID = frozenset({"meta", "br", "hr"})
"""Elements of HTML that are never closed."""
_BAD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
"""What HTML cannot hold: most control characters, halves of characters. And what turns the
direction of writing: such a name would have the numbers beside it read backwards."""


class Html(str):
    """Markup, made here."""

    __slots__ = ()


def escaped(value: object) -> Html:
    """Anything as text of a page; markup as it is."""
    if isinstance(value, Html):
        return value
    return Html(html.escape(_BAD.sub("\ufffd", str(value)), quote=True))


def el(name: str, /, *children: object, **attributes: object) -> Html:
    """One element."""
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID:
        return Html(f"<{name}{said}>")
    return Html(f"<{name}{said}>{joined(children)}</{name}>")


def joined(parts: Iterable[object]) -> Html:
    """Several, one behind the other."""
    return Html("".join(escaped(part) for part in parts))


def table(
    caption: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    numbers: Sequence[int] = (),
) -> Html:
    """A table in a box that scrolls where the screen is narrow, its caption above it. `numbers`:
    columns of figures. The first column says what a row is of.
    """

    def cell(i: int, value: object) -> Html:
        kind = "number" if i in numbers else None
        if i == 0:
            return el("th", value, scope="row", class_=kind)
        return el("td", value, class_=kind)

    head = el(
        "tr",
        *(
            el("th", text, scope="col", class_="number" if i in numbers else None)
            for i, text in enumerate(heads)
        ),
    )
    body = [el("tr", *(cell(i, value) for i, value in enumerate(row))) for row in rows]
    box = el(
        "div",
        el("table", el("thead", head), el("tbody", *body)),
        class_="scrolls",
        tabindex="0",
        role="region",
        aria_label=caption,
    )
    return joined((el("p", caption, class_="caption"), box))
