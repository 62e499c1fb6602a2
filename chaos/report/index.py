"""The page of many runs of one command: a line each, what did not hold, and where its report is."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from gapless.chaos.drill.outcome import Outcome
from gapless.chaos.report.html import Html, el, table
from gapless.chaos.report.page import NONE, PAUSE, counted, figure
from gapless.chaos.report.style import document


def index_page(outcomes: Sequence[tuple[str, Outcome]]) -> str:
    """The page; each run's report is in the folder of its name beside it."""
    clean = sum(outcome.is_well for _, outcome in outcomes)
    kinds = {strike.fault for _, outcome in outcomes for strike in outcome.strikes}
    strikes = sum(len(outcome.strikes) for _, outcome in outcomes)
    all_clean = bool(outcomes) and clean == len(outcomes)
    if all_clean:
        verdict = f"✓ Clean: all of {counted(len(outcomes), 'run')}."
    else:
        verdict = f"✗ Not clean: {len(outcomes) - clean} of {counted(len(outcomes), 'run')}."
    return document(
        f"gapless chaos: {clean} of {len(outcomes)} clean",
        el("p", "gapless chaos", class_="eyebrow"),
        el("h1", "Faults of a real cluster"),
        el("p", verdict, class_=f"verdict {'good' if all_clean else 'bad'}"),
        el(
            "p",
            f"{counted(strikes, 'fault')} struck, of {counted(len(kinds), 'kind')}.",
            class_="soft",
        ),
        el("main", el("section", el("h2", "Runs"), _runs(outcomes))),
    )


def _runs(outcomes: Sequence[tuple[str, Outcome]]) -> Html:
    return table(
        "Pauses in ms, from the first fault on; what a run took in seconds, with its cluster",
        ("scenario", "verdict", "faults", "longest pause", "took", "what did not hold"),
        [_row(folder, outcome) for folder, outcome in outcomes],
        numbers=(2, 3, 4),
    )


def _row(folder: str, outcome: Outcome) -> tuple[object, ...]:
    good, bad = el("span", "✓ clean", class_="ok"), el("span", "✗ not clean", class_="not")
    missed = [f"{held.name}: {held.found}" for held in outcome.held if not held.ok]
    return (
        _link(folder, outcome.name),
        good if outcome.is_well else bad,
        len(outcome.strikes),
        longest_pause(outcome),
        f"{outcome.seconds:.0f}",
        "; ".join([*([outcome.problem] if outcome.problem else []), *missed]) or NONE,
    )


def _link(folder: str, name: str) -> Html:
    return el("a", name, href=f"./{quote(folder)}/report.html")


def longest_pause(outcome: Outcome) -> str:
    """In ms, where it was measured."""
    pause = figure(outcome, PAUSE)
    return NONE if pause is None else f"{pause:,.0f}"
