"""The writer against its slow twin, and there and back."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.operators.changelog import FinalChanges, Retractions, Revisions, Upserts
from gapless.protocol.changelog import Changes
from gapless.protocol.elements import INF, Element, Insert, Stable
from gapless.protocol.errors import (
    BadData,
    Bug,
    DecodeError,
    MemoryLimit,
    Misuse,
    SchemaError,
    StreamViolation,
)
from gapless.protocol.frame import Frame
from gapless.protocol.tdb import Event, Tdb
from gapless.protocol.text import parse
from gapless.protocol.variants import random_tdb, random_telling, tell
from tests.operators.changelog.logs import ROWS, SCHEMA
from tests.operators.changelog.twins import Change, final_changes, normal

SEEDS = st.integers(0, 2**32)


def drawn(seed: int, keyed: bool = False) -> tuple[Tdb, list[Frame]]:
    """A table, and one way of telling it. Keyed: no two rows of a key at once."""
    rng = random.Random(seed)
    tdb = random_tdb(rng, SCHEMA, ROWS, 20, 30, duplicates=True)
    if keyed:
        free: dict[Any, int] = {}
        events = []
        for e in tdb.events:
            if e.vs >= free.get(e.payload[0], 0):
                events.append(e)
                free[e.payload[0]] = e.ve
        tdb = Tdb(SCHEMA, events)
    return tdb, tell(tdb, random_telling(rng), rng.randrange(2**32))


def written(writer: FinalChanges, frames: list[Frame]) -> list[Change]:
    """All that it hands out; each in its time, and none twice."""
    told: list[Change] = []
    for frame in frames:
        since = writer.stable
        changes, watermark = writer.push(frame)
        writer.validate()
        assert watermark == (writer.stable if writer.stable > since else None)
        said = changes.to_list()
        assert all(since <= time < writer.stable for _, time, _ in said)
        told += said
    return told


@given(SEEDS)
def test_all_changes_of_a_table_are_told_once_in_one_order(seed: int) -> None:
    tdb, frames = drawn(seed)
    assert written(FinalChanges(SCHEMA), frames) == final_changes(tdb, keyed=False)


@given(SEEDS, st.booleans())
def test_with_a_key_what_goes_and_comes_at_one_time_is_an_update(seed: int, upsert: bool) -> None:
    tdb, frames = drawn(seed, keyed=True)
    told = written(FinalChanges(SCHEMA, ["k"], upsert=upsert), frames)
    assert told == final_changes(tdb, keyed=True, upsert=upsert)


@given(SEEDS)
def test_at_each_stable_exactly_what_is_below_it_has_been_told(seed: int) -> None:
    tdb, frames = drawn(seed)
    expected, told, writer = final_changes(tdb, keyed=False), [], FinalChanges(SCHEMA)
    for frame in frames:
        told += written(writer, [frame])
        assert told == [change for change in expected if change[1] < writer.stable]


@given(SEEDS)
def test_there_and_back_is_the_normal_form(seed: int) -> None:
    tdb, frames = drawn(seed)
    writer, reader, back = FinalChanges(SCHEMA), Retractions(SCHEMA), Tdb(SCHEMA)
    for frame in frames:
        back.fold(reader.push(*writer.push(frame)))
    assert back == normal(tdb)
    assert back.stable == INF


@given(SEEDS, st.booleans())
def test_by_key_there_and_back_is_the_normal_form_too(seed: int, upsert: bool) -> None:
    tdb, frames = drawn(seed, keyed=True)
    writer = FinalChanges(SCHEMA, ["k"], upsert=upsert)
    reader, back = Upserts(SCHEMA, ["k"]), Tdb(SCHEMA)
    for frame in frames:
        changes, watermark = writer.push(frame)
        batch = changes.to_arrow()
        back.fold(reader.push(Changes.of(batch, SCHEMA), watermark))
    assert back == normal(tdb)


@given(SEEDS)
def test_timed_changes_bring_each_frame_back_as_it_was(seed: int) -> None:
    _, frames = drawn(seed)
    reader, there, back = Revisions(SCHEMA), Tdb(SCHEMA), Tdb(SCHEMA)
    for frame in frames:
        batch = Changes.of_frame(frame).to_arrow(time="from", end="to")
        changes = Changes.of(batch, SCHEMA, time="from", end="to")
        there.fold(frame)
        back.fold(reader.push(changes, frame.stable))
        reader.validate()
        assert back == there
        assert back.stable == there.stable


@given(SEEDS, st.booleans(), st.integers(0, 12))
def test_a_restored_writer_goes_on_the_same(seed: int, keyed: bool, at: int) -> None:
    _, frames = drawn(seed, keyed)
    key = ["k"] if keyed else []
    old = FinalChanges(SCHEMA, key)
    written(old, frames[:at])
    new = FinalChanges(SCHEMA, key)
    new.restore(old.snapshot())
    assert written(new, frames[at:]) == written(old, frames[at:])


def frame(text: str) -> Frame:
    return Frame.from_elements(SCHEMA, parse(text, SCHEMA))


def test_the_example_of_the_header() -> None:
    writer = FinalChanges(SCHEMA, ["k"])
    assert written(writer, [frame("ins((A,1),1,inf) stable(3)")]) == [("+I", 1, ("A", 1))]
    second = frame("ins((A,2),5,9) adj((A,1),1,inf,5) stable(6)")
    assert written(writer, [second]) == [("-U", 5, ("A", 1)), ("+U", 5, ("A", 2))]
    assert written(writer, [frame("stable(9)")]) == []
    assert written(writer, [frame("stable(20)")]) == [("-D", 9, ("A", 2))]
    assert len(writer) == 0


def test_what_is_kept_is_what_is_open_or_may_change() -> None:
    writer = FinalChanges(SCHEMA, ["k"])
    writer.push(frame("ins((old,1),0,inf)"))
    for t in range(300):
        rows: list[Element] = [Insert((f"new {t}", t), 10 * t, 10 * t + 4), Stable(10 * t + 5)]
        writer.push(Frame.from_elements(SCHEMA, rows))
        assert len(writer) == 1
    assert writer.nbytes < 30_000


def test_two_rows_of_a_key_at_once_say_that_it_is_none() -> None:
    writer = FinalChanges(SCHEMA, ["k"])
    with pytest.raises(BadData, match="two rows of key A are there at 5"):
        writer.push(frame("ins((A,1),1,9) ins((A,2),5,12) stable(20)"))


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(SchemaError, match="'x'"):
        FinalChanges(SCHEMA, ["x"])
    with pytest.raises(Misuse, match="list"):
        FinalChanges(SCHEMA, "k")
    with pytest.raises(Misuse, match="needs a key"):
        FinalChanges(SCHEMA, upsert=True)
    with pytest.raises(StreamViolation):
        FinalChanges(SCHEMA).push(frame("adj((A,1),1,9,5)"))
    with pytest.raises(MemoryLimit):
        FinalChanges(SCHEMA, live_max=1).push(frame("ins((A,1),1,9) ins((A,2),5,12)"))
    with pytest.raises(DecodeError):
        FinalChanges(SCHEMA).restore(FinalChanges(SCHEMA, ["k"]).snapshot())


class EndsAtTheStable(FinalChanges):
    """Broken: takes what happens at the stable for final."""

    def _below(self, t: int) -> Changes:
        return super()._below(min(INF, t + 1))


class LosesSome(FinalChanges):
    """Broken: not all of what is final goes out."""

    def _in_order(self, payload: Any, times: Any, plus: Any) -> Changes:
        changes = super()._in_order(payload, times, plus)
        return changes.take(changes.times % 7 != 0)


@pytest.mark.parametrize("broken", [EndsAtTheStable, LosesSome])
def test_a_planted_fault_is_found(broken: type[FinalChanges]) -> None:
    found = 0
    for seed in range(50):
        tdb, frames = drawn(seed)
        try:
            found += written(broken(SCHEMA), frames) != final_changes(tdb, keyed=False)
        except (Bug, AssertionError):
            found += 1
    assert found > 25


def test_an_event_that_meets_an_equal_one_goes_on() -> None:
    told = written(FinalChanges(SCHEMA), [frame("ins((A,1),1,5) ins((A,1),5,9) stable(inf)")])
    assert told == [("+I", 1, ("A", 1)), ("-D", 9, ("A", 1))]
    assert normal(Tdb(SCHEMA, [Event(("A", 1), 1, 5), Event(("A", 1), 5, 9)])).events == [
        Event(("A", 1), 1, 9)
    ]
