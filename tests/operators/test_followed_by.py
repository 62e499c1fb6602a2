"""Which row follows which, against rows that choose one after the other."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.engine.race import Race
from gapless.merge.choose import StreamProperties
from gapless.operators import chronicle, followed_where
from gapless.operators.aside import Aside
from gapless.operators.chronicle import Chronicle, walks
from gapless.operators.followed_by import PICKS, FollowedBy, Pick
from gapless.operators.followed_where import served
from gapless.operators.memory import Memory
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import DecodeError, GaplessError, MemoryLimit, Misuse, SchemaError
from gapless.protocol.expr import col
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb
from gapless.protocol.text import format, parse  # as the notation is called
from tests.operators.laws import (
    Told,
    holds_that_a_restored_one_goes_on_the_same,
    holds_that_a_start_at_reach_gives_all_that_is_wanted,
    recut,
    runs,
    tellings,
    woven,
)

A = StreamSchema({"k": "string", "w": "int64"})
B = StreamSchema({"x": "int64", "key": "string"})
ON = [("k", "key")]
LIGHT = col("w") <= col("x")
Rows = list[tuple[str | None, int, int, int]]
"""Key, number, start, end."""


class Case(NamedTuple):
    """What is asked of rows."""

    pick: Pick
    within: int | None
    light: bool

    def made(self, **how: Any) -> FollowedBy:
        kind = how.pop("kind", FollowedBy)
        where = LIGHT if self.light else None
        made: FollowedBy = kind(A, B, ON, where, self.within, self.pick, longest=6, **how)
        return made

    def wanted(self, cases: Rows, products: Rows) -> Tdb:
        """One product after the other, each looking at all cases."""
        free = sorted(
            (row for row in cases if row[0] is not None), key=lambda row: (row[2], row[1])
        )
        found = []
        for key, x, vs, ve in sorted(products, key=lambda row: (row[2], row[1], row[3])):
            fits = [
                a
                for a in free
                if a[0] == key
                and a[2] < vs
                and (self.within is None or a[2] >= vs - self.within)
                and (not self.light or a[1] <= x)
            ]
            if fits:
                a = fits[-1 if self.pick == "recent" else 0]
                found.append(Event((key, a[1], x), vs, ve))
                if self.pick == "chronicle":
                    free.remove(a)
        return Tdb(self.made().schema, found)


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "a", "b", None]),
        st.integers(0, 4),
        st.integers(-9, 9),
        st.integers(1, 6),
    ).map(lambda row: (row[0], row[1], 2 * row[2], 2 * row[2] + row[3])),
    max_size=25,
)
CASES = st.builds(Case, st.sampled_from(PICKS), st.sampled_from([None, 1, 3, 9]), st.booleans())


def told(cases: Rows, products: Rows, seed: int) -> Told:
    """Both streams in some order within their stables, in frames of any size, with lulls."""
    left = Tdb(A, [Event((k, w), vs, ve) for k, w, vs, ve in cases])
    right = Tdb(B, [Event((x, k), vs, ve) for k, x, vs, ve in products])
    rng = random.Random(seed)
    streams = [tellings(table, seed + i, inserts=True) for i, table in enumerate((left, right))]
    return recut(rng, woven(rng, *streams))


def check(case: Case, cases: Rows, products: Rows, seed: int, **how: Any) -> None:
    wanted = case.wanted(cases, products)
    stream = told(cases, products, seed)
    table = runs(case.made(**how), stream)
    assert table == wanted, table.difference(wanted)


@settings(max_examples=60)
@given(CASES, ROWS, ROWS, st.integers(0, 999))
def test_each_row_follows_the_row_that_it_chooses_in_its_turn(
    case: Case, cases: Rows, products: Rows, seed: int
) -> None:
    check(case, cases, products, seed)


@settings(max_examples=25)
@given(CASES, ROWS, ROWS, st.integers(0, 999))
def test_a_restored_one_a_later_start_and_two_runs_say_the_same(
    case: Case, cases: Rows, products: Rows, seed: int
) -> None:
    wanted, stream = case.wanted(cases, products), told(cases, products, seed)
    rng = random.Random(seed)
    holds_that_a_restored_one_goes_on_the_same(case.made, stream, rng.randint(0, len(stream)))
    if case.made().reach < INF:
        t = rng.randint(-20, 25)
        holds_that_a_start_at_reach_gives_all_that_is_wanted(case.made, stream, wanted, t)
    ordered = case.pick == "chronicle"
    merged = Race(wanted.schema, [StreamProperties(insert_only=True, ordered=ordered)] * 2)
    outs = [
        [operator.push(source, frame).frame for source, frame in each]
        for operator, each in (
            (case.made(), stream),
            (case.made(), told(cases, products, seed + 1)),
        )
    ]
    assert runs(merged, woven(rng, *outs)) == wanted


@settings(max_examples=15)
@given(CASES, ROWS, ROWS, st.integers(0, 999))
def test_in_chronicle_starts_never_fall_and_nothing_is_held_at_the_end(
    case: Case, cases: Rows, products: Rows, seed: int
) -> None:
    operator, last = case.made(), BEGIN
    for source, frame in told(cases, products, seed):
        vs = operator.push(source, frame).frame.vs
        if case.pick == "chronicle" and len(vs):
            assert last <= int(vs[0])
            assert (np.diff(vs) >= 0).all()
            last = int(vs[-1])
    state = operator.snapshot()
    assert [state[name].num_rows for name in ("past", "left", "right")] == [0, 0, 0]


# -- when, and what is held ------------------------------------------------------------------------


def push(operator: FollowedBy, source: int, text: str) -> str:
    schema = (A, B)[source]
    out = operator.push(source, Frame.from_elements(schema, parse(text, schema))).frame
    operator.validate()
    return format(out.elements())


def held(operator: FollowedBy) -> list[int]:
    state = operator.snapshot()
    return [state[name].num_rows for name in ("past", "left", "right")]


def test_recent_answers_once_the_stable_of_the_left_has_reached_it() -> None:
    operator = Case("recent", None, light=False).made()
    assert push(operator, 0, "ins((a,1),3,4) stable(6)") == ""
    assert push(operator, 1, "ins((7,a),7,9) ins((6,a),6,8)") == "ins((a,1,6),6,8)"
    assert push(operator, 1, "stable(9)") == "stable(7)"  # 7 waits
    assert push(operator, 0, "ins((a,2),6,7) stable(7)") == "ins((a,2,7),7,9) stable(9)"
    assert held(operator) == [1, 0, 0]  # the one that 2 has taken the place of is gone
    assert push(operator, 1, "stable(inf)") == "stable(inf)"
    assert held(operator) == [0, 0, 0]


def test_chronicle_waits_for_the_stable_of_the_right_too() -> None:
    operator = Case("chronicle", None, light=False).made()
    assert push(operator, 0, "ins((a,1),3,4) ins((a,2),4,5) stable(20)") == ""
    assert push(operator, 1, "ins((7,a),7,9) stable(7)") == "stable(7)"
    assert push(operator, 1, "ins((8,a),7,9) stable(8)") == (
        "ins((a,1,7),7,9) ins((a,2,8),7,9) stable(8)"
    )
    assert held(operator) == [0, 0, 0]  # each was followed
    assert (operator.reach, operator.fast_forward(7)) == (INF, BEGIN)


@pytest.mark.parametrize("pick", PICKS)
def test_rows_that_are_too_old_go(pick: Pick) -> None:
    operator = Case(pick, 5, light=pick == "recent").made()
    push(operator, 0, "ins((a,1),3,4) ins((b,1),3,4) stable(20)")
    assert push(operator, 1, "stable(8)") == "stable(8)"
    assert held(operator) == [2, 0, 0]
    push(operator, 1, "ins((5,b),8,9) stable(9)")
    assert held(operator) == [0, 0, 0]
    assert Case("recent", 5, light=False).made().reach == 11


def test_many_keys_come_and_go() -> None:
    for pick in PICKS:
        operator = Case(pick, 2, light=False).made()
        for t in range(0, 40, 2):
            keys = pa.array([f"{t}-{i}" for i in range(1000)])
            n = np.arange(1000)
            vs = np.full(1000, t)
            operator.push(0, Frame.from_columns(A, vs, vs + 1, [keys, pa.array(n)], stable=t + 1))
            rows = Frame.from_columns(B, vs + 1, vs + 2, [pa.array(n), keys], stable=t + 2)
            assert len(operator.push(1, rows).frame) == 1000
            operator.validate()
        assert operator.nbytes < 4_000_000


# -- conditions ------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), unique=True))
def test_who_asks_in_turn_is_served(pairs: list[tuple[int, int]]) -> None:
    pairs.sort(key=lambda pair: pair[0])
    free, wanted = {thing for _, thing in pairs}, []
    done = set()
    for at, (who, thing) in enumerate(pairs):
        if who not in done and thing in free:
            done.add(who)
            free.remove(thing)
            wanted.append(at)
    asked, things = (np.array([p[i] for p in pairs], np.int64) for i in range(2))
    assert served(asked, things).tolist() == wanted


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 4), st.integers(0, 4)), min_size=1),
    st.integers(0, 3),
)
def test_walks_are_those_of_one_step_after_the_other(
    steps: list[tuple[bool, int, int]], start: int
) -> None:
    asked: list[tuple[int, int, int, int]] = []
    wanted, left = list[int](), list[int]()
    key, low, high, x = 0, start, start, start
    for another, older, newer in steps:
        if another:
            key, low, high, x = key + 1, start, start, start
        high = high + newer
        low = min(low + older, high)
        x = max(x, low)
        wanted.append(x)
        x = min(x + 1, high)
        left.append(x)
        asked.append((key, start, low, high))
    columns = np.array(asked, np.int64).T
    assert [column.tolist() for column in walks(*columns)] == [wanted, left]


def test_pairs_for_which_a_condition_raises_go_aside_in_any_cut() -> None:
    where = col("x") % col("w") == 0
    rows: Rows = [("a", w, t, t + 1) for t, w in enumerate((0, 3, 2, 0, 5, 2))]
    products: Rows = [("a", x, 9, 10) for x in (7, 4, 6)]
    for pick in PICKS:
        seen = set()
        for seed in range(6):
            aside = Aside("aside")
            operator = FollowedBy(A, B, ON, where, None, pick, aside)
            runs(operator, told(rows, products, seed))
            put = [row for each in aside.take() for row in each.rows.to_pylist()]
            seen.add(str(sorted(put, key=str)))
            assert put
        assert len(seen) == 1, pick
        with pytest.raises(GaplessError):
            runs(FollowedBy(A, B, ON, where, None, pick, Aside("stop")), told(rows, products, 0))


def test_pairs_that_a_condition_looks_at_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: Rows = [("a", w, 0, 1) for w in range(9)]
    products: Rows = [("a", x, 9, 10) for x in range(9)]
    monkeypatch.setattr(followed_where, "PAIRS_AT_ONCE_MAX", 10)  # two rows at a time
    for pick in PICKS:
        check(Case(pick, None, light=True), rows, products, 0)
    operator = Case("chronicle", None, light=True).made()
    memory = Memory(1 << 30)
    operator.limited(memory)
    stream = told(rows, products, 0)
    memory.limit = 800
    with pytest.raises(MemoryLimit):
        runs(operator, stream)


# -- broken ones -----------------------------------------------------------------------------------


class AtOnce(FollowedBy):
    """Broken: rows of the right never wait."""

    _answered = INF


class BeforeItsOwn(FollowedBy):
    """Broken: in chronicle, rows of the right do not wait for earlier ones."""

    @property
    def _answered(self) -> int:
        return min(INF - 1, self._stables[0]) + 1


def is_caught(case: Case, **how: Any) -> bool:
    """Whether some rows, told in some order, show it."""
    rng = random.Random(3)
    for seed in range(20):
        sides: list[Rows] = [
            [(rng.choice("ab"), rng.randint(0, 4), t, t + 1) for t in range(0, 40, step)]
            for step in rng.choices((1, 2), k=2)
        ]
        try:
            check(case, sides[0], sides[1], seed, **how)
        except AssertionError:
            return True
    return False


@pytest.mark.parametrize("light", [False, True])
def test_rows_that_do_not_wait_are_found(light: bool) -> None:
    for case in (Case("recent", None, light), Case("chronicle", None, light)):
        assert not is_caught(case)
        assert is_caught(case, kind=AtOnce)
    assert is_caught(Case("chronicle", None, light), kind=BeforeItsOwn)


def test_a_row_that_is_followed_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def standing(_keys: Any, first: Any, since: Any, _upto: Any) -> Any:
        return np.maximum(first, since), first

    def first_of_each(asked: Any, _wanted: Any) -> Any:
        return np.unique(asked, return_index=True)[1]

    monkeypatch.setattr(Chronicle, "take", lambda self, ids: self.past.rows(ids))
    monkeypatch.setattr(chronicle, "walks", standing)
    assert is_caught(Case("chronicle", None, light=False))
    monkeypatch.setattr(followed_where.FollowedWhere, "take", lambda self, ids: self.past.rows(ids))
    monkeypatch.setattr(followed_where, "served", first_of_each)
    assert is_caught(Case("chronicle", None, light=True))


# -- refused ---------------------------------------------------------------------------------------


def test_what_has_no_meaning_is_refused() -> None:
    for wrong in (
        lambda: FollowedBy(A, B, ON, pick="first"),  # type: ignore[arg-type]  # what is refused
        lambda: FollowedBy(A, B, ON, within=0),
        lambda: FollowedBy(A, B, [("k", "x")]),
        lambda: push(Case("recent", None, light=False).made(), 0, "adj((a,1),7,8,9)"),
        lambda: push(Case("recent", None, light=False).made(), 1, "adj((1,a),7,8,9)"),
        lambda: Case("recent", None, light=False).made().push(0, Frame.empty(B)),
    ):
        with pytest.raises((Misuse, SchemaError)):
            wrong()


def test_bad_snapshots_are_refused() -> None:
    for pick in PICKS:
        operator = Case(pick, None, light=False).made()
        push(operator, 0, "ins((a,1),3,4) stable(6)")
        state = dict(operator.snapshot())
        again = Case(pick, None, light=False).made()
        facts = state["facts"].set_column(0, "left", pa.array([2]))
        with pytest.raises(DecodeError, match="are to wait"):
            again.restore({**state, "facts": facts})
        with pytest.raises(DecodeError):
            again.restore({name: batch for name, batch in state.items() if name != "past"})
