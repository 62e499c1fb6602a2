"""Charts: well-formed SVG, every point inside its axes and in its place."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.bench.plots import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Chart, Points
from gapless.protocol.errors import Misuse

SVG = "{http://www.w3.org/2000/svg}"

labels = st.text(st.characters(categories=("L", "N", "P", "S", "Zs")), max_size=20)
figures = st.floats(0, 1e12, allow_subnormal=False)
curves = st.lists(st.tuples(figures, figures), min_size=1, max_size=8)


def places(chart: Chart) -> list[tuple[float, float]]:
    document = ET.fromstring(chart.svg())  # noqa: S314  # it is ours
    assert document.tag == f"{SVG}svg"
    circles = document.iter(f"{SVG}circle")
    return [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in circles]


def chart(points: Points, log_x: bool = False, log_y: bool = False) -> Chart:
    return Chart("title", "x", "y", {"curve": points}, log_x, log_y)


@given(
    title=labels,
    axes=st.tuples(labels, labels),
    series=st.dictionaries(labels, curves, min_size=1, max_size=7),
)
def test_every_point_is_drawn_inside_the_axes_whatever_the_labels(
    title: str, axes: tuple[str, str], series: dict[str, Points]
) -> None:
    drawn = places(Chart(title, *axes, series))
    assert len(drawn) == sum(map(len, series.values()))
    for x, y in drawn:
        assert LEFT - 0.1 <= x <= WIDTH - RIGHT + 0.1
        assert TOP - 0.1 <= y <= HEIGHT - BOTTOM + 0.1


@pytest.mark.parametrize("log", [False, True])
def test_more_is_further_right_and_higher(log: bool) -> None:
    (x0, y0), (x1, y1), (x2, y2) = places(chart([(1, 2), (10, 40), (100, 900)], log, log))
    assert x0 < x1 < x2
    assert y0 > y1 > y2


@pytest.mark.parametrize("log", [False, True])
def test_the_first_point_stands_at_the_left_end(log: bool) -> None:
    (x0, _), *_ = places(chart([(40, 2), (60, 40), (90, 900)], log_x=log))
    assert x0 == LEFT
    assert ">40<" in chart([(40, 2), (60, 40), (90, 900)]).svg()


def test_heights_are_measured_from_zero() -> None:
    (_, low), (_, high) = places(chart([(1, 100), (2, 200)]))
    assert HEIGHT - BOTTOM - high == pytest.approx(2 * (HEIGHT - BOTTOM - low), abs=0.2)


def test_equal_factors_are_equal_distances_on_a_logarithmic_axis() -> None:
    (x0, y0), (x1, y1), (x2, y2) = places(chart([(1, 3), (10, 30), (100, 300)], True, True))
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y1 - y0 == pytest.approx(y2 - y1, abs=0.2)


@given(value=st.floats(1e-6, 1e12))
def test_a_curve_of_one_point_has_axes_too(value: float) -> None:
    for log in (False, True):
        assert len(places(chart([(value, value)], log, log))) == 1


def test_a_flat_curve_of_nothing_has_axes_too() -> None:
    assert len(places(chart([(0, 0), (1, 0)]))) == 2


def test_a_chart_refuses_what_it_cannot_draw() -> None:
    with pytest.raises(Misuse, match="no points"):
        Chart("t", "x", "y", {"empty": []})
    with pytest.raises(Misuse, match="above 0"):
        chart([(0, 1)], log_x=True)
    with pytest.raises(Misuse, match="not finite"):
        chart([(1, math.nan)])
    with pytest.raises(Misuse, match="told apart"):
        Chart("t", "x", "y", {str(i): [(1, 1)] for i in range(8)})


def test_a_saved_chart_is_the_same_document(tmp_path: Path) -> None:
    picture = chart([(1, 2), (2, 3)])
    picture.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text(encoding="utf-8") == picture.svg()
