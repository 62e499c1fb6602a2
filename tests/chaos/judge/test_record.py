"""The record of a run: rows in the order of their moments, which count from when it was begun."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from gapless.chaos.judge import record as of_records
from gapless.chaos.judge.record import SCHEMA, Record, Seen
from gapless.protocol.errors import Misuse


def test_rows_are_in_the_order_of_their_moments_whoever_said_them_first() -> None:
    record = Record()
    for at in (30, 10, 20):
        record.see("output", "changes", at_ms=at, rows=at)
    record.see("note", text="of now")
    assert [seen.at_ms for seen in record.seen("output")] == [10, 20, 30]
    assert [seen.text for seen in record.seen("note")] == ["of now"]
    assert len(record.seen()) == 4


def test_a_table_has_what_is_known_and_null_for_what_is_not() -> None:
    record = Record()
    record.see(
        "slot", "r0.1", at_ms=250, state="running", stable=61_200, lag_ms=180, text="r0.1/1.4"
    )
    record.see("process", "r0.1", at_ms=300, rss=1 << 40, fds=12)
    table = record.table()
    assert table.schema == SCHEMA
    first, second = table.to_pylist()
    assert first == {
        **dict.fromkeys(SCHEMA.names),
        "at_ms": 250,
        "kind": "slot",
        "who": "r0.1",
        "state": "running",
        "stable": 61_200,
        "lag_ms": 180,
        "text": "r0.1/1.4",
    }
    assert (second["rss"], second["fds"], second["stable"]) == (1 << 40, 12, None)


def test_a_record_without_rows_is_a_table_without_rows() -> None:
    assert Record().table().equals(pa.table({name: [] for name in SCHEMA.names}, schema=SCHEMA))


def test_the_fields_of_a_row_are_the_columns() -> None:
    assert list(Seen.__dataclass_fields__) == SCHEMA.names


def test_what_was_seen_before_the_begin_has_negative_moments() -> None:
    record = Record()
    record.see("note", text="before")
    was = record.at_ms()
    record.see("note", at_ms=was + 60_000, text="before, said to be of later")
    record.begin()
    first, second = record.seen()
    assert first.at_ms <= 0
    assert second.at_ms - first.at_ms >= 60_000
    record.see("note", text="after")
    (after,) = [seen for seen in record.seen() if seen.text == "after"]
    assert after.at_ms >= 0


def test_moments_of_the_clock_count_as_the_record_does() -> None:
    record = Record()
    assert record.at_ms(10.5) - record.at_ms(10.0) == 500


def test_several_threads_may_add() -> None:
    record = Record()

    def add() -> None:
        for _ in range(500):
            record.see("note")

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(record.seen()) == 2_000


def test_a_record_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_records, "ROWS_MAX", 3)
    record = Record()
    for _ in range(3):
        record.see("note")
    with pytest.raises(Misuse, match="more than 3 rows: run for a shorter time"):
        record.see("note")
