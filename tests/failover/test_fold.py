"""Folds: in parts, of few changes, beside a tail that goes on; the events are always the same."""

from __future__ import annotations

import random

import pytest

from gapless.failover import fold as fold_module
from gapless.failover.fold import folded, folded_parts
from gapless.failover.replica.tail import Tail
from gapless.protocol.elements import BEGIN
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import DEFAULT_SCHEMA
from tests.failover.mergers import frame, text
from tests.failover.replica.large import (
    small,
)


def stream(rows: int) -> list[Frame]:
    """Of each four events one is taken back, one ends, two go on for ever."""
    frames = []
    for i in range(0, rows, 4):
        frames.append(frame(" ".join(f"ins(k{n},{n % 7},inf)" for n in range(i, i + 4))))
        frames.append(frame(f"adj(k{i},{i % 7},inf,{i % 7}) adj(k{i + 1},{(i + 1) % 7},inf,40)"))
    return frames


def test_a_fold_in_parts_leaves_the_same_events_as_one_at_once() -> None:
    frames = stream(64)
    for floor in (BEGIN, 41):
        whole = folded(DEFAULT_SCHEMA, frames)
        whole = whole.take(whole.ve >= floor)
        with small(5):
            made = folded_parts(DEFAULT_SCHEMA, frames, floor)
        assert len(made) > 3
        assert all(len(piece) <= 5 for piece in made)
        told = sorted(e for piece in made for e in text(piece).split(") "))
        assert len(told) == len(whole)
        assert tdb(made) == tdb([whole])


def tdb(frames: list[Frame]) -> Tdb:
    table = Tdb(DEFAULT_SCHEMA)
    for each in frames:
        table.fold(each)
    return table


def few_changes(seed: int) -> list[Frame]:
    """Many rows that nobody takes back, some twice, and a few that change, again and again."""
    rng = random.Random(seed)
    frames = [frame(" ".join(f"ins(k{n % 90},{n % 5},inf)" for n in range(100)))]
    for n in rng.sample(range(10, 90), 5):
        end = rng.choice([f"{n % 5}", "40", "50"])
        more = f" ins(new{n},3,inf)" if rng.random() < 0.5 else ""
        frames.append(frame(f"adj(k{n},{n % 5},inf,{end}){more}"))
        if end == "50":
            frames.append(frame(f"adj(k{n},{n % 5},50,45)"))
    return frames


def test_a_fold_of_few_changes_looks_up_all_rows_and_folds_what_they_speak_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folds: list[int] = []
    real = fold_module.folded

    def counts(schema: StreamSchema, frames: list[Frame]) -> Frame:
        if not all(each.insert_only for each in frames):
            folds.append(sum(map(len, frames)))
        return real(schema, frames)

    monkeypatch.setattr(fold_module, "folded", counts)
    for seed in range(40):
        frames = few_changes(seed)
        for floor in (BEGIN, 44):
            folds.clear()
            made = folded_parts(DEFAULT_SCHEMA, frames, floor)
            assert max(folds) <= 20
            whole = real(DEFAULT_SCHEMA, frames)
            assert tdb(made) == tdb([whole.take(whole.ve >= floor)])
    monkeypatch.setattr(fold_module, "TOUCHED_SHARE", 10**6)  # as before: all rows are folded
    folded_parts(DEFAULT_SCHEMA, few_changes(1), BEGIN)
    assert max(folds) > 100


def test_rows_that_are_never_taken_back_keep_their_order_in_a_fold() -> None:
    frames = [frame(f"ins(k{i},{i},{i + 3}) ins(l{i},{i},{i + 9})") for i in range(9)]
    with small(5):
        made = folded_parts(DEFAULT_SCHEMA, frames, 8)
    starts = [int(t) for piece in made for t in piece.vs]
    assert starts == sorted(starts)
    assert min(int(piece.ve.min()) for piece in made) >= 8


def test_a_tail_goes_on_while_it_is_folded_and_has_the_same_events_afterwards() -> None:
    frames = stream(64)
    one, other = Tail(DEFAULT_SCHEMA), Tail(DEFAULT_SCHEMA)
    for each in frames[:20]:
        one.add(each)
        other.add(each)
    given, floor = one.begin_fold(18), one.floor
    for each in frames[20:]:
        one.add(each)
        other.add(each)
        assert not one.is_heavy
    one.add(frame("stable(40)"))
    other.add(frame("stable(40)"))
    one.trim(41)
    other.trim(41)
    with small(5):
        one.end_fold(folded_parts(DEFAULT_SCHEMA, given, floor))
    one.validate()
    assert len(one) < len(other)
    assert one.compacted == 18
    assert one.put_out == other.put_out == len(frames[0]) * 16 + 32
    assert tdb([one.fold().with_stable(None)]) == tdb([other.fold().with_stable(None)])
    told = tdb([each.with_stable(None) for each in one.frames()])
    assert told.since(41) == tdb([other.fold().with_stable(None)]).since(41)
