"""The page of a run: what it says is what was recorded, for runs of every kind."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.chaos.drill.outcome import Outcome, Requirement, Strike
from gapless.chaos.drill.workloads import OF_A_USER
from gapless.chaos.judge.record import Record
from gapless.chaos.report.page import again
from gapless.chaos.report.page import page as page_of
from tests.chaos.report.checks import (
    check_faults,
    check_lines,
    check_output,
    check_pauses,
    check_self_contained,
    check_tables,
    check_vocabulary,
    made,
)
from tests.chaos.report.reader import Page, numbers, read
from tests.chaos.report.synthetic_run import Shape, synthetic

PROBLEM = "JobError: the root does not answer"


def _clean() -> tuple[Outcome, Record]:
    return synthetic(1)


def _one_fault() -> tuple[Outcome, Record]:
    return synthetic(3, Shape(faults=1, seconds=12))


def _no_fault() -> tuple[Outcome, Record]:
    return synthetic(8, Shape(faults=0, seconds=8))


def _long() -> tuple[Outcome, Record]:
    return synthetic(4, Shape(faults=66, seconds=1_800, replicas=2, mergers=1))


def _nine() -> tuple[Outcome, Record]:
    return synthetic(5, Shape(replicas=9, faults=8, seconds=40))


def _cut_short() -> tuple[Outcome, Record]:
    outcome, record = synthetic(2, Shape(ends=False))
    return replace(outcome, held=(), judgement=(), figures={}, problem=PROBLEM), record


def _nothing_seen() -> tuple[Outcome, Record]:
    outcome, _ = synthetic(1)
    outcome = replace(outcome, strikes=(), held=(), judgement=(), figures={}, problem=PROBLEM)
    return outcome, Record()


RUNS = {
    make.__name__.strip("_"): make
    for make in (_clean, _one_fault, _no_fault, _long, _nine, _cut_short)
}


@cache
def run(name: str) -> tuple[Outcome, Record, str, Page]:
    """A run, its page, and that page read."""
    outcome, record = RUNS[name]()
    html = page_of(outcome, record.table())
    return outcome, record, html, read(html)


each_run = pytest.mark.parametrize("name", RUNS)


@each_run
def test_a_page_needs_no_network_and_no_other_file(name: str) -> None:
    check_self_contained(run(name)[2])


@each_run
def test_every_number_in_a_table_is_what_the_record_says(name: str) -> None:
    outcome, record, _, page = run(name)
    check_tables(page, outcome, record)


@each_run
def test_each_fault_is_drawn_at_its_moment_and_as_long_as_it_lasted(name: str) -> None:
    outcome, _, _, page = run(name)
    check_faults(page, outcome.strikes)


@each_run
def test_the_pauses_are_those_of_the_record(name: str) -> None:
    outcome, record, _, page = run(name)
    check_pauses(page, outcome, record)


@each_run
def test_lines_keep_their_extremes_and_the_cross_hair_says_what_was_seen(name: str) -> None:
    _, record, _, page = run(name)
    check_lines(page, record)


@each_run
def test_the_drawn_output_is_all_rows_that_came(name: str) -> None:
    _, record, _, page = run(name)
    check_output(page, record)


@each_run
def test_a_page_opens_fast(name: str) -> None:
    outcome, _, html, page = run(name)
    assert len(html) < 900_000, "a 30 min run is under a megabyte"
    for drawing in page.drawings():
        for path in drawing.all("path"):
            assert len(path["d"].split()) <= 2 * 620 + 2, "no line has more points than pixels"
    assert len(page.table("Faults") if outcome.strikes else []) == len(outcome.strikes)


# -- verdicts --------------------------------------------------------------------------------------


def verdict(outcome: Outcome, record: Record | None = None) -> str:
    return made(outcome, record or Record()).one("p", "verdict").text


def test_a_clean_run_says_so_in_its_title_and_in_words_and_signs() -> None:
    outcome, _, _, page = run("clean")
    assert next(page.all("title")).children == ["kill-and-stop: clean"]
    assert verdict(outcome) == "✓ Clean: 4 faults struck, and all of 4 things held."
    assert verdict(run("one_fault")[0]).startswith("✓ Clean: 1 fault struck")


def test_what_did_not_hold_is_named_in_the_verdict_and_marked_in_the_table() -> None:
    outcome, record = _one_fault()
    missed = Requirement("memory", "flat", "213 MB an hour more", ok=False)
    page = made(replace(outcome, held=(*outcome.held, missed)), record)
    assert page.one("p", "verdict").text == "✗ Not clean: 1 of 5 did not hold: memory."
    assert page.one("p", "verdict").classes == {"verdict", "bad"}
    assert page.table("What had to hold")[-1]["verdict"] == "✗ did not"


def test_a_run_that_was_cut_short_has_a_page_that_says_why_and_all_that_was_seen() -> None:
    page = run("cut_short")[3]
    assert page.one("p", "verdict").text == f"✗ Not clean: it was cut short: {PROBLEM}."
    assert "Nothing was judged." in page.section("What had to hold").text
    assert len(page.table("Faults")) == 4
    pauses = page.table("Pauses of the output")
    assert pauses[0]["to s"] == "\u2013", "it was silent until nobody looked any more"
    drawn = [text.text for text in page.drawing().all("text", "peak")]
    assert [text for text in drawn if text.endswith("ms, and on")]


def test_a_run_of_which_nothing_was_seen_has_a_page() -> None:
    outcome, record = _nothing_seen()
    html = page_of(outcome, record.table())
    check_self_contained(html)
    page = read(html)
    assert PROBLEM in page.one("p", "verdict").text
    assert "Nothing was seen of the job." in page.section("Timeline").text
    assert not list(page.all("svg"))
    assert page.facts()["longest pause"] == "none"


def test_a_run_that_was_never_whole_says_from_when_its_moments_count() -> None:
    outcome, _ = _nothing_seen()
    record = Record()
    for at in range(0, 4_000, 250):
        record.see("slot", "r0.0", at_ms=at, state="starting", text="r0.0/1.1")
    page = made(outcome, record)
    assert "since the run began: the job was never whole" in page.section("Timeline").text
    assert "the job was whole" not in page.one("main").text


def test_faults_that_struck_while_nothing_was_seen_are_drawn_all_the_same() -> None:
    outcome = replace(_nothing_seen()[0], strikes=(Strike("kill root", "root", 500, 900, "pid 1"),))
    page = made(outcome, Record())
    assert [row["fault"] for row in page.table("Faults")] == ["kill root"]
    assert len(list(page.drawing().all("path", "fault"))) == 1


def test_an_output_without_rows_is_said_to_have_none() -> None:
    outcome, record = _no_fault()
    record.see("output", "idle", at_ms=100, rows=0, stable=100)
    page = made(outcome, record)
    assert "no rows" in [text.text for text in page.drawing().all("text", "peak")]
    only = Record()
    only.see("output", "idle", at_ms=-100, rows=0)
    only.see("output", "idle", at_ms=2_000, rows=0)
    said = made(outcome, only).section("Pauses of the output").text
    assert "No recording has frames with rows." in said


# -- facts -----------------------------------------------------------------------------------------


def test_the_facts_are_those_of_the_outcome() -> None:
    outcome, _, _, page = run("clean")
    facts = page.facts()
    assert facts["seed"] == str(outcome.seed)
    assert facts["faults struck"] == "4"
    assert facts["run again"] == "gapless chaos run kill-and-stop.toml --seed 1"
    assert numbers(facts["longest pause"]) == [outcome.figures["longest_pause_ms"]]
    assert outcome.began in facts["began"]
    assert f"{outcome.seconds:.1f} s" in facts["began"]
    assert all(f"{k} {v}" in facts["versions"] for k, v in outcome.versions.items())


def test_the_command_that_runs_it_again_has_all_that_made_this_run() -> None:
    config = {"random": {"minutes": 30.0}, "broken": "no fence"}
    outcome = replace(_clean()[0], name="soak", config=config)
    assert again(outcome) == (
        "gapless chaos soak --scenario soak --minutes 30 --seed 1 --broken 'no fence'"
    )
    assert "--scenario mine.toml " in again(replace(outcome, name="mine"))


def test_a_drill_of_a_user_is_run_again_by_its_call() -> None:
    outcome = replace(_clean()[0], config={"workload": OF_A_USER})
    assert again(outcome) == "drill(..., seed=1)"


def test_figures_have_their_unit_and_one_that_is_no_number_a_dash() -> None:
    figures = {"longest_pause_ms": float("nan"), "rows": 1_234_567, "whole_again_s": 0.25}
    outcome = replace(_clean()[0], figures=figures)
    page = made(outcome, Record())
    rows = [tuple(row.values()) for row in page.table("Measured, and judged by nobody")]
    assert rows == [
        ("longest pause", "\u2013", "ms"),
        ("rows", "1,234,567", ""),
        ("whole again", "0.25", "s"),
    ]
    assert page.facts()["longest pause"] == "none"


# -- text from outside -----------------------------------------------------------------------------

HOSTILE = [
    "<script>alert(1)</script>",
    "</title></style></script><svg onload=alert(1)>",
    "\"><img src=x onerror='alert(1)'>",
    "' onmouseover='alert(1)",
    "&lt;b&gt; &amp; &#60;",
    "<!-- ]]> -->",
    "javascript:alert(1)",
    "http://example.org/a.js",
    "url(http://example.org/)",
    "\x00\x1b[31m\x7f\x85\ufffe",
    "\u202egnippilf \u2066",
    "",
    "   ",
    "x" * 400,
]


def said_everywhere(text: str) -> tuple[Outcome, Record]:
    """A short run in which everything that can be said says this."""
    record = Record()
    for at in range(-1_000, 3_000, 250):
        record.see("source", text, at_ms=at, stable=at + 2_000)
        record.see("slot", text, at_ms=at, state=text, stable=at + 2_000, lag_ms=9, text=text)
        record.see("slot", f"r0.{text}", at_ms=at, state="running", lag_ms=9, text="r0.0/1.1")
        record.see("output", text, at_ms=at, rows=3 if at < 1_000 else 0, stable=at)
        record.see("process", text, at_ms=at, rss=10**8, fds=50, text=text)
    record.see("note", text, at_ms=10, text=text)
    record.see("whole", text, at_ms=2_800, text=text)
    outcome = Outcome(
        name=text,
        about=text,
        seed=7,
        began=text,
        seconds=3.0,
        config={text: [text], "broken": text},
        versions={text: text},
        strikes=(Strike(text, text, 500, 900, text), Strike(text, text, 1_200, None, text)),
        held=(Requirement(text, text, text, ok=False),),
        figures={text: 1.0},
        judgement=(text,),
        problem=text,
    )
    return outcome, record


@cache
def harmless() -> str:
    outcome, record = said_everywhere("w" * 30)
    return page_of(outcome, record.table())


def check_harmless(text: str) -> None:
    outcome, record = said_everywhere(text)
    html = page_of(outcome, record.table())
    check_self_contained(html)
    check_vocabulary(html, harmless())


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_text(text: str) -> None:
    check_harmless(text)


PAGES = (settings.default or settings()).max_examples // 5
"""Fewer examples than others have: each is a whole page."""
pieces = st.sampled_from([*"<>&\"'=/`;(){}[]#: \n\t\\-!", "script", "a", "url(", "--", "&#"])


@settings(max_examples=PAGES)
@given(st.lists(st.one_of(st.text(max_size=3), pieces), max_size=12).map("".join))
def test_whatever_a_run_says_it_is_text(text: str) -> None:
    check_harmless(text)


def test_text_is_shown_as_it_is() -> None:
    text = "<b>a & \"b\"</b> 'c'"
    page = made(*said_everywhere(text))
    assert page.one("h1").text == text
    assert page.table("Faults")[0]["what was done"] == text
    assert page.table("What had to hold")[0]["found"] == text


def test_what_no_page_can_hold_and_what_turns_the_writing_around_is_replaced() -> None:
    outcome = replace(_nothing_seen()[0], name="a\x00b\ud800c\u202ed")
    html = page_of(outcome, Record().table())
    html.encode()  # a half of a character would raise
    assert read(html).one("h1").text == "a\ufffdb\ufffdc\ufffdd"
