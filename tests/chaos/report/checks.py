"""What has to hold of every report: each a check that passes on ours and fails on a broken one."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from gapless.chaos.drill.outcome import Outcome, Strike
from gapless.chaos.judge.record import Record
from gapless.chaos.report.page import page as page_of
from gapless.chaos.report.sights import sights
from tests.chaos.report import oracle
from tests.chaos.report.reader import Drawing, Element, Page, numbers, read

LOADS = re.compile(
    r"src|srcset|data|poster|background|action|formaction|ping|cite|xlink:href|on\w+"
)
"""Attributes by which a page loads, asks or runs something."""
NONE = "\u2013"
LANES_MAX, PAUSES_MAX = 16, 10


def made(outcome: Outcome, record: Record) -> Page:
    """The page of a run, read."""
    return read(page_of(outcome, record.table()))


# -- needs nothing but itself ----------------------------------------------------------------------


def check_self_contained(html: str, links: Sequence[str] = ()) -> None:
    """It loads nothing and runs nothing but its own; its links are these; each reference inside it
    leads somewhere.
    """
    page = read(html)
    elements = list(page.all())
    assert not {e.name for e in elements} & {"link", "img", "iframe", "object", "embed", "base"}
    found: list[str] = []
    ids = [e["id"] for e in elements if "id" in e.attributes]
    assert len(ids) == len(set(ids)), "an id is given twice"
    for element in elements:
        for name, value in element.attributes.items():
            assert not LOADS.fullmatch(name), f"{name} of <{element.name}>"
            assert name != "style", "the page's policy forbids styles of elements"
            if name == "href":
                found.append(value)
            if "url(" in value and not name.startswith(("data-", "aria-")):  # these are only read
                assert re.fullmatch(r"url\(#([\w-]+)\)", value), value
                assert value[5:-1] in ids, f"{value} leads nowhere"
            if name == "aria-labelledby":
                assert set(value.split()) <= set(ids), f"{value} leads nowhere"
    assert found == list(links)
    style, script = page.one("style").text, page.one("script").text
    assert not re.search(r"@import|url\(|https?:|//[a-z]", style)
    assert not re.search(r"https?:|import\(|fetch|XMLHttp|innerHTML|eval", script)
    policy = next(m["content"] for m in page.all("meta") if "http-equiv" in m.attributes)
    assert policy.split("; ") == [
        "default-src 'none'",
        f"style-src {_digest(style)}",
        f"script-src {_digest(script)}",
    ]


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def check_vocabulary(html: str, usual: str) -> None:
    """It has no element and no attribute that a harmless page has not: nothing that was said in a
    run has become markup.
    """

    def words(page: Page) -> set[tuple[str, str]]:
        return {(e.name, name) for e in page.all() for name in ("", *e.attributes)}

    found, known = read(html), read(usual)
    assert words(found) <= words(known)
    for name in ("script", "style"):
        assert [e.text for e in found.all(name)] == [e.text for e in known.all(name)]


def check_json(folder: Path) -> list[Any]:
    """All its documents are what every program reads as JSON; returns them, by name."""

    def refused(what: str) -> None:
        raise AssertionError(f"{what} is no JSON")

    return [
        json.loads(path.read_bytes().decode("utf-8"), parse_constant=refused)
        for path in sorted(folder.glob("*.json"))
    ]


# -- faults ----------------------------------------------------------------------------------------


def check_faults(page: Page, strikes: Sequence[Strike]) -> None:
    """In each drawing each fault has a mark at its moment, and a bar for as long as it lasted."""
    for drawing in page.drawings():
        marks = list(drawing.all("path", "fault"))
        assert len(marks) == len(strikes)
        for number, (mark, strike) in enumerate(zip(marks, strikes, strict=True), 1):
            tip = mark.tip
            assert tip.startswith(f"{number}. {strike.fault}, {strike.target}: {strike.what}"), tip
            assert _near(numbers(mark["d"])[0] + 4, drawing.x(strike.at_ms))
        lasting = [s for s in strikes if s.healed_ms is not None]
        _check_spans(
            drawing,
            list(drawing.all("rect", "fault")),
            [(s.at_ms, s.healed_ms or 0) for s in lasting],
        )
        bands = list(drawing.all("rect", "band"))
        _check_spans(drawing, bands, [(s.at_ms, s.healed_ms or 0) for s in lasting])
        assert all(b.number("y") + b.number("height") > _lowest(drawing) for b in bands)


def _lowest(drawing: Drawing) -> float:
    """Where the last line of the drawing stands."""
    return max(e.number("data-base") for e in drawing.all("path") if "data-base" in e.attributes)


def _check_spans(
    drawing: Drawing, boxes: Sequence[Element], spans: Sequence[tuple[float, float]]
) -> None:
    assert len(boxes) == len(spans)
    for box, (begin_ms, end_ms) in zip(boxes, spans, strict=True):
        x, end = drawing.x(begin_ms), drawing.x(end_ms)
        assert _near(box.number("x"), x)
        assert _near(box.number("width"), max(1.2, end - x))


def _near(found: float, wanted: float) -> bool:
    """As places are written: with one digit."""
    return abs(found - wanted) <= 0.11


# -- pauses ----------------------------------------------------------------------------------------


def check_pauses(page: Page, outcome: Outcome, record: Record) -> None:
    """The table has the longest pauses of the record, each drawing has them where they were."""
    wanted = oracle.silences(record, outcome.strikes)
    if not wanted:
        assert not list(page.section("Pauses of the output").all("table"))
    else:
        rows = page.table("Pauses of the output")
        found = [(row["recording"], row["from s"], row["to s"], numbers(row["ms"])) for row in rows]
        assert found == [
            (
                pause.who,
                f"{pause.begin_ms / 1000:.2f}",
                f"{pause.end_ms / 1000:.2f}" if pause.is_over else NONE,
                [pause.end_ms - pause.begin_ms],
            )
            for pause in wanted[:PAUSES_MAX]
        ]
    for drawing in page.drawings():
        boxes = list(drawing.all("rect", "pause"))
        shown = [p for p in wanted if p.end_ms >= drawing.number("data-begin")]
        for pause in shown:
            x, end = drawing.x(pause.begin_ms), drawing.x(pause.end_ms)
            assert any(
                _near(box.number("width"), max(1.2, end - x)) and _near(box.number("x"), x)
                for box in boxes
                if box.tip.startswith(f"{pause.who}: ")
            ) or _is_beside_another(drawing, pause, shown)
        assert len(boxes) <= len(shown)


def _is_beside_another(
    drawing: Drawing, pause: oracle.Silence, others: Sequence[oracle.Silence]
) -> bool:
    """Whether it is less than a point wide, and another begins at its point."""
    x = drawing.x(pause.begin_ms)
    begins = [drawing.x(o.begin_ms) for o in others if o.who == pause.who and o is not pause]
    return drawing.x(pause.end_ms) - x <= 1 and any(abs(b - x) <= 1 for b in begins)


# -- tables ----------------------------------------------------------------------------------------


def check_tables(page: Page, outcome: Outcome, record: Record) -> None:
    """Each number of each table is what is recomputed row by row."""
    held = page.table("What had to hold") if outcome.held else []
    assert [(h["what"], h["wanted"], h["found"], h["verdict"] == "✓ held") for h in held] == [
        (h.name, h.wanted, h.found, h.ok) for h in outcome.held
    ]
    faults = page.table("Faults") if outcome.strikes else []
    assert [list(row.values()) for row in faults] == [
        [
            str(number),
            s.fault,
            s.target,
            _seconds(s.at_ms),
            _seconds(s.healed_ms),
            _seconds(oracle.whole_after_ms(record, outcome.strikes, s)),
            s.what,
        ]
        for number, s in enumerate(outcome.strikes, 1)
    ]
    slots = page.table("Replicas and mergers") if oracle.names_of(record, "slot") else []
    assert {row["slot"] for row in slots} == oracle.names_of(record, "slot")
    for row in slots:
        who = row["slot"]
        steps = [rate for at, rate in oracle.progress(record, who) if at >= 0]
        lags = [lag / 1000 for at, lag in oracle.lags_ms(record, who) if at >= 0]
        share = oracle.running_share(record, who)
        assert list(row.values())[1:] == [
            str(oracle.lives_count(record, who)),
            NONE if share is None else f"{share:.1%}",
            f"{median(steps):.2f}" if steps and who.startswith("r") else NONE,
            f"{median(lags):.2f}" if lags else NONE,
            f"{max(lags):.2f}" if lags else NONE,
        ]
    processes = page.table("Processes") if oracle.names_of(record, "process") else []
    assert {row["process"] for row in processes} == oracle.names_of(record, "process")
    for row in processes:
        seen = [s for s in oracle.rows_of(record, "process", row["process"]) if s.at_ms >= 0]
        sizes = oracle.ends([s.rss / 1e6 for s in seen if s.rss is not None])
        fds = oracle.ends([s.fds for s in seen if s.fds is not None])
        assert list(row.values())[1:] == [f"{value:.0f}" for value in (*sizes, *fds)]
    notes = page.table("Alarms and notes") if record.seen("note") else []
    assert [list(row.values()) for row in notes] == [
        [_seconds(s.at_ms), s.who, s.text or ""] for s in record.seen("note")
    ]


def _seconds(ms: float | None) -> str:
    return NONE if ms is None else f"{ms / 1000:.2f}"


# -- lines -----------------------------------------------------------------------------------------


def check_lines(page: Page, record: Record) -> None:
    """However few points a line is drawn with, its extremes are there, at their height; and the
    cross-hair says what was seen.
    """
    for drawing in page.drawings():
        begin = drawing.number("data-begin")
        lags = drawing.lines("s")
        for who in sorted(oracle.names_of(record, "slot"))[:LANES_MAX]:
            seen = [(at, lag / 1000) for at, lag in oracle.lags_ms(record, who) if at >= begin]
            _check_line(drawing, lags[who], seen)
        for who, line in drawing.lines("MB").items():
            rows = oracle.rows_of(record, "process", who)
            seen = [(s.at_ms, s.rss / 1e6) for s in rows if s.rss and s.at_ms >= begin]
            _check_line(drawing, line, seen)


def _check_line(drawing: Drawing, line: Any, seen: Sequence[tuple[int, float]]) -> None:
    points = [point for piece in line.pieces for point in piece]
    fine = line.number("data-top") / 1_000
    top = line.number("data-top")
    drawn = [line.value(y) for _, y in points]
    values = [min(value, top) for _, value in seen]
    assert max(drawn) == pytest.approx(max(values), abs=fine)
    assert min(drawn) == pytest.approx(min(values), abs=fine)
    assert _near(points[0][0], drawing.x(seen[0][0]))
    assert _near(max(x for x, _ in points), drawing.x(seen[-1][0]))
    at_top = max(seen, key=lambda each: each[1])
    assert any(
        _near(x, drawing.x(at)) and line.value(y) == pytest.approx(min(value, top), abs=fine)
        for x, y in points
        for at, value in [at_top]
    ), "the highest is drawn at its moment"
    clipped = at_top[1] > top * 1.001
    assert ("data-clipped" in line.attributes) == clipped


def check_progress(record: Record) -> None:
    """Progress is that of the last second, in one life, look by look."""
    for who, line in sights(record.table()).progress.items():
        if who == "sources":
            continue
        found = sorted(zip(line.at_ms.tolist(), line.value.tolist(), strict=True))
        wanted = oracle.progress(record, who)
        assert [at for at, _ in found] == [at for at, _ in wanted]
        assert [rate for _, rate in found] == pytest.approx([rate for _, rate in wanted])


def check_output(page: Page, record: Record) -> None:
    """The area of the merged output is the number of rows that came."""
    for drawing in page.drawings():
        begin = drawing.number("data-begin")
        for who, line in drawing.lines("rows/s").items():
            rows = sum(
                s.rows or 0 for s in oracle.rows_of(record, "output", who) if s.at_ms >= begin
            )
            (piece,) = line.pieces
            steps = list(zip(piece[1:-1:2], piece[2:-1:2], strict=True))
            area = sum(
                line.value(y) * (drawing.at_ms(x1) - drawing.at_ms(x0)) / 1000
                for (x0, y), (x1, _) in steps
            )
            assert area == pytest.approx(rows, rel=0.01), who
