"""The same rows through every door give the same table and the same rejects."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gapless.protocol import text_fields
from tests.gapless.doors import DOORS, ODD, PLAIN, SCHEMA, Row, comparable, expected, through
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
