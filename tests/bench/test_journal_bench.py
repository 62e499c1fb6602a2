"""The journal bench measures what it says: it sees wrong rows, and segments read in vain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gapless.bench import journal_files
from gapless.bench.harness import Context
from gapless.journal.agenda import Agenda
from gapless.journal.reader import Reader
from gapless.protocol.errors import Bug

QUICK = Context(quick=True, plot_dir=None)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def measured(part: Any) -> dict[str, float]:
    return {row.name: row.value for row in part(QUICK)}


def test_segments_before_a_time_are_there_and_not_read(tmp_path: Path) -> None:
    rows = measured(journal_files.reading)
    assert rows["segments before that time"] > 100
    assert rows["segments before that time that were read"] == 0
    assert not list(tmp_path.iterdir())


def test_a_reader_that_passes_over_nothing_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Agenda, "skip_before", lambda *_: None)
    assert measured(journal_files.reading)["segments before that time that were read"] > 0


def test_a_reader_that_loses_rows_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Reader.read
    monkeypatch.setattr(
        Reader, "read", lambda self: None if self.position[0] > 100_000 else read(self)
    )
    with pytest.raises(Bug, match="gives back other rows"):
        measured(journal_files.reading)


def test_appends_are_measured_both_ways() -> None:
    rows = measured(journal_files.appending)
    assert {"append 1,000 rows, process-durable", "machine-durable over the disk alone"} <= set(
        rows
    )
