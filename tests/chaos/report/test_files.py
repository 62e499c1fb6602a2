"""The directory of a run: its files, whole and readable, whatever was measured; and the index."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import ipc

from gapless.chaos.drill.outcome import Outcome, Requirement
from gapless.chaos.judge.record import SCHEMA, Record
from gapless.chaos.report import directory as report
from gapless.chaos.report.directory import write_index, write_report
from gapless.chaos.report.page import page as page_of
from tests.chaos.report.checks import check_json, check_self_contained
from tests.chaos.report.reader import read
from tests.chaos.report.synthetic_run import Shape, synthetic

FILES = ["history.arrow", "report.html", "scenario.json", "verdicts.json"]
SHORT = Shape(seconds=8, faults=2)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def history(folder: Path) -> pa.Table:
    with ipc.open_file(folder / "history.arrow") as reader:
        return reader.read_all()


# -- one run ---------------------------------------------------------------------------------------


def test_a_report_is_four_files_and_nothing_else(tmp_path: Path) -> None:
    page = write_report(tmp_path / "made" / "run", *synthetic(1, SHORT))
    assert page == tmp_path / "made" / "run" / "report.html"
    assert names(page.parent) == FILES
    check_self_contained(page.read_text("utf-8"))


def test_the_history_is_the_record(tmp_path: Path) -> None:
    outcome, record = synthetic(1, SHORT)
    write_report(tmp_path, outcome, record)
    found = history(tmp_path)
    assert found.schema == SCHEMA
    assert found.equals(record.table())
    assert [row["at_ms"] for row in found.to_pylist()] == [seen.at_ms for seen in record.seen()]


def test_the_history_of_a_run_of_which_nothing_was_seen_is_empty_and_there(tmp_path: Path) -> None:
    write_report(tmp_path, synthetic(1, SHORT)[0], Record())
    assert history(tmp_path).num_rows == 0
    assert names(tmp_path) == FILES


def test_the_documents_say_what_the_outcome_says(tmp_path: Path) -> None:
    outcome, record = synthetic(1, SHORT)
    write_report(tmp_path, outcome, record)
    scenario, verdicts = check_json(tmp_path)
    assert verdicts == json.loads(json.dumps(outcome.document()))
    assert verdicts["is_well"] is True
    assert scenario == {
        name: verdicts[name] for name in ("name", "about", "seed", "began", "versions", "config")
    }


def test_an_outcome_comes_back_from_its_report_and_makes_the_same_page(tmp_path: Path) -> None:
    from gapless.chaos.drill.drill_process import read_outcome

    outcome, record = synthetic(1, SHORT)
    page = write_report(tmp_path, outcome, record)
    again = read_outcome(tmp_path)
    assert again == outcome
    assert page_of(again, history(tmp_path)) == page.read_text("utf-8")


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_figure_that_is_no_number_is_null_and_the_report_can_still_be_read(
    tmp_path: Path, bad: float
) -> None:
    from gapless.chaos.drill.drill_process import read_outcome

    outcome, record = synthetic(1, SHORT)
    config = {"deep": [{"rate": bad}, (bad,)], "path": Path("x"), "kinds": {1: bad}}
    figures = {"longest_pause_ms": bad, "rows": 3.0}
    write_report(tmp_path, replace(outcome, figures=figures, config=config), record)
    scenario, verdicts = check_json(tmp_path)
    assert verdicts["figures"] == {"longest_pause_ms": None, "rows": 3.0}
    config = {"deep": [{"rate": None}, [None]], "path": "x", "kinds": {"1": None}}
    assert scenario["config"] == verdicts["config"] == config
    page = read(page_of(read_outcome(tmp_path), history(tmp_path)))
    assert page.table("Measured, and judged by nobody")[0]["value"] == "\u2013"


def test_halves_of_characters_break_no_file(tmp_path: Path) -> None:
    outcome, record = synthetic(1, SHORT)
    write_report(tmp_path, replace(outcome, about="\ud800", judgement=("a\udfff",)), record)
    check_json(tmp_path)
    read((tmp_path / "report.html").read_text("utf-8"))


def test_a_report_replaces_the_one_before_and_leaves_no_drafts(tmp_path: Path) -> None:
    write_report(tmp_path, *synthetic(1, SHORT))
    outcome, record = synthetic(2, SHORT)
    write_report(tmp_path, outcome, record)
    assert names(tmp_path) == FILES
    assert check_json(tmp_path)[1]["seed"] == 2
    assert history(tmp_path).equals(record.table())


def test_a_page_that_cannot_be_drawn_loses_nothing_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr(report, "page", fails)
    outcome, record = synthetic(1, SHORT)
    with pytest.raises(ZeroDivisionError):
        write_report(tmp_path, outcome, record)
    assert names(tmp_path) == [name for name in FILES if name != "report.html"]
    assert history(tmp_path).equals(record.table())


# -- many runs -------------------------------------------------------------------------------------


def runs() -> list[tuple[str, Outcome]]:
    clean = synthetic(1, SHORT)[0]
    bad = Requirement("pauses", "1 ms at most", "900 ms", ok=False)
    return [
        ("kill-replica", replace(clean, name="kill-replica")),
        ("a b&c #1?", replace(clean, name="<odd>", held=(*clean.held, bad))),
        ("cut", replace(clean, name="cut", held=(), figures={}, strikes=(), problem="no memory")),
    ]


def test_the_index_links_the_report_of_each_run(tmp_path: Path) -> None:
    for name, outcome in runs():
        write_report(tmp_path / name, outcome, Record())
    index = write_index(tmp_path, runs())
    assert index == tmp_path / "index.html"
    links = ["./kill-replica/report.html", "./a%20b%26c%20%231%3F/report.html", "./cut/report.html"]
    html = index.read_text("utf-8")
    check_self_contained(html, links)
    assert [a.text for a in read(html).all("a")] == ["kill-replica", "<odd>", "cut"]
    assert sorted(names(tmp_path)) == sorted([*(n for n, _ in runs()), "index.html", "index.json"])


def test_the_index_says_of_each_run_what_did_not_hold(tmp_path: Path) -> None:
    page = read(write_index(tmp_path, runs()).read_text("utf-8"))
    rows = page.table("Runs")
    assert [row["verdict"] for row in rows] == ["✓ clean", "✗ not clean", "✗ not clean"]
    assert [row["what did not hold"] for row in rows] == ["\u2013", "pauses: 900 ms", "no memory"]
    assert [row["faults"] for row in rows] == ["2", "2", "0"]
    longest = f"{runs()[0][1].figures['longest_pause_ms']:,.0f}"
    assert [row["longest pause"] for row in rows] == [longest, longest, "\u2013"]
    assert page.one("p", "verdict").text == "✗ Not clean: 2 of 3 runs."


def test_the_index_for_programs_has_every_outcome_and_its_folder(tmp_path: Path) -> None:
    write_index(tmp_path, runs())
    (index,) = check_json(tmp_path)
    assert index["is_well"] is False
    assert [run["folder"] for run in index["runs"]] == [name for name, _ in runs()]
    assert [run["is_well"] for run in index["runs"]] == [True, False, False]


@pytest.mark.parametrize("count", [0, 1])
def test_an_index_is_clean_when_there_are_runs_and_all_of_them_are(
    tmp_path: Path, count: int
) -> None:
    page = read(write_index(tmp_path, runs()[:count]).read_text("utf-8"))
    (index,) = check_json(tmp_path)
    assert index["is_well"] is bool(count)
    said = "✓ Clean: all of 1 run." if count else "✗ Not clean: 0 of 0 runs."
    assert page.one("p", "verdict").text == said
