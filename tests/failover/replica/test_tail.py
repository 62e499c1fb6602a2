"""The tail is the table that a merger may lack, whatever was trimmed and folded."""

import random

import numpy as np
import pyarrow as pa

from gapless.failover.replica import tail as tail_module
from gapless.failover.replica.tail import Tail
from gapless.protocol.elements import BEGIN
from gapless.protocol.frame import Frame
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import DEFAULT_SCHEMA, format, parse
from gapless.protocol.variants import random_tdb, random_telling, tell


def test_the_fold_is_the_table_from_the_trim_time_on() -> None:
    for seed in range(60):
        rng = random.Random(seed)
        tdb = random_tdb(rng, DEFAULT_SCHEMA, [("A",), ("B",)], duplicates=bool(seed % 2))
        tail, whole = Tail(DEFAULT_SCHEMA), Tdb(DEFAULT_SCHEMA)
        for frame in tell(tdb, random_telling(rng), seed):
            tail.add(frame)
            whole.fold(frame)
            if rng.random() < 0.2:
                tail.compact(rng.randint(tail.first, tail.end))
            tail.validate()
            if rng.random() < 0.2 and tail.stable != BEGIN:
                tail.trim(rng.randint(-5, min(tail.stable, 90)))
            fold = tail.fold()
            assert fold.is_insert.all()
            assert fold.stable == (None if whole.stable == BEGIN else whole.stable)
            told = Tdb(DEFAULT_SCHEMA, ())
            told.fold(fold.with_stable(None))
            assert told == whole.since(tail.since), f"seed {seed}"


def test_it_stays_near_the_size_of_what_is_live() -> None:
    tail = Tail(DEFAULT_SCHEMA)
    sizes = []
    for i in range(300):
        events = [("A", 10 * i + k) for k in range(10)]
        starts = np.array([t for _, t in events], np.int64)
        payload = [pa.array([p for p, _ in events])]
        rows = Frame.from_columns(DEFAULT_SCHEMA, starts, starts + 1, payload, stable=10 * i + 10)
        tail.add(rows)
        if tail.is_heavy:
            tail.compact(tail.end)
        tail.trim(10 * i)
        sizes.append(len(tail))
    assert max(sizes) <= tail_module.FOLD_ROWS_MIN + 20


def test_an_empty_tail_folds_to_an_empty_frame() -> None:
    assert not Tail(DEFAULT_SCHEMA).fold()


def frame(text: str) -> Frame:
    return Frame.from_elements(DEFAULT_SCHEMA, parse(text))


def said(tail: Tail) -> str:
    return format(tail.fold().elements())


def test_what_can_still_change_is_told_even_where_it_ends_before_since() -> None:
    tail = Tail(DEFAULT_SCHEMA, since=60)
    tail.add(frame("ins(A,1,50) stable(20)"))
    assert said(tail) == "ins(A,1,50) stable(20)"
    tail.add(frame("adj(A,1,50,70) stable(60)"))
    assert said(tail) == "ins(A,1,70) stable(60)"


def test_frames_are_dropped_from_the_front_and_it_says_what_they_were() -> None:
    tail = Tail(DEFAULT_SCHEMA)
    for text in ("ins(A,1,5)", "ins(B,2,9) adj(A,1,5,6)", "ins(C,3,40) stable(20)"):
        tail.add(frame(text))
    tail.trim(10)
    assert (tail.first, tail.end, len(tail)) == (2, 3, 1)
    assert (tail.lost_end, tail.lost_adjusts) == (9, 1)
    assert said(tail) == "ins(C,3,40) stable(20)"


def test_frames_behind_the_fold_stay_as_they_were() -> None:
    tail = Tail(DEFAULT_SCHEMA)
    for text in ("ins(A,1,5)", "adj(A,1,5,8)", "ins(B,2,9)", "adj(A,1,8,7) stable(3)"):
        tail.add(frame(text))
    before = said(tail)
    tail.compact(2)
    assert (tail.first, tail.compacted, tail.end) == (1, 2, 4)
    assert format(tail[2].frame.elements()) == "ins(B,2,9)"
    assert said(tail) == before
    tail.validate()


def test_several_frames_make_one_unless_they_take_back_what_was_left_out() -> None:
    tail = Tail(DEFAULT_SCHEMA)
    for text in ("ins(A,1,5) stable(0)", "ins(B,2,9)", "adj(B,2,9,8) stable(2)"):
        tail.add(frame(text))
    whole, behind = tail.run(0, 100, BEGIN)
    assert format(whole.elements()) == "ins(A,1,5) ins(B,2,9) adj(B,2,9,8) stable(2)"
    assert behind == 3
    assert tail.run(0, 100, above=9)[1] == 2
    assert tail.run(0, 1, BEGIN)[1] == 1
    assert tail.run(2, 0, above=9)[1] == 3


def test_a_told_tail_has_nothing_left_to_send() -> None:
    tail = Tail.of(frame("ins(A,1,50) stable(30)"), since=20, stable=25)
    assert said(tail) == "ins(A,1,50) stable(25)"
    assert tail.compacted == tail.end
    tail.validate()
