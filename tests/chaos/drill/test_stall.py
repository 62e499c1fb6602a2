"""A real run in which nothing advances and nobody says why is found in its record."""

from __future__ import annotations

import pytest

from gapless.chaos.drill.stall import SILENT_MS, silent_stalls
from gapless.chaos.judge.record import Record

LOOK_MS = 250
STOPS_MS, END_MS = 4_000, 5_000 + 2 * SILENT_MS


def recorded(
    *, stops: bool = True, grows: bool = True, state: str = "running", note_every: int | None = None
) -> Record:
    """A job of two shards, of which the second stops in the middle."""
    record = Record()
    for at in range(0, END_MS, LOOK_MS):
        record.see("source", "rows", at_ms=at, stable=at if grows or at < STOPS_MS else STOPS_MS)
        for shard in range(2):
            stands = stops and shard == 1 and at >= STOPS_MS
            stable = STOPS_MS if stands or (not grows and at >= STOPS_MS) else at
            record.see("slot", f"m{shard}.0", at_ms=at, state="running", stable=stable)
            record.see("slot", f"r{shard}.0", at_ms=at, state=state if stands else "running")
        if note_every is not None and at % note_every == 0:
            record.see("note", "r1.0", at_ms=at, text="reads no more: the tail is full")
    return record


def test_a_shard_that_stands_still_in_silence_is_found() -> None:
    [stall] = silent_stalls(recorded())
    assert stall == f"shard 1 from 4.0 to {(END_MS - LOOK_MS) / 1000:.1f} s"


@pytest.mark.parametrize(("heals_ms", "stalls"), [(None, 1), (STOPS_MS + 1_000, 1), (END_MS, 0)])
def test_a_fault_that_lasts_is_an_excuse_and_behind_it_there_is_none(
    heals_ms: int | None, stalls: int
) -> None:
    record = recorded()
    record.see("fault", "m1.0", at_ms=STOPS_MS, text="stop merger")
    if heals_ms is not None:
        record.see("heal", "m1.0", at_ms=heals_ms, text="stop merger")
    assert len(silent_stalls(record)) == stalls


@pytest.mark.parametrize(
    "record",
    [
        recorded(stops=False),
        recorded(grows=False),
        recorded(state="suspected"),
        recorded(note_every=SILENT_MS // 2),
        Record(),
    ],
    ids=["it goes on", "the sources rest", "a slot is suspected", "alarms", "nothing was seen"],
)
def test_what_goes_on_rests_or_is_told_is_no_stall(record: Record) -> None:
    assert silent_stalls(record) == []
