"""Reads a report's page as a browser would, for tests: elements, tables by their title, drawings.

    page = read(html)
    page.table("Faults")[0]["what was done"]        a cell, as text
    page.drawing("wide").lines("lag")               what the cross-hair would say

Strict where browsers forgive: an element that is not closed, or closed twice, is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

from gapless.chaos.report.html import VOID

SIZES = ("wide", "middle", "narrow")


@dataclass
class Element:
    """One element with all that is in it."""

    name: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    def __getitem__(self, name: str) -> str:
        return self.attributes[name]

    def number(self, name: str) -> float:
        return float(self.attributes[name])

    @property
    def classes(self) -> set[str]:
        return set(self.attributes.get("class", "").split())

    @property
    def text(self) -> str:
        """All text in it, except for what only explains (`title`)."""
        return "".join(
            each if isinstance(each, str) else each.text if each.name != "title" else ""
            for each in self.children
        )

    @property
    def tip(self) -> str:
        """What explains it."""
        titles = (c for c in self.children if isinstance(c, Element) and c.name == "title")
        return "".join(part for each in titles for part in each.children if isinstance(part, str))

    def all(self, name: str = "", class_: str = "") -> Iterator[Element]:
        """Elements in it, in the order of the page."""
        for each in self.children:
            if isinstance(each, Element):
                if name in ("", each.name) and (not class_ or class_ in each.classes):
                    yield each
                yield from each.all(name, class_)

    def one(self, name: str = "", class_: str = "") -> Element:
        (found,) = self.all(name, class_)
        return found


class Page(Element):
    """A whole page."""

    def section(self, title: str) -> Element:
        (found,) = (s for s in self.all("section") if next(s.all("h2")).text == title)
        return found

    def sections(self) -> list[str]:
        return [next(section.all("h2")).text for section in self.all("section")]

    def table(self, title: str) -> list[dict[str, str]]:
        """The rows of the table in a section, cells by the names of their columns."""
        table = self.section(title).one("table")
        heads = [cell.text for cell in table.one("thead").all("th")]
        rows = table.one("tbody").all("tr")
        cells = [[c.text for c in row.all() if c.name in ("th", "td")] for row in rows]
        return [dict(zip(heads, row, strict=True)) for row in cells]

    def facts(self) -> dict[str, str]:
        box = self.one("dl")
        names, values = box.all("dt"), box.all("dd")
        return {a.text: b.text for a, b in zip(names, values, strict=True)}

    def drawing(self, size: str = "wide") -> Drawing:
        svg = self.one("svg", size)
        return Drawing(svg.name, svg.attributes, svg.children)

    def drawings(self) -> list[Drawing]:
        return [self.drawing(size) for size in SIZES]


class Drawing(Element):
    """The timeline in one size."""

    def x(self, at_ms: float) -> float:
        """Where a moment has to stand; a moment beyond the ends stands at the end."""
        begin, end = self.number("data-begin"), self.number("data-end")
        left, right = self.number("data-left"), self.number("data-right")
        share = (min(max(at_ms, begin), end) - begin) / (end - begin)
        return left + share * (right - left)

    def at_ms(self, x: float) -> float:
        """Which moment stands there."""
        begin, end = self.number("data-begin"), self.number("data-end")
        left, right = self.number("data-left"), self.number("data-right")
        return begin + (x - left) / (right - left) * (end - begin)

    def lines(self, unit: str) -> dict[str, Plotted]:
        """The lines with a unit, by whose they are."""
        found = [
            Plotted(e.name, e.attributes) for e in self.all("path") if "data-who" in e.attributes
        ]
        return {line["data-who"]: line for line in found if line["data-unit"] == unit}


class Plotted(Element):
    """A line, read back as the cross-hair of the page reads it (chaos/report/page.js)."""

    @property
    def pieces(self) -> list[list[tuple[float, float]]]:
        """Places on the drawing."""
        found = []
        for piece in self["d"].split("M")[1:]:
            numbers = [float(each) for each in piece.split()]
            found.append(list(zip(numbers[::2], numbers[1::2], strict=True)))
        return found

    def value(self, y: float) -> float:
        """What a height means."""
        base, high = self.number("data-base"), self.number("data-high")
        return (base - y) / (base - high) * self.number("data-top")

    def said(self, x: float) -> float | None:
        """What the cross-hair says at a place; None where nothing was seen."""
        for piece in self.pieces:
            if piece[0][0] - 1 <= x <= piece[-1][0] + 1:
                before = [y for at, y in piece if at <= x] or [piece[0][1]]
                return self.value(before[-1])
        return None


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[Element] = [Page("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> says something twice: {names}"
        assert all(value is not None for _, value in attrs), f"<{tag}> has {attrs}"
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        raise AssertionError(f"<{tag}/> with {attrs}: HTML has no such elements")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().name == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")


def read(html: str) -> Page:
    """A page. Raises `AssertionError` where it is not whole."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    (page,) = reader.open
    assert isinstance(page, Page)
    return page


def numbers(text: str) -> list[float]:
    """All figures in a text."""
    return [float(each.replace(",", "")) for each in re.findall(r"-?[\d,]*\.?\d+", text)]
