"""The checks of a report can fail: each catches a report that is broken in one place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gapless.chaos.drill.outcome import Outcome, Strike
from gapless.chaos.judge.record import Record
from gapless.chaos.report import directory, drawing, html, page, sights, timeline
from gapless.chaos.report import faults as report_faults
from gapless.chaos.report import lines as report_lines
from gapless.chaos.report.html import Html, el
from gapless.chaos.report.lines import Floats, Ints
from tests.chaos.report.checks import (
    check_faults,
    check_json,
    check_lines,
    check_output,
    check_pauses,
    check_progress,
    check_self_contained,
    check_tables,
    check_vocabulary,
    made,
)
from tests.chaos.report.synthetic_run import Shape, synthetic

Run = tuple[Outcome, Record]
Patch = pytest.MonkeyPatch


def busy(ends: bool = True) -> Run:
    """Long enough that its lines are thinned; mergers die in it."""
    return synthetic(4, Shape(faults=12, seconds=300, replicas=2, mergers=1, ends=ends))


def tables(outcome: Outcome, record: Record) -> None:
    check_tables(made(outcome, record), outcome, record)


def pauses(outcome: Outcome, record: Record) -> None:
    check_pauses(made(outcome, record), outcome, record)


def faults(outcome: Outcome, record: Record) -> None:
    check_faults(made(outcome, record), outcome.strikes)


def lines(outcome: Outcome, record: Record) -> None:
    check_lines(made(outcome, record), record)


def progress(outcome: Outcome, record: Record) -> None:  # noqa: ARG001  # the record says it all
    for at in range(0, 4_000, 250):
        life = "r7.0/1.1" if at < 2_000 else "r7.0/1.2"
        record.see("slot", "r7.0", at_ms=at, state="running", stable=3 * at, text=life)
    check_progress(record)


def output(outcome: Outcome, record: Record) -> None:
    check_output(made(outcome, record), record)


def contained(outcome: Outcome, record: Record) -> None:
    check_self_contained(page.page(outcome, record.table()))


def hostile(outcome: Outcome, record: Record) -> None:
    bad = replace(outcome, about="<b onclick='x'>bold</b>")
    seen = record.table()
    check_vocabulary(page.page(bad, seen), page.page(outcome, seen))


# -- what is broken --------------------------------------------------------------------------------


def every_nth(patch: Patch) -> None:
    """Lines are thinned by leaving samples out, wherever peaks are."""

    def thin(at_ms: Ints, value: Floats, points: int) -> Ints:  # noqa: ARG001  # values are what it does not look at
        return np.arange(0, len(at_ms), -(-len(at_ms) // points))

    patch.setattr(report_lines, "extremes", thin)


def from_the_first_moment(patch: Patch) -> None:
    """Faults are drawn as if the run had begun with the axis."""

    def shifted(self: drawing.Drawing, at_ms: float) -> float:
        share = at_ms / (self.end_ms - self.begin_ms)
        return self.left + (self.right - self.left) * share

    patch.setattr(drawing.Drawing, "x", shifted)


def one_fault_short(patch: Patch) -> None:
    """The last fault is not drawn."""
    draw = report_faults.draw_faults

    def fewer(drawing: Any, strikes: Sequence[Strike], wholes_ms: Sequence[int]) -> None:
        draw(drawing, strikes[:-1], wholes_ms)

    patch.setattr(timeline, "draw_faults", fewer)


def every_frame_counts(patch: Patch) -> None:
    """Frames without rows end a pause."""
    ours = sights._output

    def any_frame(who: str, rows: Any, end_ms: int) -> Any:
        at = rows.schema.get_field_index("rows")
        ones = np.ones(rows.num_rows, dtype=np.int64)
        return ours(who, rows.set_column(at, "rows", [ones]), end_ms)

    patch.setattr(sights, "_output", any_frame)


def silence_unseen(patch: Patch) -> None:
    """An output that falls silent for good has no pause."""
    patch.setattr(sights, "ENDLESS", 0)


def lives_run_into_each_other(patch: Patch) -> None:
    """What one life of a slot did, and the next, is one line: progress is measured across."""
    ours = sights._line

    def one(rows: Any, column: str, life: str) -> Any:  # noqa: ARG001  # the life is what it forgets
        return ours(rows, column, "")

    patch.setattr(sights, "_line", one)


def means_for_medians(patch: Patch) -> None:
    """One peak moves what the table says of a whole run."""
    patch.setattr(np, "median", np.mean)


def before_it_was_whole(patch: Patch) -> None:
    """Tables count what was seen while the job was starting."""
    patch.setattr(page, "_after_zero", lambda line: line)


def half_a_bar(patch: Patch) -> None:
    """Rows are counted over the next time's length."""

    def rates(self: sights.Output, edges_ms: Ints) -> Floats:
        sums, _ = np.histogram(self.at_ms, bins=edges_ms, weights=self.rows)
        found: Floats = sums * 500 / np.diff(edges_ms)
        return found

    patch.setattr(sights.Output, "rates", rates)


def nothing_is_escaped(patch: Patch) -> None:
    """Text from outside is markup."""
    patch.setattr(html, "escaped", Html)


def a_font_from_afar(patch: Patch) -> None:
    """The page loads a style."""
    ours = page.verdict
    link = el("link", rel="stylesheet", href="https://example.org/a.css")
    patch.setattr(page, "verdict", lambda outcome: Html(ours(outcome) + link))


BROKEN = [
    (every_nth, lines),
    (from_the_first_moment, faults),
    (from_the_first_moment, pauses),
    (one_fault_short, faults),
    (every_frame_counts, pauses),
    (silence_unseen, pauses),
    (lives_run_into_each_other, progress),
    (means_for_medians, tables),
    (before_it_was_whole, tables),
    (half_a_bar, output),
    (nothing_is_escaped, hostile),
    (a_font_from_afar, contained),
]


@pytest.mark.parametrize(("breaks", "check"), BROKEN, ids=lambda each: each.__name__)
def test_a_broken_report_is_caught(
    breaks: Callable[[Patch], None], check: Callable[[Outcome, Record], None], monkeypatch: Patch
) -> None:
    outcome, record = busy(ends=breaks is not silence_unseen)
    check(outcome, record)
    breaks(monkeypatch)
    with pytest.raises(AssertionError):
        check(outcome, record)


def test_a_document_that_only_python_reads_is_caught(tmp_path: Path, monkeypatch: Patch) -> None:
    outcome, record = busy()
    outcome = replace(outcome, figures={"longest_pause_ms": float("nan")})
    directory.write_report(tmp_path, outcome, record)
    check_json(tmp_path)
    (tmp_path / "verdicts.json").write_text('{"figures": {"longest_pause_ms": NaN}}')
    with pytest.raises(AssertionError):
        check_json(tmp_path)
    monkeypatch.setattr(directory, "_sayable", lambda value: value)
    with pytest.raises(ValueError, match="JSON compliant"):
        directory.write_report(tmp_path, outcome, record)
