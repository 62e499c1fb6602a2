"""What a merger has put out, on its way to the journal: one append at a time, nothing is lost."""

from __future__ import annotations

import random

import pytest

from gapless.failover.effects import Alarm
from gapless.failover.merger import output_writer
from gapless.failover.merger.effects import Append, Appended, BaseMade, MakeBase, MergerEffect, Seal
from gapless.failover.merger.output_writer import OutputWriter
from gapless.protocol.elements import BEGIN
from gapless.protocol.frame import Frame
from gapless.protocol.text import DEFAULT_SCHEMA
from tests.failover.mergers import frame, none_of, only, text

RETRY_MS = 50


class Merged:
    """The live table as of all that was put out."""

    def __init__(self) -> None:
        self.live = Frame.empty(DEFAULT_SCHEMA, 5)
        self.rows = 0


def writer(merged: Merged | None = None) -> OutputWriter:
    merged = merged or Merged()
    return OutputWriter(DEFAULT_SCHEMA, lambda: merged.live, lambda: merged.rows, RETRY_MS)


def row(i: int) -> Frame:
    return frame(f"ins(A,{i},{i + 1})")


def appended(offset: int, *, wants_base: bool = False) -> Appended:
    return Appended(offset, BEGIN, wants_base)


def test_the_first_frame_goes_as_it_came_and_what_gathers_behind_it_goes_as_one() -> None:
    out = writer()
    first = row(1)
    assert only(out.gather(first), Append).frame is first
    assert out.gather(row(2)) == out.gather(frame("ins(A,3,4) stable(3)")) == []
    assert out.rows == 3
    second = only(out.appended(appended(1), 0), Append).frame
    assert text(second) == text(frame("ins(A,2,3) ins(A,3,4) stable(3)"))
    assert out.appended(appended(3), 0) == []
    assert out.is_idle
    assert out.rows == 0
    out.validate()


def test_what_a_full_disk_refuses_waits_with_all_behind_it_and_is_said_once() -> None:
    out = writer()
    out.gather(row(1))
    assert [type(e) for e in out.refused("the disk is full", 0)] == [Alarm]
    assert out.gather(row(2)) == []
    assert out.tick(RETRY_MS - 1) == []
    again = only(out.tick(RETRY_MS), Append).frame
    assert text(again) == text(frame("ins(A,1,2) ins(A,2,3)"))
    assert out.refused("the disk is full", RETRY_MS) == []
    out.validate()
    only(out.tick(2 * RETRY_MS), Append)
    out.appended(appended(2), 2 * RETRY_MS)
    out.gather(row(3))
    assert [type(e) for e in out.refused("it is full again", 200)] == [Alarm]


def test_a_base_is_the_table_behind_the_append_that_it_follows() -> None:
    merged = Merged()
    out = writer(merged)
    out.gather(row(1))
    out.gather(row(2))
    merged.live = frame("ins(A,1,9) stable(5)")
    only(out.appended(appended(1, wants_base=True), 0), Append)  # the table is taken with this one
    taken, merged.live = merged.live, frame("ins(B,1,9) stable(6)")
    out.gather(row(3))
    assert only(out.appended(appended(2), 0), Seal).base is taken
    only(out.sealed(), Append)
    out.validate()


def test_a_large_table_is_not_taken_and_what_could_not_be_made_of_it_is_tried_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(output_writer, "BASE_ROWS_MAX", 0)
    merged = Merged()
    merged.rows = 1
    out = writer(merged)

    def next_append(now: int) -> list[MergerEffect]:
        out.gather(row(now))
        return out.appended(appended(now, wants_base=True), now)

    only(next_append(1), MakeBase)
    assert none_of(next_append(2), MakeBase), "one at a time"
    assert not out.is_idle
    out.base_made(BaseMade("the disk is full"), 3)
    assert none_of(next_append(4), MakeBase)
    only(next_append(3 + RETRY_MS), MakeBase)


@pytest.mark.parametrize("seed", range(8))
def test_whatever_the_disk_does_all_rows_reach_it_once_and_in_order(seed: int) -> None:
    rng = random.Random(seed)
    out = writer()
    written: list[int] = []
    under_way: Frame | None = None
    given = 0
    for now in range(0, 2_000, 10):
        effects: list[MergerEffect] = []
        if given < 60 and rng.random() < 0.5:
            effects += out.gather(row(given))
            given += 1
        if under_way is not None and rng.random() < 0.6:
            if rng.random() < 0.3:
                effects += out.refused("full", now)
            else:
                written += under_way.vs.tolist()
                effects += out.appended(appended(len(written)), now)
            under_way = None
        effects += out.tick(now)
        for effect in effects:
            if isinstance(effect, Append):
                assert under_way is None, "one at a time"
                under_way = effect.frame
        out.validate()
    if under_way is not None:
        written += under_way.vs.tolist()
    assert given == 60
    assert written == list(range(given))
