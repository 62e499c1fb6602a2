"""What LiveRows promises, held by the native ones and by their twin alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.kernels import twin_live_rows
from tests.kernels.conftest import NATIVE_MISSING

SCHEMA = pa.schema([("name", pa.string()), ("n", pa.int32())])
DICTIONARY = pa.schema([("name", pa.dictionary(pa.int32(), pa.string()))])


def load(name: str) -> Any:
    if name == "twin":
        return twin_live_rows.LiveRows
    from gapless.kernels.native_live_rows import LiveRows

    return LiveRows


@pytest.fixture(params=[pytest.param("native", marks=NATIVE_MISSING), "twin"])
def rows(request: pytest.FixtureRequest) -> Any:
    return load(request.param)(SCHEMA)


def batch(*names: str | None) -> pa.RecordBatch:
    return pa.record_batch(
        [pa.array(names, pa.string()), pa.array(range(len(names)), pa.int32())], schema=SCHEMA
    )


def met(answer: Any) -> list[tuple[int, ...]]:
    return list(zip(*(column.tolist() for column in answer), strict=True))


# -- meeting --------------------------------------------------------------------------------------


def test_rows_meet_those_of_their_key_that_are_alive_at_the_same_time(rows: Any) -> None:
    rows.add(batch("a", "b", "c", "d"), [1, 2, 1, 1], [0, 0, 5, 20], [10, 10, 15, 30])
    end, answer = rows.meet([1, 2, 3, -1], [9, 9, 9, 9], [12, 12, 12, 12])
    assert end == 4
    assert met(answer) == [(0, 0, 0, 10), (0, 2, 5, 15), (1, 1, 0, 10)]


@pytest.mark.parametrize(
    ("vs", "ve", "meets"), [(0, 5, False), (0, 6, True), (9, 12, True), (10, 12, False)]
)
def test_lifetimes_are_half_open(rows: Any, vs: int, ve: int, meets: bool) -> None:
    rows.add(batch("a"), [0], [5], [10])
    assert bool(len(rows.meet([0], [vs], [ve])[1].id)) == meets


def test_answers_come_in_the_order_in_which_rows_were_added(rows: Any) -> None:
    rows.add(batch("a", "b", "c"), [7, 7, 7], [0, 0, 0], [9, 9, 9])
    rows.release([1])
    rows.add(batch("d"), [7], [0], [9])
    assert rows.meet([7], [0], [9])[1].id.tolist() == [0, 2, 1]
    assert rows.rows([0, 2, 1])["name"].to_pylist() == ["a", "c", "d"]


def test_meeting_stops_behind_the_row_with_which_there_are_enough_answers(rows: Any) -> None:
    rows.add(batch("a", "b", "c"), [7, 7, 7], [0, 0, 0], [9, 9, 9])
    asked = [7, 7, 7], [0, 0, 0], [9, 9, 9]
    end, answer = rows.meet(*asked, 0, 4)
    assert (end, answer.asked.tolist()) == (2, [0, 0, 0, 1, 1, 1])
    end, answer = rows.meet(*asked, end, 4)
    assert (end, answer.asked.tolist()) == (3, [2, 2, 2])


def test_equals_finds_exactly_that_key_and_lifetime(rows: Any) -> None:
    rows.add(batch("a", "b", "c", "d"), [1, 1, 1, 2], [0, 0, 0, 0], [9, 9, 8, 9])
    assert met(rows.equals([1, 1, 2], [0, 0, 0], [9, 7, 9])[1]) == [
        (0, 0, 0, 9),
        (0, 1, 0, 9),
        (2, 3, 0, 9),
    ]


# -- storing --------------------------------------------------------------------------------------


def test_equal_rows_are_two(rows: Any) -> None:
    one = batch("a")
    assert [*rows.add(one, [0], [0], [1]), *rows.add(one, [0], [0], [1])] == [0, 1]
    assert len(rows) == rows.capacity == 2


def test_rows_that_end_too_early_are_not_stored(rows: Any) -> None:
    ids = rows.add(batch("a", "b", "c"), [0, 0, 0], [0, 0, 0], [5, 6, 7], 6)
    assert ids.tolist() == [-1, 0, 1]
    assert rows.rows([0, 1])["name"].to_pylist() == ["b", "c"]


def test_the_lowest_free_id_is_next_and_capacity_follows_what_is_live(rows: Any) -> None:
    rows.add(batch(*"abcd"), [0, 1, 2, 3], [0] * 4, [1] * 4)
    rows.release([3, 1])
    assert (rows.capacity, rows.ids.tolist()) == (3, [0, 2])
    assert rows.add(batch("e"), [1], [0], [1]).tolist() == [1]
    rows.validate()


def test_an_end_can_be_moved(rows: Any) -> None:
    rows.add(batch("a", "b"), [0, 4], [0, 1], [5, 5])
    rows.set_ends([1], [9])
    lives = rows.lives([1, 0])
    assert [c.tolist() for c in lives] == [[4, 0], [1, 0], [9, 5]]
    assert rows.meet([4], [7], [8])[1].id.tolist() == [1]


def test_nulls_and_long_values_come_back(rows: Any) -> None:
    names = ["a" * 300, None, "", "b"]
    rows.add(batch("z"), [0], [0], [1])
    rows.add(batch(*names), [0] * 4, [0] * 4, [1] * 4)
    rows.release([0, 4])
    assert rows.rows([3, 1, 2])["name"].to_pylist() == ["", names[0], None]
    rows.validate()


@pytest.mark.parametrize("name", [pytest.param("native", marks=NATIVE_MISSING), "twin"])
def test_dictionaries_are_encoded_again(name: str) -> None:
    rows = load(name)(DICTIONARY)
    column = pa.array(["x", "y", "x"]).dictionary_encode()
    rows.add(pa.record_batch([column], schema=DICTIONARY), [0, 0, 0], [0] * 3, [1] * 3)
    got = rows.rows([2, 1]).column(0)
    assert (got.type, got.to_pylist()) == (column.type, ["x", "y"])


@pytest.mark.parametrize(
    ("call", "args", "problem"),
    [
        ("add", (batch("a"), [-1], [0], [1]), "key -1"),
        ("add", (batch("a"), [2**31], [0], [1]), "key 2147483648"),
        ("add", (batch("a"), [0], [1], [1]), "ends before"),
        ("add", (batch("a"), [0, 0], [0, 0], [1, 1]), "same length"),
        ("set_ends", ([0], [0]), "end before"),
        ("set_ends", ([1], [5]), "not live"),
        ("rows", ([1],), "not live"),
        ("lives", ([-1],), "not live"),
        ("release", ([0, 0],), "twice"),
        ("release", ([0, 5],), "not live"),
        ("meet", ([0, 1], [0], [1]), "same length"),
    ],
)
def test_what_has_no_meaning_is_refused_and_changes_nothing(
    rows: Any, call: str, args: tuple[Any, ...], problem: str
) -> None:
    rows.add(batch("a"), [0], [0], [1])
    with pytest.raises(ValueError, match=problem):
        getattr(rows, call)(*args)
    rows.validate()
    assert met(rows.meet([0], [0], [1])[1]) == [(0, 0, 0, 1)]


def test_a_batch_of_another_schema_is_refused(rows: Any) -> None:
    with pytest.raises(TypeError, match="name"):
        rows.add(pa.record_batch([pa.array([1])], names=["n"]), [0], [0], [1])


# -- fast against slow ----------------------------------------------------------------------------

TIMES = st.integers(0, 20)
LIVES = st.lists(st.tuples(st.integers(0, 4), TIMES, st.integers(1, 9)), max_size=30)


@NATIVE_MISSING
@settings(deadline=None)
@given(st.lists(st.tuples(LIVES, LIVES, st.randoms(use_true_random=False)), max_size=6))
def test_differential_native_and_twin_answer_alike(steps: list[tuple[Any, Any, Any]]) -> None:
    both = [load("native")(SCHEMA), load("twin")(SCHEMA)]
    for added, asked, rng in steps:
        columns = [np.array([r[i] for r in added], np.int64) for i in range(3)]
        names = [rng.choice(["", "a", "bb" * 200, None]) for _ in added]
        since, most = rng.randrange(25), rng.choice([1, 5, 1000])
        lives = columns[0], columns[1], columns[1] + columns[2]
        ids = [r.add(batch(*names), *lives, since) for r in both]
        assert ids[0].tolist() == ids[1].tolist()
        keys, vs, span = (np.array([r[i] for r in asked], np.int64) for i in range(3))
        for call in ("meet", "equals"):
            answers = [getattr(r, call)(keys, vs, vs + span, 0, most) for r in both]
            assert answers[0][0] == answers[1][0]
            assert met(answers[0][1]) == met(answers[1][1])
        live = both[0].ids.tolist()
        moved = [i for i in live if rng.random() < 0.3]
        gone = [i for i in live if rng.random() < 0.5]
        ends = both[0].lives(moved).vs + 3
        for r in both:
            r.set_ends(moved, ends)
            r.release(gone)
            r.validate()
        left = both[0].ids.tolist()
        assert left == both[1].ids.tolist()
        assert both[0].rows(left).equals(both[1].rows(left))
        assert (len(both[0]), both[0].capacity) == (len(both[1]), both[1].capacity)


@NATIVE_MISSING
def test_memory_after_a_peak_comes_back() -> None:
    rows = load("native")(SCHEMA)
    empty = rows.nbytes
    many = batch(*(["x" * 50] * 50_000))
    ids = rows.add(many, np.arange(50_000), np.zeros(50_000, np.int64), np.ones(50_000, np.int64))
    assert rows.nbytes > empty + 50_000 * 80
    rows.release(ids)
    assert rows.nbytes < empty + 20_000
