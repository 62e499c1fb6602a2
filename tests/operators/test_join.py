"""Joins of all kinds against all pairs of events, however the inputs are told."""

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gapless.operators import join as join_module
from gapless.operators import join_side
from gapless.operators.aside import Aside
from gapless.operators.join import Join
from gapless.operators.join_changes import Changes
from gapless.operators.join_nulls import Revised
from gapless.operators.join_pairs import Pairs
from gapless.operators.join_side import Side
from gapless.operators.join_unmatched import Unmatched
from gapless.operators.operator import Out
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import (
    ExpressionError,
    GaplessError,
    Misuse,
    RowError,
    SchemaError,
    StreamViolation,
)
from gapless.protocol.expr import col, lit
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Event, Tdb
from gapless.protocol.text import format, parse
from gapless.protocol.variants import random_tdb
from tests.effort import cases
from tests.operators import laws
from tests.operators.join_cases import HOWS, LEFT, ON, RIGHT, ROWS, Case, check_each_push, held, say
from tests.operators.join_oracle import Oracle

# -- against all pairs ----------------------------------------------------------------------------


@pytest.mark.parametrize("how", HOWS)
def test_oracle_each_push_gives_what_all_pairs_of_the_tables_say(how: str) -> None:
    for seed in range(cases(60)):
        case = Case(seed, how=how)
        check_each_push(case, case.told)
        if seed % 4 == 0:
            check_each_push(case, laws.recut(case.rng, case.told))


@pytest.mark.parametrize("how", HOWS)
def test_oracle_the_same_of_inserts_with_ends_that_are_final(how: str) -> None:
    for seed in range(cases(30)):
        case = Case(seed, inserts=True, how=how)
        check_each_push(case, case.told)


def test_oracle_several_columns_or_none_may_have_to_be_equal() -> None:
    both: Any
    for seed in range(cases(40)):
        rng = random.Random(seed)
        both = [("k", "key"), ("a", "b")] if seed % 2 else []
        tables = [random_tdb(rng, s, ROWS, 8, 30, duplicates=True) for s in (LEFT, RIGHT)]
        streams = [laws.tellings(t, seed * 9 + i) for i, t in enumerate(tables)]
        how: Any = rng.choice(HOWS)
        join = Join(LEFT, RIGHT, both, how=how)
        out = laws.runs(join, laws.woven(rng, *streams))
        on = tuple((i, i) for i in range(len(both)))
        assert out.counts() == Oracle(on, how).table(tables[0], tables[1])


def test_pairs_are_laid_out_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_side, "PAIRS_AT_ONCE_MAX", 2)
    for seed in range(cases(40)):
        case = Case(seed)
        check_each_push(case, case.told)


# -- one example at a time ------------------------------------------------------------------------


@pytest.mark.parametrize("ordered", [False, True])
def test_rows_of_nulls_have_dictionaries_too(ordered: bool) -> None:
    schema = StreamSchema({"k": "int64", "s": pa.dictionary(pa.int32(), pa.string(), ordered)})
    join = Join(schema, schema, [("k", "k")], how="full")
    for side, text in enumerate(("ins((1,a),5,9)", "ins((2,b),5,9)")):
        join.push(side, Frame.from_elements(schema, parse(text, schema)))
    outs = [join.push(side, Frame.empty(schema, INF)).frame for side in (0, 1)]
    said = [format([e]) for out in outs for e in out.elements()]
    assert sorted(said) == ["ins((1,a,null),5,9)", "ins((2,null,b),5,9)", "stable(inf)"]


def test_the_example_of_the_header() -> None:
    join = Join(LEFT, RIGHT, ON, how="left")
    assert say(join, 0, "ins((k,1),0,10) stable(12)") == ""
    assert say(join, 1, "ins((k,7),5,20)") == "ins((k,1,7),5,10)"
    assert say(join, 1, "stable(4)") == "ins((k,1,null),0,5) stable(4)"
    assert say(join, 1, "adj((k,7),5,20,9)") == "adj((k,1,7),5,10,9)"
    assert say(join, 1, "stable(30)") == "ins((k,1,null),9,10) stable(12)"


