"""The page of one run: what came of it, the timeline, and all numbers as tables.

verdict              clean, or what did not hold
facts                seed, versions, how to run it again
what had to hold     wanted, found
timeline             chaos/report/timeline.py
tables               faults, pauses, slots, processes, notes, judges, config
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from gapless.chaos.drill.outcome import Outcome
from gapless.chaos.drill.scenario import library
from gapless.chaos.drill.workloads import OF_A_USER
from gapless.chaos.report.faults import NEXT_MS, over_ms, wholes_again_ms
from gapless.chaos.report.html import Html, el, joined, table
from gapless.chaos.report.lines import Line
from gapless.chaos.report.sights import Pause, Sights, sights
from gapless.chaos.report.style import document
from gapless.chaos.report.timeline import timeline

PAUSES_SHOWN = 10
NOTES_SHOWN = 200
"""Of alarms and notes; the record has all."""
STRIKES_SHOWN = 1_000
PAUSE = "longest_pause_ms"
"""The figure of an outcome (chaos/drill/drill.py) that the top of a page and an index show."""
NONE = "\u2013"
UNITS = {"_ms": "ms", "_s": "s", "_bytes": "bytes", "_share": "share"}
"""By which a figure's name ends."""


def page(outcome: Outcome, seen: pa.Table) -> str:
    """The page of an outcome and a record's table."""
    last_ms = max(map(over_ms, outcome.strikes), default=0)
    shown = sights(seen, last_ms)
    return document(
        f"{outcome.name}: {'clean' if outcome.is_well else 'not clean'}",
        el(
            "header",
            el("p", "A run of gapless chaos", class_="eyebrow"),
            el("h1", outcome.name),
            el("p", outcome.about, class_="soft"),
            verdict(outcome),
            _facts(outcome, shown),
        ),
        el("main", joined(_sections(outcome, shown))),
    )


def verdict(outcome: Outcome) -> Html:
    """In one line."""
    return el("p", said(outcome), class_=f"verdict {'good' if outcome.is_well else 'bad'}")


def said(outcome: Outcome) -> str:
    """The verdict in words."""
    missed = [held.name for held in outcome.held if not held.ok]
    if outcome.is_well:
        faults, things = counted(len(outcome.strikes), "fault"), counted(len(outcome.held), "thing")
        return f"✓ Clean: {faults} struck, and all of {things} held."
    parts = [f"it was cut short: {outcome.problem}"] if outcome.problem else []
    if missed:
        parts.append(f"{len(missed)} of {len(outcome.held)} did not hold: {', '.join(missed)}")
    return f"✗ Not clean: {'; '.join(parts) or 'nothing was judged'}."


def again(outcome: Outcome) -> str:
    """How to run it again: the command, where it was one."""
    if outcome.config.get("workload") == OF_A_USER:
        return f"drill(..., seed={outcome.seed})"
    # A scenario that does not ship is a file, in whatever folder.
    name = outcome.name if outcome.name in library() else f"{outcome.name}.toml"
    drawn = outcome.config.get("random")
    minutes = drawn.get("minutes") if isinstance(drawn, Mapping) else None
    words = ["gapless", "chaos"]
    if minutes:
        words += ["soak", "--scenario", name, "--minutes", f"{minutes:g}"]
    else:
        words += ["run", name]
    words += ["--seed", str(outcome.seed)]
    if outcome.config.get("broken"):
        words += ["--broken", str(outcome.config["broken"])]
    return shlex.join(words)


