"""The same rows through every door give the same table and the same rejects."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import gapless as gl
from gapless.actors.rejects import Rejects
from gapless.actors.watched import WatchedExecutor
from gapless.engine.plan import Plan
from gapless.failover.messages import Life
from gapless.journal.disk import LocalDisk
from gapless.journal.reader import Reader
from gapless.protocol import text_fields
from gapless.protocol.envelope import Incarnation
from tests.gapless.doors import (
    DOORS,
    FLOWS,
    ODD,
    PLAIN,
    SCHEMA,
    Outcome,
    Row,
    comparable,
    csv_file,
    expected,
    ingested,
    rows_of,
    through,
)
from tests.protocol.text_twin import texts

EXECUTE = [door for door in DOORS if door.startswith("execute")]
INGEST = [door for door in DOORS if door not in EXECUTE]


def is_one_line(text: str | None) -> bool:
    return text is None or not set(text) & set("\r\n\x00")


fields = st.one_of(
    texts.filter(is_one_line),
    st.sampled_from([*PLAIN.values(), "", "NA", "null", 'say "so"', "a,b", "3000000000", "1e39"]),
)
rows = st.lists(
    st.fixed_dictionaries({name: fields | st.just(PLAIN[name]) for name in SCHEMA.names}),
    max_size=6,
)


def check(given: list[Row], doors: Iterable[str] = DOORS) -> None:
    for door in doors:
        with tempfile.TemporaryDirectory() as folder:
            got, able = through(door, given, Path(folder))
            assert comparable(got) == comparable(expected(able)), door


@settings(max_examples=15)
@given(rows, st.sampled_from(INGEST))
@example([{**PLAIN, "name": word} for word in ("NA", "null", "N/A", "", "NULL")], INGEST[0])
@example([dict.fromkeys(SCHEMA.names)], INGEST[1])
@example([{**dict.fromkeys(SCHEMA.names), "x": "", "share": "", "yes": "1e999"}], INGEST[1])
def test_the_same_rows_through_every_door_are_the_same_table_and_the_same_rejects(
    given: list[Row], ingest: str
) -> None:
    check(given, [*EXECUTE, ingest])


def test_each_odd_text_means_the_same_in_each_column_through_every_door() -> None:
    check(ODD)


def test_that_check_sees_a_door_that_takes_a_word_for_null(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(text_fields.CSV_NULLS, "null_values", ["", "NA"])
    with pytest.raises(AssertionError, match="execute csv"):
        check([{**PLAIN, "name": "NA"}])


# -- a job ----------------------------------------------------------------------------------------

SHARED = FLOWS.where(1 // gl.col("n") > 0)
"""Which sets aside the rows whose n is 0."""


def by_a_job(journal: Path, folder: Path) -> tuple[Outcome, list[tuple[str, object]]]:
    """What a replica of a job does with the rows of a journal, and the lines of its file."""
    executor = WatchedExecutor("a", Plan(SHARED), None)
    disk = LocalDisk(folder)
    kept = Rejects(
        Life("r0.1", Incarnation(1, 4)), "a", disk, lambda do: do(), lambda do: do(), print
    )
    executor.on_aside = kept.take
    table = gl.Tdb(executor.schema)
    reader = Reader(LocalDisk(journal), columns=executor.sources["flows"].names)
    while (frame := reader.read()) is not None:
        for part in executor.parts("flows", frame):
            table.fold(part)
    rows = Counter(_plain(event.payload) for event in table.events)
    return Outcome(rows, Counter()), lines_in(folder / kept.name)


def _plain(payload: tuple[object, ...]) -> tuple[object, ...]:
    return next(iter(comparable(Outcome(Counter([payload]), Counter())).rows))


def lines_in(path: Path) -> list[tuple[str, object]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return sorted(((line["reason"], line["row"]) for line in lines), key=repr)


def test_a_job_has_the_rows_and_the_lines_of_rejects_that_an_embedded_query_has(
    tmp_path: Path,
) -> None:
    given: list[Row] = [{**PLAIN, "n": n, "name": n} for n in ("1", "0", "2", "0", "x")]
    journal = tmp_path / "journal"
    ingested(csv_file(given, tmp_path), "csv", journal)
    execution = gl.execute(SHARED, journal, rejects=tmp_path / "mine")
    embedded = rows_of(execution.to_arrow().select(SCHEMA.names))
    job, lines = by_a_job(journal, tmp_path / "job")
    assert job.rows == comparable(Outcome(embedded, Counter())).rows
    assert lines == lines_in(tmp_path / "mine")
    assert len(lines) == 2
    assert execution.aside.count == 2