def test_a_known_null_row_is_cut_by_a_later_row() -> None:
    join = Join(LEFT, RIGHT, ON, how="left")
    say(join, 0, "ins((k,1),0,30) stable(40)")
    assert say(join, 1, "ins((k,7),4,9) ins((k,8),12,15) stable(10)") == (
        "ins((k,1,7),4,9) ins((k,1,8),12,15) ins((k,1,null),0,4) ins((k,1,null),9,12) stable(10)"
    )
    assert say(join, 1, "ins((k,9),11,13)") == "ins((k,1,9),11,13) adj((k,1,null),9,12,11)"


def test_both_sides_null_rows_have_the_key() -> None:
    join = Join(LEFT, RIGHT, ON, how="full")
    assert say(join, 0, "ins((l,1),0,5) ins((null,2),0,5) stable(9)") == ""
    out = say(join, 1, "ins((r,3),0,5) ins((null,4),0,5) stable(9)")
    assert sorted(out.split()) == [
        "ins((l,1,null),0,5)",
        "ins((null,2,null),0,5)",
        "ins((null,null,4),0,5)",
        "ins((r,null,3),0,5)",
        "stable(9)",
    ]


def test_of_two_equal_events_one_is_adjusted_or_both() -> None:
    join = Join(LEFT, RIGHT, ON)
    say(join, 1, "ins((k,7),0,50)")
    say(join, 0, "ins((k,1),0,9) ins((k,1),0,9)")
    assert say(join, 0, "adj((k,1),0,9,12)") == "adj((k,1,7),0,9,12)"
    say(join, 0, "adj((k,1),0,12,9)")
    assert say(join, 0, "adj((k,1),0,9,20) adj((k,1),0,9,0)") == (
        "adj((k,1,7),0,9,20) adj((k,1,7),0,9,0)"
    )


def test_steps_of_one_event_in_one_frame_come_out_as_one() -> None:
    join = Join(LEFT, RIGHT, ON)
    say(join, 1, "ins((k,7),0,50)")
    assert say(join, 0, "ins((k,1),0,9) adj((k,1),0,9,12) adj((k,1),0,12,30)") == (
        "ins((k,1,7),0,30)"
    )
    assert say(join, 0, "ins((k,2),0,9) adj((k,2),0,9,0)") == ""


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(
    "wrong",
    [
        "adj((k,1),0,8,9)",
        "adj((k,1),1,9,10)",
        "adj((k,2),0,9,10)",
        "adj((j,1),0,9,10)",
        "ins((k,5),3,4) adj((k,1),0,9,10) adj((k,1),0,9,11)",
    ],
)
def test_an_adjust_of_what_is_not_there_is_refused_and_changes_nothing(
    how: Any, wrong: str
) -> None:
    join = Join(LEFT, RIGHT, ON, how=how)
    say(join, 1, "ins((k,7),0,50)")
    say(join, 0, "ins((k,1),0,9)")
    before = {name: batch.to_pylist() for name, batch in join.snapshot().items()}
    with pytest.raises(StreamViolation, match="an adjust changes an event that is there"):
        say(join, 0, wrong)
    join.validate()
    assert {name: batch.to_pylist() for name, batch in join.snapshot().items()} == before
    assert say(join, 0, "adj((k,1),0,9,10)") == "adj((k,1,7),0,9,10)"


def test_an_adjust_of_an_end_that_was_said_to_be_final_is_refused() -> None:
    join = Join(LEFT, RIGHT, ON, final_ends=(True, False))
    say(join, 0, "ins((k,1),0,9)")
    with pytest.raises(StreamViolation, match="never change"):
        say(join, 0, "adj((k,1),0,9,10)")


# -- where ----------------------------------------------------------------------------------------


def divided(aside: Aside, how: Any = "inner") -> Join:
    return Join(LEFT, RIGHT, ON, (col("a") / col("b")) > lit(1.0), how, aside)


def test_pairs_that_cannot_be_judged_stop_the_query_and_change_nothing() -> None:
    join = divided(Aside())
    say(join, 0, "ins((k,4),0,9)")
    with pytest.raises(RowError, match=r"divide by zero.*k='k', a=4, b=0"):
        say(join, 1, "ins((k,2),0,9) ins((k,0),0,9)")
    join.validate()
    assert held(join) == (1, 0)
    assert say(join, 1, "ins((k,2),0,9)") == "ins((k,4,2),0,9)"


