"""How a page looks: everything it uses has a style, and all text can be read on its ground."""

from __future__ import annotations

import re

import pytest

from gapless.chaos.report.style import SCRIPT, STYLE
from tests.chaos.report.checks import made
from tests.chaos.report.reader import SIZES
from tests.chaos.report.synthetic_run import Shape, synthetic

CSS, JS = STYLE.read_text("utf-8"), SCRIPT.read_text("utf-8")
LEAST_CONTRAST = 4.5
"""Of text on its ground, as WCAG 2.2 asks for (1.4.3, level AA)."""
MARK_CONTRAST = 3.0
"""Of lines and marks (1.4.11)."""


def colours(dark: bool) -> dict[str, str]:
    """The named colours of a scheme."""
    light, rest = CSS.split("}", 1)
    block = rest.split("{", 2)[2].split("}", 1)[0] if dark else light
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


each_scheme = pytest.mark.parametrize("dark", [False, True])


@each_scheme
def test_both_schemes_name_all_colours_that_are_used(dark: bool) -> None:
    assert set(re.findall(r"var\(--([\w-]+)\)", CSS)) <= set(colours(dark))


@each_scheme
@pytest.mark.parametrize(
    ("text", "ground"),
    [
        ("ink", "page"), ("soft", "page"), ("link", "page"), ("ink", "card"), ("soft", "card"),
        ("good", "page"), ("bad", "page"), ("good", "good-back"), ("bad", "bad-back"),
        ("ink", "running"), ("ink", "starting"), ("ink", "joining"), ("ink", "suspected"),
        ("ink", "unknown"), ("page", "failed"), ("line", "page"),
    ],
)  # fmt: skip
def test_text_can_be_read_on_its_ground(dark: bool, text: str, ground: str) -> None:
    named = colours(dark)
    assert contrast(named[text], named[ground]) >= LEAST_CONTRAST


@each_scheme
@pytest.mark.parametrize("mark", ["replica", "merger", "other", "area", "fault", "line"])
def test_lines_and_marks_stand_out(dark: bool, mark: str) -> None:
    named = colours(dark)
    assert contrast(named[mark], named["page"]) >= MARK_CONTRAST


def test_the_contrast_of_black_on_white_is_21() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


def test_every_class_of_a_page_has_a_style() -> None:
    page = made(*synthetic(1, Shape(ends=False)))
    used = {each for element in page.all() for each in element.classes}
    known = set(re.findall(r"\.([a-z][\w-]*)", CSS))
    patterned = {"starting", "joining", "suspected", "healing"}
    assert used - known <= patterned | {"name", "on-running", "tint-healing"}, "as all text is"


def test_one_drawing_is_shown_at_each_width_and_in_print() -> None:
    assert re.search(r"\.timeline \{ display: none;", CSS)
    for size in SIZES:
        assert re.search(rf"\.timeline\.{size} \{{ display: block;", CSS)
    assert "@media (min-width: 1000px), print" in CSS
    assert "@media screen and (prefers-color-scheme: dark)" in CSS, "paper is white"


def test_the_script_reads_what_the_drawing_says() -> None:
    page = made(*synthetic(1))
    lines = [each for each in page.drawing().all("path") if "data-who" in each.attributes]
    for name in re.findall(r"svg\.dataset\.(\w+)", JS):
        assert f"data-{name}" in page.drawing().attributes
    for name in re.findall(r"line\.(who|unit|high|base|top)\b", JS):
        assert all(f"data-{name}" in line.attributes for line in lines)
    assert page.drawing().one("line", "cross")["visibility"] == "hidden"
