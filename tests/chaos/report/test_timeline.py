"""The timeline as it is drawn: nothing covers what it should not, and all of it can be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from gapless.chaos.drill.outcome import Strike
from gapless.chaos.judge.record import Record
from gapless.chaos.report.drawing import BOLD, letters_wide
from gapless.chaos.report.faults import wholes_again_ms
from tests.chaos.report.checks import made
from tests.chaos.report.reader import Drawing, Element, Page
from tests.chaos.report.synthetic_run import Shape, synthetic

LETTERS_HIGH = 10


def with_strikes(*moments: tuple[int, int | None], seconds: int = 60) -> Page:
    """A run of so long with faults from and to."""
    outcome, record = synthetic(1, Shape(faults=0, seconds=seconds))
    strikes = tuple(
        Strike("kill replica", f"r0.{number % 3}", at, healed, "pid 1")
        for number, (at, healed) in enumerate(moments)
    )
    return made(replace(outcome, strikes=strikes), record)


def boxes(texts: Iterator[Element], times: float = 1.0) -> list[tuple[float, float, float, str]]:
    """Where texts stand: from, to, line, what."""
    found = []
    for each in texts:
        wide = letters_wide(each.text, times)
        x = each.number("x")
        begin = {"middle": x - wide / 2, "end": x - wide}.get(
            each.attributes.get("text-anchor", ""), x
        )
        found.append((begin, begin + wide, each.number("y"), each.text))
    return found


def check_apart(found: list[tuple[float, float, float, str]]) -> None:
    for i, (begin, end, y, text) in enumerate(found):
        for other_begin, other_end, other_y, other in found[i + 1 :]:
            is_apart = end <= other_begin or other_end <= begin
            assert is_apart or abs(y - other_y) >= LETTERS_HIGH, f"{text!r} covers {other!r}"


def labels(drawing: Drawing) -> list[str]:
    return [each.text for each in drawing.all("text", "fault-name")]


@pytest.mark.parametrize("count", [1, 4, 9, 20, 66, 200])
def test_names_of_faults_never_cover_each_other_and_stay_within_the_drawing(count: int) -> None:
    strikes = [(2_000 + 55_000 * i // count, None if i % 2 else 3_000 + 55_000 * i // count)
               for i in range(count)]  # fmt: skip
    for drawing in with_strikes(*strikes).drawings():
        found = boxes(drawing.all("text", "fault-name"), BOLD)
        check_apart(found)
        width = drawing.number("width")
        assert all(begin >= 0 and end <= width for begin, end, _, _ in found)


def test_faults_have_names_where_there_is_room_else_numbers_else_marks() -> None:
    few = with_strikes((5_000, None), (30_000, None)).drawing("wide")
    assert labels(few) == ["1 kill replica r0.0", "2 kill replica r0.1"]
    some = with_strikes(*((1_000 * i, None) for i in range(1, 50))).drawing("wide")
    assert labels(some) == [str(i) for i in range(1, 50)]
    many = with_strikes(*((140 * i, None) for i in range(1, 400))).drawing("wide")
    assert labels(many) == [""] * 399
    assert len(list(many.all("path", "fault"))) == 399


def test_lines_of_faults_go_through_all_unless_they_would_hide_it() -> None:
    few = with_strikes((5_000, None), (30_000, 31_000)).drawing("wide")
    assert [e.classes for e in few.all("line", "strike")] == [{"strike"}, {"strike", "lasting"}]
    many = with_strikes(*((140 * i, None) for i in range(1, 400)))
    assert not list(many.drawing("wide").all("line", "strike"))


@pytest.mark.parametrize("replicas", [1, 9])
def test_texts_of_the_axis_and_names_of_lanes_are_apart(replicas: int) -> None:
    page = made(*synthetic(3, Shape(replicas=replicas, faults=3)))
    for drawing in page.drawings():
        names = boxes(drawing.all("text", "name"))
        check_apart(names)
        assert all(begin >= 0 for begin, _, _, _ in names)
        check_apart(boxes(drawing.all("text", "tick")))


def test_a_name_that_has_no_room_is_cut_and_told_whole_on_pointing() -> None:
    name = "a recording with a very long name"
    record = Record()
    for at in range(0, 3_000, 100):
        record.see("output", name, at_ms=at, rows=5, stable=at)
    page = made(synthetic(1)[0], record)
    for drawing in page.drawings():
        (found,) = drawing.all("text", "name")
        assert found.text.endswith("…")
        assert found.tip == name
        assert name.startswith(found.text[:-1])


def test_more_lanes_than_can_be_read_are_counted_and_not_drawn() -> None:
    page = made(*synthetic(1, Shape(replicas=20, faults=0, seconds=6)))
    for drawing in page.drawings():
        assert len(drawing.lines("s")) == 16
        assert "and 6 more in history.arrow" in [t.text for t in drawing.all("text", "about")]
    assert len(page.table("Replicas and mergers")) == 22


def test_all_lanes_of_a_part_have_one_scale_and_processes_their_own() -> None:
    drawing = made(*synthetic(1)).drawing()
    for unit in ("s/s", "s"):
        assert len({line["data-top"] for line in drawing.lines(unit).values()}) == 1
    assert len({line["data-top"] for line in drawing.lines("MB").values()}) > 1


def test_a_peak_that_is_clipped_is_marked_with_its_value() -> None:
    outcome, record = synthetic(1, Shape(faults=0, seconds=60))
    record.see("slot", "r0.0", at_ms=30_001, state="running", lag_ms=80_000, text="r0.0/1.1")
    drawing = made(outcome, record).drawing()
    line = drawing.lines("s")["r0.0"]
    assert "data-clipped" in line.attributes
    assert line.number("data-top") < 10
    assert "▲ 80" in [text.text for text in drawing.all("text", "peak")]


def test_a_short_state_between_long_ones_is_seen_however_long_the_run() -> None:
    outcome, record = synthetic(4, Shape(faults=20, seconds=1_800, replicas=2, mergers=1))
    drawing = made(outcome, record).drawing("narrow")
    replicas = {s.target for s in outcome.strikes if s.fault == "stop replica"}
    for who in replicas:
        tips = [box.tip for box in drawing.all("rect", "suspected") if box.tip]
        assert any(tip.startswith(f"{who} suspected") for tip in tips)


def test_a_legend_names_each_state_that_is_drawn_and_no_other() -> None:
    drawing = made(*synthetic(1)).drawing()
    drawn = {tuple(box.classes - {"state"}) for box in drawing.all("rect", "state") if box.tip}
    legend = [box for box in drawing.all("rect", "state") if not box.tip]
    assert {tuple(box.classes - {"state"}) for box in legend} == drawn


def test_another_life_in_a_slot_is_marked_at_its_moment() -> None:
    outcome, record = synthetic(7, Shape(faults=6, seconds=40))
    lives: dict[str, list[int]] = {}
    for seen in record.seen("slot"):
        if seen.text and seen.text not in lives:
            lives[seen.text] = [seen.at_ms]
    first = {text.partition("/")[0]: text for text in reversed(lives)}
    later = sorted(text for text in lives if text not in first.values())
    drawing = made(outcome, record).drawing()
    marks = {mark.tip: mark for mark in drawing.all("path", "life")}
    assert later
    assert sorted(tip.split()[0] for tip in marks) == later
    for tip, mark in marks.items():
        x = float(mark["d"][1:].split()[0])
        assert x == pytest.approx(drawing.x(lives[tip.split()[0]][0]), abs=0.11)


def test_the_drawing_says_in_words_what_it_shows() -> None:
    svg = made(*synthetic(1)).drawing()
    about = svg.one("desc").text
    assert svg["role"] == "img"
    assert "4 faults, 5 replicas and mergers, 2 recordings of the output" in about


# -- whole again -----------------------------------------------------------------------------------


def strike(at_ms: int, healed_ms: int | None = None) -> Strike:
    return Strike("kill replica", "r0.0", at_ms, healed_ms, "pid 1")


@pytest.mark.parametrize(
    ("strikes", "wholes", "found"),
    [
        ([strike(1_000)], [-20, 3_000, 9_000], [3_000]),
        ([strike(1_000, 4_000)], [3_000, 5_000], [5_000]),
        ([strike(1_000)], [500], [None]),
        ([strike(1_000), strike(5_000)], [8_000], [None, 8_000]),
        ([strike(1_000), strike(1_500)], [8_000], [8_000, 8_000]),
        ([strike(1_000), strike(5_000)], [3_000, 8_000], [3_000, 8_000]),
        ([], [1], []),
    ],
)
def test_a_fault_is_over_once_the_job_is_whole_and_nothing_else_has_struck(
    strikes: list[Strike], wholes: list[int], found: list[int | None]
) -> None:
    assert wholes_again_ms(strikes, wholes) == found