@pytest.mark.parametrize("how", HOWS)
def test_pairs_that_cannot_be_judged_go_aside_once_and_are_no_match(how: Any) -> None:
    aside = Aside("aside")
    join = divided(aside, how)
    out = Tdb(join.schema)
    inputs = Tdb(LEFT), Tdb(RIGHT)
    for source, text in (
        (0, "ins((k,4),0,9)"),
        (1, "ins((k,2),0,9) ins((k,0),0,9) stable(5)"),
        (1, "adj((k,0),0,9,8)"),
        (0, "adj((k,4),0,9,7) ins((k,9),6,9) stable(6)"),
        (0, "stable(inf)"),
        (1, "stable(inf)"),
    ):
        schema = (LEFT, RIGHT)[source]
        frame = Frame.from_elements(schema, parse(text, schema))
        inputs[source].fold(frame)
        laws.follow(join, out, source, frame)
    assert [s.rows.to_pylist() for s in aside.take()] == [
        [{"k": "k", "a": 4, "b": 0}],
        [{"k": "k", "a": 9, "b": 0}],
    ]
    oracle = Oracle(((0, 0),), how, lambda row: bool(row[2]) and row[1] / row[2] > 1)
    assert out.counts() == oracle.table(*inputs)


# -- band and tumbling joins are this over windowed inputs ----------------------------------------


def source_rows(rng: random.Random) -> list[tuple[str, int]]:
    return [(rng.choice("xy"), rng.randrange(60)) for _ in range(rng.randrange(1, 25))]


def windowed(schema: StreamSchema, rows: list[tuple[str, int]], lives: Any) -> Frame:
    ts = np.array([t for _, t in rows], np.int64)
    payload = [pa.array([k for k, _ in rows], pa.string()), pa.array(ts)]
    vs, ve = lives(ts)
    return Frame.from_columns(schema, vs, ve, payload)


@pytest.mark.parametrize(("x", "y"), [(0, 0), (2, 5), (7, 0)])
def test_a_closed_band_is_the_overlap_of_lifetimes(x: int, y: int) -> None:
    """`a - x <= b <= a + y`: left rows live `[a, a+y+1)`, right ones `[b, b+x+1)`."""
    for seed in range(cases(30)):
        rng = random.Random(seed)
        left, right = source_rows(rng), source_rows(rng)
        join = Join(LEFT, RIGHT, ON)
        join.push(0, windowed(LEFT, left, lambda ts: (ts, ts + y + 1)))
        out = join.push(1, windowed(RIGHT, right, lambda ts: (ts, ts + x + 1))).frame.payload
        pairs = [(k, a, b) for k, a in left for key, b in right if k == key]
        wanted = [(k, a, b) for k, a, b in pairs if a - x <= b <= a + y]
        assert Counter(zip(*out.to_pydict().values(), strict=True)) == Counter(wanted)