def counted(count: int, what: str) -> str:
    """1 fault, 2 faults."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def seconds(ms: float | None) -> str:
    """A moment or a time, as all tables show them."""
    return NONE if ms is None else f"{ms / 1000:.2f}"


def _facts(outcome: Outcome, shown: Sights) -> Html:
    versions = ", ".join(f"{name} {version}" for name, version in outcome.versions.items())
    facts: list[tuple[str, object]] = [
        ("run again", el("code", again(outcome))),
        ("seed", outcome.seed),
        ("faults struck", len(outcome.strikes)),
        ("longest pause", _longest(outcome, shown)),
        ("began", f"{outcome.began}, and took {outcome.seconds:.1f} s with its cluster"),
        ("versions", versions or NONE),
    ]
    parts = [part for name, value in facts for part in (el("dt", name), el("dd", value))]
    return el("dl", *parts, class_="facts")


def figure(outcome: Outcome, name: str) -> float | None:
    """A figure, where it is one: JSON, from which outcomes are read, has nothing but null for "not
    a number".
    """
    value = outcome.figures.get(name)
    return value if isinstance(value, int | float) and math.isfinite(value) else None


def _longest(outcome: Outcome, shown: Sights) -> str:
    judged, seen = figure(outcome, PAUSE), shown.pauses
    if judged is not None:
        return f"{judged:,.0f} ms, from the first fault on"
    return f"{seen[0].ms:,} ms, of {seen[0].who}" if seen else "none"


def _sections(outcome: Outcome, shown: Sights) -> Iterator[Html]:
    yield _section("What had to hold", _held(outcome))
    if shown.is_empty:
        yield _section("Timeline", _nothing("Nothing was seen of the job."))
    else:
        caption = el(
            "figcaption",
            f"All over one axis of time: seconds since {shown.since}. ",
            el("span", "Point at it, or use the arrow keys, for values.", class_="screen"),
        )
        drawn = el("figure", caption, timeline(shown, outcome.strikes), tabindex="0")
        yield _section("Timeline", drawn)
    yield _section("Faults", _strikes(outcome, shown))
    yield _section("Pauses of the output", _pauses(outcome, shown))
    if shown.lanes:
        yield _section("Replicas and mergers", _slots(shown))
    if shown.memory or shown.descriptors:
        yield _section("Processes", _processes(shown))
    if outcome.figures:
        yield _section("Measured, and judged by nobody", _figures(outcome))
    yield _section("Alarms and notes", _notes(shown))
    judged = el("pre", "\n".join(outcome.judgement)) if outcome.judgement else _nothing()
    yield _section("What the judges said", judged)
    yield _section("Config", el("pre", _config(outcome)))


def _section(title: str, *parts: object) -> Html:
    return el("section", el("h2", title), *parts)


def _nothing(text: str = "Nothing.") -> Html:
    return el("p", text, class_="soft")


# -- tables ---------------------------------------------------------------------------------------


def _held(outcome: Outcome) -> Html:
    if not outcome.held:
        return _nothing("Nothing was judged.")
    good, bad = el("span", "✓ held", class_="ok"), el("span", "✗ did not", class_="not")
    rows = [(h.name, good if h.ok else bad, h.wanted, h.found) for h in outcome.held]
    return table("All of these, for a clean run", ("what", "verdict", "wanted", "found"), rows)


def _strikes(outcome: Outcome, shown: Sights) -> Html:
    if not outcome.strikes:
        return _nothing("No fault struck.")
    wholes = wholes_again_ms(outcome.strikes, shown.wholes_ms)
    rows = [
        (number, strike.fault, strike.target, seconds(strike.at_ms), seconds(strike.healed_ms),
         seconds(None if whole is None else whole - over_ms(strike)),
         strike.what)
        for number, (strike, whole) in enumerate(zip(outcome.strikes, wholes, strict=True), 1)
    ]  # fmt: skip
    return joined(
        (
            table(
                f"At and healed: in seconds since {shown.since}; {NONE}: it has no end. Whole "
                f"after: seconds from then on; {NONE}: nobody saw the job other than whole, or "
                "another fault struck before it was.",
                ("", "fault", "who", "at", "healed", "whole after", "what was done"),
                rows[:STRIKES_SHOWN],
                numbers=(0, 3, 4, 5),
            ),
            _rest(len(rows) - STRIKES_SHOWN),
        )
    )


def _pauses(outcome: Outcome, shown: Sights) -> Html:
    found = shown.pauses
    if not found:
        return _nothing(_no_pauses(shown))
    rows = [
        (number, pause.who, seconds(pause.begin_ms),
         seconds(pause.end_ms) if pause.is_over else NONE, f"{pause.ms:,}",
         _cause(outcome, pause))
        for number, pause in enumerate(found[:PAUSES_SHOWN], 1)
    ]  # fmt: skip
    return table(
        f"The longest {len(rows)} of {len(found)}: times without rows, of each recording, that are "
        f"far above the usual. To {NONE}: rows came no more for as long as anybody looked, though "
        "the output had not ended.",
        ("", "recording", "from s", "to s", "ms", "the last fault before"),
        rows,
        numbers=(0, 2, 3, 4),
    )


def _no_pauses(shown: Sights) -> str:
    """Why there are none: that is good news, or no news at all."""
    usual = [f"{each.who} {each.usual_ms:,.0f} ms" for each in shown.outputs if len(each.at_ms)]
    if not usual:
        return "No recording has frames with rows."
    return f"None. What is usual between two frames with rows: {', '.join(usual)}."


def _cause(outcome: Outcome, pause: Pause) -> str:
    """The last fault that had struck before rows came again: what a reader looks for first. Where
    none came it is the last one about when they stopped.
    """
    until_ms = pause.end_ms if pause.is_over else pause.begin_ms + NEXT_MS
    before = [
        (strike.at_ms, number, strike)
        for number, strike in enumerate(outcome.strikes, 1)
        if strike.at_ms < until_ms
    ]
    if not before:
        return NONE
    _, number, strike = max(before, key=lambda each: each[:2])
    return f"{number} {strike.fault} {strike.target}"


def _slots(shown: Sights) -> Html:
    rows = []
    for lane in shown.lanes:
        progress, lag = shown.progress.get(lane.who), shown.lag.get(lane.who)
        running = lane.share("running", 0)
        rows.append(
            (
                lane.who,
                lane.lives_since(0),
                NONE if running is None else f"{running:.1%}",
                _median(progress, 1, "{:.2f}"),
                _median(lag, 1000, "{:.2f}"),
                _highest(lag, 1000, "{:.2f}"),
            )
        )
    return table(
        f"Since {shown.since}. Running: of the time in which it was looked at. Progress in stream "
        "seconds a second, lag behind the sources in seconds.",
        ("slot", "lives", "running", "progress, median", "lag, median", "lag, most"),
        rows,
        numbers=(1, 2, 3, 4, 5),
    )


def _processes(shown: Sights) -> Html:
    rows = []
    for who in dict.fromkeys((*shown.memory, *shown.descriptors)):
        memory, fds = shown.memory.get(who), shown.descriptors.get(who)
        rows.append((who, *_ends(memory, 1e6, "{:.0f}"), *_ends(fds, 1, "{:.0f}")))
    return table(
        "Medians of the first and the last tenth of what was seen, and the most",
        ("process", "MB first", "MB last", "MB most", "fds first", "fds last", "fds most"),
        rows,
        numbers=range(1, 7),
    )


def _after_zero(line: Line | None) -> Line | None:
    if line is None:
        return None
    later = line.taken(np.flatnonzero(line.at_ms >= 0))
    return later if len(later) else None


def _median(line: Line | None, per: float, form: str) -> str:
    later = _after_zero(line)
    return NONE if later is None else form.format(float(np.median(later.value)) / per)


def _highest(line: Line | None, per: float, form: str) -> str:
    later = _after_zero(line)
    return NONE if later is None else form.format(float(later.value.max()) / per)


def _ends(line: Line | None, per: float, form: str) -> tuple[str, str, str]:
    later = _after_zero(line)
    if later is None:
        return NONE, NONE, NONE
    values = later.value[np.argsort(later.at_ms, kind="stable")] / per
    tenth = max(1, len(values) // 10)
    found = np.median(values[:tenth]), np.median(values[-tenth:]), values.max()
    first, last, most = (form.format(float(value)) for value in found)
    return first, last, most


def _figures(outcome: Outcome) -> Html:
    rows = []
    for name, value in outcome.figures.items():
        ending = next((end for end in UNITS if name.endswith(end)), "")
        words = name.removesuffix(ending).replace("_", " ")
        shown = NONE if figure(outcome, name) is None else f"{value:,.10g}"
        rows.append((words, shown, UNITS.get(ending, "")))
    return table("Figures", ("what", "value", "unit"), rows, numbers=(1,))


def _notes(shown: Sights) -> Html:
    if not shown.notes:
        return _nothing("None.")
    rows = [(seconds(note.at_ms), note.who, note.text) for note in shown.notes]
    return joined(
        (
            table(
                f"In seconds since {shown.since}", ("at", "who", "what"), rows[:NOTES_SHOWN],
                numbers=(0,),
            ),
            _rest(len(rows) - NOTES_SHOWN),
        )
    )  # fmt: skip


def _rest(count: int) -> Html:
    return _nothing(f"And {count} more.") if count > 0 else Html()


def _config(outcome: Outcome) -> str:
    document: dict[str, Any] = dict(outcome.config)
    return json.dumps(document, indent=2, ensure_ascii=False, default=str)