def test_a_tumbling_join_pairs_rows_of_one_window() -> None:
    def lives(ts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        start = (ts // 8 + 1) * 8
        return start, start + 8

    for seed in range(cases(30)):
        rng = random.Random(seed)
        left, right = source_rows(rng), source_rows(rng)
        join = Join(LEFT, RIGHT, ON)
        join.push(0, windowed(LEFT, left, lives))
        out = join.push(1, windowed(RIGHT, right, lives)).frame.payload
        pairs = [(k, a, b) for k, a in left for key, b in right if k == key]
        wanted = [(k, a, b) for k, a, b in pairs if a // 8 == b // 8]
        assert Counter(zip(*out.to_pydict().values(), strict=True)) == Counter(wanted)


# -- what is refused when the query is built ------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "kinds", "problem"),
    [
        (([("x", "key")],), SchemaError, "join on 'x': the left columns are k, a"),
        (([("k", "x")],), SchemaError, "join on 'x': the right columns are key, b"),
        (([("k", "key"), ("k", "b")],), SchemaError, "a left column comes twice"),
        (([("k", "b")],), SchemaError, "string and int64; cast one in a select"),
        ((ON, col("a") + col("b")), ExpressionError, "a condition gives bool"),
        ((ON, col("key") > lit("a")), ExpressionError, "no column 'key'"),
        ((ON, None, "outer"), Misuse, "use one of inner, left, right, full"),
    ],
)
def test_what_cannot_be_joined_is_refused_at_once(
    args: tuple[Any, ...], kinds: type[GaplessError], problem: str
) -> None:
    with pytest.raises(kinds, match=problem):
        Join(LEFT, RIGHT, *args)


def test_times_of_two_units_are_refused() -> None:
    with pytest.raises(SchemaError, match="ms on the left and in s on the right"):
        Join(LEFT, StreamSchema({"key": "string"}, "s"), ON)


def test_columns_have_names_of_their_own_and_are_null_where_a_side_is_missing() -> None:
    left = StreamSchema(pa.schema([pa.field(n, pa.int64(), False) for n in ("k", "a", "a_right")]))
    right = StreamSchema(pa.schema([pa.field(n, pa.int64(), False) for n in ("a", "q", "k")]))
    names = ["k", "a", "a_right", "a_right_right", "k_right"]
    how: Any
    for how, optional in (
        ("inner", ""),
        ("left", "a_right_right k_right"),
        ("right", "a a_right"),
        ("full", "a a_right a_right_right k_right"),
    ):
        schema = Join(left, right, [("k", "q")], how=how).schema
        assert schema.names == names
        assert [f.name for f in schema.payload if f.nullable] == optional.split()


# -- deliberately broken --------------------------------------------------------------------------


class NeverPurges(Join):
    def _purge(self) -> None:
        pass


class PurgesTooSoon(Join):
    def _bound(self, side: int) -> int:
        return super()._bound(side) + 1 if BEGIN not in self._stables else BEGIN


class PromisesTheMost(Join):
    @property
    def _stables(self) -> tuple[int, int]:
        return (max(super()._stables),) * 2


class ForgetsWhoWasMet(Join):
    def _settle(self, side: int, ids: np.ndarray) -> None:
        pass


class NeverRevisesNullRows(Unmatched):
    def revised_by(self, *_: Any) -> Iterator[Revised]:
        return iter(())


class TakesChangedOnesForStillThere(Unmatched):
    def revised_by(self, source: int, change: Any, *given: Any) -> Iterator[Revised]:
        return super().revised_by(source, (change[0][:0], *change[1:]), *given)


class IgnoresTheOtherSidesEnd(Join):
    def _satisfying(
        self, source: int, changes: Changes, pairs: Pairs, row_bytes: np.ndarray
    ) -> Pairs:
        ve = np.maximum(changes.ve[pairs.asked], pairs.vs)
        return super()._satisfying(source, changes, pairs._replace(ve=ve), row_bytes)


class MovesNoEnds(Side):
    def _move(self, ids: np.ndarray, ve: np.ndarray) -> None:
        pass


@pytest.mark.parametrize(
    "broken",
    [
        NeverPurges,
        PurgesTooSoon,
        PromisesTheMost,
        ForgetsWhoWasMet,
        NeverRevisesNullRows,
        TakesChangedOnesForStillThere,
        IgnoresTheOtherSidesEnd,
        MovesNoEnds,
    ],
)
def test_a_broken_join_is_caught(broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if issubclass(broken, Side | Unmatched):
        monkeypatch.setattr(join_module, broken.__mro__[1].__name__, broken)
    else:

        def make(case: Case) -> Join:
            join: Join = broken(LEFT, RIGHT, ON, case.where, case.how, final_ends=case.final)
            return join

        monkeypatch.setattr(Case, "make", make)

    def check_some() -> None:
        for case in map(Case, range(400)):  # as far as it takes: removals that matter are rare
            check_each_push(case, case.told)

    with pytest.raises((AssertionError, GaplessError, IndexError, ValueError)):
        check_some()


def test_the_oracle_cuts_lifetimes_as_a_person_would() -> None:
    lives = [(1, 3, 8), (2, 2, 5), (3, 12, 14)]
    left = Tdb(LEFT, [Event(("k", 1), 0, 20)])
    right = Tdb(RIGHT, [Event(("k", n), vs, ve) for n, vs, ve in lives])
    alone = [(None, 0, 2), (None, 8, 12), (None, 14, 20)]
    table = Oracle(((0, 0),), "left").table(left, right)
    assert table == Counter(Event(("k", 1, n), vs, ve) for n, vs, ve in (*lives, *alone))


def test_what_is_pushed_has_to_be_of_the_inputs_schema() -> None:
    def push(source: int, schema: StreamSchema) -> Out:
        return Join(LEFT, RIGHT, ON).push(source, Frame.empty(schema))

    assert push(0, LEFT).marks == ()
    with pytest.raises(SchemaError):
        push(1, LEFT)
